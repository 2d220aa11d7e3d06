"""The command line, called as a person would call it, on small linked tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from outcomes import Outcome

from sparsefield.app.cli import main

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
    def call(*args: object) -> Outcome:
        with pytest.raises(SystemExit) as caught:
            main([str(word) for word in args])
        return Outcome(int(caught.value.code or 0), *capsys.readouterr())

    return call


@pytest.fixture
def school(tmp_path: Path) -> Path:
    """Pupils with ids 000, 001, ... and grades 1, 2 and A, and their visits; mood follows the grade, and fun the mood.

    Markers of gaps are ``NA``, empty cells and ``?``.
    """
    rng = np.random.default_rng(0)
    grade = rng.choice(["1", "2", "A"], 60)
    mood = np.where(rng.random(60) < 0.9, np.where(grade == "1", "glad", "sad"), "odd")
    pupils = pl.DataFrame({"id": [f"{k:03d}" for k in range(60)], "name": ["007", "NA"] * 30, "grade": grade})
    pupils = pupils.with_columns(mood=pl.Series([None if k % 9 == 0 else str(v) for k, v in enumerate(mood)]))
    who = rng.integers(0, 60, 90)
    fun = np.where(rng.random(90) < 0.9, mood[who] == "glad", mood[who] != "glad").astype(int)
    visits = pl.DataFrame({"who": [f"{k:03d}" for k in who], "fun": fun})
    folder = tmp_path / "school"
    folder.mkdir()
    pupils.write_csv(folder / "pupils.csv", null_value="?")
    visits.write_csv(folder / "visits.csv")
    (folder / "schema.toml").write_text(SCHEMA)
    return folder


@pytest.fixture
def model(school: Path, run) -> Path:
    path = school.parent / "m.safetensors"
    assert run("fit", school, "-o", path, "--no-check", "--l1", "0.5").code == 0
    return path
