"""What commands print: JSON, tables for people, and nothing with --quiet."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numba import njit

from sparsefield import MarkovField, findings, load
from sparsefield.app.cli import analyze, app
from sparsefield.app.cli.console import COMPILING, StatusLine, show_progress


@pytest.fixture
def weather(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    rain = rng.integers(0, 2, 120)
    wet = np.where(rng.random(120) < 0.9, rain, 1 - rain)
    frame = pl.DataFrame({"rain": rain, "wet": wet, "dice": rng.integers(0, 2, 120)})
    frame.write_csv(tmp_path / "weather.csv")
    return tmp_path / "weather.csv"


def test_a_fit_has_the_model_and_the_scores_of_held_out_cells(run, weather: Path, tmp_path: Path) -> None:
    done = run("fit", weather, "-o", tmp_path / "m", "--l1", "3", "--json").ok()
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
    without = {"predict", "sample", "report", "plot", "explore", "export", "schema"}
    for command in (*app.registered_commands, *analyze.app.registered_commands):
        assert command.callback is not None
        assert ("as_json" in inspect.signature(command.callback).parameters) != (command.name in without), command.name


@pytest.fixture
def table(tmp_path: Path) -> Path:
    pl.DataFrame({"a": [0, 1] * 30, "b": [0, 1] * 29 + [1, None]}).write_csv(tmp_path / "t.csv")
    return tmp_path / "t.csv"


def test_a_quiet_command_that_writes_a_file_prints_nothing(run, table: Path, tmp_path: Path) -> None:
    done = run("fit", table, "-o", tmp_path / "m.safetensors", "--l1", 1, "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")
    done = run("-q", "predict", tmp_path / "m.safetensors", table, "-o", tmp_path / "filled.csv")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert pl.read_csv(tmp_path / "filled.csv")["b"].null_count() == 0


def test_a_quiet_command_whose_result_is_text_prints_it(run, table: Path, tmp_path: Path) -> None:
    run("fit", table, "-o", tmp_path / "m.safetensors", "--l1", 1, "-q").ok()
    done = run("info", tmp_path / "m.safetensors", "-q")
    assert done.out == run("info", tmp_path / "m.safetensors").out
    assert "b" in done.out


def test_a_quiet_command_prints_its_error(run, tmp_path: Path) -> None:
    done = run("fit", tmp_path / "none.csv", "-o", tmp_path / "m.safetensors", "-q")
    assert done.code == 2
    assert done.err == f"Error: {tmp_path / 'none.csv'}: there is no such file.\n"


def test_shells_complete_commands() -> None:
    asked = {"_SPARSEFIELD_COMPLETE": "complete_bash", "COMP_WORDS": "sparsefield sa", "COMP_CWORD": "1"}
    code = "from sparsefield.app.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | asked, capture_output=True, text=True, check=False
    )
    assert set(done.stdout.split()) == {"sample"}, done.stderr


def test_the_time_left_is_that_of_the_count_that_runs(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    clock = iter([0.0, 0.0, 10.0, 10.0, 12.0, 12.0, 40.0, 40.0, 50.0, 50.0, 53.0, 53.0])
    monkeypatch.setattr("sparsefield.app.cli.console.time.perf_counter", lambda: next(clock))
    watch = StatusLine("Drawing")
    watch._next = 0.0
    watch.show_progress(0, 4)  # the work begins at 0 s, after the line was made
    for done in (1, 2):
        watch.show_progress(done, 4)
    watch._next = 0.0
    watch.show_progress(1, 2)  # another count: its first unit took 28 s
    watch.change_title("Predicting")
    for done in (1, 2):
        watch._next = 0.0
        watch.show_progress(done, 3)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Drawing: 25% done, about 30 s left, 10.0 s"
    assert lines[-3:] == [
        "Drawing: 50% done, about 28 s left, 40.0 s",
        "Predicting: 33% done, 50.0 s",
        "Predicting: 67% done, about 3 s left, 53.0 s",
    ]


def test_scripts_see_the_progress_of_fits_and_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    states: list[str] = []
    monkeypatch.setattr(StatusLine, "update", lambda _, state, *done: states.append(state))
    X = np.random.default_rng(0).integers(0, 2, (600, 3)).astype(float)
    X[::5, 0] = np.nan
    with show_progress():
        for _ in range(2):
            states = list[str]()
            MarkovField().fit(np.repeat(X[1::5], 2, axis=1))
            told = [state.partition(",")[0] for state in states]
            assert told.index("l1: value 1 of about 16") < told.index("l1: value 2 of about 16")
        states = list[str]()
        field = MarkovField(l1=2.0).fit(X)
        of_fit, states = states, list[str]()
        field.transform(X)
    of_prediction, states = states, list[str]()
    MarkovField(l1=2.0).fit(X)
    assert of_fit
    assert all(state.startswith("iteration") for state in of_fit if state != COMPILING)
    assert of_prediction[-1].startswith("100% done")
    assert not states


def test_compiling_is_told_once_and_only_where_something_is_compiled(capsys) -> None:
    def double(x):
        return 2 * x

    for function, argument in ((double, 1), (njit(double), 1), (njit(double), 1)):
        with StatusLine("Fitting"):
            function(argument)
        last = function
    with StatusLine("Fitting"):
        last(1)  # of the type that was compiled
        last(1.0), last(True)
    lines = capsys.readouterr().err.splitlines()
    told = "Fitting: compiling, once on this machine"
    assert lines == ["Fitting ...", *["Fitting ...", told] * 3]


@pytest.fixture(scope="module")
def dated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with decimal commas, whose dates and numbers depend on each other."""
    path = tmp_path_factory.mktemp("dated") / "t.csv"
    rng = np.random.default_rng(0)
    days = np.datetime64("2019-01-01") + rng.integers(0, 600, 120)
    late = days > np.datetime64("2019-10-01")
    heat = np.where(late, 8.25, 2.5) + rng.normal(size=120).round(2) / 2
    cells = ["" if k % 11 == 3 else f"{value:.2f}".replace(".", ",") for k, value in enumerate(heat)]
    shown = ["" if k % 13 == 5 else str(day) for k, day in enumerate(days)]
    path.write_text("day;heat\n" + "".join(f"{a};{b}\n" for a, b in zip(shown, cells, strict=True)))
    return path


