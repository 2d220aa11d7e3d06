"""``compare``: tests and edges are printed, and tables, models and a page are written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sparsefield import load


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
    edges, models, page = tmp_path / "edges.csv", tmp_path / "models", tmp_path / "page.html"
    fit = ("--l1", "3", "--l1-difference", "3", "--permutations", "199", "--adjust", "bh")
    done = run("compare", table, "--group", "country", *fit, "-o", edges, "--models", models, "--report", page)
    assert done.code == 0, done.err
    for word in ("north (100 rows)", "global strength", "structure", "noise - sleep", "1 edge differs"):
        assert word in done.out
    assert pl.read_csv(edges)["p"][0] == 0.005
    assert load(models / "south.safetensors").field_.record.n_rows == 100
    assert "noise - sleep" in page.read_text(encoding="utf-8")
    assert "separate fits" in done.out


def test_json_has_tests_edges_and_nodes(run, table: Path) -> None:
    done = run(
        "compare", table, "--group", "country", "--l1", "3", "--l1-difference", "inf", "--permutations", 0, "--json"
    )
    found = json.loads(done.out)
    assert found["groups"] == [{"group": "north", "rows": 100}, {"group": "south", "rows": 100}]
    assert (found["l1_difference"], found["tests"][0]["p"]) == ("inf", None)
    assert len(found["nodes"]) == 4
    assert all(edge["difference"] == 0.0 for edge in found["edges"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--group", "land"), "land"),
        (
            ("--group", "country", "--weight", "wet"),
            "counts each row once, so rows have no weights: remove --weight wet",
        ),
        (("--group", "country", "--l1-difference", "much"), "--l1-difference must be 'auto' or a number"),
        (("--group", "country", "--report", "page.txt"), "page.txt"),
        (("--group", "country", "--adjust", "some", "--l1", "3"), "adjust must be one of"),
    ],
)
def test_mistakes_are_refused(run, table: Path, words: tuple[str, ...], message: str) -> None:
    done = run("compare", table, *words)
    assert done.code == 2
    assert message in done.err
