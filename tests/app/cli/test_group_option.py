"""``--group`` names a column of rows that belong together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sparsefield import MarkovField, load


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(15), 6)
    answers = rng.integers(0, 2, (15, 2))[patient] ^ (rng.random((90, 2)) < 0.1)
    table = pl.DataFrame({"patient": [f"p{k}" for k in patient], "a": answers[:, 0], "b": answers[:, 1]})
    table.write_csv(tmp_path / "visits.csv")
    return tmp_path / "visits.csv"


def test_fit_holds_out_groups_and_does_not_learn_their_column(run, visits: Path, tmp_path: Path) -> None:
    done = run("fit", visits, "--group", "patient", "-o", tmp_path / "m.safetensors", "--no-check")
    assert done.code == 0, done.err
    model = load(tmp_path / "m.safetensors")
    assert list(model.states_) == ["a", "b"]
    assert model.l1_ == MarkovField(random_state=0).fit(pl.read_csv(visits), groups="patient").l1_


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--group", "doctor"), "--group names the column 'doctor', which does not exist"),
        (("--group", "a", "--observed", "a"), "Column 'a' is the --group, which is not learned"),
    ],
)
def test_contradictions_are_refused(run, visits: Path, tmp_path: Path, options: tuple, words: str) -> None:
    done = run("fit", visits, *options, "-o", tmp_path / "m.safetensors")
    assert done.code != 0
    assert words in done.err


def test_linked_tables_have_no_group_option(run, school: Path, tmp_path: Path) -> None:
    done = run("fit", school, "--group", "grade", "-o", tmp_path / "m.safetensors")
    assert "are for one table" in done.err