@pytest.fixture(scope="module")
def dated_model(dated: Path) -> Path:
    from sparsefield.app.cli import app, run_app

    model = dated.with_name("m.safetensors")
    assert run_app(app, "sparsefield", ["fit", str(dated), "-o", str(model), "--l1=1", "--no-check", "-q"]) == 0
    return model


def test_info_shows_dates_as_dates(run, dated_model: Path) -> None:
    shown = run("info", dated_model).out
    assert re.search(r"day: numeric; mean 2019-\d\d-\d\d, standard deviation \d+\.?\d* days", shown)
    assert "e+04" not in shown
    assert not re.search(r"day=[^ ]* ?1[78]\d\d\d", shown)


def test_ranges_have_dates_and_the_decimal_mark_of_the_file(
    run, dated: Path, dated_model: Path, tmp_path: Path
) -> None:
    run("predict", dated_model, dated, "--proba", "-o", tmp_path / "p.csv").ok()
    lines = [line.split(";") for line in (tmp_path / "p.csv").read_text().splitlines()[1:]]
    days, heats = ({state for _, column, state, _ in lines if column == name} for name in ("day", "heat"))
    assert all(re.fullmatch(r"(up to|over|\d{4}-\d\d-\d\d to) \d{4}-\d\d-\d\d", state) for state in days)
    assert any("," in state for state in heats)
    assert not any("." in state or "e" in state.removeprefix("over") for state in heats)


def test_errors_of_dates_are_in_days(run, dated: Path) -> None:
    shown = run("evaluate", dated, "--l1", 1, "--folds", 2).out
    assert re.search(r"day +numeric +\d+ .*\d days +\d+ days", shown)


def test_the_assumed_order_of_text_is_told(run, tmp_path: Path) -> None:
    data = tmp_path / "t.csv"
    data.write_text("answer,kind\n" + "".join(f"{('never', 'rarely', 'often')[k % 3]},{k % 2}\n" for k in range(60)))
    fitted = run("fit", data, "--ordinal", "answer", "-o", tmp_path / "m", "--l1", 5, "--no-check")
    assert "ordinal in alphabetical order: never<often<rarely" in " ".join(fitted.err.split())
    given = run("fit", data, "--ordinal", "answer=never<rarely<often", "-o", tmp_path / "m", "--l1", 5, "--no-check")
    assert "alphabetical" not in given.err
