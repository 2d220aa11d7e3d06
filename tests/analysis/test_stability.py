"""Selection frequencies from halves of the rows, and fields along the regularization path."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from sparsefield import (
    CRFClassifier,
    MarkovField,
    Relational,
    RelationalField,
    Solver,
    load,
    regularization_path,
    stability,
)
from sparsefield.data import Dataset, as_source, compile_table
from sparsefield.errors import DataError
from sparsefield.estimators.compiled_rows import compile_densely
from sparsefield.solver.path import draw_halves, halved_by

pytestmark = pytest.mark.grid(keep=2)


def make_rows(n_rows: int = 400, seed: int = 0) -> pl.DataFrame:
    """a-b strongly, b-c where d is 1, a column of three states with a; d and e on their own; some gaps in e."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2, n_rows)
    b = np.where(rng.random(n_rows) < 0.9, a, 1 - a)
    d, e = rng.integers(0, 2, (2, n_rows))
    c = np.where(rng.random(n_rows) < np.where(d == 1, 0.8, 0.5), b, 1 - b)
    mood = np.where(rng.random(n_rows) < 0.7, np.where(a == 1, "bad", "fair"), rng.choice(["fair", "odd"], n_rows))
    frame = pl.DataFrame({"a": a, "b": b, "c": c, "mood": mood, "d": d, "e": e})
    return frame.with_columns(e=pl.when(pl.int_range(pl.len()) % 9 > 0).then("e"))


def named(frame: pl.DataFrame) -> list[tuple]:
    """Features of two columns and more, as sets of (column, state)."""
    found = []
    for row in frame.iter_rows(named=True):
        terms = [(row[f"variable_{k}"], str(row[f"state_{k}"])) for k in "abc" if row.get(f"variable_{k}")]
        if len(terms) > 1:
            found.append(frozenset(terms))
    return found


@pytest.mark.grid(keep=1)
@pytest.mark.parametrize("max_order", [2, 3])
@pytest.mark.parametrize("missing", [True, False])
def test_it_is_the_share_of_fits_to_halves_of_the_table(missing, max_order) -> None:
    rows = make_rows() if missing else make_rows().drop("e")
    options = {"solver__kkt_tol": 1e-5, "features__max_order": max_order}
    field = MarkovField(l1=2.0).set_params(l1=7.0, **options).fit(rows)
    found = stability(field, rows, resamples=8, random_state=5)
    states = {name: sorted(rows[name].drop_nulls().unique()) for name in rows.columns}
    times, rng = Counter(), np.random.default_rng(5)
    for _ in range(4):
        order = rng.permutation(rows.height)
        halves = order[:200], order[200:]
        assert not set(halves[0]) & set(halves[1])
        for half in halves:
            alone = (
                MarkovField(l1=2.0).set_params(l1=7.0 * np.sqrt(0.5), **options).fit(rows[np.sort(half)], states=states)
            )
            times.update(named(alone.features_))
    told = dict(zip(named(found), found["frequency"], strict=True))
    assert {name: share for name, share in told.items() if share} == {name: k / 8 for name, k in times.items()}
    assert any(len(name) == 3 for name in told) == (max_order == 3)
    own = set(named(field.features_))
    assert own <= set(told)
    assert {name for name, weight in zip(named(found), found["weight"], strict=True) if weight} == own


def test_the_field_keeps_it_and_files_do_too(tmp_path) -> None:
    rows = make_rows()
    field = MarkovField(l1=5.0).fit(rows)
    found = stability(field, rows, resamples=6)
    told = field.field_.record.stability.frequencies
    assert len(told) == len(field.field_.weights)
    assert (
        dict(zip(named(found), found["frequency"], strict=True)).items()
        >= {
            frozenset((name, str(state)) for _, name, state in (pair[1:4], pair[4:7])): share
            for pair, share in zip(
                (field.field_.layout.feature_name(*pair) for pair in field.field_.pairs.tolist()), told, strict=True
            )
        }.items()
    )
    field.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    assert again.field_.record.stability.frequencies == told
    assert again.field_.record.stability == field.field_.record.stability
    field.fit(rows)
    assert field.field_.record.stability is None


def test_sparse_tables_select_as_dense_ones_do() -> None:
    rng = np.random.default_rng(0)
    X = (rng.random((500, 30)) < 0.06).astype(np.int8)
    X[:, 1] |= X[:, 0]
    X[:, 5] |= X[:, 4] & (rng.random(500) < 0.8)
    dense, sparse = (
        stability(MarkovField(l1=4.0, solver=Solver(kkt_tol=1e-5)).fit(table), table, resamples=6, random_state=0)
        for table in (X, sp.csr_array(X))
    )
    columns = ["variable_a", "variable_b", "frequency"]
    assert dense.select(columns).sort(columns).equals(sparse.select(columns).sort(columns))
    assert dense["frequency"][0] == 1.0


