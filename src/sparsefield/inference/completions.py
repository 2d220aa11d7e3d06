"""This module completes the incomplete rows of a block: by all of their completions, or by draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Block, DenseDataset, Layout, update_neighbor_sums
from sparsefield.data.shards import Piece
from sparsefield.inference.factor_graph import cell_positions, offsets_of, ranges
from sparsefield.inference.missing_problem import CompiledProblem, MissingProblem, compile_problem, with_graphs
from sparsefield.kernels import completions as kernels
from sparsefield.model import Adjacency

MAX_JOINT_STATES = 2**17
"""Joint states of the missing cells of a row, latent variables included, up to which they are enumerated."""

MIN_PROBABILITY = 1e-9
"""Completions that are less probable are left out."""

BURN_IN = 20
"""Gibbs sweeps before the first draw of a row."""


class Draws(NamedTuple):
    """How rows are completed: by all completions where these are few, otherwise by draws."""

    copies: int
    max_enumerated: int
    """Largest number of completions of a row that are enumerated."""
    sweeps: int
    """Gibbs sweeps from the draws before; the first draws are preceded by more."""


class Completions(NamedTuple):
    """Completions of the incomplete rows of a block."""

    owner: np.ndarray
    """(completions,): the incomplete row of the block."""
    codes: np.ndarray
    """(targets, completions): -1 for latent variables alone."""
    weight: np.ndarray
    """(completions,): sums to 1 for each incomplete row."""
    drawn_rows: np.ndarray
    """Incomplete rows whose completions were drawn."""


class IncompleteRows(NamedTuple):
    """The incomplete rows of a block without links, laid out for completion."""

    table: int
    block: Block
    compiled: CompiledProblem
    n_visible: np.ndarray
    """(entities,): missing cells that are not latent, which come first."""
    joint: np.ndarray
    """(entities,): log2 of the number of their joint states."""
    every: np.ndarray
    """(entities,): the same with latent variables."""

    @classmethod
    def of(cls, table: int, block: Block, layout: Layout, graphs: Sequence[Adjacency]) -> IncompleteRows | None:
        """Lay out the incomplete rows of a block; None if it has none."""
        visible = len(block.codes) - len(layout.schemas[table].latent)
        if not block.cell_offsets[visible]:
            return None
        compiled = compile_problem(DenseDataset(layout, ()), graphs, [(table, block)])
        starts, is_visible = compiled.problem.cell_offsets[:-1], compiled.missing_cells[1] < visible
        states = np.log2(compiled.problem.cell_width + 1.0)
        n_visible = np.add.reduceat(is_visible.astype(np.int64), starts)
        joint, every = np.add.reduceat(states * is_visible, starts), np.add.reduceat(states, starts)
        return cls(table, block, compiled, n_visible, joint, every)

    def with_graphs(self, layout: Layout, graphs: Sequence[Adjacency]) -> IncompleteRows:
        """Return the same rows with the features of another field."""
        return self._replace(compiled=self.compiled._replace(problem=with_graphs(self.compiled.problem, layout, graphs)))

    def complete(
        self, theta: np.ndarray, draws: Draws, keys: np.ndarray, before: np.ndarray
    ) -> tuple[Completions, np.ndarray]:
        """Complete the rows.

        ``keys`` (rows of the block,) determine the random numbers of each row. ``before`` has the codes (missing cells,
        copies) that were drawn last, none at first; the new ones are also returned.
        """
        problem, (_, variable, row) = self.compiled.problem, self.compiled.missing_cells
        entity_row = row[problem.cell_offsets[:-1]]
        limit, most = np.log2(draws.max_enumerated) + 1e-9, np.log2(MAX_JOINT_STATES)
        enumerated = (self.joint <= limit) & (self.every <= most) | (self.joint == 0.0)
        counts = np.where(enumerated, np.round(2.0 ** np.minimum(self.joint, 30.0)), draws.copies).astype(np.int64)
        wanted = np.flatnonzero(~enumerated)
        drawn = draw_copies(problem, theta, wanted, keys[entity_row[wanted]], draws, before)
        codes = np.repeat(self.block.codes[:, entity_row], counts, axis=1)
        arrays = variable, self.n_visible, enumerated, offsets_of(counts), drawn
        kernels.write_completions(problem, *arrays, codes)
        weight = np.repeat(1.0 / counts, counts)
        several = enumerated & (counts > 1)
        chosen = np.flatnonzero(several)
        starts = offsets_of(counts[chosen])
        found = np.zeros(starts[-1])
        kernels.enumerate_completions(problem, theta, chosen, self.n_visible[chosen], starts, found)
        weight[np.repeat(several, counts)] = found
        kept = np.flatnonzero(weight >= MIN_PROBABILITY)
        owner, codes = np.repeat(entity_row, counts)[kept], np.ascontiguousarray(codes[:, kept])
        return Completions(owner, codes, weight[kept], entity_row[wanted]), drawn


def draw_copies(
    problem: MissingProblem,
    theta: np.ndarray,
    entities: np.ndarray,
    keys: np.ndarray,
    draws: Draws,
    before: np.ndarray,
) -> np.ndarray:
    """Draw the missing cells of some entities, with a key for each; return codes (missing cells, copies).

    Copies that ``before`` does not have begin as copies of those that it has.
    """
    drawn = np.zeros((int(problem.cell_offsets[-1]), draws.copies), dtype=np.int32)
    if not len(entities):
        return drawn
    slots = _missing_arcs(problem, theta, entities)
    on, sweeps = np.zeros((len(slots.base), draws.copies)), draws.sweeps
    if before.shape[1]:
        drawn[:] = before[:, np.arange(draws.copies) % before.shape[1]]
    else:
        kernels.start_copies(problem, entities, keys, slots, on, drawn)
        sweeps += BURN_IN
    kernels.set_copies(slots, drawn, on)
    kernels.draw_copies(problem, slots, entities, keys, sweeps, on, drawn)
    return drawn


def _missing_arcs(problem: MissingProblem, theta: np.ndarray, entities: np.ndarray) -> kernels.MissingArcs:
    """Collect the arcs between the missing cells of some entities."""
    slot_offsets = offsets_of(problem.cell_width)
    positions = cell_positions(problem)
    slot_of_belief = np.full(len(problem.beliefs), -1, dtype=np.int64)
    slot_of_belief[ranges(positions, problem.cell_width)] = np.arange(slot_offsets[-1])

    def allocate(arcs: int, terms: int) -> kernels.MissingArcs:
        n_slots = int(slot_offsets[-1])
        offsets = np.zeros((2, n_slots + 1), dtype=np.int64)
        term_slot = np.full((terms, problem.term_column.shape[1]), -1, dtype=np.int64)
        arc_slot = np.empty(arcs, dtype=np.int64)
        parts = offsets[0], arc_slot, np.empty(arcs), offsets[1], term_slot, np.empty(terms)
        return kernels.MissingArcs(slot_offsets, np.zeros(n_slots), *parts)

    counts = kernels.collect_arcs(problem, theta, entities, slot_of_belief, False, allocate(0, 0))
    found = allocate(*counts)
    kernels.collect_arcs(problem, theta, entities, slot_of_belief, True, found)
    # Slots of other entities have no arcs.
    for offsets in (found.arc_offsets, found.term_offsets):
        np.maximum.accumulate(offsets, out=offsets)
    return found


def with_complete_rows(block: Block, found: Completions) -> tuple[Piece, np.ndarray]:
    """Return the complete rows of a block with the completions of the others, and the row that each comes from."""
    complete = np.ones(block.n_rows, dtype=bool)
    complete[found.owner] = False
    rows = np.flatnonzero(complete)
    owner = np.concatenate([rows, found.owner])
    codes = np.concatenate([block.codes[:, rows], found.codes], axis=1)
    weight = block.weight[owner] * np.concatenate([np.ones(len(rows)), found.weight])
    return Piece(codes, block.covariates[:, owner], weight), owner


def linked_copies(
    sample: DenseDataset,
    graphs: Sequence[Adjacency],
    theta: np.ndarray,
    draws: Draws,
    number: int,
    before: np.ndarray,
    engine: Engine,
    seed: int = 0,
) -> tuple[list[list[Block]], np.ndarray]:
    """Draw the missing cells of linked rows; return the blocks of every copy, and codes (missing cells, copies).

    Draws with another ``number`` or ``seed`` have other random numbers.
    """
    members = list(sample.blocks())
    compiled = compile_problem(sample, graphs, members)
    problem, (member, variable, row) = compiled.problem, compiled.missing_cells
    tables = np.array([t for t, _ in members])[member[problem.cell_offsets[:-1]]]
    keys = kernels.entity_keys(seed, number, tables, problem.entity_row)
    drawn = draw_copies(problem, theta, np.arange(len(tables)), keys, draws, before)
    copies, cells = [], [np.flatnonzero(member == k) for k in range(len(members))]
    for c in range(draws.copies):
        blocks = []
        for (t, block), here in zip(members, cells, strict=True):
            made = block._replace(beliefs=block.beliefs.copy(), codes=block.codes.copy())
            codes, first = drawn[here, c], sample.layout.schemas[t].state_offsets[variable[here]]
            made.codes[variable[here], row[here]] = codes
            for s in range(int(problem.cell_width[here].max(initial=0))):
                wide = problem.cell_width[here] > s
                made.beliefs[(first + s)[wide], row[here][wide]] = codes[wide] == s + 1
            blocks.append(made._replace(cell_offsets=np.zeros_like(block.cell_offsets), missing_rows=row[:0]))
        by_table = [[b for b, (t, _) in zip(blocks, members, strict=True) if t == table] for table in range(len(sample.tables))]
        update_neighbor_sums(sample, by_table, engine.map)
        copies.append(blocks)
    return copies, drawn
