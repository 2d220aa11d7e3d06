"""Rows that an objective is evaluated on, and whose missing cells are replaced as the field changes.

There are two ways: incomplete rows are replaced by weighted completions (the E step of Monte Carlo EM), or their
missing cells hold beliefs that an inference method computes (clamped beliefs, as in the paper).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import ClassVar, NamedTuple

import numpy as np

from sparsefield.compute import BlockCollection, Engine
from sparsefield.data import Block, Dataset, Layout, Schema, update_neighbor_sums
from sparsefield.data.dataset import Piece, merge_equal_rows
from sparsefield.data.table import cut_into_blocks, join_blocks, missing_cells
from sparsefield.inference.cell_probabilities import log_probabilities, predict_block, predict_linked
from sparsefield.inference.completions import (
    Enumerated,
    FieldWeights,
    complete_rows,
    draw_linked,
    drawn_block,
    rows_of_block,
)
from sparsefield.inference.method import InferenceMethod
from sparsefield.inference.missing_problem import CompiledProblem, compile_problem
from sparsefield.kernels.row_draws import row_keys
from sparsefield.model import Adjacency
from sparsefield.objectives.block_evaluation import EvaluatedBlock, as_evaluated
from sparsefield.options import OptionObject

KEPT_BELIEFS = 2**17
"""Size of a block, in beliefs, up to which its compiled missing cells are kept: in larger ones they would cost more
memory than they save time."""

FINAL_FACTOR = 4
"""The final objective has at most this many times the completions of a round, and half as many where these do."""

MAX_COMPLETED = 2**28
"""Beliefs of completed rows that are held at a time: of tables with many rows, these have fewer completions."""


@dataclass(frozen=True)
class EM(OptionObject):
    """Average over what is missing: Monte Carlo EM for the pseudo-likelihood.

    Every incomplete row is replaced by completions, given the current field: by all of them, with their probabilities,
    where there are few, and otherwise by draws. The field is learned from the completed rows, in which only observed
    cells are predicted; both steps alternate. Estimates are consistent where cells are missing at random.

    Parameters
    ----------
    copies : int
        Completions of an incomplete row in the first rounds; the final objective has two or four times as many.
    max_copies : int
        Completions of an incomplete row at most, in the final objective: it doubles until the weights are exact enough.
    max_error : float
        Largest Monte Carlo error of the weights, ``mc_error_``, as a share of their standard errors (root mean square).
    seed : int
        Seed of all draws.

    Notes
    -----
    ``mc_error_`` is the noise that the final draws leave in the optimum of their objective, given the weights at which
    they were drawn. It is estimated from the distance between this optimum and the averaged weights of earlier rounds.
    Standard errors are those of the completed rows, and smaller than those that the observed cells allow. It does not
    contain the error of the weights at which the final rows were drawn: EM repeats the noise of one step in the next
    ones, and the result is up to 1 / (1 - s) times as far from that of infinitely many draws, where s is the share of
    missing information. With two fifths of the cells missing at random this was a factor of 2 to 3. Where that matters,
    set ``max_error`` accordingly smaller, and ``max_copies`` larger, and compare fits with other seeds.
    """

    copies: int = 2
    max_copies: int = 64
    max_error: float = 0.2
    seed: int = 0
    name: ClassVar[str] = "em"

    def problems(self) -> list[str]:
        """Return a sentence for each option that makes no sense."""
        sentences = super().problems()
        if not sentences and self.max_copies < FINAL_FACTOR * self.copies:
            sentences.append(
                f"max_copies must be at least {FINAL_FACTOR} times copies, got {self.max_copies} and {self.copies}."
            )
        return sentences


class TrainingRows:
    """Rows without missing cells."""

    has_missing = False

    def __init__(self, layout: Layout, rows: BlockCollection) -> None:
        self.layout, self.rows = layout, rows


class ClampedRows(TrainingRows):
    """Rows whose missing cells hold the beliefs of an inference method given all observed cells.

    An observed cell is then predicted from beliefs that depend on it, so estimates are biased where much is missing.
    """

    has_missing = True

    def __init__(self, dataset: Dataset, engine: Engine, inference: InferenceMethod) -> None:
        self._inference, self._engine = inference, engine
        self._linked = dataset if dataset.has_links else None
        """Linked rows are imputed together, in this process."""
        self._members = [] if self._linked is None else list(self._linked.blocks())
        """Their blocks, with the beliefs that the engine received last."""
        self._compiled: CompiledProblem | None = None
        """The missing cells of linked rows, which stay the same while beliefs and arcs change."""
        linked = self._linked is not None
        super().__init__(dataset.layout, self._hold() if linked else dataset.hold_blocks(engine, as_evaluated))

    def _hold(self) -> BlockCollection:
        """Return the linked rows with a weight: others influence them, and nothing else."""
        parts = ((t, b if b.weight.all() else rows_of_block(b, np.flatnonzero(b.weight))) for t, b in self._members)
        return self._engine.distribute([as_evaluated(block, table)[0] for table, block in parts])

    @property
    def blocks(self) -> list[Block]:
        """All blocks of rows, with the present beliefs."""
        return [block for _, block in self._members] if self._members else self.rows.map(attrgetter("block"))

    def impute(self, field: FieldWeights) -> float:
        """Infer all missing cells and return the largest change of a belief."""
        if self._linked is not None:
            return self._impute_linked(self._linked, field)
        self.rows, change = self.rows.map_update(
            _impute_missing, self.layout, self._inference, field.graphs, field.theta, combine=max
        )
        return change

    def _impute_linked(self, dataset: Dataset, field: FieldWeights) -> float:
        if self._compiled is None:  # the beliefs of the dataset stay as they are
            self._members = [(t, block._replace(beliefs=block.beliefs.copy())) for t, block in self._members]
            self._compiled = compile_problem(dataset, field.graphs, self._members, field.theta)
        else:
            self._compiled = self._compiled.renewed(dataset, field.graphs, self.blocks, field.theta)
        before = self._compiled.problem.beliefs.copy()
        self._inference.fill(self._compiled.problem, field.theta)
        self._compiled.write_beliefs()
        change = float(np.abs(self._compiled.problem.beliefs - before).max(initial=0.0))
        by_table = [[block for t, block in self._members if t == table] for table in range(len(self.layout.tables))]
        update_neighbor_sums(dataset, by_table, self._engine.map)
        self.rows = self._hold()
        return change


def _impute_missing(
    part: EvaluatedBlock, layout: Layout, inference: InferenceMethod, graphs: Sequence[Adjacency], theta: np.ndarray
) -> tuple[EvaluatedBlock, float]:
    """Impute missing cells of unlinked rows, and return the largest change of a belief."""
    block = part.block
    if not len(block.missing_rows):
        return part, 0.0
    before, block = block, block._replace(beliefs=block.beliefs.copy())
    if part.compiled is None:
        compiled = compile_problem(Dataset(layout, ()), graphs, [(part.table, block)])
    else:
        compiled = part.compiled.renewed(Dataset(layout, ()), graphs, [block])
    inference.fill(compiled.problem, theta)
    compiled.write_beliefs()
    part = part._replace(block=block, compiled=compiled if block.beliefs.size <= KEPT_BELIEFS else None)
    return part, _largest_change(part.table, before, block, layout)


def _largest_change(table: int, before: Block, after: Block, layout: Layout) -> float:
    """Return the largest difference of a belief; latent variables, which are summed out, do not count."""
    schema = layout.schemas[table]
    n = int(schema.target_offsets[-1 - len(schema.latent)])
    return float(np.abs(after.beliefs[:n] - before.beliefs[:n]).max(initial=0.0))


class IncompleteBlock(NamedTuple):
    """A block with missing cells, the codes that were drawn for them last, and its completed rows."""

    table: int
    block: Block
    drawn: np.ndarray
    """(missing cells, copies)"""
    completed: EvaluatedBlock | None = None


class CompletedRows(TrainingRows):
    """Rows that are complete: each incomplete row is replaced by completions, weighted by their probabilities.

    A row with few completions has all of them; another one has several that are drawn by Gibbs sampling, whose chains
    continue from one draw to the next. Linked rows are drawn together, as copies of all tables.
    """

    has_missing = True

    def __init__(self, dataset: Dataset, engine: Engine, options: EM) -> None:
        self._engine, self.seed = engine, options.seed
        self._linked = dataset if dataset.has_links else None
        self._number = 0
        self._linked_drawn = np.empty((0, 0), dtype=np.int32)
        super().__init__(dataset.layout, dataset.hold_blocks(engine, as_evaluated))
        self._incomplete: BlockCollection = dataset.hold_blocks(engine, _as_incomplete)
        self._given, self.max_copies = self.rows, max(1, MAX_COMPLETED // max(dataset.n_cells, 1))
        """Completions of a row at most."""

    def release(self) -> BlockCollection:
        """Forget the completed rows before others are drawn; return the rows as they are."""
        self.rows, (self._incomplete, _) = self._given, self._incomplete.map_update(_without_completed)
        return self.rows

    def draw(self, field: FieldWeights, copies: int, sweeps: int) -> None:
        """Complete all rows; rows with at most ``copies`` completions get all of them."""
        self._number += 1
        counter, copies = (self.seed, self._number), min(copies, self.max_copies)
        if self._linked is not None:
            blocks, self._linked_drawn = draw_linked(
                self._linked, field, copies, sweeps, counter, self._linked_drawn, self._engine
            )
            parts = zip(self._linked.blocks(), zip(*blocks, strict=True), strict=True)
            self.rows = self._engine.distribute([as_evaluated(_join_copies(part), t)[0] for (t, _), part in parts])
        else:
            self._incomplete, _ = self._incomplete.map_update(_complete_block, field, copies, sweeps, counter)
            self.rows, _ = self._incomplete.map_update(_completed)

    def observed_loss(self, field: FieldWeights) -> float:
        """Return minus the sum over observed cells of ln p(cell | all other observed cells)."""
        if self._linked is not None:
            parts = zip(self._linked.blocks(), predict_linked(field, self._linked, self._engine), strict=True)
            return -sum(_log_likelihood(self.layout, t, block, p) for (t, block), p in parts)
        return -float(self._incomplete.sum(_observed_log_likelihood, field))

    def observed_weights(self) -> np.ndarray:
        """Return the weight of the rows in which the variable of each state is observed, (states of all tables,)."""
        return self._incomplete.sum(_observed_weights, self.layout)


def hold_rows(dataset: Dataset, engine: Engine, missing: EM | InferenceMethod) -> TrainingRows:
    """Return the rows of a dataset, completed by `EM` or with the beliefs of an inference method."""
    if not dataset.has_missing:
        return TrainingRows(dataset.layout, dataset.hold_blocks(engine, as_evaluated))
    if isinstance(missing, EM):
        return CompletedRows(dataset, engine, missing)
    return ClampedRows(dataset, engine, missing)


def _join_copies(blocks: Sequence[Block]) -> Block:
    """Return the rows that differ between copies of a block once for each copy, and the others once."""
    varied = np.zeros(blocks[0].n_rows, dtype=bool)
    for block in blocks[1:]:
        varied |= (block.beliefs != blocks[0].beliefs).any(axis=0)
    parts = [rows_of_block(block, np.flatnonzero(varied)) for block in blocks]
    parts = [part._replace(weight=part.weight / len(blocks)) for part in parts]
    return join_blocks([rows_of_block(blocks[0], np.flatnonzero(~varied)), *parts])


def _as_incomplete(block: Block, table: int = 0) -> tuple[IncompleteBlock, None]:
    return IncompleteBlock(table, block, np.empty((len(block.missing_rows), 0), dtype=np.int32)), None


def _complete_block(
    part: IncompleteBlock, field: FieldWeights, copies: int, sweeps: int, counter: tuple[int, int]
) -> tuple[IncompleteBlock, None]:
    """Complete the rows of a block without links; ``counter`` is the seed and the number of the draw."""
    block, schema = part.block, field.layout.schemas[part.table]
    if not block.cell_offsets[-1 - len(schema.latent)]:
        return part._replace(completed=EvaluatedBlock(part.table, block)), None
    rows = block.start + np.arange(block.n_rows)
    keys = row_keys(*counter, np.full(block.n_rows, part.table), rows)
    every, some, drawn = complete_rows(field, part.table, block, copies, sweeps, keys, part.drawn)
    incomplete = np.zeros(block.n_rows, dtype=bool)
    incomplete[every.owner] = incomplete[some.rows] = True
    completed = _merge(block, schema, np.flatnonzero(~incomplete), every)
    if len(some.rows):
        completed = join_blocks([completed, drawn_block(block, some)])
    return part._replace(drawn=drawn, completed=EvaluatedBlock(part.table, completed)), None


def _merge(block: Block, schema: Schema, rows: np.ndarray, completions: Enumerated) -> Block:
    """Return some complete rows of a block, and all completions of others; equal ones are merged.

    Missing cells stay missing, so that they are not predicted, but their beliefs are the states of the completion.
    """
    owner = np.concatenate([rows, completions.owner])
    codes = np.concatenate([block.codes[:, rows], completions.codes], axis=1)
    weight = block.weight[owner] * np.concatenate([np.ones(len(rows)), completions.weight])
    # In the rows to merge, a missing cell has another number than an observed one in the same state.
    marked = np.where(block.codes[:, owner] < 0, -2 - codes, codes)
    piece = merge_equal_rows(Piece(marked, block.covariates[:, owner], weight))
    missing = piece.codes < 0
    filled = piece._replace(codes=np.where(missing, -2 - piece.codes, piece.codes).astype(np.int32))
    (merged,) = cut_into_blocks(schema, *filled, schema.n_columns, size=max(piece.n_rows, 1), first=block.start)
    codes = np.where(missing, -1, piece.codes).astype(np.int32)
    offsets, missing_rows = missing_cells(codes)
    return merged._replace(codes=codes, cell_offsets=offsets, missing_rows=missing_rows)


def _observed_log_likelihood(part: IncompleteBlock, field: FieldWeights) -> float:
    return _log_likelihood(field.layout, part.table, part.block, predict_block(field, part.table, part.block))


def _log_likelihood(layout: Layout, table: int, block: Block, probabilities: np.ndarray) -> float:
    logs = log_probabilities(layout.schemas[table].coding, block.codes, probabilities)
    return float((logs @ block.weight).sum())


def _observed_weights(part: IncompleteBlock, layout: Layout) -> np.ndarray:
    weights = np.zeros(layout.n_target_columns)
    sizes = np.diff(layout.schemas[part.table].target_offsets)
    start = layout.target_starts[part.table]
    weights[start : start + sizes.sum()] = np.repeat((part.block.codes >= 0) @ part.block.weight, sizes)
    return weights


def _without_completed(part: IncompleteBlock) -> tuple[IncompleteBlock, None]:
    return part._replace(completed=None), None


def _completed(part: IncompleteBlock) -> tuple[EvaluatedBlock, None]:
    assert part.completed is not None
    return part.completed, None
