"""Options of ``fit``: groups, refits, how files are read, latent variables, features of three columns, matrices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from higher import exclusive
from plain import learn_plain_schema

from benchmarks.latent import draw_latent_classes
from sparsefield import Features, MarkovField, load
from sparsefield.data import Layout, as_source
from sparsefield.model import Field
from sparsefield.model.feature_tables import list_features


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


N = 120
rng = np.random.default_rng(0)
RAIN = rng.integers(0, 2, N)
MATRIX = sp.csr_matrix(((RAIN[:, None] == [1, 0, 1, 0]) & (rng.random((N, 4)) < 0.5)).astype(np.int8))


@pytest.mark.slow
def test_sparse_matrices_in_files(run, tmp_path, monkeypatch) -> None:
    sp.save_npz(tmp_path / "m.npz", MATRIX)
    model = tmp_path / "m.safetensors"
    found = run("fit", tmp_path / "m.npz", "-o", model, "--observed", "x1").ok()
    assert "held-out cells" in found.out
    wanted = MarkovField(l1="auto", random_state=0).fit(MATRIX, observed=["x1"]).features_
    assert load(model).features_.equals(wanted)
    assert "AP" in run("evaluate", tmp_path / "m.npz", "--folds", "2").out
    run("predict", model, tmp_path / "m.npz", "-o", tmp_path / "f.csv").one_error("has no missing values to impute")
    run("fit", tmp_path / "m.npz", "-o", model, "--id", "x1").one_error(
        "remove --id, --weight, --group, --numeric, --ordinal and --nominal"
    )
    monkeypatch.setattr("sparsefield.app.cli.inputs.CELLS_TO_HOLD_OUT", 10)
    assert "No check: held-out cells need a dense table" in run("fit", tmp_path / "m.npz", "-o", model).err


def test_a_folder_of_parquet_files_is_a_sparse_matrix(run, tmp_path) -> None:
    folder, model = tmp_path / "parts", tmp_path / "m.safetensors"
    folder.mkdir()
    table = pl.DataFrame(MATRIX.toarray(), schema=["rain", "sun", "wet", "dry"], orient="row").with_columns(
        who=pl.int_range(N).cast(pl.String)
    )
    table[:50].write_parquet(folder / "a.parquet")
    table[50:].write_parquet(folder / "b.parquet")
    done = run("fit", folder, "-o", model, "--observed", "sun", "--id", "who", "--l1", 2).ok()
    assert "held-out cells" in done.out
    field = load(model)
    wanted = MarkovField(l1=2.0).fit(MATRIX, observed=["sun"], columns=["rain", "sun", "wet", "dry"])
    assert field.features_.equals(wanted.features_)
    run("report", model, "-o", tmp_path / "r.html", "--data", folder).ok()
    assert "rain" in (tmp_path / "r.html").read_text()
    run("analyze", "stability", model, folder, "--weight", "who").one_error("--weight names a column of one table")
    run("fit", folder, "-o", model).one_error("'who' (String)", "--id")
    run("fit", folder, "-o", model, "--id", "who", "--ordinal", "sun").one_error("--ordinal")
    table[50:].with_columns(rain=pl.Series([None] * (N - 50), dtype=pl.Int8)).write_parquet(folder / "b.parquet")
    done = run("predict", model, folder, "-o", tmp_path / "o.csv").ok()
    assert f"{N - 50} missing values in 1 column and {N} rows." in done.out
    filled = pl.read_csv(tmp_path / "o.csv")
    assert filled["rain"][:50].to_list() == table["rain"][:50].to_list()
    assert set(filled["rain"]) <= {0, 1}
