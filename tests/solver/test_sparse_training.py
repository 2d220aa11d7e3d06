"""A fit on a sparse table ends where one on the dense table ends, certified; and what it learned can be kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from model_files import as_bytes, rewrite
from sparse_tables import switches

from sparsefield import FixedGraph, MarkovField, config, load
from sparsefield.errors import ModelFileError

L1 = 1.5


def fit(X, *, sparse: bool = True, observed=None, sample_weight=None, **options) -> MarkovField:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "SPARSE_DENSITY", 1.0 if sparse else 0.0)
        patch.setattr(config, "CELLS_OF_SPARSE_BLOCK", 60)
        field = MarkovField(l1=2.0).set_params(**{"n_jobs": 1, "l1": L1, **options})
        return field.fit(X, observed=observed, sample_weight=sample_weight)


def weights(field: MarkovField) -> dict[tuple, float]:
    return dict(zip(map(tuple, field.field_.pairs.tolist()), field.field_.weights.tolist(), strict=True))


def assert_same_optimum(one: MarkovField, other: MarkovField, tiny: float = 0.02) -> None:
    assert one.converged_
    assert other.converged_
    for field in (one, other):
        assert field.kkt_violation_ <= field.get_params()["solver__kkt_tol"] * field.l1
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-5)
    mine, theirs = weights(one), weights(other)
    for pair in set(mine) | set(theirs):
        assert mine.get(pair, 0.0) == pytest.approx(theirs.get(pair, 0.0), abs=tiny)


@pytest.mark.parametrize(
    "options",
    [
        {"induction": "cfi", "induction__threshold": 0.0},
        {"induction": "grafting", "features__penalize_biases": True, "l2": 0.0},
        {"induction": "full", "l2": 5.0, "l1": 0.5},
        {"induction": FixedGraph(edges=[(k, k + 1) for k in range(24)] + [(3, 9)])},
        {"solver__stages": 2, "induction__batch_size": 3, "induction__steps_per_batch": "converge"},
    ],
    ids=str,
)
def test_both_paths_end_at_the_same_certified_optimum(options) -> None:
    X = switches(0)
    one, other = fit(X, **options), fit(X, sparse=False, **options)
    assert len(one.field_.weights) > 10
    assert_same_optimum(one, other)


def test_observed_columns_and_weights() -> None:
    X, weight = switches(1), np.random.default_rng(0).uniform(0.0, 3.0, 300)
    given = {"observed": ["x3", "x10"], "sample_weight": weight}
    one, other = fit(X, **given), fit(X, sparse=False, **given)
    assert_same_optimum(one, other)
    assert one.states_ == other.states_
    assert "x3" not in one.states_


def test_the_objective_is_that_of_the_field() -> None:
    """Loss by the dense answers, and the penalty of its weights."""
    X = switches(2)
    field = fit(X, l2=0.5)
    w = field.field_.weights
    penalty = L1 * np.abs(w).sum() + 0.25 * np.square(w).sum()
    assert -field.score(X) * X.shape[0] + penalty == pytest.approx(field.objective_, rel=1e-9)


def with_constants(X: sp.csr_matrix) -> sp.csr_matrix:
    on = X.toarray()
    on[:, [0, 7, 24]] = 0
    on[:, 4] = 1
    return sp.csr_matrix(on)


@pytest.mark.parametrize("observed", [None, ["x4", "x7", "x9"]])
def test_empty_and_full_columns_carry_nothing(observed) -> None:
    X = with_constants(switches(6))
    one, other = fit(X, observed=observed), fit(X, sparse=False, observed=observed)
    assert_same_optimum(one, other)
    assert one.states_.get("x0") == [0]
    assert one.field_.schema.n_columns == 21
    without = fit(sp.csr_matrix(np.delete(X.toarray(), [0, 4, 7, 24], axis=1)), observed=observed and ["x6"])
    assert without.objective_ == pytest.approx(one.objective_, rel=1e-9)


def test_columns_that_are_all_empty_leave_nothing_to_learn() -> None:
    field = fit(sp.csr_matrix((10, 4), dtype=np.int8))
    assert field.converged_
    assert field.objective_ == 0.0
    assert len(field.features_) == 0
    assert field.predict_proba(sp.csr_matrix((3, 4), dtype=np.int8))["x2"].tolist() == [[1.0]] * 3


# -- what was learned is kept --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "field"
    fit(with_constants(switches(8)), observed=["x4", "x9"]).save(path)
    return path


def test_a_field_comes_back_whole(tmp_path) -> None:
    X = with_constants(switches(8))
    field = fit(X, observed=["x4", "x9"])
    field.save(tmp_path / "one")
    again = load(tmp_path / "one")
    assert again.field_.schema.is_binary
    assert again.field_.layout == field.field_.layout
    assert again.states_ == field.states_
    assert again.features_.equals(field.features_)
    assert again.score(X) == field.score(X)
    mine, theirs = field.predict_proba(X), again.predict_proba(X)
    assert list(mine) == list(theirs)
    assert all(np.array_equal(mine[name], theirs[name]) for name in mine)
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "one").read_bytes()


def test_a_field_from_a_sparse_table_answers_for_dense_tables_with_missing_cells() -> None:
    X = switches(9)
    field = fit(X)
    incomplete = X.toarray().astype(float)
    incomplete[np.random.default_rng(0).random(incomplete.shape) < 0.1] = np.nan
    filled = field.transform(incomplete)
    assert not np.isnan(filled).any()
    assert np.array_equal(filled[~np.isnan(incomplete)], incomplete[~np.isnan(incomplete)])
    np.testing.assert_allclose(field.score(X), field.score(X.toarray()))
    assert field.sample(5, burn_in=3).shape == (5, 25)


def names(change: Callable[[list], Any]) -> dict:
    """Damage to the names: those of targets, of observed columns, and all in their order."""

    def damage(held: dict) -> dict:
        parts = json.loads(held["names.0"].tobytes())
        change(parts)
        return {"names.0": as_bytes(json.dumps(parts))}

    return {"arrays": damage}


DAMAGE = {
    "shares cut": {"arrays": lambda held: {"shares.0": held["shares.0"][:-1]}},
    "a share beyond 1": {"arrays": lambda held: {"shares.0": np.append(1.5, held["shares.0"][1:])}},
    "seen neither on nor off": {"arrays": lambda held: {"has_zero.0": np.zeros_like(held["has_zero.0"])}},
    "a target twice": names(lambda parts: parts[0].__setitem__(0, parts[0][1])),
    "names in another order": names(lambda parts: parts[2].reverse()),
    "four parts": names(lambda parts: parts.append([])),
    "no names": {"arrays": lambda held: {"names.0": None}},
    "neither binary columns nor variables": {"document": lambda document: document["tables"][0].pop("binary")},
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_refused_in_one_line(saved, tmp_path, damage) -> None:
    rewrite(saved, tmp_path / "odd", **DAMAGE[damage])
    with pytest.raises(ModelFileError) as caught:
        load(tmp_path / "odd")
    assert "damaged" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "odd") in str(caught.value)
