"""Completions of incomplete rows: all of them with their probabilities, or draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from sparsefield.compute import Engine
from sparsefield.data import Block, Dataset, Layout, Schema, update_neighbor_sums
from sparsefield.data.sparse_matrix import cumulate, expand
from sparsefield.data.table import missing_cells
from sparsefield.inference.factor_graph import ground
from sparsefield.inference.missing_problem import MissingProblem, compile_problem
from sparsefield.kernels import row_draws as kernels
from sparsefield.model import Adjacency, Field
from sparsefield.model.field import LatentSplit, split_latent

MIN_PROBABILITY = 1e-9
"""Completions that are less probable are left out."""

ENUMERATED = 4
"""Completions of a row that are never drawn, however few are asked for: on nltcs half of the rounds are then enough."""

BURN_IN = 10
"""Gibbs sweeps before the first draw of a row."""


class FieldWeights(NamedTuple):
    """The features and weights of a field, in the form that completions need."""

    layout: Layout
    graphs: Sequence[Adjacency]
    """Of the whole field, with latent variables."""
    latent: LatentSplit | None
    theta: np.ndarray

    @classmethod
    def of(cls, field: Field) -> FieldWeights:
        layout = field.layout
        latent = split_latent(layout, layout.arcs(field.features)) if layout.has_latent else None
        return cls(layout, field.graphs, latent, field.theta)


class Enumerated(NamedTuple):
    """All completions of some rows."""

    owner: np.ndarray
    """(completions,): row of the block."""
    codes: np.ndarray
    """(targets, completions): -1 for latent variables."""
    weight: np.ndarray
    """(completions,): sums to 1 for each row."""


class Drawn(NamedTuple):
    """Completions of some rows that were drawn, copies of a row adjacent."""

    rows: np.ndarray
    """(rows,): rows of the block."""
    columns: np.ndarray
    """(own columns, rows x copies)"""
    copies: int


def complete_rows(
    field: FieldWeights, table: int, block: Block, copies: int, sweeps: int, keys: np.ndarray, before: np.ndarray
) -> tuple[Enumerated, Drawn, np.ndarray]:
    """Complete the incomplete rows of a block without links; rows with few completions get all of them.

    The other arguments are those of `draw_completions`; the last result has the codes that were drawn.
    """
    joint = log_joint_states(field.layout.schemas[table], block)
    few = joint <= np.log2(max(copies, ENUMERATED)) + 1e-9
    enumerated = enumerate_completions(field, table, block, np.flatnonzero((joint > 0.0) & few), joint)
    return enumerated, *draw_completions(field, table, block, np.flatnonzero(~few), copies, sweeps, keys, before)


def log_joint_states(schema: Schema, block: Block) -> np.ndarray:
    """Return log2 of the number of completions of each row, (rows,), with latent variables summed out."""
    visible = len(block.codes) - len(schema.latent)
    return np.log2(np.diff(schema.coding.state_offsets)[:visible]) @ (block.codes[:visible] < 0)


def enumerate_completions(
    field: FieldWeights, table: int, block: Block, rows: np.ndarray, joint: np.ndarray
) -> Enumerated:
    """Return all completions of some rows of a block without links; ``joint`` is that of `log_joint_states`."""
    schema = field.layout.schemas[table]
    visible = len(block.codes) - len(schema.latent)
    counts = np.round(2.0 ** joint[rows]).astype(np.int64)
    starts = cumulate(counts)
    owner = np.repeat(rows, counts)
    codes = np.take(block.codes, owner, axis=1)  # contiguous, unlike codes[:, owner]
    missing = codes < 0
    is_missing = np.repeat(missing, np.diff(schema.target_offsets), axis=0)
    cell_row, variable = np.nonzero(block.codes[:visible, rows].T < 0)
    sizes = np.diff(schema.coding.state_offsets)[variable]
    logs = np.cumsum(np.log2(sizes)) - np.log2(sizes)  # completions number the joint states of their row
    stride = np.round(2.0 ** (logs - logs[np.searchsorted(cell_row, cell_row)])).astype(np.int64)
    place, repeats = expand(starts[cell_row], counts[cell_row]), counts[cell_row]
    number = place - np.repeat(starts[cell_row], repeats)
    codes[np.repeat(variable, repeats), place] = number // np.repeat(stride, repeats) % np.repeat(sizes, repeats)
    columns = np.take(block.beliefs[: schema.n_columns], owner, axis=1)
    columns[: schema.n_target_columns][is_missing] = 0.0
    potential = np.zeros(len(owner))
    graph = field.graphs[table] if field.latent is None else field.latent.visible
    kernels.add_potentials(graph, field.theta, visible, missing, codes, columns, potential)
    if field.latent is not None:
        shift, level = field.latent.joint_state_logits(field.theta, schema.n_columns)
        potential += logsumexp(level[:, None] + shift.T @ columns, axis=0)
    if len(rows):
        weight = np.exp(potential - np.repeat(np.maximum.reduceat(potential, starts[:-1]), counts))
        weight /= np.repeat(np.add.reduceat(weight, starts[:-1]), counts)
    else:
        weight = potential
    kept = np.flatnonzero(weight >= MIN_PROBABILITY)
    return Enumerated(owner[kept], np.ascontiguousarray(codes[:, kept]), weight[kept])


def draw_completions(
    field: FieldWeights,
    table: int,
    block: Block,
    rows: np.ndarray,
    copies: int,
    sweeps: int,
    keys: np.ndarray,
    before: np.ndarray,
) -> tuple[Drawn, np.ndarray]:
    """Draw completions of some rows of a block without links; return also the codes drawn, (missing cells, copies).

    Parameters
    ----------
    copies : completions of each row
    sweeps : Gibbs sweeps from the draws before; the first draws are preceded by more
    keys : (rows of the block,), which determine the random numbers of each row
    before : (missing cells, copies), the codes that were drawn last, none at first
    """
    schema = field.layout.schemas[table]
    drawn = np.zeros((len(block.missing_rows), copies), dtype=np.int32)
    chosen = np.full(block.n_rows, -1, dtype=np.int64)
    chosen[rows] = np.arange(len(rows))
    cells = np.flatnonzero(chosen[block.missing_rows] >= 0)
    cell_offsets = np.searchsorted(cells, block.cell_offsets)
    missing_rows, keys = chosen[block.missing_rows[cells]], keys[rows]
    columns = np.repeat(block.beliefs[: schema.n_columns, rows], copies, axis=1)
    if before.shape[1]:
        codes = np.ascontiguousarray(before[cells][:, np.arange(copies) % before.shape[1]])
    else:
        codes, sweeps = np.zeros((len(cells), copies), dtype=np.int32), sweeps + BURN_IN
        variables = np.repeat(np.arange(len(cell_offsets) - 1), np.diff(cell_offsets))
        kernels.draw_frequencies(schema.coding, variables, missing_rows, keys, codes)
    kernels.draw_rows(field.graphs[table], field.theta, cell_offsets, missing_rows, keys, sweeps, columns, codes)
    drawn[cells] = codes
    return Drawn(rows, columns, copies), drawn


def drawn_block(block: Block, drawn: Drawn) -> Block:
    """Return the drawn completions of some rows of a block; their missing cells stay missing but have beliefs."""
    part, copies = rows_of_block(block, drawn.rows), drawn.copies
    missing_rows = (part.missing_rows[:, None] * copies + np.arange(copies)).ravel()
    return part._replace(
        start=block.start,
        codes=np.repeat(part.codes, copies, axis=1),
        beliefs=drawn.columns,
        weight=np.repeat(part.weight / copies, copies),
        cell_offsets=part.cell_offsets * copies,
        missing_rows=missing_rows,
    )


def draw_linked(
    dataset: Dataset,
    field: FieldWeights,
    copies: int,
    sweeps: int,
    counter: tuple[int, int],
    before: np.ndarray,
    engine: Engine,
) -> tuple[list[list[Block]], np.ndarray]:
    """Draw the missing cells of linked rows; return the blocks of every copy, and codes (missing cells, copies).

    ``counter`` are a seed and the number of the draw, on which the random numbers depend; other arguments are those of
    `draw_completions`.
    """
    members = list(dataset.blocks())
    compiled = compile_problem(dataset, field.graphs, members, field.theta)
    problem, (member, variable, row) = compiled.problem, compiled.missing_cells
    tables = np.array([t for t, _ in members])[member[problem.cell_offsets[:-1]]]
    keys = kernels.row_keys(*counter, tables, problem.entity_row)
    drawn, slots = np.zeros((len(row), copies), dtype=np.int32), missing_arcs(problem, field.theta)
    if before.shape[1]:
        drawn[:] = before[:, np.arange(copies) % before.shape[1]]
    else:
        kernels.draw_frequencies(problem.coding, problem.cell_variable, problem.entity_of_cell, keys, drawn)
        sweeps += BURN_IN
    values = np.zeros((len(slots.base), copies))
    kernels.draw_copies(problem, slots, keys, sweeps, 0, values, drawn, np.empty(0))
    every_copy, cells = [], [np.flatnonzero(member == k) for k in range(len(members))]
    for c in range(copies):
        blocks = []
        for (t, block), here in zip(members, cells, strict=True):
            beliefs, width = block.beliefs.copy(), problem.cell_width[here]
            column = expand(dataset.layout.schemas[t].target_offsets[variable[here]], width)
            beliefs[column, np.repeat(row[here], width)] = values[expand(slots.slot_offsets[here], width), c]
            blocks.append(block._replace(beliefs=beliefs))
        tables_of = range(len(dataset.tables))
        by_table = [[b for b, (t, _) in zip(blocks, members, strict=True) if t == table] for table in tables_of]
        update_neighbor_sums(dataset, by_table, engine.map)
        every_copy.append(blocks)
    return every_copy, drawn


def missing_arcs(problem: MissingProblem, theta: np.ndarray) -> kernels.MissingArcs:
    """Collect the arcs between the missing cells of a problem."""
    cells, features, base, _ = ground(problem, theta)
    slots, slot_numbers = cells.offsets[features.cell] + features.column, np.arange(len(base) + 1)
    first, arity = features.offsets[:-1], np.diff(features.offsets)
    pairs, others = np.flatnonzero(arity == 2), np.flatnonzero(arity > 2)
    ends = np.concatenate([slots[first[pairs]], slots[first[pairs] + 1]])
    order = np.argsort(ends, kind="stable")
    sources, weights = np.roll(ends, len(pairs))[order], np.tile(features.weight[pairs], 2)[order]
    width = int(arity.max(initial=2))
    place = first[others, None] + np.minimum(np.arange(width), arity[others, None] - 1)
    members = np.where(np.arange(width) < arity[others, None], slots[place], -1)  # of products of several slots
    target, members = members.T.ravel(), np.concatenate([np.delete(members, k, axis=1) for k in range(width)])
    by_target = np.argsort(target, kind="stable")[np.count_nonzero(target < 0) :]
    return kernels.MissingArcs(
        cells.offsets,
        base,
        np.searchsorted(ends[order], slot_numbers),
        sources,
        weights,
        np.searchsorted(target[by_target], slot_numbers),
        np.ascontiguousarray(members[by_target]),
        np.tile(features.weight[others], width)[by_target],
    )


def rows_of_block(block: Block, rows: np.ndarray) -> Block:
    """Return some rows of a block without links."""
    codes = np.ascontiguousarray(block.codes[:, rows])
    offsets, missing_rows = missing_cells(codes)
    beliefs, weight = np.take(block.beliefs, rows, axis=1), block.weight[rows]
    return block._replace(
        start=0, codes=codes, beliefs=beliefs, weight=weight, cell_offsets=offsets, missing_rows=missing_rows
    )
