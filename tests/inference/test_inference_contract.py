"""These properties hold for every inference method."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain import fill
from sklearn.exceptions import ConvergenceWarning
from small_fields import small_field

import sparsefield
from sparsefield import MarkovField, Solver
from sparsefield.compute import Threads
from sparsefield.inference import INFERENCE, InferenceMethod, infer

SEEDS = st.integers(0, 2**32 - 1)
QUICK = {"gibbs": {"burn_in": 5, "sweeps": 30}}
"""Options that make slow methods fast."""

OTHER = {
    "auto": {"max_cells": 64},
    "mean-field": {"tolerance": 1e-4, "max_sweeps": 77},
    "bp": {"tolerance": 1e-5, "max_updates": 77, "damping": 0.25},
    "exact": {"max_cells": 4321},
    "gibbs": {"chains": 3, "burn_in": 7, "sweeps": 41, "max_r_hat": 9.0, "seed": 5},
}
"""Options that differ from the defaults."""


def method(name: str) -> InferenceMethod:
    return INFERENCE[name](**QUICK.get(name, {}))


def filled(problem, name: str, **options):
    block = problem.table.blocks[0]
    block = block._replace(beliefs=block.beliefs.copy())
    chosen = INFERENCE[name](**options) if options else method(name)
    return block, fill(problem.schema, [block], chosen, problem.graphs, problem.theta)


def some_rows(block, rows):
    """Return a block of the given rows, in their order."""
    codes = np.ascontiguousarray(block.codes[:, rows])
    cell_variable, missing_rows = np.nonzero(codes < 0)
    return block._replace(
        codes=codes,
        beliefs=np.ascontiguousarray(block.beliefs[:, rows]),
        weight=block.weight[rows],
        cell_offsets=np.searchsorted(cell_variable, np.arange(len(codes) + 1)),
        missing_rows=missing_rows,
    )


@pytest.mark.parametrize("name", INFERENCE)
@given(seed=SEEDS, missing=st.sampled_from([0.2, 0.6]), size=st.sampled_from([0.3, 2.0, 20.0, 200.0]))
def test_observed_values_stay_and_missing_cells_get_probabilities(make_problem, name, seed, missing, size) -> None:
    problem = make_problem(seed, missing=missing, size=size)
    before = problem.table.blocks[0]
    block, unconverged = filled(problem, name)
    offsets = problem.schema.target_offsets
    assert 0 <= unconverged <= block.n_rows
    assert np.array_equal(
        block.beliefs[problem.schema.n_target_columns :], before.beliefs[problem.schema.n_target_columns :]
    )
    for v in range(len(problem.schema.targets)):
        states = slice(offsets[v], offsets[v + 1])
        observed = block.codes[v] >= 0
        assert np.array_equal(block.beliefs[states][:, observed], before.beliefs[states][:, observed])
        cell = block.beliefs[states][:, ~observed]
        assert (cell >= 0).all()
        assert (cell.sum(axis=0) <= 1 + 1e-12).all()


@pytest.mark.parametrize("name", INFERENCE)
@settings(max_examples=3)
@given(seed=SEEDS)
def test_a_row_does_not_depend_on_other_rows(make_problem, name, seed) -> None:
    problem = make_problem(seed, missing=0.4, size=2.0)
    together, _ = filled(problem, name)
    graphs = problem.graphs
    whole = problem.table.blocks[0]
    for row in range(whole.n_rows):
        alone = some_rows(whole, [row])
        fill(problem.schema, [alone], method(name), graphs, problem.theta)
        assert np.array_equal(alone.beliefs[:, 0], together.beliefs[:, row])


@pytest.mark.parametrize("name", INFERENCE)
def test_threads_change_no_bit(name) -> None:
    small = small_field(3, structure="all", size=1.5, rows=700, missing=0.5)
    assert len(small.table.blocks) > 2
    found = [small.infer(method(name), threads) for threads in (1, 3)]
    assert np.array_equal(found[0].marginals[0], found[1].marginals[0])
    assert np.array_equal(found[0].conditionals[0], found[1].conditionals[0])
    assert found[0].unconverged == found[1].unconverged


@pytest.mark.parametrize("name", INFERENCE)
def test_without_missing_cells_nothing_changes(make_problem, name) -> None:
    problem = make_problem(5, missing=0.0, size=3.0)
    block, unconverged = filled(problem, name)
    assert unconverged == 0
    assert np.array_equal(block.beliefs, problem.table.blocks[0].beliefs)


@pytest.mark.parametrize("name", INFERENCE)
def test_an_empty_field_gives_the_softmax_of_its_biases(name) -> None:
    small = small_field(0, structure="none", missing=1.0)
    bare = replace(small.field, pairs=np.empty((0, 2), dtype=np.int64), weights=np.empty(0))
    with Threads(1) as engine:
        answers = infer(bare, small.sample, method(name), engine)
    assert answers.unconverged == 0
    for v in range(len(bare.schema.targets)):
        weights = np.exp(np.append(0.0, bare.biases[list(small.slow.columns(v))]))
        wanted = np.tile((weights / weights.sum())[:, None], small.table.n_rows)
        np.testing.assert_allclose(answers.marginals[0][small.states(v)], wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", INFERENCE)
@given(seed=SEEDS)
def test_conjunctions_with_one_missing_cell_get_the_exact_conditional(name, seed) -> None:
    small = small_field(seed, structure="all", triples=6, rows=8, missing=0.15)
    probabilities = small.infer(method(name)).marginals[0]
    for row in range(small.table.n_rows):
        codes = small.codes(row)
        if codes.count(-1) == 1:
            v = codes.index(-1)
            exact = small.slow.conditional(v, codes, small.observed(row))
            assert probabilities[small.states(v), row] == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("name", INFERENCE)
@given(seed=SEEDS, structure=st.sampled_from(["tree", "loop", "all"]))
def test_weights_of_fifty_give_finite_beliefs(name, seed, structure) -> None:
    small = small_field(seed, structure=structure, triples=4, rows=4)
    rng = np.random.default_rng(seed)

    def strong(weights: np.ndarray) -> np.ndarray:
        return rng.choice([-50.0, 50.0], len(weights))

    field = small.field
    field = replace(
        field,
        biases=strong(field.biases),
        weights=strong(field.weights),
        conjunction_weights=strong(field.conjunction_weights),
    )
    with Threads(1) as engine:
        answers = infer(field, small.sample, method(name), engine)
    for found in (answers.marginals[0], answers.conditionals[0]):
        assert np.isfinite(found).all()
        assert (found >= 0).all()
        assert (found <= 1 + 1e-9).all()


def table_with_missing_cells() -> np.ndarray:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, 300)
    X = np.column_stack([a, np.where(rng.random(300) < 0.7, a, 0), (a > 0) ^ (rng.random(300) < 0.2)]).astype(float)
    X[rng.random(X.shape) < 0.3] = np.nan
    return X


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", INFERENCE)
def test_a_loaded_field_has_the_options_of_its_method(name, tmp_path) -> None:
    assert OTHER[name].keys() == vars(INFERENCE[name]()).keys(), "every option is tried"
    X = table_with_missing_cells()
    chosen = INFERENCE[name](**OTHER[name])
    field = MarkovField(l1=1.0, n_jobs=1, inference=chosen, solver=Solver(kkt_tol=0.1, max_iter=200)).fit(X)
    field.save(tmp_path / "field.safetensors")
    back = sparsefield.load(tmp_path / "field.safetensors")
    assert back.inference == chosen
    assert type(back.inference) is INFERENCE[name]
    one, other = field.predict_proba(X), back.predict_proba(X)
    assert all(np.array_equal(one[column], other[column]) for column in one)


def test_rows_that_did_not_converge_are_reported_with_the_advice_of_the_method() -> None:
    X = table_with_missing_cells()
    field = MarkovField(l1=0.1, n_jobs=1).fit(X)
    for name, caps in (("mean-field", {"max_sweeps": 1, "tolerance": 0.0}), ("gibbs", {"max_r_hat": 1 + 1e-9})):
        field.inference = INFERENCE[name](**caps)
        with pytest.warns(ConvergenceWarning, match=field.inference.advice.split(":")[0]):
            field.predict_proba(X)


INVALID = {
    "auto": {"max_cells": 0},
    "mean-field": {"tolerance": -1.0, "max_sweeps": 0},
    "bp": {"damping": -0.1, "tolerance": -1.0, "max_updates": 0},
    "exact": {"max_cells": 0},
    "gibbs": {"chains": 1, "burn_in": -1, "sweeps": 3, "max_r_hat": 1.0, "seed": -1},
}


@pytest.mark.parametrize("name", INFERENCE)
def test_invalid_options_are_refused(name) -> None:
    for option, value in INVALID[name].items():
        with pytest.raises(ValueError, match=option):
            INFERENCE[name](**{option: value})


@given(seed=SEEDS, size=st.sampled_from([0.5, 3.0, 15.0]))
def test_no_sweep_of_mean_field_raises_the_free_energy(make_problem, seed, size) -> None:
    problem = make_problem(seed, missing=0.5, size=size)
    energies = [[problem.slow.free_energy(row.q) for row in problem.rows]]
    for sweeps in (1, 2, 5, 30):
        block, _ = filled(problem, "mean-field", tolerance=0.0, max_sweeps=sweeps)
        energies.append([problem.slow.free_energy(column) for column in block.beliefs.T.tolist()])
    assert (np.diff(energies, axis=0) <= 1e-9 * max(size, 1.0)).all()
