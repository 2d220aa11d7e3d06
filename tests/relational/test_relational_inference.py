"""Over links too, exact beliefs and completions are those of enumeration, and belief propagation is exact on trees."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relational_oracle import by_column, ends_counted, problem_of, rows_of
from villages import TEMPLATES, village

from sparsefield import BeliefPropagation, ExactInference, Gibbs
from sparsefield.compute import Threads
from sparsefield.data import OffsetLink, Relational, Template
from sparsefield.inference import infer
from sparsefield.inference.automatic import complete

SEEDS = st.integers(0, 2**32 - 1)


def hidden_cells(problem) -> list:
    return [cell for cell in problem.slow.cells() if problem.slow.is_missing(cell)]


def beliefs(problem, method) -> dict:
    with Threads(1) as engine:
        answers = infer(problem.field, problem.sample, method, engine)
    found = {}
    for name, schema, part in zip(problem.layout.tables, problem.layout.schemas, answers.marginals, strict=True):
        for variable, state, values in by_column(schema, part):
            found.update({(name, row, variable, state): p for row, p in enumerate(values.tolist())})
    return found


def worst(problem, method) -> float:
    """Largest distance from enumeration."""
    cells = hidden_cells(problem)
    found, exact, apart = beliefs(problem, method), problem.slow.marginals(cells), [0.0]
    for cell in cells:
        for state in problem.slow.states(cell[0], cell[2]):
            apart.append(abs(found[(*cell, state)] - exact[cell][state]))
    return max(apart)


def small_village(seed: int, templates):
    """Linked tables with few enough gaps to enumerate, but some."""
    for attempt in range(1000):
        data, rows = village(seed + attempt, persons=3, letters=3, missing=0.35, templates=templates)
        cells = [row[column] for row in rows["person"] for column in ("mood", "smokes")]
        cells += [row["kind"] for row in rows["letter"]]
        if 3 <= cells.count(None) <= 5:
            return problem_of(data, rows, seed, size=0.9, counted=ends_counted("any", data, rows, seed))
    raise AssertionError("chance has it in for us")


@given(seed=st.integers(0, 2**20), templates=st.lists(st.sampled_from(TEMPLATES), min_size=1, unique=True))
@settings(max_examples=5)
def test_beliefs_and_completions_are_those_of_enumeration(seed, templates) -> None:
    problem = small_village(seed, templates)
    assert worst(problem, ExactInference()) < 1e-10
    cells = hidden_cells(problem)
    joint = problem.slow.joint(cells)
    with Threads(1) as engine:
        for cap in (2**20, 1):
            found = complete(problem.field, problem.sample, engine, max_cells=cap)
            way = []
            for table, row, variable in cells:
                t = problem.layout.tables.index(table)
                schema = problem.layout.schemas[t]
                learned = schema.variables[schema.index_of_name[variable]]
                code = int(found.codes[t][schema.index_of_name[variable], row])
                way.append(learned.states[learned.position_of_code[code]])
            assert joint[tuple(way)] == pytest.approx(max(joint.values()), rel=1e-9)


@given(seed=SEEDS)
@settings(max_examples=5)
def test_chains_of_rows_are_exact_by_belief_propagation(seed) -> None:
    """One column a row, each tied to the next: a tree over many rows."""
    rng = np.random.default_rng(seed)
    cells = [None if rng.random() < 0.6 else int(rng.integers(3)) for _ in range(12)]
    cells[:3] = [0, 1, 2]
    frame = pl.DataFrame({"place": range(12), "kind": cells}, schema_overrides={"kind": pl.Int64})
    links = {"next": OffsetLink("word", along="place")}
    data = Relational(
        {"word": frame}, links=links, templates=[Template("within", ("word",)), Template("across", ("next",))]
    )
    problem = problem_of(data, rows_of(data), seed, share=1.0, size=1.5)
    if len(hidden_cells(problem)) <= 8:
        assert worst(problem, BeliefPropagation()) < 1e-8
        assert worst(problem, ExactInference()) < 1e-10
    one, other = beliefs(problem, BeliefPropagation()), beliefs(problem, ExactInference())
    assert max(abs(one[spot] - other[spot]) for spot in one) < 1e-8


def test_gibbs_over_links_is_near_enumeration() -> None:
    """Four chains of 3,000 sweeps: a standard error below 0.01, and five of them."""
    problem = small_village(3, TEMPLATES)
    assert worst(problem, Gibbs(sweeps=3000)) < 0.05
