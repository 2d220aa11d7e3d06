"""Every command that prints a table also prints its figures as JSON."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sparsefield import findings, load
from sparsefield.app.cli import analyze, app


@pytest.fixture
def weather(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    rain = rng.integers(0, 2, 120)
    wet = np.where(rng.random(120) < 0.9, rain, 1 - rain)
    frame = pl.DataFrame({"rain": rain, "wet": wet, "dice": rng.integers(0, 2, 120)})
    frame.write_csv(tmp_path / "weather.csv")
    return tmp_path / "weather.csv"


def test_a_fit_has_the_model_and_the_scores_of_held_out_cells(run, weather: Path, tmp_path: Path) -> None:
    done = run("fit", weather, "-o", tmp_path / "m", "--l1", "3", "--json")
    assert done.code == 0, done.err
    found, field = json.loads(done.out), load(tmp_path / "m")
    info = json.loads(run("info", tmp_path / "m", "--json").out)
    assert {key: found[key] for key in ("features", "variables", "l1")} == {
        key: info[key] for key in ("features", "variables", "l1")
    }
    assert found["findings"] == findings(field, pl.read_csv(weather))
    assert {column["name"] for column in found["held_out"]["columns"]} <= {"rain", "wet", "dice"}
    unchecked = run("fit", weather, "-o", tmp_path / "m", "--l1", "3", "--json", "--no-check")
    assert json.loads(unchecked.out)["held_out"] is None


def test_every_command_that_prints_a_table_has_the_option() -> None:
    """The result of the others is a file, a page or a folder."""
    without = {"demo", "predict", "sample", "report", "plot", "explore", "export", "schema"}
    for command in (*app.registered_commands, *analyze.app.registered_commands):
        assert command.callback is not None
        assert ("as_json" in inspect.signature(command.callback).parameters) != (command.name in without), command.name
