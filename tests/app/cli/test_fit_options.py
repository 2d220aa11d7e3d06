"""Options of ``fit``: groups of rows, refits, how files are read, and latent variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from benchmarks.latent import draw_latent_classes
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
    run("fit", visits, "--group", "patient", "-o", tmp_path / "m.safetensors", "--no-check").ok()
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


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (80, 4))
    for k in range(1, 4):
        X[:, k] = np.where(rng.random(80) < 0.7, X[:, k - 1], X[:, k])
    pl.DataFrame(X, schema=list("abcd")).write_csv(tmp_path / "answers.csv")
    return tmp_path / "answers.csv"


@pytest.mark.parametrize(("option", "value"), [("refit", "ml"), ("refit", "yes")])
def test_fit_learns_by_the_likelihood(run, answers: Path, tmp_path: Path, option: str, value: str) -> None:
    run("fit", answers, "--l1", 2, f"--{option}", value, "-o", tmp_path / "m.safetensors", "--no-check").ok()
    model = load(tmp_path / "m.safetensors")
    wanted = MarkovField(l1=2.0, **{option: True if value == "yes" else value}).fit(pl.read_csv(answers))
    np.testing.assert_array_equal(model.field_.theta, wanted.field_.theta)
    assert (model.field_.record.likelihood is None) == (value == "yes")
    assert ("exact likelihood" in run("info", tmp_path / "m.safetensors").out) == (value == "ml")


GERMAN = "Größe;Antwort;Zeit\r\n" + "1,50;ja;2\r\n0,25;nein;3\r\n" * 20


@pytest.fixture
def german(tmp_path: Path) -> Path:
    path = tmp_path / "umfrage.csv"
    path.write_bytes((GERMAN + ";ja;2\r\n0,25;NA;3\r\n").encode("cp1252"))
    return path


def test_options_say_how_a_table_is_read(run, german: Path, tmp_path: Path) -> None:
    words = (
        "--set", "read.encoding=cp1250", "--set", "read.separator=semicolon", "--set", "read.decimal=,",
        "--missing", "-99,-98",
    )  # fmt: skip
    done = run("fit", german, "-o", tmp_path / "m", "--l1", "1", "--no-check", *words)
    assert "read as CSV in cp1250" in done.err
    run("fit", german, "-o", tmp_path / "m", "--set", "read.decimal=;").one_error("The decimal mark must be '.' or ','")
    run("fit", german, "-o", tmp_path / "m", "--set", "read.encoding=x").one_error("The encoding 'x' is unknown")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    pl.DataFrame(draw_latent_classes(300, 6, 2, seed=3).rows, schema=[f"c{k}" for k in range(6)]).write_csv(path)
    return path


def test_a_latent_variable_is_learned_filled_in_drawn_and_described(run, table, tmp_path) -> None:
    model, out = tmp_path / "m.safetensors", tmp_path / "out.csv"
    done = run("fit", table, "-o", model, "--latent", "topic=2", "--l1", "3", "--jobs", "1").ok()
    assert "topic=1" in done.out
    field: Any = load(model)
    assert field.latent == {"topic": 2}

    run("predict", model, table, "-o", out).ok()
    filled = pl.read_csv(out)
    assert filled.columns == [*(f"c{k}" for k in range(6)), "topic"]
    beliefs = field.predict_proba(pl.read_csv(table))["topic"]
    assert filled["topic"].to_list() == beliefs.argmax(axis=1).tolist()

    run("predict", model, table, "-o", out, "--proba").ok()
    assert set(pl.read_csv(out)["column"]) == {"topic"}

    run("sample", model, "-o", out, "--rows", "3", "--burn-in", "20").ok()
    assert "topic" in pl.read_csv(out).columns
    run("sample", model, "-o", out, "--given", table, "--rows", "1", "--burn-in", "20").ok()
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
