"""``analyze centrality``: columns by strength, communities from options or files, and predictability with a table."""

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
    done = run("analyze", "centrality", folder / "m.safetensors")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].split() == ["column", "degree", "strength", "expected", "influence", "closeness", "betweenness"]
    strengths = [float(line[17:].split()[0]) for line in lines[1:]]
    assert len(strengths) == 5
    assert strengths == sorted(strengths, reverse=True)
    assert "without a sign" in done.err  # c has states without an order


def test_a_table_adds_predictability(run, folder: Path) -> None:
    done = run("analyze", "centrality", folder / "m.safetensors", folder / "fresh.csv")
    assert done.code == 0, done.err
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
    done = run("analyze", "centrality", folder / "m.safetensors", folder / "fresh.csv", *words)
    assert done.code == 0, done.err
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
    assert run("analyze", "centrality", folder / "m.safetensors", "--communities", "auto", "-o", found).code == 0
    assert pl.read_csv(found)["community"].null_count() > 0  # a column without edges is in no community
    done = run("analyze", "centrality", folder / "m.safetensors", "--communities", found, "-o", again)
    assert done.code == 0, done.err
    assert again.read_text() == found.read_text()
    run("analyze", "centrality", folder / "m.safetensors", "--communities", found, "-o", found).one_error("found.csv")
