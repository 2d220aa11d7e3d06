"""Comparisons of groups find planted differences, and nothing else; threads change nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from sparsefield import FixedGraph, MarkovField, compare, load
from sparsefield.analysis.comparison import read_compared_groups
from sparsefield.errors import DataError


def survey(n_rows: int = 300, *, strength: float = 0.8, seed: int = 0, groups: int = 2) -> pl.DataFrame:
    """A nominal, an ordinal and a binary column; ordinal and binary go together in the last group only."""
    rng = np.random.default_rng(seed)
    names = np.array([f"g{k}" for k in range(groups)])[np.arange(n_rows) % groups]
    color = rng.choice(["blue", "green", "red"], n_rows)
    mood = rng.integers(1, 5, n_rows)
    tired = np.where((names == f"g{groups - 1}") & (rng.random(n_rows) < strength), mood > 2, rng.random(n_rows) < 0.5)
    smiles = np.where(rng.random(n_rows) < 0.6, color == "red", rng.random(n_rows) < 0.5)
    return pl.DataFrame(
        {"country": names, "color": color, "mood": mood, "tired": tired.astype(int), "smiles": smiles.astype(int)}
    )


@pytest.fixture(scope="module")
def found():
    return compare(survey(), "country", l1=4.0, permutations=59, n_jobs=1)


def test_a_planted_difference_is_found_and_the_shared_edge_is_not(found) -> None:
    assert found.groups == ("g0", "g1")
    assert found.sizes == (150, 150)
    first = found.edges.row(0, named=True)
    assert {first["variable_a"], first["variable_b"]} == {"mood", "tired"}
    assert (first["p"], found.tests.row(1, named=True)["p"]) == (1 / 60, 1 / 60)
    assert first["difference"] == pytest.approx(first["weight_a"] - first["weight_b"])
    assert first["difference"] < -0.5
    shared = found.edges.filter((pl.col("variable_a") == "color") & (pl.col("variable_b") == "smiles"))
    assert shared["p"][0] > 0.05
    assert shared["weight_a"][0] > 0.0  # a norm, as the states of color have no order
    assert np.isnan(shared["difference"][0])
    assert shared["norm"][0] >= 0.0
    assert {row["variable"] for row in found.nodes.head(2).iter_rows(named=True)} == {"mood", "tired"}


def test_the_field_of_a_group_is_that_of_its_rows_alone() -> None:
    rng, group = np.random.default_rng(2), np.arange(300) % 3 > 0  # binary columns, which are coded alike in all rows
    X = rng.integers(0, 2, (300, 4))
    X[:, 1] = np.where(rng.random(300) < 0.6, X[:, 0], X[:, 1])
    X[:, 2] = np.where(group & (rng.random(300) < 0.6), 1 - X[:, 1], X[:, 2])
    comparison = compare(X, group, l1=3.0, permutations=0, n_jobs=1)
    for label, share in ((False, 1 / 3), (True, 2 / 3)):
        field, alone = comparison.fields[label], MarkovField(l1=3.0 * np.sqrt(share)).fit(X[group == label])
        record = field.field_.record
        assert (record.n_rows, record.l1, record.converged) == (300 * share, pytest.approx(alone.l1), True)
        assert record.objective == pytest.approx(alone.field_.record.objective, rel=1e-6)
        own, exact = (
            {row[:2]: row[2] for row in f.edges_.select("variable_a", "variable_b", "strength").rows()}
            for f in (field, alone)
        )
        assert own == pytest.approx(exact, abs=1e-2)
        side = "ab"[int(label)]
        for row in comparison.edges.iter_rows(named=True):
            assert abs(row[f"weight_{side}"]) == pytest.approx(own.get((row["variable_a"], row["variable_b"]), 0.0))


def test_the_field_of_a_group_predicts_and_is_saved(found, tmp_path: Path) -> None:
    field = found.fields["g1"]
    rows = survey(4).drop("country").with_columns(tired=pl.lit(None, pl.Int64))
    assert field.transform(rows)["tired"].null_count() == 0
    field.save(tmp_path / "g1.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "g1.safetensors").field_.weights, field.field_.weights)


def test_a_summary_has_the_penalties_the_tests_and_the_edges(found) -> None:
    text = found.summary()
    assert text.startswith(
        "The networks differ in 1 edge (p <= 0.05, adjusted for their number, 59 permutations): mood"
    )
    first = found.edges.row(0, named=True)
    assert f" ({first['weight_a']:.2f} and {first['weight_b']:.2f})." in text.splitlines()[0]
    assert f"global strength (sum of the strengths of all edges): {found.nodes['strength_a'].sum() / 2:.2f} and" in text
    assert "g0 (150 rows) with l1 = 2.83 has" in text
    assert "(l1 = 4 for all rows)" in text
    assert "Few rows" not in text
    assert (
        "Few rows for 4 columns: g0 (15 rows), g1 (15 rows)"
        in compare(survey(30), "country", l1=4.0, permutations=0).summary()
    )
    assert "g0 and g1" not in text


def test_a_verdict_is_adjusted_over_its_three_kinds_of_tests(found) -> None:
    tests, edges = found.tests.with_columns(p_adjusted=pl.lit(0.03)), found.edges.with_columns(p_adjusted=pl.lit(0.4))
    assert replace(found, tests=tests, edges=edges).summary().startswith("No difference was found")
    edges = edges.with_columns(p_adjusted=pl.lit(0.016))
    assert replace(found, tests=tests, edges=edges).summary().startswith("The networks differ in")
    tests = tests.with_columns(p_adjusted=pl.Series([0.016, 0.4]))
    edges = edges.with_columns(p_adjusted=pl.lit(0.4))
    assert "differ in global strength (p" in replace(found, tests=tests, edges=edges).summary().splitlines()[0]


def test_threads_change_nothing_and_progress_starts_with_the_tests(found) -> None:
    seen = []
    again = compare(
        survey(), "country", l1=4.0, permutations=59, n_jobs=2, progress=lambda *counts: seen.append(counts)
    )
    assert again.edges.equals(found.edges)
    assert again.tests.equals(found.tests)
    assert seen == [(k, 59) for k in range(60)]


def test_three_groups_are_compared_in_pairs() -> None:
    found = compare(survey(360, groups=3), "country", l1=4.0, permutations=59)
    assert found.tests["group_b"].to_list() == ["g1", "g1", "g2", "g2", "g2", "g2"]
    p = found.tests.filter(pl.col("test") == "structure")["p"].to_list()
    assert p[0] > max(p[1:])
    assert p[1:] == [1 / 60, 1 / 60]
    assert found.edges["p_adjusted"].min() == 1 / 60
    assert (found.edges["p_adjusted"] >= found.edges["p"]).all()
    assert "g0 and g2, structure" in found.summary()
    assert "(adjusted for the pairs of groups " in found.summary()


def test_an_array_with_missing_cells_and_an_array_of_groups() -> None:
    frame = survey(200, seed=4)
    X = frame.select("mood", "tired", "smiles").to_numpy().astype(float)
    X[::6, 1] = np.nan
    found = compare(X, frame["country"].to_numpy(), l1=4.0, permutations=19)
    assert (found.edges["variable_a"][0], found.edges["variable_b"][0]) == ("x0", "x1")
    assert found.edges["p"][0] == 0.05


def test_without_permutations_nothing_is_tested() -> None:
    found = compare(survey(80), "country", l1=4.0, permutations=0)
    assert np.isnan(found.tests["p"].to_numpy()).all()
    assert "Nothing was tested" in found.summary()


def test_groups_without_any_edge_are_alike() -> None:
    found = compare(survey(80), "country", l1=500.0, permutations=3)
    assert len(found.edges) == 0
    assert found.tests["p"].to_list() == [1.0, 1.0]
    assert "No difference can be found" in found.summary()
    assert "adjusted for the 3 kinds of tests, is 0.75. Take at least 59 permutations." in found.summary()


def test_tests_end_where_nothing_can_become_significant() -> None:
    frame = survey(200, strength=0.0, seed=1)
    found = compare(frame, "country", l1=4.0, permutations=2000, n_jobs=1)
    assert found.permutations in (60, 120, 180, 240)
    assert min(found.edges["p_adjusted"].min(), found.tests["p"].min()) > 0.05
    assert found.summary().startswith("No difference was found (p > 0.05, adjusted for the number of tests, ")


def test_a_fixed_graph_and_observed_columns_restrict_the_edges() -> None:
    rule = FixedGraph(edges=[("mood", "tired"), ("color", "smiles")])
    options = {"l1": 2.0, "permutations": 3}
    found = compare(survey(80), "country", induction=rule, **options)
    assert set(found.edges["variable_a"]) <= {"mood", "color"}
    given = compare(survey(80), "country", observed=["mood", "color"], **options)
    pairs = {frozenset(pair) for pair in given.edges.select("variable_a", "variable_b").rows()}
    assert frozenset(("mood", "color")) not in pairs
    assert frozenset(("mood", "tired")) in pairs


def test_a_sparse_matrix_is_refused() -> None:
    with pytest.raises(DataError, match="dense table"):
        compare(sp.csr_matrix(np.eye(40)), np.arange(40) % 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"group": "land"}, "names the column 'land', which X lacks"),
        ({"rows": pl.col("country") == "g0"}, "has 1 group: a comparison needs two"),
        ({"rows": (pl.col("country") == "g0") | (pl.int_range(pl.len()) < 6)}, "at least 10 rows, but 'g1' has 3"),
        ({"missing": True}, "Column 'country' has 1 missing value.*first in row 2 .counted from 0"),
        ({"options": {"latent": {"topic": 2}, "refit": True}}, "refit=True is not possible.*latent="),
        ({"options": {"sample_weight": np.ones(60)}}, "leave sample_weight out"),
        ({"options": {"permutations": -1}}, "permutations must be"),
    ],
)
def test_what_cannot_be_compared_is_refused(change: dict, message: str) -> None:
    frame = survey(60)
    if "rows" in change:
        frame = frame.filter(change["rows"])
    if "missing" in change:
        frame = frame.with_columns(country=pl.when(pl.int_range(pl.len()) == 2).then(None).otherwise("country"))
    with pytest.raises((DataError, ValueError), match=message):
        compare(frame, change.get("group", "country"), **{"l1": 4.0, **change.get("options", {})})


def test_groups_that_are_dates_are_refused() -> None:
    days = pl.Series("day", [date(2020, 1, 1 + k % 2) for k in range(40)])
    with pytest.raises(DataError, match="Column 'day' has dates"):
        read_compared_groups(survey(40).with_columns(days), "day")


def test_columns_without_values_in_a_group_are_refused() -> None:
    in_one = pl.when(pl.col("country") == "g0")
    frame = survey(60).with_columns(in_one.then("mood").alias("mood"), in_one.then("color").alias("color"))
    with pytest.raises(DataError, match=r"Column 'color' has no values in group 'g1': drop it\. Column 'mood' has no"):
        compare(frame, "country", l1=4.0)


@pytest.mark.slow
def test_without_a_difference_p_values_are_about_uniform() -> None:
    p = []
    for seed in range(30):
        frame = survey(120, strength=0.0, seed=seed)
        found = compare(frame, "country", l1=1.5, permutations=19, n_jobs=1)
        p.append(found.tests["p"].to_list())
    values = np.array(p)
    assert (np.abs(values.mean(axis=0) - 0.5) < 0.16).all()
    assert ((values <= 0.1).mean(axis=0) < 0.27).all()
    assert (values <= 0.5).any()
