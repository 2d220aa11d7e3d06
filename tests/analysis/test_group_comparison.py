"""Comparisons of groups find planted differences, and nothing else; threads and interruptions change nothing."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from sparsefield import FixedGraph, MarkovField, compare, load
from sparsefield.analysis import permutation_tests
from sparsefield.analysis.compared_groups import read_compared_groups
from sparsefield.errors import DataError, LeftOutWarning


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
    return compare(survey(), "country", l1=4.0, permutations=39, adjust="none", n_jobs=1)


def test_a_planted_difference_is_found_and_the_shared_edge_is_not(found) -> None:
    assert found.groups == ("g0", "g1")
    assert found.sizes == (150, 150)
    first = found.edges.row(0, named=True)
    assert {first["variable_a"], first["variable_b"]} == {"mood", "tired"}
    assert (first["p"], found.tests.row(1, named=True)["p"]) == (0.025, 0.025)
    assert first["difference"] < -0.5  # weights of the first group minus those of the second
    assert first["weight_b"] > first["weight_a"] + 0.5
    shared = found.edges.filter((pl.col("variable_a") == "color") & (pl.col("variable_b") == "smiles"))
    assert shared["p"][0] > 0.05
    assert shared["weight_a"][0] != 0.0
    assert {row["variable"] for row in found.nodes.head(2).iter_rows(named=True)} == {"mood", "tired"}


def test_the_penalty_of_differences_is_selected_among_others(found) -> None:
    (chosen,) = [point for point in found.path if point.selected]
    assert chosen.l1_difference == found.l1_difference
    assert found.path[0].l1_difference == np.inf
    assert chosen.score >= max(point.score for point in found.path) - chosen.error - 1e-12


def test_the_field_of_a_group_predicts_is_saved_and_drawn(found, tmp_path: Path) -> None:
    field = found.fields["g1"]
    assert isinstance(field, MarkovField)
    rows = survey(4).drop("country").with_columns(tired=pl.lit(None, pl.Int64))
    assert field.transform(rows)["tired"].null_count() == 0
    paths = found.save_models(tmp_path / "models")
    assert [path.name for path in paths] == ["g0.safetensors", "g1.safetensors"]
    np.testing.assert_array_equal(load(paths[1]).field_.weights, field.field_.weights)
    assert b"<svg" in found.plot().to_bytes("svg")
    assert "g1 minus weights of g0" in found.plot("g1", "g0").ax.texts[0].get_text()
    assert "mood - tired" in found.summary()
    assert "g0 and g1" not in found.summary()


def test_threads_and_an_interruption_change_nothing(found, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permutation_tests, "CHUNK", 16)
    options = {"l1": 4.0, "l1_difference": found.l1_difference, "permutations": 39, "adjust": "none", "n_jobs": 2}

    def stop(done: int, total: int) -> None:
        assert total == 39
        if done >= 32:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(survey(), "country", checkpoint=tmp_path, progress=stop, **options)
    assert list(tmp_path.iterdir())
    seen = []
    again = compare(survey(), "country", checkpoint=tmp_path, progress=lambda done, _: seen.append(done), **options)
    assert seen == [39]
    assert again.edges.equals(found.edges)
    assert again.tests.equals(found.tests)
    np.testing.assert_array_equal(again.results[0].drawn, found.results[0].drawn)
    assert not list(tmp_path.iterdir())


def test_three_groups_are_compared_in_pairs_and_all_together() -> None:
    found = compare(survey(360, groups=3), "country", l1=4.0, l1_difference=4.0, permutations=19)
    assert found.tests["group_b"].to_list() == ["g1", "g1", "g2", "g2", "g2", "g2", "", ""]
    p = found.tests.filter(pl.col("test") == "structure")["p"].to_list()
    assert p[0] > 0.05
    assert p[1:] == [0.05, 0.05, 0.05]
    assert found.edges["p_adjusted"].min() == 0.05
    assert (found.edges["p_adjusted"] >= found.edges["p"]).all()
    assert "edges have different weights in the joint fit, in two groups at least" in found.summary()


def test_a_group_has_the_same_separate_weights_in_all_comparisons() -> None:
    found = compare(survey(240, groups=3), "country", l1=3.0, l1_difference=3.0, permutations=0, n_jobs=1)
    weights: dict[tuple[str, str, str], set[float]] = {}
    for row in found.edges.iter_rows(named=True):
        for side in "ab":
            edge = row[f"group_{side}"], row["variable_a"], row["variable_b"]
            weights.setdefault(edge, set()).add(row[f"separate_{side}"])
    assert len(weights) == 18
    assert all(len(values) == 1 for values in weights.values())


def test_rows_of_all_pairs_are_sorted_by_p_and_have_the_weights_of_the_tested_fits(tmp_path: Path) -> None:
    table = survey(360, groups=3).with_columns(
        mood=(pl.col("mood") > 2).cast(int), color=(pl.col("color") == "red").cast(int)
    )
    found = compare(table, "country", l1=4.0, l1_difference=4.0, permutations=19)
    assert found.edges["p"].is_sorted()
    assert found.nodes["p"].is_sorted()
    assert found.edges["group_a"].to_list() != sorted(found.edges["group_a"].to_list())
    for row in found.edges.iter_rows(named=True):  # binary columns have one weight for each edge
        assert abs(row["separate_a"] - row["separate_b"]) == pytest.approx(row["statistic"], abs=1e-9)


@pytest.mark.parametrize("as_array", [False, True])
def test_rows_without_a_group_are_left_out_on_request(as_array: bool) -> None:
    table = survey(200).with_columns(
        country=pl.when(pl.int_range(pl.len()) % 20 == 3).then(None).otherwise(pl.col("country"))
    )
    kept = table.filter(pl.col("country").is_not_null())
    X, group = (table.drop("country").to_numpy(), table["country"]) if as_array else (table, "country")
    options: dict = {"l1": 4.0, "l1_difference": 4.0, "permutations": 3}
    with pytest.raises(DataError, match="drop_missing_groups=True"):
        compare(X, group, **options)
    with pytest.warns(LeftOutWarning, match="10 missing value"):
        found = compare(X, group, drop_missing_groups=True, **options)
    whole = compare(
        kept.drop("country").to_numpy() if as_array else kept, kept["country"] if as_array else group, **options
    )
    assert found.sizes == whole.sizes
    assert found.edges.equals(whole.edges)


def test_holm_says_how_many_permutations_it_needs_and_counts_all_pairs_of_groups() -> None:
    found = compare(survey(90, groups=3), "country", l1=4.0, l1_difference=4.0, permutations=39, adjust="holm")
    # six edges in each of three pairs of groups
    assert "the smallest possible p-value is 0.45. Take at least 359 permutations, or" in found.summary()


def test_the_plain_maximum_serves_where_statistics_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permutation_tests, "MOST_NUMBERS", 10)
    found = compare(survey(200), "country", l1=4.0, l1_difference=4.0, permutations=39)
    assert found.results[0].singles.shape == (39, 0)
    assert found.edges["p_adjusted"].min() == found.tests["p"][1]
    assert (found.nodes["p_adjusted"] >= found.nodes["p"]).all()


def test_an_array_with_missing_cells_and_an_array_of_groups() -> None:
    frame = survey(200, seed=4)
    X = frame.select("mood", "tired", "smiles").to_numpy().astype(float)
    X[::6, 1] = np.nan
    found = compare(X, frame["country"].to_numpy(), l1=4.0, l1_difference=4.0, permutations=19)
    assert (found.edges["variable_a"][0], found.edges["variable_b"][0]) == ("x0", "x1")
    assert found.edges["p"][0] == 0.05


def test_without_permutations_nothing_is_tested() -> None:
    found = compare(survey(80), "country", l1=4.0, l1_difference=4.0, permutations=0)
    assert np.isnan(found.tests["p"].to_numpy()).all()
    assert "Nothing was tested" in found.summary()


def test_groups_without_any_edge_are_alike() -> None:
    found = compare(survey(80), "country", l1=500.0, permutations=3)
    assert len(found.edges) == 0
    assert found.tests["p"].to_list() == [1.0, 1.0]
    assert found.l1_difference == np.inf
    assert "No edge can differ" in found.summary()
    assert "the smallest possible p-value is 0.25. Take at least 19 permutations." in found.summary()


def test_a_fixed_graph_and_observed_columns_restrict_the_edges() -> None:
    rule = FixedGraph(edges=[("mood", "tired"), ("color", "smiles")])
    options = {"l1": 2.0, "l1_difference": 2.0, "permutations": 3}
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
        ({"group": "land"}, "group column 'land' is not there"),
        ({"rows": pl.col("country") == "g0"}, "only group 'g0'"),
        ({"rows": (pl.col("country") == "g0") | (pl.int_range(pl.len()) < 6)}, "at least 10 rows, but 'g1' has 3"),
        ({"missing": True}, "Column 'country' has 1 missing value.*first in row 3 .counted from 1"),
        ({"options": {"latent": {"topic": 2}, "refit": True}}, "refit=True is not possible.*latent="),
        ({"options": {"sample_weight": np.ones(60)}}, "leave sample_weight out"),
        ({"options": {"l1_difference": 0.0, "permutations": -1}}, "l1_difference must be.*permutations must be"),
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


def test_a_checkpoint_of_other_data_is_refused(tmp_path: Path) -> None:
    options = {"l1": 4.0, "l1_difference": 4.0, "permutations": 40, "checkpoint": tmp_path}

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(survey(80), "country", progress=stop, **options)
    with pytest.raises(DataError, match="other data or options"):
        compare(survey(80, seed=1), "country", **options)


def test_a_checkpoint_of_other_candidates_is_refused(tmp_path: Path) -> None:
    options = {"l1": 4.0, "l1_difference": 4.0, "permutations": 40, "checkpoint": tmp_path}

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(survey(80), "country", induction=FixedGraph([("mood", "tired")]), progress=stop, **options)
    with pytest.raises(DataError, match="other data or options"):
        compare(survey(80), "country", induction=FixedGraph([("mood", "smiles")]), **options)


@pytest.mark.parametrize("form", ["frame", "pandas", "array", "list", "nanoseconds"])
def test_groups_that_are_dates_have_dates_as_names(form: str) -> None:
    days = pl.Series("day", [date(2020, 1, 1 + k % 2) for k in range(40)])
    rows = survey(40).drop("country")
    given = {
        "frame": (rows.with_columns(days), "day"),
        "pandas": (rows.with_columns(days).to_pandas(), "day"),
        "array": (rows, days.to_numpy()),
        "list": (rows, days.to_list()),
        "nanoseconds": (rows, days.to_numpy().astype("M8[ns]")),
    }[form]
    assert read_compared_groups(*given).labels == ("2020-01-01", "2020-01-02")


def test_groups_that_are_times_keep_the_time_of_day() -> None:
    times = [datetime(2020, 1, 1, 3 * (k % 2)) for k in range(40)]
    labels = read_compared_groups(survey(40).drop("country"), times).labels
    assert labels == ("2020-01-01 00:00:00", "2020-01-01 03:00:00")


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
        found = compare(frame, "country", l1=1.5, l1_difference=np.inf, permutations=19, n_jobs=1)
        p.append(found.tests["p"].to_list())
    values = np.array(p)
    assert (np.abs(values.mean(axis=0) - 0.5) < 0.16).all()
    assert ((values <= 0.1).mean(axis=0) < 0.27).all()
    assert (values <= 0.5).any()
