"""A problem of missing cells that is renewed is the one that would be compiled."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from sparsefield import MarkovField, Relational, RelationalField
from sparsefield.estimators.compiled_rows import compile_rows
from sparsefield.inference.missing_problem import MissingProblem, compile_problem


def linked() -> tuple[RelationalField, Relational]:
    rng = np.random.default_rng(0)
    smokes = [None if k % 4 == 0 else int(k % 8 < 4) for k in range(30)]
    people = pl.DataFrame({"id": range(30), "smokes": smokes, "age": np.round(rng.normal(50, 9, 30), 1)})
    friends = pl.DataFrame({"who": range(29), "whom": range(1, 30), "close": [None, 0, 1] * 9 + [0, None]})
    links = {"who": ("friend", "who", "person"), "whom": ("friend", "whom", "person")}
    return RelationalField(l1=0.5), Relational(
        {"person": people, "friend": friends}, keys={"person": "id"}, links=links
    )


def single() -> tuple[MarkovField, np.ndarray]:
    rng = np.random.default_rng(1)
    table = np.repeat(rng.integers(0, 3, (40, 2)), 2, axis=1).astype(float)
    return MarkovField(l1=0.5), np.where(rng.random(table.shape) < 0.2, np.nan, table)


@pytest.mark.parametrize("make", [linked, single])
def test_a_renewed_problem_is_the_compiled_one(make) -> None:
    estimator, data = make()
    field = estimator.fit(data).field_
    sample = compile_rows(estimator, data)
    members = list(sample.blocks())
    compiled = compile_problem(sample, field.graphs, members)
    empty = compile_problem(
        sample, [graph._replace(arc_offsets=0 * graph.arc_offsets) for graph in field.graphs], members
    )
    empty.problem.beliefs[np.concatenate([part.position for part in empty.missing_columns])] = 0.25
    empty.write_beliefs()
    changed = compile_problem(sample, field.graphs, members)
    renewed = compiled.renewed(sample.layout, field.graphs, [block for _, block in members])
    assert len(changed.problem.cell_variable) > 0
    for name in MissingProblem._fields:
        if name != "coding":
            np.testing.assert_array_equal(getattr(renewed.problem, name), getattr(changed.problem, name), name)
