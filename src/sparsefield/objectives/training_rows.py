"""This module holds the rows that an objective is evaluated on, and replaces their missing cells as the field changes.

There are two ways: incomplete rows are replaced by weighted completions (the E step of Monte Carlo EM), or their missing
cells hold beliefs that an inference method computes (clamped beliefs, as in the paper).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sparsefield.compute import BlockCollection, Engine
from sparsefield.data import Block, Dataset, DenseDataset, Layout, update_neighbor_sums
from sparsefield.data.deduplication import merge_equal_rows
from sparsefield.data.table import cut_into_blocks
from sparsefield.inference.completions import Draws, IncompleteRows, linked_copies, with_complete_rows
from sparsefield.inference.method import InferenceMethod, fill_blocks
from sparsefield.inference.observed_cells import ConditionalModel, predict_block, predict_linked
from sparsefield.kernels.completions import entity_keys
from sparsefield.model import Adjacency
from sparsefield.objectives import block_evaluation
from sparsefield.objectives.block_evaluation import EvaluatedBlock

Graphs = Sequence[Adjacency]


class TrainingRows:
    """Rows without missing cells."""

    has_missing = False

    def __init__(self, layout: Layout, rows: BlockCollection) -> None:
        self.layout, self.rows = layout, rows

    def state(self) -> dict[str, np.ndarray]:
        """Return what `restore` needs to bring back the same rows."""
        return {}

    def restore(self, state: Mapping[str, np.ndarray], graphs: Graphs) -> None:
        """Bring back the rows of a state; ``graphs`` are those that `state` saved the features of."""


class ClampedRows(TrainingRows):
    """Rows whose missing cells hold the beliefs of an inference method given all observed cells.

    An observed cell is then predicted from beliefs that depend on it, so estimates are biased where much is missing.
    """

    has_missing = True

    def __init__(self, sample: Dataset, engine: Engine, inference: InferenceMethod) -> None:
        super().__init__(sample.layout, sample.hold_blocks(engine, block_evaluation.as_evaluated))
        self._inference, self._engine = inference, engine
        self._linked = sample.if_linked()
        """Linked rows are imputed together, in this process."""
        self._blocks: list[tuple[int, Block]] = []
        self._sent: list[Block] = []
        """Their blocks, and the blocks as the engine received them last."""
        if self._linked is not None:
            self._blocks = [(t, block._replace(beliefs=block.beliefs.copy())) for t, block in self._linked.blocks()]
            self._sent = [block for _, block in self._linked.blocks()]

    def impute(self, graphs: Graphs, theta: np.ndarray) -> float:
        """Infer all missing cells and return the largest change of a belief."""
        if self._linked is not None:
            fill_blocks(self._linked, self._by_table(), self._inference, graphs, theta, self._engine)
            pairs = zip(self._sent, self._blocks, strict=True)
            change = max(block_evaluation.largest_change(t, old, new, self.layout) for old, (t, new) in pairs)
            self._send_blocks(self._linked)
            return change
        self.rows, change = self.rows.map_update(
            block_evaluation.impute_missing, self.layout, self._inference, graphs, theta, combine=max
        )
        return change

    def state(self) -> dict[str, np.ndarray]:
        return {"missing_beliefs": np.concatenate(self.rows.map(block_evaluation.missing_beliefs, self.layout))}

    def restore(self, state: Mapping[str, np.ndarray], graphs: Graphs) -> None:
        counts = self.rows.map(block_evaluation.count_missing, self.layout)
        pieces = np.split(state["missing_beliefs"], np.cumsum(counts)[:-1])
        if self._linked is not None:
            for (t, block), piece in zip(self._blocks, pieces, strict=True):
                updated, _ = block_evaluation.set_missing(EvaluatedBlock(t, block), piece, self.layout)
                block.beliefs[:] = updated.block.beliefs
            self._send_blocks(self._linked)
            return
        self.rows, _ = self.rows.map_update(block_evaluation.set_missing, self.layout, each=pieces)

    def _send_blocks(self, sample: DenseDataset) -> None:
        """Send the engine the new beliefs of linked rows, and the sums over their neighbors."""
        update_neighbor_sums(sample, self._by_table(), self._engine.map)
        pairs = zip(self._sent, self._blocks, strict=True)
        changes = [block_evaluation.find_changes(old, new) for old, (_, new) in pairs]
        self.rows, _ = self.rows.map_update(block_evaluation.apply_changes, each=changes)
        self._sent = [block._replace(beliefs=block.beliefs.copy()) for _, block in self._blocks]

    def _by_table(self) -> tuple[tuple[Block, ...], ...]:
        """Return the linked blocks, table by table."""
        tables = range(len(self.layout.tables))
        return tuple(tuple(block for t, block in self._blocks if t == table) for table in tables)


class IncompleteBlock(NamedTuple):
    """A block with missing cells, the codes that were drawn for them last, and its completed rows."""

    table: int
    block: Block
    drawn: np.ndarray
    """(missing cells, copies)"""
    incomplete: IncompleteRows | None = None
    """Its incomplete rows, laid out when they are first completed."""
    completed: EvaluatedBlock | None = None


class CompletedRows(TrainingRows):
    """Rows that are complete: each incomplete row is replaced by completions, weighted by their probabilities.

    A row with few completions has all of them; another one has several that are drawn by Gibbs sampling, whose chains
    continue from one draw to the next. Linked rows are drawn together, as copies of all tables.
    """

    has_missing = True

    def __init__(self, sample: Dataset, engine: Engine, seed: int) -> None:
        self._engine, self._linked, self._seed = engine, sample.if_linked(), seed
        self._copies = self._number = 0
        self._drawn_at = np.empty(0)
        self._linked_drawn = np.empty((0, 0), dtype=np.int32)
        super().__init__(sample.layout, sample.hold_blocks(engine, _as_incomplete))
        self._incomplete = self.rows

    def draw(self, graphs: Graphs, theta: np.ndarray, copies: int, sweeps: int) -> None:
        """Complete all rows given the field; rows with at most ``copies`` completions get all of them."""
        self._number += 1
        self._complete(graphs, theta, copies, sweeps)

    def observed_loss(self, model: ConditionalModel) -> float:
        """Return minus the sum over observed cells of ln p(cell | all other observed cells)."""
        if self._linked is not None:
            return -predict_linked(model, self._linked, self._engine)[1]
        return -float(self._incomplete.sum(_observed_log_likelihood, model))

    def observed_weights(self) -> np.ndarray:
        """Return the weight of the rows in which the variable of each state is observed, (states of all tables,)."""
        return self._incomplete.sum(_observed_weights, self.layout)

    def state(self) -> dict[str, np.ndarray]:
        drawn = [self._linked_drawn] if self._linked is not None else self._incomplete.map(_drawn)
        counts = np.array([self._copies, self._number], dtype=np.int64)
        return {"drawn": np.concatenate(drawn), "draw_counts": counts, "drawn_at": self._drawn_at}

    def restore(self, state: Mapping[str, np.ndarray], graphs: Graphs) -> None:
        copies, self._number = (int(count) for count in state["draw_counts"])
        if self._linked is not None:
            self._linked_drawn = state["drawn"]
        else:
            counts = self._incomplete.map(_count_missing)
            pieces = np.split(state["drawn"], np.cumsum(counts)[:-1])
            self._incomplete, _ = self._incomplete.map_update(_set_drawn, each=pieces)
        self._complete(graphs, state["drawn_at"], copies, sweeps=0)

    def _complete(self, graphs: Graphs, theta: np.ndarray, copies: int, sweeps: int) -> None:
        self._copies, self._drawn_at = copies, theta
        draws = Draws(copies, copies, sweeps)
        if self._linked is not None:
            self.rows = self._engine.distribute(self._complete_linked(self._linked, graphs, theta, draws))
            return
        counter = self._seed, self._number
        self._incomplete, _ = self._incomplete.map_update(_complete_block, self.layout, graphs, theta, draws, counter)
        self.rows, _ = self._incomplete.map_update(_completed)

    def _complete_linked(
        self, sample: DenseDataset, graphs: Graphs, theta: np.ndarray, draws: Draws
    ) -> list[EvaluatedBlock]:
        """Return all blocks with the rows that differ between copies once for each copy, and other rows once."""
        before, engine = self._linked_drawn, self._engine
        copies, self._linked_drawn = linked_copies(
            sample, graphs, theta, draws, self._number, before, engine, self._seed
        )
        found = []
        for k, (t, block) in enumerate(sample.blocks()):
            parts = [copy[k] for copy in copies]
            varied = np.zeros(block.n_rows, dtype=bool)
            for part in parts[1:]:
                varied |= (part.beliefs != parts[0].beliefs).any(axis=0)
            rows = [np.flatnonzero(~varied)] + [np.flatnonzero(varied)] * len(parts)
            factors = [1.0] + [1.0 / len(parts)] * len(parts)
            pieces = [_take(part, *how) for part, how in zip([parts[0], *parts], zip(rows, factors, strict=True), strict=True)]
            found.append(EvaluatedBlock(t, _join(pieces)))
        return found


def hold_rows(sample: Dataset, engine: Engine, clamp: InferenceMethod | None, seed: int) -> TrainingRows:
    """Return the rows of a dataset; ``clamp`` infers missing cells, None replaces incomplete rows by completions."""
    if not sample.has_missing:
        return TrainingRows(sample.layout, sample.hold_blocks(engine, block_evaluation.as_evaluated))
    return CompletedRows(sample, engine, seed) if clamp is None else ClampedRows(sample, engine, clamp)


def _take(block: Block, rows: np.ndarray, factor: float) -> Block:
    """Return some rows of a complete block, with their weights times a factor."""
    return block._replace(
        codes=block.codes[:, rows], beliefs=block.beliefs[:, rows], weight=block.weight[rows] * factor
    )


def _join(blocks: Sequence[Block]) -> Block:
    """Return the rows of several complete blocks as one block."""
    return blocks[0]._replace(
        codes=np.concatenate([block.codes for block in blocks], axis=1),
        beliefs=np.concatenate([block.beliefs for block in blocks], axis=1),
        weight=np.concatenate([block.weight for block in blocks]),
    )


def _as_incomplete(block: Block, table: int = 0) -> tuple[IncompleteBlock, None]:
    return IncompleteBlock(table, block, np.empty((len(block.missing_rows), 0), dtype=np.int32)), None


def _complete_block(
    part: IncompleteBlock, layout: Layout, graphs: Graphs, theta: np.ndarray, draws: Draws, counter: tuple[int, int]
) -> tuple[IncompleteBlock, None]:
    """Complete the rows of a block without links and merge equal ones; ``counter`` is the seed and the draw's number."""
    block = part.block
    numbers = block.start + np.arange(block.n_rows)
    keys = entity_keys(*counter, np.full(block.n_rows, part.table), numbers)
    rows = part.incomplete
    if part.completed is None:
        rows = IncompleteRows.of(part.table, block, layout, graphs)
    if rows is None:
        return part._replace(completed=EvaluatedBlock(part.table, block)), None
    rows = rows.with_graphs(layout, graphs)
    found, drawn = rows.complete(theta, draws, keys, part.drawn)
    piece = merge_equal_rows(with_complete_rows(block, found)[0])
    schema = layout.schemas[part.table]
    (completed,) = cut_into_blocks(schema, *piece, schema.n_columns, size=max(piece.n_rows, 1), first=block.start)
    return part._replace(drawn=drawn, incomplete=rows, completed=EvaluatedBlock(part.table, completed)), None


def _observed_log_likelihood(part: IncompleteBlock, model: ConditionalModel) -> float:
    return predict_block(model, part.table, part.block)[1]


def _observed_weights(part: IncompleteBlock, layout: Layout) -> np.ndarray:
    found = np.zeros(layout.n_states)
    sizes = np.diff(layout.schemas[part.table].state_offsets)
    start = layout.state_starts[part.table]
    found[start : start + sizes.sum()] = np.repeat((part.block.codes >= 0) @ part.block.weight, sizes)
    return found


def _completed(part: IncompleteBlock) -> tuple[EvaluatedBlock, None]:
    assert part.completed is not None
    return part.completed, None


def _drawn(part: IncompleteBlock) -> np.ndarray:
    return part.drawn


def _count_missing(part: IncompleteBlock) -> int:
    return len(part.block.missing_rows)


def _set_drawn(part: IncompleteBlock, drawn: np.ndarray) -> tuple[IncompleteBlock, None]:
    return part._replace(drawn=np.ascontiguousarray(drawn)), None
