"""``analyze comparison``: tests and edges are printed, and tables and models are written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Rain and wet go together in both countries, noise and sleep in one of them."""
    rng, n = np.random.default_rng(0), 200
    country = np.repeat(["north", "south"], n // 2)
    rain, noise = rng.integers(0, 2, (2, n))
    wet = np.where(rng.random(n) < 0.8, rain, 1 - rain)
    sleep = np.where((country == "south") & (rng.random(n) < 0.9), noise, rng.integers(0, 2, n))
    frame = pl.DataFrame({"country": country, "rain": rain, "wet": wet, "noise": noise, "sleep": sleep})
    frame.write_csv(tmp_path / "t.csv")
    return tmp_path / "t.csv"


def test_tests_and_edges_are_printed_and_files_written(run, table: Path, tmp_path: Path) -> None:
    edges = tmp_path / "edges.csv"
    fit = ("--l1", "3", "--permutations", "199")
    done = run("analyze", "comparison", table, "--group", "country", *fit, "-o", edges).ok()
    for word in ("north (100 rows)", "global strength", "structure", "noise - sleep", "The networks differ in 1 edge"):
        assert word in done.out
    assert pl.read_csv(edges)["p"][0] == 0.005
    assert "north (100 rows) with l1 = 2.12 has" in done.out
    assert "structure (largest difference of an edge)" in done.out
    assert "weight in south" in done.out


def test_json_has_tests_edges_and_nodes(run, table: Path) -> None:
    done = run("analyze", "comparison", table, "--group", "country", "--l1", "3", "--permutations", 0, "--json")
    found = json.loads(done.out)
    assert [(group["group"], group["rows"]) for group in found["groups"]] == [("north", 100), ("south", 100)]
    assert (found["l1"], found["tests"][0]["p"]) == (3.0, None)
    assert len(found["nodes"]) == 4
    for edge in found["edges"]:  # of binary columns
        assert edge["difference"] == pytest.approx(edge["weight_a"] - edge["weight_b"])


@pytest.mark.parametrize(
    ("words", "message"), [(("--group", "land"), "land"), (("--group", "country", "--weight", "wet"), "--weight")]
)
def test_mistakes_are_refused(run, table: Path, words: tuple[str, ...], message: str) -> None:
    done = run("analyze", "comparison", table, *words)
    assert done.code == 2
    assert message in done.err


def test_rows_without_a_group_are_left_out_in_words(run, table: Path) -> None:
    lines = table.read_text(encoding="utf-8").splitlines()
    lines[3] = lines[3].removeprefix("north")
    table.write_text("\n".join(lines), encoding="utf-8")
    done = run("analyze", "comparison", table, "--group", "country", "--l1", "3", "--permutations", "0").ok()
    assert "1 row without a country left out: 199 remain." in done.err
    assert "north (99 rows)" in done.out
