"""``fit --latent``, and what the other commands make of such a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from benchmarks.latent import draw_latent_classes
from sparsefield import load


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    pl.DataFrame(draw_latent_classes(300, 6, 2, seed=3).rows, schema=[f"c{k}" for k in range(6)]).write_csv(path)
    return path


def test_a_latent_variable_is_learned_filled_in_drawn_and_described(run, table, tmp_path) -> None:
    model, out = tmp_path / "m.safetensors", tmp_path / "out.csv"
    done = run("fit", table, "-o", model, "--latent", "topic=2", "--l1", "3", "--jobs", "1")
    assert done.code == 0
    assert "topic=1" in done.out
    field: Any = load(model)
    assert field.latent == {"topic": 2}

    assert run("predict", model, table, "-o", out).code == 0
    filled = pl.read_csv(out)
    assert filled.columns == [*(f"c{k}" for k in range(6)), "topic"]
    beliefs = field.predict_proba(pl.read_csv(table))["topic"]
    assert filled["topic"].to_list() == beliefs.argmax(axis=1).tolist()

    assert run("predict", model, table, "-o", out, "--proba").code == 0
    assert set(pl.read_csv(out)["column"]) == {"topic"}

    assert run("sample", model, "-o", out, "--rows", "3", "--burn-in", "20").code == 0
    assert "topic" in pl.read_csv(out).columns
    assert run("sample", model, "-o", out, "--given", table, "--rows", "1", "--burn-in", "20").code == 0
    assert "topic" in pl.read_csv(out).columns
    assert "topic: latent; " in run("info", model).out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["topic"], "such as topic=8; got 'topic'"),
        (["topic=x"], "got 'topic=x'"),
        (["topic=2", "topic=3"], "takes a new name"),
        (["topic=1"], "2 states or more"),
        (["c1=2"], "'c1', which is a column"),
    ],
)
def test_mistakes_are_told(run, table, tmp_path, words, told) -> None:
    options = [part for word in words for part in ("--latent", word)]
    done = run("fit", table, "-o", tmp_path / "m.safetensors", *options)
    assert done.code != 0
    assert told in " ".join(done.err.split())


def test_linked_tables_have_none(run, school, tmp_path) -> None:
    done = run("fit", school, "-o", tmp_path / "m.safetensors", "--latent", "topic=2")
    assert done.code != 0
    assert "--latent is for one table" in " ".join(done.err.split())
