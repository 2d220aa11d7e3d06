"""``analyze centrality`` and ``analyze intervals`` print tables, write them, and refuse what makes no sense."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sparsefield import MarkovField


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model m.safetensors of 200 rows, and 100 fresh ones in fresh.csv: a and b are alike, c follows the number d."""
    path, rng = tmp_path_factory.mktemp("centrality"), np.random.default_rng(0)
    a, d = rng.integers(0, 2, 300), rng.normal(size=300)
    b = np.where(rng.random(300) < 0.9, a, 1 - a)
    c = np.where(d > 0.5, "high", np.where(d < -0.5, "low", "mid"))
    table = pl.DataFrame({"a": a, "b": b, "c": c, "d": d, "e": rng.integers(0, 2, 300)})
    MarkovField(l1=8.0).fit(table[:200]).save(path / "m.safetensors")
    table[:200].write_csv(path / "train.csv")
    table[200:].write_csv(path / "fresh.csv")
    return path


def test_columns_are_printed_by_strength(run, folder: Path) -> None:
    done = run("analyze", "centrality", folder / "m.safetensors").ok()
    lines = done.out.splitlines()
    assert lines[0].split() == ["column", "degree", "strength", "expected", "influence", "closeness", "betweenness"]
    strengths = [float(line[17:].split()[0]) for line in lines[1:]]
    assert len(strengths) == 5
    assert strengths == sorted(strengths, reverse=True)
    assert "without a sign" in done.err  # c has states without an order


def test_a_table_adds_predictability(run, folder: Path) -> None:
    done = run("analyze", "centrality", folder / "m.safetensors", folder / "fresh.csv").ok()
    assert "r squared" in done.out
    assert "normalized accuracy" in done.out
    assert "probably the training rows" not in done.err
    assert (
        "probably the training rows" in run("analyze", "centrality", folder / "m.safetensors", folder / "train.csv").err
    )


def test_a_file_has_all_measures_and_empty_cells(run, folder: Path, tmp_path: Path) -> None:
    target, named = tmp_path / "c.csv", tmp_path / "named.csv"
    pl.DataFrame({"column": list("abecd"), "community": list("XXYYY")}).write_csv(named)
    words = ("-o", target, "--communities", named)
    done = run("analyze", "centrality", folder / "m.safetensors", folder / "fresh.csv", *words).ok()
    assert f"Wrote {target}." in done.out
    found = pl.read_csv(target)
    assert {"column", "community", "bridge_strength", "r_squared", "gain_error"} <= set(found.columns)
    assert dict(zip(found["column"], found["community"], strict=True)) == dict(zip("abecd", "XXYYY", strict=True))
    assert found.filter(pl.col("column") == "a")["r_squared"].to_list() == [None]


def test_communities_of_a_file_and_found_ones(run, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "communities.csv"
    pl.DataFrame({"column": list("abcde"), "community": ["1", "1", "2", "2", "2"]}).write_csv(file)
    given, found = (
        json.loads(run("analyze", "centrality", folder / "m.safetensors", "--json", "--communities", word).out)[
            "columns"
        ]
        for word in (file, "auto")
    )
    assert {row["column"]: row["community"] for row in given} == dict(zip("abcde", "11222", strict=True))
    assert len({row["community"] for row in found if row["column"] in "ab"}) == 1
    assert all("bridge_strength" in row for row in found)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--communities", "spinglass"), "spinglass: there is no such file"),
        (("--missing", "?"), "are for reading DATA"),
    ],
)
def test_wrong_words_are_refused(run, folder: Path, words: tuple[str, ...], message: str) -> None:
    done = run("analyze", "centrality", folder / "m.safetensors", *words)
    assert done.code == 2
    assert message in done.err


