"""The whole path of l1, beside the part of it that a fit walks."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from sparsefield import CRFClassifier, MarkovField, Relational, RelationalField, regularization_path
from sparsefield.errors import DataError


def make_chain(n_rows: int = 400, n_columns: int = 6, seed: int = 0) -> pl.DataFrame:
    """Each column mostly copies the one before."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, 2, n_rows)]
    for _ in range(n_columns - 1):
        columns.append(np.where(rng.random(n_rows) < 0.75, columns[-1], rng.integers(0, 2, n_rows)))
    return pl.DataFrame({f"c{k}": column for k, column in enumerate(columns)})


def make_school(seed: int = 0) -> Relational:
    rng = np.random.default_rng(seed)
    mood = rng.integers(0, 2, 60)
    who = rng.integers(0, 60, 150)
    fun = np.where(rng.random(150) < 0.85, mood[who], 1 - mood[who])
    return Relational(
        {"pupil": pl.DataFrame({"id": range(60), "mood": mood}), "visit": pl.DataFrame({"who": who, "fun": fun})},
        keys={"pupil": "id"},
        links={"who": ("visit", "who", "pupil")},
    )


@pytest.mark.parametrize("selection", [pytest.param("heldout", marks=pytest.mark.slow), "ebic"])
def test_it_goes_further_than_a_fit_and_marks_what_a_fit_takes(selection) -> None:
    rows = make_chain(120)
    field = MarkovField(l1="auto", selection=selection, random_state=3)
    path = regularization_path(field, rows)
    assert isinstance(path, pl.DataFrame)
    assert path.columns == ["l1", "features", "score", "error", "selected", "criterion"]
    assert path.height > 10
    l1 = path["l1"].to_numpy()
    assert (np.diff(l1) < 0).all()
    assert l1[1:] / l1[:-1] == pytest.approx(0.75, abs=1e-3)
    assert path["features"][0] == 0
    assert path["features"][-1] >= 5
    assert path["selected"].sum() == 1
    assert path["error"].is_nan().all() == (selection == "ebic")
    assert not hasattr(field, "field_")
    field.fit(rows)
    assert path.filter("selected")["l1"].item() == field.l1_
    tried = field.path_
    assert tried["selected"].sum() == 1
    if selection == "ebic":
        assert path[: tried.height].drop("error").equals(tried.drop("error"))
    else:  # a fit skips values, of the same path
        steps = np.log(tried["l1"].to_numpy() / l1[0]) / np.log(l1[1] / l1[0])
        assert steps == pytest.approx(np.round(steps), abs=1e-6)
        assert (np.diff(steps) > 0.5).all()


@pytest.mark.slow
def test_options_of_fit_are_passed_on() -> None:
    rows = make_chain()
    whole, given = (
        regularization_path(MarkovField(l1=2.0), rows, **options) for options in ({}, {"observed": ["c0", "c1"]})
    )
    assert given["features"][-1] < whole["features"][-1]
    twice = regularization_path(MarkovField(l1=2.0, selection="ebic"), rows, sample_weight=np.full(400, 2.0))
    assert twice["l1"][0] == pytest.approx(
        2 * regularization_path(MarkovField(l1=2.0, selection="ebic"), rows)["l1"][0]
    )
    with pytest.raises(DataError, match="nothing to predict"):
        regularization_path(MarkovField(l1=2.0), rows, observed=rows.columns)


@pytest.mark.slow
def test_all_kinds_of_estimators_and_tables() -> None:
    rows = make_chain(250)
    linked = RelationalField(l1="auto").fit(make_school())
    path = regularization_path(RelationalField(l1=2.0), make_school())
    assert path.filter("selected")["l1"].item() == linked.l1_
    path = regularization_path(CRFClassifier(l1=2.0), rows.drop("c0"), rows["c0"])
    assert path.filter("selected")["l1"].item() == CRFClassifier(l1="auto").fit(rows.drop("c0"), rows["c0"]).l1_
    matrix = sp.csr_array((np.random.default_rng(0).random((300, 40)) < 0.05).astype(np.int8))
    assert len(regularization_path(MarkovField(l1=2.0, selection="ebic"), matrix)) > 8
    path = regularization_path(MarkovField(l1=2.0, latent={"topic": 2}, random_state=0), rows)
    assert path["l1"].to_list() == regularization_path(MarkovField(l1=2.0, random_state=0), rows)["l1"].to_list()
    assert type(regularization_path(MarkovField(l1=2.0), rows.to_pandas())).__module__.startswith("pandas")
