"""``--set features.max_order=3``, and features of three columns in plain words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from higher import exclusive
from plain import learn_plain_schema

from sparsefield import Features, load
from sparsefield.data import Layout, as_source
from sparsefield.model import Field
from sparsefield.model.feature_tables import list_features


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    pl.DataFrame(exclusive(320, 0), schema=["rain", "sun", "bow", "coin", "die"]).write_csv(path)
    return path


def test_fit_learns_triples_and_says_so(run, csv: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    done = run(
        "fit",
        csv,
        "-o",
        path,
        "--no-check",
        "--set",
        "features.max_order=3",
        "--set",
        "features.expand=all",
        "--l1",
        20,
    ).ok()
    assert "rain=1, sun=1 and bow=1 rarely go together" in done.out
    assert "; 1 conjunction of three or more columns" in done.out
    field = load(path)
    assert field.features == Features(max_order=3, expand="all")
    told = run("info", path).ok()
    assert "features=Features(max_order=3, expand='all')" in told.out
    assert "rain=1, sun=1 and bow=1 rarely go together" in told.out
    assert "; 1 conjunction of three or more columns" in told.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--set", "features.max_order=1"], "--set features.max_order=1"),
        (["--set", "features.expand=some"], "expand must be one of 'active', 'all'"),
        (["--set", "features.max_order=3", "--induction", "full"], "needs induction='cfi' or 'grafting'"),
    ],
)
def test_what_makes_no_sense_is_said_at_once(run, csv: Path, tmp_path: Path, words, told) -> None:
    for command in (["fit", csv, "-o", tmp_path / "m"], ["evaluate", csv]):
        done = run(*command, *words)
        assert done.code == 2
        assert told in done.err
        assert "Traceback" not in done.err
    assert not (tmp_path / "m").exists()


def test_numbers_in_a_triple_are_what_its_states_go_by() -> None:
    rng = np.random.default_rng(0)
    X = pl.DataFrame({"a": np.arange(40) % 2, "b": np.arange(40) // 2 % 2, "n": rng.random(40), "m": rng.random(40)})
    schema = learn_plain_schema(as_source(X), observed=["n", "m"])
    field = Field(
        Layout.single(schema), np.zeros(2), np.array([[0, 2]]), np.array([-1.0]),
        np.array([[0, 1, 2, -1], [0, 2, 3, -1], [0, 1, 2, 3]]), np.array([-3.0, 2.0, 0.5]),
    )  # fmt: skip
    assert [f"{feature.weight:+.2f}  {feature.sentence}" for feature in list_features(field)] == [
        "-3.00  a=1 and b=1 go together where n is low",
        "+2.00  a=1 is more likely where n x m is high",
        "-1.00  a=1 is more likely where n is low",
        "+0.50  a=1 and b=1 go together where n x m is high",
    ]