def test_labels_of_a_classifier() -> None:
    rows = make_rows().drop("e")
    X, y = rows.drop("a"), rows["a"]
    model = CRFClassifier(l1=5.0).fit(X, y)
    found = stability(model, X, resamples=6, y=y)
    assert found["frequency"][0] == 1.0
    unnamed = CRFClassifier(l1=5.0).fit(X, y.to_numpy())
    again = stability(unnamed, X, resamples=6, y=y.to_numpy())
    assert again["frequency"].to_list() == found["frequency"].to_list()
    with pytest.raises(DataError, match="pass them as y="):
        stability(model, X)
    with pytest.raises(DataError, match=r"unknown column\(s\) 'd'"):
        stability(model, X, y=rows[["a", "d"]])


def make_families(n_families: int = 80, size: int = 3, *, one_hub: bool = False) -> Relational:
    """People whose mood follows that of their family; a hub that all families share ties everyone together."""
    rng = np.random.default_rng(1)
    family = np.repeat(np.arange(n_families), size)
    glad = rng.integers(0, 2, n_families)
    mood = np.where(rng.random(len(family)) < 0.9, glad[family], 1 - glad[family])
    dice = rng.integers(0, 2, len(family))
    homes = pl.DataFrame({"id": np.arange(n_families), "glad": glad, "town": np.zeros(n_families, dtype=int)})
    tables = {"home": homes, "person": pl.DataFrame({"home": family, "mood": mood, "dice": dice})}
    links = {"lives": ("person", "home", "home")}
    keys = {"home": "id"}
    if one_hub:
        tables["town"] = pl.DataFrame({"id": [0], "big": [1]})
        links, keys = {**links, "in": ("home", "town", "town")}, {**keys, "town": "id"}
    else:
        tables["home"] = homes.drop("town")
    return Relational(tables, keys=keys, links=links)


@pytest.mark.parametrize(("one_hub", "halved"), [(False, "components"), (True, "linked rows")])
def test_linked_tables_are_halved_by_what_hangs_together(one_hub, halved) -> None:
    data = make_families(one_hub=one_hub)
    field = RelationalField(l1=6.0, templates="base").fit(data)
    found = stability(field, data, resamples=10)
    assert field.field_.record.stability.halved == halved
    row = found.row(0, named=True)
    assert (row["template"], row["variable_a"], row["variable_b"], row["frequency"]) == (
        "across lives", "mood", "glad", 1.0,
    )  # fmt: skip
    assert (found.filter(pl.col("variable_a") == "dice")["frequency"] < 0.5).all()
    sample = compile_densely(field, data)
    assert halved_by(sample) == halved
    one, two = draw_halves(sample, np.random.default_rng(0))
    assert not set(one) & set(two)
    assert abs(len(one) - len(two)) <= 8
    if halved == "components":
        assert not set(sample.components[one]) & set(sample.components[two])
        assert len(one) + len(two) == sample.n_rows


def test_halves_of_an_odd_table_leave_one_row_out() -> None:
    rows = make_rows(101)
    field = MarkovField(l1=3.0).fit(rows)
    sample = Dataset.single(compile_table(as_source(rows), field.field_.schema))
    one, two = draw_halves(sample, np.random.default_rng(0))
    assert len(one) == len(two) == 50
    assert len({*one, *two}) == 100


def test_refusals_say_what_is_wrong(tmp_path) -> None:
    rows = make_rows()
    field = MarkovField(l1=5.0).fit(rows)
    for wrong in (3, 0, 2.5):
        with pytest.raises(ValueError, match="even number"):
            stability(field, rows, wrong)
    with pytest.raises(DataError, match="at least 4"):
        stability(field, rows[:3])
    with pytest.raises(DataError, match="latent variables"):
        stability(MarkovField(l1=2.0, latent={"topic": 2}, random_state=0).fit(rows), rows)
    with pytest.raises(DataError, match="l1 = 0"):
        stability(MarkovField(l1=0.0).fit(rows.drop("mood")), rows.drop("mood"))
    with pytest.raises(DataError, match="given, not learned"):
        stability(MarkovField.from_field(field.field_), rows)
    data = make_families()
    with pytest.raises(DataError, match="sample_weight"):
        stability(RelationalField(l1=6.0).fit(data), data, sample_weight=np.ones(3))
    assert field.field_.record.stability is None


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
