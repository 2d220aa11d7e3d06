"""The command line, called as a person would call it, on small linked tables."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from program import ProgramResult

from sparsefield.app.cli import app, main, run_app

SCHEMA = """
[tables.pupil]
file = "pupils.csv"
key = "id"
ignore = ["name"]

[tables.visit]
file = "visits.csv"

[links.who]
table = "visit"
column = "who"
to = "pupil"
"""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    def call(*args: object) -> ProgramResult:
        with pytest.raises(SystemExit) as caught:
            main([str(word) for word in args])
        return ProgramResult(int(caught.value.code or 0), *capsys.readouterr())

    return call


def fit_quietly(data: Path, model: Path, *options: object) -> None:
    """Write the model of a table without a check, for fixtures that several tests share."""
    words = ["fit", data, "-o", model, "--no-check", "-q", *options]
    assert run_app(app, "sparsefield", [str(word) for word in words]) == 0


@pytest.fixture(scope="session")
def fit():
    return fit_quietly


@pytest.fixture(scope="session")
def fitted_school(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pupils with ids 000, 001, ... and grades 1, 2 and A, and their visits; mood follows the grade, and fun the mood.

    Markers of gaps are ``NA``, empty cells and ``?``. The model is beside the folder ``school``.
    """
    rng = np.random.default_rng(0)
    grade = rng.choice(["1", "2", "A"], 60)
    mood = np.where(rng.random(60) < 0.9, np.where(grade == "1", "glad", "sad"), "odd")
    pupils = pl.DataFrame({"id": [f"{k:03d}" for k in range(60)], "name": ["007", "NA"] * 30, "grade": grade})
    pupils = pupils.with_columns(mood=pl.Series([None if k % 9 == 0 else str(v) for k, v in enumerate(mood)]))
    who = rng.integers(0, 60, 90)
    fun = np.where(rng.random(90) < 0.9, mood[who] == "glad", mood[who] != "glad").astype(int)
    visits = pl.DataFrame({"who": [f"{k:03d}" for k in who], "fun": fun})
    folder = tmp_path_factory.mktemp("linked") / "school"
    folder.mkdir()
    pupils.write_csv(folder / "pupils.csv", null_value="?")
    visits.write_csv(folder / "visits.csv")
    (folder / "schema.toml").write_text(SCHEMA)
    fit_quietly(folder, folder.parent / "m.safetensors", "--l1", "0.5")
    return folder.parent


@pytest.fixture
def school(fitted_school: Path, tmp_path: Path) -> Path:
    """A copy of the linked tables, which a test may change."""
    return Path(shutil.copytree(fitted_school / "school", tmp_path / "school"))


@pytest.fixture
def model(fitted_school: Path, tmp_path: Path) -> Path:
    """A copy of the model of the linked tables, which a test may change."""
    return Path(shutil.copy(fitted_school / "m.safetensors", tmp_path))