def test_a_file_of_communities_has_each_column_once(run, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "communities.csv"
    file.write_text("column,community\na,1\na,2\n,3\n")
    done = run("analyze", "centrality", folder / "m.safetensors", "--communities", file)
    assert done.code == 2
    assert "a name is empty or occurs twice: give one row for each" in done.err
    file.write_text("column,community\na,1\n")
    lacking = run("analyze", "centrality", folder / "m.safetensors", "--communities", file)
    assert "communities lacks 'b', 'c', 'd', 'e'" in lacking.err
    file.write_text("name,group\na,1\n")
    done = run("analyze", "centrality", folder / "m.safetensors", "--communities", file)
    assert "needs the columns column and community" in done.err
    assert "centrality MODEL --communities auto -o FILE" in done.err


def test_found_communities_can_be_given_again(run, folder: Path, tmp_path: Path) -> None:
    found, again = tmp_path / "found.csv", tmp_path / "again.csv"
    run("analyze", "centrality", folder / "m.safetensors", "--communities", "auto", "-o", found).ok()
    assert pl.read_csv(found)["community"].null_count() > 0  # a column without edges is in no community
    run("analyze", "centrality", folder / "m.safetensors", "--communities", found, "-o", again).ok()
    assert again.read_text() == found.read_text()
    run("analyze", "centrality", folder / "m.safetensors", "--communities", found, "-o", found).one_error("found.csv")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    rain = rng.integers(0, 2, 200)
    wet = np.where(rng.random(200) < 0.9, rain, 1 - rain)
    slow = np.where(rng.random(200) < 0.7, wet, 1 - wet)
    path = tmp_path_factory.mktemp("confidence") / "days.csv"
    pl.DataFrame({"rain": rain, "wet": wet, "slow": slow}).write_csv(path)
    return path


@pytest.fixture(scope="module")
def model(fit, table: Path) -> Path:
    path = table.with_name("days.safetensors")
    fit(table, path, "--l1", "5")
    return path


def test_intervals_are_printed_and_written(run, model: Path, table: Path, tmp_path: Path) -> None:
    output = tmp_path / "intervals.csv"
    done = run("analyze", "intervals", model, table, "-o", output).ok()
    assert "Estimates without L1, with l2 = 1, and 95% intervals from the sandwich covariance" in done.out
    assert "resampled rows" not in done.err
    written = pl.read_csv(output)
    assert written.columns[-4:] == ["estimate", "standard_error", "low", "high"]
    assert set(written.row(0)[:4]) == {"rain", "wet", 1}
    found = json.loads(run("analyze", "intervals", model, table, "--of", "edges", "--json").out)
    assert {row["variable_a"] for row in found["rows"]} <= {"rain", "wet"}
    assert found["rows"][0]["p_value"] < 0.001


def test_a_bootstrap_has_differences(run, model: Path, table: Path) -> None:
    words = ("analyze", "intervals", model, table, "--method", "bootstrap", "--resamples", "20")
    done = run(*words).ok()
    assert "percentiles of 20 bootstrap resamples" in done.out
    assert "not adjusted" in run(*words, "--differences").out


def test_a_model_without_features_is_said_in_one_sentence(run, table: Path, tmp_path: Path) -> None:
    path = tmp_path / "none.safetensors"
    run("fit", table, "-o", path, "--l1", "10000", "--no-check").ok()
    done = run("analyze", "intervals", path, table, "--method", "bootstrap", "--resamples", "3").ok()
    assert done.out.strip() == "The model has no features of two columns, so there is nothing to estimate."


def test_incomplete_rows_are_refused_with_their_columns(run, model: Path, table: Path, tmp_path: Path) -> None:
    frame, table = pl.read_csv(table), tmp_path / "incomplete.csv"
    frame.with_columns(wet=frame["wet"].scatter([0, 1], None)).write_csv(table)
    done = run("analyze", "intervals", model, table)
    assert done.code == 2
    assert "2 of 200 rows have missing cells (columns 'wet')" in done.err
    done = run("analyze", "intervals", model, table, "--drop-incomplete").ok()
    assert "Estimated from the 198 complete rows of 200." in done.out
    assert "not the table that the field was learned from, or rows have other weights" in done.err
    assert "the values of 'wet' are not as frequent" in done.err


def test_missing_cells_are_imputed_and_intervals_pooled(run, table: Path, tmp_path: Path) -> None:
    frame, table, path = pl.read_csv(table), tmp_path / "incomplete.csv", tmp_path / "incomplete.safetensors"
    frame.with_columns(wet=frame["wet"].scatter(list(range(0, 200, 5)), None)).write_csv(table)
    run("fit", table, "-o", path, "--l1", 5, "--no-check").ok()
    for words in ((), ("--method", "bootstrap")):
        done = run("analyze", "intervals", path, table, *words)
        done.one_error("40 of 200 rows have missing cells (columns 'wet')", "--imputations 20", "--drop-incomplete")
    done = run("analyze", "intervals", path, table, "--imputations", 3).ok()
    assert (
        "Missing cells of 40 of 200 rows were imputed 3 times, and estimates were pooled by Rubin's rules." in done.out
    )
