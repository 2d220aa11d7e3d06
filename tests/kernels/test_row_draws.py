"""Completions that are drawn have the distribution that enumeration finds, row by row."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import SlowField

from sparsefield.compute import Threads
from sparsefield.data import Block, Dataset, Layout, Schema, Source, Table, Variable, compile_table
from sparsefield.data.table import cut_into_blocks
from sparsefield.inference.completions import FieldWeights, draw_linked, rows_of_block
from sparsefield.kernels import row_draws as kernels
from sparsefield.model import Field

COPIES = 16


def random_field(states: tuple[int, ...], *, triple: bool = False, seed: int = 0, size: float = 0.8) -> Field:
    """Make a field over all pairs of columns, among them a numeric covariate; with ``triple``, a conjunction, too."""
    rng = np.random.default_rng(seed)
    variables = [Variable(f"x{k}", "target", tuple(range(n)), 0, (1 / n,) * n) for k, n in enumerate(states)]
    variables.append(Variable("z", "observed", center=0.0, scale=1.0, kind="numeric"))
    schema = Schema(tuple(variables), tuple(v.name for v in variables))
    owner = schema.variable_of_column
    columns = range(schema.n_columns)
    pairs = np.array([(a, b) for a in columns for b in columns if owner[a] < owner[b]])
    conjunctions = np.array([schema.target_offsets[:3]] if triple else [], dtype=np.int64).reshape(-1, 3)
    weights = [rng.normal(scale=size, size=n) for n in (schema.n_target_columns, len(pairs), len(conjunctions))]
    return Field(Layout.single(schema), weights[0], pairs, weights[1], conjunctions, 2.0 + weights[2])


def slow_of(field: Field) -> SlowField:
    return SlowField(
        field.schema, field.biases, field.pairs, field.weights, field.conjunctions, field.conjunction_weights
    )


def block_of(field: Field, X: np.ndarray) -> Block:
    """Compile rows into one block, whatever their number."""
    source = Source(field.schema.order, len(X), "array", X)
    table = compile_table(source, field.schema)
    covariates = np.concatenate([block.covariates for block in table.blocks], axis=1)
    rows = table.codes(), covariates, table.weight()
    (block,) = cut_into_blocks(field.schema, *rows, field.schema.n_columns, size=len(X))
    return block


def draw(field: Field, block: Block, keys: np.ndarray, *, copies: int = COPIES, sweeps: int = 12) -> np.ndarray:
    """Draw the missing cells of a block from the start: codes (missing cells, copies)."""
    schema = field.schema
    drawn = np.zeros((len(block.missing_rows), copies), dtype=np.int32)
    columns = np.repeat(block.beliefs[: schema.n_columns], copies, axis=1)
    where = block.cell_offsets, block.missing_rows
    variables = np.repeat(np.arange(len(block.codes)), np.diff(block.cell_offsets))
    kernels.draw_frequencies(schema.coding, variables, block.missing_rows, keys, drawn)
    kernels.draw_rows(field.graphs[0], field.theta, *where, keys, sweeps, columns, drawn)
    np.testing.assert_array_equal(columns, expected_columns(schema, block, drawn))
    return drawn


def expected_columns(schema: Schema, block: Block, drawn: np.ndarray) -> np.ndarray:
    """Return the beliefs of all copies: observed cells as they are, missing ones one-hot."""
    copies = drawn.shape[1]
    columns = np.repeat(block.beliefs[: schema.n_columns], copies, axis=1)
    for v, (first, last) in enumerate(zip(schema.target_offsets[:-1], schema.target_offsets[1:], strict=True)):
        for cell in range(block.cell_offsets[v], block.cell_offsets[v + 1]):
            for c in range(copies):
                at = block.missing_rows[cell] * copies + c
                columns[first:last, at] = np.arange(1, last - first + 1) == drawn[cell, c]
    return columns


def keys_of(n: int, number: int = 0) -> np.ndarray:
    return kernels.row_keys(0, number, np.zeros(n, dtype=np.int64), np.arange(n))


FIELDS = {
    "binary": random_field((2, 2, 2)),
    "three states": random_field((3, 3, 2), seed=1),
    "conjunction": random_field((2, 3, 2), triple=True, seed=2),
}


@pytest.mark.parametrize("copies", [7, 64])
def test_states_are_as_frequent_among_copies_as_they_are_probable(copies) -> None:
    """With a single missing cell all copies have the same conditional, so that strata leave no more than rounding."""
    field, n = FIELDS["three states"], 50
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 3, n), rng.integers(0, 3, n), rng.integers(0, 2, n), rng.normal(size=n)])
    X[:, 0] = np.nan
    block = block_of(field, X)
    drawn = draw(field, block, keys_of(n), copies=copies, sweeps=1)
    for row in range(n):
        exact = slow_of(field).conditional(0, block.codes[:, row].tolist(), [X[row, 3]])
        counts = np.bincount(drawn[row], minlength=3)
        assert np.abs(counts - copies * np.array(exact)).max() < 1.0 + 1e-9


def some_rows(seed: int = 3, n: int = 30) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 3, n), rng.integers(0, 3, n), rng.integers(0, 2, n), rng.normal(size=n)])
    X[:, :3][rng.random((n, 3)) < 0.5] = np.nan
    return X


def by_row(block: Block, drawn: np.ndarray) -> dict[tuple[int, int], list[int]]:
    variable = np.repeat(np.arange(len(block.codes)), np.diff(block.cell_offsets))
    return {
        (int(v), int(row)): codes for v, row, codes in zip(variable, block.missing_rows, drawn.tolist(), strict=True)
    }


def test_what_a_row_draws_does_not_depend_on_other_rows() -> None:
    field = FIELDS["three states"]
    block = block_of(field, some_rows())
    keys = keys_of(block.n_rows)
    together = by_row(block, draw(field, block, keys))
    for row in range(block.n_rows):
        alone = rows_of_block(block, np.array([row]))
        found = by_row(alone, draw(field, alone, keys[[row]]))
        assert found == {(v, 0): codes for (v, r), codes in together.items() if r == row}


# -- copies of all rows together, as for linked tables ---------------------------------------------------------------


def draw_together(
    field: Field, block: Block, *, copies: int, sweeps: int = 12, number: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the missing cells of all rows as one problem: beliefs (copies, columns, rows) and codes (cells, copies)."""
    table = Table(field.schema, (block,), block.n_rows)
    nothing = np.empty((0, 0), dtype=np.int32)
    weights, sample = FieldWeights.of(field), Dataset.single(table)
    with Threads(1) as engine:
        blocks, drawn = draw_linked(sample, weights, copies, sweeps, (0, 1), nothing, engine)
    return np.array([copy[0].beliefs for copy in blocks]), drawn


@pytest.mark.parametrize(("kind", "known"), [("three states", (1,)), ("conjunction", ())])
def test_copies_have_the_exact_joint_distribution(kind, known) -> None:
    field, n = FIELDS[kind], 600
    row = np.array([1.0 if v in known else np.nan for v in range(3)] + [0.7])
    block = block_of(field, np.tile(row, (n, 1)))
    beliefs, _ = draw_together(field, block, copies=COPIES)
    schema = field.schema
    for assignment, p in slow_of(field).joint(block.codes[:, 0].tolist(), [0.7]).items():
        wanted = np.array(slow_of(field).one_hot(assignment))[:, None]
        hits = (beliefs[:, : schema.n_target_columns] == wanted).all(axis=1)
        error = hits.mean(axis=0).std() / np.sqrt(n)
        assert abs(hits.mean() - p) < 4.5 * error + 0.002
