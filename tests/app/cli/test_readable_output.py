"""Output for people has dates instead of numbers of days, the decimal mark of the file, and notes on assumptions."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest


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
    assert run("predict", dated_model, dated, "--proba", "-o", tmp_path / "p.csv").code == 0
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
