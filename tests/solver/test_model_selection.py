"""Choosing l1: the path, held-out cells, EBIC, and refits without L1."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import random_tables
import scipy.sparse as sp
from plain import learn_plain_schema

from sparsefield import CRFClassifier, MarkovField, Relational, RelationalField
from sparsefield.app.datasets import make_markov_field
from sparsefield.compute import Threads
from sparsefield.data import Dataset, as_source, compile_table, hold_out_cells, row_folds
from sparsefield.induction import RULES
from sparsefield.inference import MeanField
from sparsefield.objectives import EM, OBJECTIVES
from sparsefield.solver import Path, TrainingOptions, folds
from sparsefield.solver.folds import ebic
from sparsefield.solver.selection import prune_by_wald


def chain(rows: int, seed: int = 0, columns: int = 8, flip: float = 0.25) -> np.ndarray:
    return random_tables.chain(rows, columns, flip=flip, seed=seed)


def sample_of(X: Any, observed: tuple[str, ...] = (), weight: np.ndarray | None = None) -> Dataset:
    source = as_source(X)
    return Dataset.single(compile_table(source, learn_plain_schema(source, observed=observed), sample_weight=weight))


def path_of(
    sample: Dataset, engine: Threads, rule: str = "cfi", missing: EM | MeanField | None = None, **options: Any
) -> Path:
    return Path(
        sample, rule=RULES[rule](), objective=OBJECTIVES["pl"](), missing=missing or EM(),
        options=TrainingOptions(**options), engine=engine,
    )  # fmt: skip


# -- samples of large tables -------------------------------------------------------------------------------------------


def test_l1_of_a_large_table_is_chosen_in_a_sample_and_scaled_to_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folds, "SEARCHED_CELLS", 1)
    monkeypatch.setattr(folds, "SEARCHED_ROWS", 400)
    weight = (np.arange(6000) % 2).astype(float)
    with Threads(1) as engine:
        plan = folds.make_folds(sample_of(chain(6000), weight=weight), engine, folds.SelectionOptions())
        trained = [sum(fold()[0].total_weights) for fold in plan.folds]
    assert max(trained) < 400  # of rows with weight alone
    assert plan.scale == pytest.approx(np.sqrt(3000 / np.mean(trained)))


def test_a_sample_of_rows_selects_about_the_same_l1(monkeypatch: pytest.MonkeyPatch) -> None:
    X = chain(8000, flip=0.4)
    every = MarkovField(n_jobs=1, random_state=0).fit(X)
    monkeypatch.setattr(folds, "SEARCHED_CELLS", 1)
    monkeypatch.setattr(folds, "SEARCHED_ROWS", 2000)
    some = MarkovField(n_jobs=1, random_state=0).fit(X)
    assert 1 / 4 <= some.l1_ / every.l1_ <= 4
    assert some.score(X) == pytest.approx(every.score(X), abs=1e-3)


# -- the path ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rule", "penalize_biases"), [("cfi", False), ("full", True)])
def test_the_path_begins_at_the_smallest_l1_that_selects_nothing(rule: str, penalize_biases: bool) -> None:
    sample = sample_of(chain(300))
    with Threads(1) as engine:
        path = path_of(sample, engine, rule, l1=1e12, penalize_biases=penalize_biases)
        path.run()
        first = path.l1_max()
        at, below = (
            path_of(sample, engine, rule, l1=l1, penalize_biases=penalize_biases, kkt_tol=1e-4).run().field
            for l1 in (1.001 * first, 0.98 * first)
        )
    assert len(at.weights) == 0
    assert len(below.weights) > 0


def test_going_down_ends_where_a_fresh_fit_does() -> None:
    sample = sample_of(chain(400))
    options: dict[str, Any] = {"kkt_tol": 1e-3}
    with Threads(1) as engine:
        path = path_of(sample, engine, l1=1e12, **options)
        path.run()
        for l1 in (100.0, 60.0, 40.0, 25.0, 16.0, 10.0):
            walked = path.step_to(l1)
            fresh = path_of(sample, engine, l1=l1, **options).run()
            assert walked.objective == pytest.approx(fresh.objective, rel=2e-3)


def test_where_nothing_depends_on_anything_nothing_is_selected() -> None:
    X = pd.DataFrame({"a": ["x"] * 300, "b": [0, 1, 1] * 100})
    field = MarkovField(l1="auto").fit(X)
    assert len(field.field_.weights) == 0
    assert len(field.path_) == 1


# -- criteria ----------------------------------------------------------------------------------------------------------


def test_ebic_is_that_of_one_regression_per_column_added_up() -> None:
    X = chain(400)
    with Threads(1) as engine:
        path = path_of(sample_of(X), engine, l1=20.0)
        field = path.run().field
        found = ebic(path.state, 0.25)
    weights = np.zeros((8, 8))
    weights[field.pairs[:, 0], field.pairs[:, 1]] = field.weights
    weights += weights.T
    expected = 0.0
    for k in range(8):
        logit = field.biases[k] + X @ weights[k]
        size = np.count_nonzero(weights[k])
        expected += 2.0 * (np.logaddexp(0.0, logit) - X[:, k] * logit).sum()
        expected += size * np.log(400) + 2 * 0.25 * size * np.log(7)
    assert len(field.weights) > 3
    assert found == pytest.approx(expected)


@pytest.mark.slow
def test_the_choice_of_held_out_rows_predicts_better_than_its_neighbors() -> None:
    made = make_markov_field(
        30, 2400, neighbors=3, weights=(-2, 2), biases="balanced", burn_in=200, chains=2400, seed=1
    )
    train, test = made.samples[:1200], made.samples[1200:]
    field = MarkovField(l1="auto", random_state=0, n_jobs=1).fit(train)
    path = field.field_.record.path
    assert [row.l1 for row in path if row.selected] == [pytest.approx(field.l1_)]
    scores = {l1: MarkovField(l1=l1, n_jobs=1).fit(train).score(test) for l1 in (0.1 * field.l1_, 8 * field.l1_)}
    assert field.score(test) > max(scores.values())
    assert field.converged_


@pytest.mark.slow
def test_ebic_finds_the_network_and_a_refit_removes_the_shrinkage() -> None:
    made = make_markov_field(
        30, 4000, neighbors=3, weights=(-2, 2), biases="balanced", burn_in=200, chains=4000, seed=2
    )
    train, test = made.samples[:2000], made.samples[2000:]
    plain, refit = (
        MarkovField(l1="auto", selection="ebic", refit=again, n_jobs=1).fit(train) for again in (False, True)
    )
    truth = {frozenset(edge) for edge in made.edges}
    names = [variable.name for variable in refit.field_.schema.targets]
    strong = {frozenset(names[k] for k in pair) for pair in refit.field_.pairs.tolist()}
    assert len(strong & truth) / len(strong) > 0.9
    known = made.field.field_
    large = known.pairs[np.abs(known.weights) > 0.8].tolist()  # weak ones cannot be told from noise
    assert sum(frozenset(names[k] for k in pair) in strong for pair in large) / len(large) > 0.9
    assert len(refit.field_.weights) <= len(plain.field_.weights)
    assert refit.score(test) > plain.score(test) + 0.05
    assert refit.l1_ == plain.l1_
    assert np.abs(refit.field_.weights).mean() > np.abs(plain.field_.weights).mean()


def test_weights_that_say_nothing_go_and_those_that_do_stay() -> None:
    X = chain(2000, columns=6)
    with Threads(1) as engine:
        path = path_of(sample_of(X), engine, l1=1.0)
        before = path.run().field
        after = prune_by_wald(path, 0.01).field
    neighbors = {(k, k + 1) for k in range(5)}
    assert len(before.weights) > len(neighbors)
    assert {tuple(pair) for pair in after.pairs.tolist()} == neighbors


def test_wald_statistics_of_many_states_are_chi_squared_too() -> None:
    found = []
    with Threads(1) as engine:
        for seed in range(12):
            rng = np.random.default_rng(seed)
            X = rng.choice(4, (1500, 3), p=[0.4, 0.3, 0.2, 0.1])
            path = path_of(sample_of(X), engine, "full", l1=0.01, l2=0.0)
            path.run()
            working_set = path.state.working_set
            path.refit_without_l1(np.ones(len(working_set), dtype=bool), 1e-6)
            weights = working_set.theta[working_set.n_biases :]
            found.append(path.state.problem.wald_statistics(weights))
    found = np.concatenate(found)
    assert len(found) == 12 * 27
    assert 0.8 < found.mean() < 1.2
    assert 0.02 < (found > 3.84).mean() < 0.09


def test_rows_without_weight_are_not_held_out() -> None:
    X = chain(900, 7)
    weight = np.where(np.arange(900) < 300, 1.0, 0.0)
    with_zeros = MarkovField(l1="auto", random_state=0).fit(X, sample_weight=weight)
    alone = MarkovField(l1="auto", random_state=0).fit(X[:300])
    assert 0.5 < with_zeros.l1_ / alone.l1_ < 2.0
    (rows,) = row_folds(sample_of(X, weight=weight), 0.2, 1, np.random.default_rng(0))
    assert len(rows) == 60
    assert rows.max() < 300


# -- every kind of data ------------------------------------------------------------------------------------------------


def test_a_sparse_table_is_chosen_for_too() -> None:
    rng = np.random.default_rng(0)
    on = rng.random((6000, 60)) < 0.03
    on[:, 1] = np.where(rng.random(6000) < 0.8, on[:, 0], on[:, 1])
    for selection in ("heldout", "ebic"):
        field = MarkovField(l1="auto", selection=selection, refit=True, random_state=0).fit(sp.csr_matrix(on * 1.0))
        strongest = np.argmax(np.abs(field.field_.weights))
        assert field.field_.pairs[strongest].tolist() == [0, 1]
        assert len(field.field_.weights) < 60


@pytest.mark.slow
@pytest.mark.parametrize("selection", ["heldout", "ebic"])
def test_small_tables_missing_cells_numbers_and_labels_are_chosen_for(selection: str) -> None:
    rng = np.random.default_rng(3)
    X = pd.DataFrame(chain(120, 4)).astype(float).rename(columns=str)
    X = X.mask(rng.random(X.shape) < 0.1)
    field = MarkovField(l1="auto", selection=selection, random_state=1).fit(X)
    assert field.l1_ > 0
    assert field.transform(X).notna().all().all()
    numbers = rng.normal(size=(300, 4))
    labels = np.column_stack([numbers[:, 0] > 0, numbers[:, 1] + numbers[:, 0] > 0])
    model = CRFClassifier(l1="auto", selection=selection, refit=True, random_state=0).fit(numbers, labels)
    assert model.score(numbers, labels) > 0.8


@pytest.mark.parametrize("rows", [2, 6])
def test_tables_with_nothing_to_hold_back_are_chosen_for_by_ebic(rows: int) -> None:
    X = chain(rows, columns=3)
    with pytest.warns(UserWarning, match=r"too few cells to hold some out.*EBIC.*selection='ebic'") as told:
        field = MarkovField(l1="auto").fit(X)
    assert len(told) == 1
    assert np.isfinite(field.field_.theta).all()
    assert field.l1_ > 0
    assert field.field_.record.criterion == "ebic"
    assert set(field.path_["criterion"]) == {"ebic"}
    asked = MarkovField(l1="auto", selection="ebic").fit(X)
    assert asked.l1_ == field.l1_
    np.testing.assert_array_equal(asked.field_.theta, field.field_.theta)


@pytest.mark.slow
def test_linked_tables_hold_back_cells() -> None:
    rng = np.random.default_rng(0)
    smokes = rng.integers(0, 2, 200)
    who = rng.integers(0, 200, 500)
    alike = [rng.choice(np.flatnonzero(smokes == smokes[k])) for k in who]
    data = Relational(
        {
            "person": pd.DataFrame({"id": range(200), "smokes": smokes, "coin": rng.integers(0, 2, 200)}),
            "friend": pd.DataFrame({"who": who, "whom": alike}),
        },
        keys={"person": "id"},
        links={"who": ("friend", "who", "person"), "whom": ("friend", "whom", "person")},
    )
    for selection in ("heldout", "ebic"):
        field = RelationalField(l1="auto", selection=selection, random_state=0).fit(data)
        strongest = field.features_[field.features_["variable_b"].notna()].iloc[0]
        assert (strongest["variable_a"], strongest["variable_b"]) == ("smokes", "smokes")
        assert field.field_.record.path[0].features == 0


def test_the_same_bits_for_any_number_of_threads_and_the_same_seed() -> None:
    X = chain(500)
    first, second = (MarkovField(l1="auto", refit=True, n_jobs=jobs, random_state=5).fit(X) for jobs in (1, 2))
    assert first.l1_ == second.l1_
    np.testing.assert_array_equal(first.field_.theta, second.field_.theta)


def test_what_is_chosen_is_saved(tmp_path) -> None:
    from sparsefield import load

    field = MarkovField(l1="auto", selection="ebic", refit=True).fit(chain(300))
    field.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    assert again.l1 == "auto"
    assert again.l1_ == field.l1_
    assert list(again.path_["l1"]) == list(field.path_["l1"])
    assert again.field_.record.criterion == "ebic"
    np.testing.assert_array_equal(again.field_.theta, field.field_.theta)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"l1": "auto", "selection": "ebic", "objective": "cd"}, "objective='pl'"),
        ({"l1": "best"}, "l1"),
        ({"l1": "auto", "selection": "aic"}, "selection"),
        ({"l1": -1.0}, "l1"),
    ],
)
def test_choices_that_make_no_sense_are_refused(options: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        MarkovField(l1=2.0).set_params(**options).fit(chain(50))


# -- parts of samples --------------------------------------------------------------------------------------------------


def test_hidden_cells_become_missing_and_nothing_else_changes() -> None:
    sample = sample_of(chain(60))
    ((made, hidden),) = hold_out_cells(sample, 0.3, 1, np.random.default_rng(0))
    before, after = sample.tables[0].codes(), made.tables[0].codes()
    assert 0.2 < hidden[0].mean() < 0.4
    np.testing.assert_array_equal(after, np.where(hidden[0], -1, before))
    assert made.tables[0].blocks[0].beliefs[0][hidden[0][0]] == pytest.approx(before[0].mean())


def test_folds_are_disjoint_and_cover_all_rows_and_cells() -> None:
    sample = sample_of(chain(300))
    rows = row_folds(sample, 1 / 3, 3, np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(np.concatenate(rows)), np.arange(300))
    hidden = [cells[0] for _, cells in hold_out_cells(sample, 1 / 3, 3, np.random.default_rng(0))]
    np.testing.assert_array_equal(np.sum(hidden, axis=0), np.ones_like(hidden[0], dtype=int))
