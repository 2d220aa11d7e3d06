"""``fit`` and ``evaluate`` begin with sentences about the data, tell errors by column, and when nothing is learned."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sparsefield import findings, load
from sparsefield.analysis.hold_out import hold_out
from sparsefield.app.cli.fit import SHOWN_COLUMNS

NOTHING = "No dependence between columns could be found in these 200 rows: "
NO_GAIN = "held-out cells are predicted no better than by column frequencies"


@pytest.fixture
def coins(tmp_path: Path) -> Path:
    """Independent columns."""
    rng = np.random.default_rng(0)
    path = tmp_path / "coins.csv"
    pl.DataFrame({f"c{k}": rng.choice(["head", "tail"], 200) for k in range(5)}).write_csv(path)
    return path


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """More columns than are shown; each even one is mostly copied by the next one."""
    rng = np.random.default_rng(0)
    columns: dict[str, np.ndarray] = {}
    for k in range(0, SHOWN_COLUMNS + 4, 2):
        columns[f"c{k}"] = rng.integers(0, 2, 200)
        columns[f"c{k + 1}"] = np.where(rng.random(200) < 0.9, columns[f"c{k}"], rng.integers(0, 2, 200))
    path = tmp_path / "pairs.csv"
    pl.DataFrame(columns).write_csv(path)
    return path


@pytest.fixture
def unrelated(tmp_path: Path) -> Path:
    """Linked tables without any dependence."""
    rng = np.random.default_rng(1)
    folder = tmp_path / "linked"
    folder.mkdir()
    pl.DataFrame({"id": range(60), "g": rng.integers(0, 2, 60)}).write_csv(folder / "p.csv")
    visits = {"who": np.arange(140) % 60, "fun": rng.integers(0, 2, 140), "day": rng.integers(0, 2, 140)}
    pl.DataFrame(visits).write_csv(folder / "v.csv")
    link = '[links.who]\ntable = "v"\ncolumn = "who"\nto = "p"\n'
    tables = '[tables.p]\nfile = "p.csv"\nkey = "id"\n[tables.v]\nfile = "v.csv"\n'
    (folder / "schema.toml").write_text(tables + link)
    return folder


def test_a_fit_begins_with_sentences_and_ends_with_errors_by_column(run, pairs: Path, tmp_path: Path) -> None:
    done = run("fit", pairs, "-o", tmp_path / "m", "--l1", 8).ok()
    field, table = load(tmp_path / "m"), pl.read_csv(pairs)
    assert done.out.splitlines()[:6] == findings(field, table)
    assert done.out.index("Strongest edges") < done.out.index(", converged.") < done.out.index("held-out cells, ")
    lines = [line.split() for line in done.out.partition("calibration\n")[2].splitlines()]
    checked = hold_out(table, field)
    ranked = sorted(checked.columns, key=lambda column: -column.gain.value)
    half = SHOWN_COLUMNS // 2
    expected = [*ranked[:half], *ranked[-half:]]
    assert lines[half][:3] == ["...", "4", "more"]
    shown = lines[:half] + lines[half + 1 : 2 * half + 1]
    assert [line[:5] for line in shown] == [
        [one.name, "nominal", f"{one.cells}", f"{one.error:.1%}", f"{one.baseline_error:.1%}"] for one in expected
    ]
    better = sum(one.gain.value > max(one.gain.error, 0.001) for one in ranked)
    assert f"better than by column frequencies in {better} of 16 columns" in done.out
    assert NO_GAIN not in done.out + run("evaluate", pairs, "--folds", 2, "--l1", 8).out


def test_a_gpu_needs_torch_and_is_another_place_than_a_cluster(run, coins: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    done = run("fit", coins, "-o", tmp_path / "m", "--l1", 5, "--gpu")
    assert done.code == 2
    assert "A GPU needs torch: pip install 'sparsefield[gpu]'." in done.err
    assert "give one of them" in run("fit", coins, "-o", tmp_path / "m", "--gpu", "--cluster", "here:1").err


def test_a_fit_to_independent_columns_says_that_nothing_was_found(run, coins: Path, tmp_path: Path) -> None:
    strict = run("fit", coins, "-o", tmp_path / "m", "--l1", 60).out
    assert strict.startswith(f"{NOTHING}each column is predicted by its frequencies alone. ")
    assert "held-out" not in strict
    loose = run("fit", coins, "-o", tmp_path / "m", "--l1", 0.5).out
    assert loose.startswith(f"{NOTHING}{NO_GAIN} (gain in log-likelihood -")
    assert "Where c" not in loose


def test_an_edge_that_holds_is_told_though_all_cells_are_predicted_no_better(run, tmp_path: Path) -> None:
    """One weak edge among many independent columns."""
    rng = np.random.default_rng(2)
    columns = {f"c{k}": rng.integers(0, 2, 400) for k in range(30)}
    columns["c1"] = np.where(rng.random(400) < 0.4, columns["c0"], columns["c1"])
    pl.DataFrame(columns).write_csv(tmp_path / "weak.csv")
    done = run("fit", tmp_path / "weak.csv", "-o", tmp_path / "m", "--l1", 6).out
    assert done.startswith("1 edge holds at a false discovery rate of 5%")
    assert re.search(r"better than by column frequencies in \d of 30 columns, worse in \d", done)


def test_an_evaluation_of_independent_columns_says_that_nothing_was_found(run, coins: Path) -> None:
    words = ("--folds", 2, "--l1", 0.5)
    assert f"{NOTHING}{NO_GAIN}" in run("evaluate", coins, *words).out
    result = json.loads(run("evaluate", coins, *words, "--json").out)
    assert result["gain"]["value"] < result["gain"]["error"]
    assert not result["gain"]["shows_dependence"]
    assert {"gain", "gain_error"} <= set(result["columns"][0])


def test_linked_tables_without_dependence_say_that_nothing_was_found(run, unrelated: Path, tmp_path: Path) -> None:
    start = "No dependence between columns, within rows or across links, could be found in these 200 rows of 2 linked "
    done = run("fit", unrelated, "-o", tmp_path / "m", "--l1", 60)
    assert done.out.startswith(f"{start}tables: each column is predicted"), done.out + done.err
    done = run("fit", unrelated, "-o", tmp_path / "m", "--l1", 0.5)
    assert done.out.startswith(f"{start}tables: {NO_GAIN}"), done.out + done.err
    assert f"{start}tables: {NO_GAIN}" in run("evaluate", unrelated, "--folds", 2, "--l1", 0.5).out


def test_info_prints_the_content_of_a_model_as_json(run, pairs: Path, tmp_path: Path) -> None:
    run("fit", pairs, "-o", tmp_path / "m", "--l1", 8, "--no-check")
    field = load(tmp_path / "m")
    found = json.loads(run("info", tmp_path / "m", "--json").out)
    assert [one["weight"] for one in found["features"]] == pytest.approx(field.features_["weight"].to_list())
    assert found["features"][0]["terms"][0].keys() == {"table", "variable", "state"}
    assert {one["name"]: one["kind"] for one in found["variables"]} == {f"c{k}": "nominal" for k in range(16)}
    assert found["l1"] == 8.0
    assert found["record"]["converged"] is True
    assert len(found["record"]["iterations"]) == field.n_iter_
    assert findings(field, pl.read_csv(pairs))[0] in run("info", tmp_path / "m").out


def test_a_fit_says_how_many_edges_hold_and_how_many_only_have_weights(run, pairs: Path, tmp_path: Path) -> None:
    words = ("-o", tmp_path / "m", "--no-check")
    done = run("fit", pairs, *words)
    edges = load(tmp_path / "m").edges_
    hold = len(edges.filter(pl.col("q_value") <= 0.05))
    assert 0 < hold < len(edges)
    more = f"{len(edges) - hold} more of 120 pairs of columns have weights ("
    assert done.out.startswith(f"{hold} edges hold at a false discovery rate of 5%; {more}")
    run("fit", pairs, *words, "--selection", "ebic", "--refit", "yes").ok()
    assert len(load(tmp_path / "m").edges_) < len(edges)
