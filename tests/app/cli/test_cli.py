"""The command line, called as a person would call it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import sparsefield
from sparsefield import EM, CRFClassifier, IdealParent, MarkovField, load
from sparsefield.app.cli import app, build_commands
from sparsefield.app.cli.options import parse_value
from sparsefield.parameters import EVERYDAY


@pytest.fixture(scope="module")
def weather() -> pl.DataFrame:
    """Names, four columns of 0/1, words and truth that mostly agree, a number, and some gaps."""
    rng = np.random.default_rng(0)
    rain = rng.integers(0, 2, 150)
    wet = np.where(rng.random(150) < 0.9, rain, 1 - rain)
    mood = np.where(rng.random(150) < 0.9, np.where(rain, "bad", "good"), "fair")
    umbrella = np.where(rng.random(150) < 0.9, rain, 1 - rain).astype(bool)
    table = pl.DataFrame(
        {
            "name": [f"{k:03d}" for k in range(150)],
            "rain": rain,
            "wet": wet,
            "mood": mood,
            "umbrella": umbrella,
            "heat": np.round(20 - 5 * rain + rng.normal(size=150), 2),
        }
    )
    row = pl.int_range(pl.len())
    return table.with_columns(
        pl.when(row % 11 > 0).then("wet"), pl.when(row % 13 > 0).then("mood"), pl.when(row % 17 > 0).then("umbrella")
    )


@pytest.fixture(scope="module")
def csv(weather: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "weather.csv"
    weather.write_csv(path, null_value="NA")
    return path


ROLES = ("--id", "name", "--observed", "heat")
QUICK = ("--l1", "2", "--no-check")


@pytest.fixture(scope="module")
def model(weather: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``fit weather.csv --id name --observed heat --l1 2`` writes."""
    path = tmp_path_factory.mktemp("models") / "weather.safetensors"
    MarkovField(l1=2.0, random_state=0).fit(weather.drop("name"), observed=["heat"]).save(path)
    return path


def same_model(path: Path, other: Path) -> None:
    one, two = load(path), load(other)
    assert one.features_.equals(two.features_)
    assert one.get_params() == two.get_params()
    assert one.field_.schema == two.field_.schema


# -- the program ---------------------------------------------------------------------------------------------


def test_the_installed_program_answers_at_once_without_the_heavy_parts() -> None:
    code = (
        "import sys; from sparsefield.app.cli import main\n"
        "for words in (['--help'], ['explore', '--help']):\n"
        "    try: main(words)\n"
        "    except SystemExit as end: assert not end.code\n"
        "heavy = {'numba', 'sklearn', 'polars', 'scipy', 'numpy', 'starlette', 'uvicorn'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for command in ("fit", "predict", "evaluate", "info", "analyze"):
        assert command in done.stdout


def test_version_and_help(run) -> None:
    assert run("--version").out == f"sparsefield {sparsefield.__version__}\n"
    assert run().out == run("--help").out
    assert "--penalty" in run("fit", "--help").out


# -- fit -----------------------------------------------------------------------------------------------------


def test_fit_writes_a_model_and_says_what_was_learned(run, csv: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    done = run("fit", csv, *ROLES, "-o", path).ok()
    assert "is more likely where heat is low" in done.out
    assert "rain=1" in done.out
    assert " s, converged.\n" in done.out
    about = run("info", path).out
    assert "Converged: no left-out pair would improve the fit (worst violation " in about
    assert "not about chance" in about
    assert "sparsefield analyze stability" in about
    assert "held-out cells: gain in log-likelihood per cell over column frequencies +" in about
    assert "column frequencies" in done.out
    assert done.out.endswith(f"Wrote {path}.\n")
    assert "Learning from 150 rows" in done.err
    assert " (auto, by heldout)" in run("info", path).out
    field = load(path)
    assert field.field_.schema.order == ("rain", "wet", "mood", "umbrella", "heat")
    assert [v.name for v in field.field_.schema.observed] == ["heat"]
    assert os.listdir(tmp_path) == ["m.safetensors"]


def test_fit_does_what_the_library_does(run, csv: Path, model: Path, tmp_path: Path) -> None:
    run("fit", csv, *ROLES, "-o", tmp_path / "m.safetensors", *QUICK)
    same_model(tmp_path / "m.safetensors", model)


def test_options_reach_the_field(run, csv: Path, tmp_path: Path) -> None:
    words = (
        "--l1 3 --set l2=0.5 --induction ideal-parent --objective cd --set induction.threshold=0.1 "
        "--set induction.batch_size=7 --set solver.max_iter=50 --set solver.certify=no --no-check "
        "--set features.penalize_biases=yes --seed 4 --jobs 1 --id name,heat"
    )
    done = run("fit", csv, "-o", tmp_path / "m", *words.split())
    params = load(tmp_path / "m").get_params()
    expected = {"l1": 3.0, "l2": 0.5, "induction": IdealParent(threshold=0.1, batch_size=7), "objective": "cd"}
    expected |= {"solver__max_iter": 50, "solver__certify": False, "features__penalize_biases": True}
    expected |= {"random_state": 4, "n_jobs": None}  # how many threads there were is not kept
    assert {name: params[name] for name in expected} == expected
    assert "column frequencies" not in done.out


def test_missing_words_are_gaps(run, tmp_path: Path) -> None:
    lines = ["a,b", *["1,1", "0,0", "gone,1", "1,unknown", "NA,0"] * 8]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    words = ("--missing", "gone", "--missing", "unknown")
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m", *words, *QUICK).ok()
    assert load(tmp_path / "m").states_ == {"a": [0, 1], "b": [0, 1]}
    only = ("--set", "read.missing_only=gone,unknown")
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m", *only, *QUICK).ok()
    assert load(tmp_path / "m").states_ == {"a": ["0", "1", "NA"], "b": [0, 1]}
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m", *QUICK)
    assert load(tmp_path / "m").states_ == {"a": ["0", "1", "gone"], "b": ["0", "1", "unknown"]}


def test_a_small_table_is_learned_without_a_check(run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n0,1\n1,0\n")
    done = run("fit", tmp_path / "t.csv", "-o", tmp_path / "m", "--l1", 0.1).ok()
    assert "Note: No check" in done.err
    assert "held-out" not in done.out


def test_warnings_are_plain_notes(run, csv: Path, tmp_path: Path) -> None:
    nominal = ("--nominal", "name", "--observed", "heat")
    done = run("fit", csv, "-o", tmp_path / "m", *nominal, "--set", "solver.max_iter=1", "--no-check", "--l1", 0.1)
    assert done.code == 2  # 150 names, all different
    assert "name" in done.err
    done = run("fit", csv, "-o", tmp_path / "m", *ROLES, "--set", "solver.max_iter=1", "--no-check", "--l1", 0.1).ok()
    notes = [line for line in done.err.splitlines() if line.startswith("Note: The fit stopped after")]
    assert len(notes) == 1
    assert "Warning" not in done.err
    assert "Not converged (the fit stopped early)" in done.out
    done = run("evaluate", csv, *ROLES, "--folds", 2, "--set", "solver.max_iter=2", "--l1", 0.1).ok()
    assert "2 of 2 fits stopped before they converged" in done.err


# -- predict -------------------------------------------------------------------------------------------------


def test_predict_fills_gaps_and_keeps_everything_else(run, csv: Path, model: Path, tmp_path: Path) -> None:
    run("predict", model, csv, "-o", tmp_path / "filled.csv").ok()
    before = pl.read_csv(csv, infer_schema=False)
    after = pl.read_csv(tmp_path / "filled.csv", infer_schema=False)
    assert after.columns == before.columns
    assert after["name"].to_list()[:2] == ["000", "001"]
    for name in before.columns:
        missing = before[name] == "NA"
        assert (after[name] == before[name]).filter(~missing).all()
        assert set(after[name].filter(missing)) <= set(before[name].filter(~missing))
    expected = load(model).transform(pl.read_csv(csv, null_values="NA").drop("name"))
    read_back = pl.read_csv(tmp_path / "filled.csv").drop("name")
    assert read_back.equals(expected)


def test_predict_reads_parquet_and_keeps_its_types(run, weather, model: Path, tmp_path: Path) -> None:
    table = weather.with_columns(pl.col("wet").cast(pl.Float32), pl.col("mood").cast(pl.Categorical))
    table.write_parquet(tmp_path / "t.parquet")
    run("predict", model, tmp_path / "t.parquet", "-o", tmp_path / "filled.parquet").ok()
    filled = pl.read_parquet(tmp_path / "filled.parquet")
    assert filled.schema == table.schema
    assert sum(filled.null_count().row(0)) == 0


def test_probabilities_of_each_gap_sum_to_one(run, csv: Path, model: Path, tmp_path: Path) -> None:
    run("predict", model, csv, "-o", tmp_path / "p.csv", "--proba").ok()
    long = pl.read_csv(tmp_path / "p.csv")
    assert long.columns == ["row", "column", "state", "probability"]
    assert np.allclose(long.group_by("row", "column").agg(pl.col("probability").sum())["probability"], 1.0)
    missing = pl.read_csv(csv, infer_schema=False)["wet"] == "NA"
    assert set(long.filter(pl.col("column") == "wet")["row"]) == set((missing.arg_true() + 1).to_list())
    best = long.filter(pl.col("column") == "wet").sort("probability").group_by("row").last().sort("row")
    filled = load(model).transform(pl.read_csv(csv, null_values="NA").drop("name"))
    assert best["state"].to_list() == [str(v) for v in filled["wet"].filter(missing)]


def test_values_that_training_never_saw_stay_with_a_note(run, csv: Path, model: Path, tmp_path: Path) -> None:
    table = pl.read_csv(csv, infer_schema=False).head(3)
    table = table.with_columns(mood=pl.Series(["odd", "good", "NA"]), wet=pl.Series(["soaked", "1", "?"]))
    table.write_csv(tmp_path / "t.csv")
    done = run("predict", model, tmp_path / "t.csv", "-o", tmp_path / "f.csv").ok()
    filled = pl.read_csv(tmp_path / "f.csv", infer_schema=False)
    assert filled["mood"][0] == "odd"
    assert filled["wet"].to_list()[:2] == ["soaked", "1"]
    assert filled["wet"][2] in ("0", "1")
    assert sum(line.startswith("Note: Column") for line in done.err.splitlines()) == 2


def test_a_column_of_digits_is_read_as_the_model_knows_it(run, tmp_path: Path) -> None:
    """In training a word made the column text; the table to fill has only digits in it."""
    (tmp_path / "t.csv").write_text("code,b\n" + "01,0\n02,1\nx,1\n" * 10)
    (tmp_path / "u.csv").write_text("code,b\n01,\n02,\n")
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m", "--no-check", "--l1", "0.5")
    done = run("predict", tmp_path / "m", tmp_path / "u.csv", "-o", tmp_path / "f.csv")
    assert "Note" not in done.err
    assert (tmp_path / "f.csv").read_text() == "code,b\n01,0\n02,1\n"


def test_a_predicted_column_that_is_not_there_is_added(run, csv: Path, model: Path, tmp_path: Path) -> None:
    pl.read_csv(csv, infer_schema=False).drop("wet").write_csv(tmp_path / "t.csv")
    done = run("predict", model, tmp_path / "t.csv", "-o", tmp_path / "f.csv")
    assert "Note: The table has no column 'wet'; it is added and filled." in done.err
    assert set(pl.read_csv(tmp_path / "f.csv")["wet"]) == {0, 1}
    pl.read_csv(csv, infer_schema=False).drop("heat").write_csv(tmp_path / "t.csv")
    done = run("predict", model, tmp_path / "t.csv", "-o", tmp_path / "f.csv")
    assert done.code == 2
    assert "lacks the observed column 'heat'" in done.err


def test_models_from_python_fill_tables_too(run, tmp_path: Path) -> None:
    X = np.array([[0, 0], [1, 1]] * 20)
    MarkovField(l1=0.5).fit(X).save(tmp_path / "m")
    (tmp_path / "t.csv").write_text("x0,x1\n0,\n1,\n")
    done = run("predict", tmp_path / "m", tmp_path / "t.csv", "-o", tmp_path / "f.csv")
    assert (tmp_path / "f.csv").read_text() == "x0,x1\n0,0\n1,1\n"
    assert "Note" not in done.err
    CRFClassifier(l1=2.0).fit(X[:, :1], X[:, 1]).save(tmp_path / "c")
    done = run("predict", tmp_path / "c", tmp_path / "t.csv", "-o", tmp_path / "f.csv")
    assert done.code == 2
    assert "holds a CRFClassifier" in done.err


# -- evaluate, info ------------------------------------------------------------------------------------------


def test_evaluate_prints_json_and_nothing_else(run, csv: Path) -> None:
    done = run("evaluate", csv, *ROLES, "--folds", 2, "--json", "--l1", 1)
    result = json.loads(done.out)
    assert (result["options"]["l1"], result["options"]["induction"]) == (1.0, "cfi")
    assert len(result["folds"]) == 2
    assert set(result["summary"]["ap"]) == {"mean", "sd"}
    assert result["summary"]["cll"]["mean"] > result["summary"]["frequency_cll"]["mean"]


def test_info_says_what_is_in_a_model(run, model: Path) -> None:
    done = run("info", model).ok()
    words = ["150 rows", "4 predicted, with 9 states; 1 observed", "Converged", "Options: l1=2"]
    words += [f"sparsefield {sparsefield.__version__}", "mood: ", "heat: observed; numeric; mean", "where heat is low"]
    for word in words:
        assert word in done.out


# -- what goes wrong -----------------------------------------------------------------------------------------


def test_a_column_that_is_not_there_is_named(run, csv: Path, tmp_path: Path) -> None:
    for option in ("--id", "--observed", "--numeric", "--ordinal", "--nominal"):
        run("fit", csv, option, "nope", "-o", tmp_path / "m").one_error(option, "'nope'", "name, rain, wet")
    run("fit", csv, "--id", "name", "--observed", "name", "-o", tmp_path / "m").one_error("'name'")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("content", "words"), [(b"a,b\n1,2\n1,2,3\n", "line 3 has 3"), (b"%PDF-1.7\n", "no table that can be read")]
)
def test_a_file_that_cannot_be_used_is_named(run, tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "broken.csv"
    path.write_bytes(content)
    run("fit", path, "-o", tmp_path / "m").one_error(str(path), words)
    run("evaluate", path).one_error(str(path), words)
    path.rename(tmp_path / "broken.parquet")
    run("fit", tmp_path / "broken.parquet", "-o", tmp_path / "m").one_error("broken.parquet")


def test_a_place_that_cannot_be_written_to_is_refused_first(run, csv: Path, model: Path, tmp_path: Path) -> None:
    done = run("fit", csv, *ROLES, "-o", tmp_path / "no" / "m")
    done.one_error("does not exist")
    assert "Learning" not in done.err
    run("fit", csv, *ROLES, "-o", tmp_path).one_error("folder")
    run("predict", model, csv, "-o", tmp_path / "f.pdf").one_error(".csv")


def test_usage_files_and_options_give_one_line(run, csv: Path, model: Path, tmp_path: Path) -> None:
    out = ("-o", tmp_path / "m.csv")
    run("fit", tmp_path / "nope.csv", *out).one_error("nope.csv: there is no such file")
    run("fit", csv).one_error("--output")
    run("fit", csv, *out, "--bogus").one_error("--bogus", "sparsefield fit --help")
    run("frobnicate").one_error("frobnicate")
    run("fit", csv, *ROLES, *out, "--l1", "-1").one_error("l1 must be")
    run("fit", csv, *ROLES, *out, "--induction", "magic").one_error("'magic'", "'cfi'")
    run("fit", csv, *ROLES, *out, "--set", "induction.batch_size=many").one_error("--set induction.batch_size=many")
    run("evaluate", csv, "--folds", "1").one_error("--folds")
    run("info", csv).one_error("weather.csv: not a complete sparsefield model")
    run("info", tmp_path / "nope").one_error("there is no such file")
    (tmp_path / "half").write_bytes(model.read_bytes()[:-10])
    run("predict", tmp_path / "half", csv, *out).one_error("truncated")
    (tmp_path / "other.csv").write_text("p,q\n1,2\n")
    run("predict", model, tmp_path / "other.csv", *out).one_error("No column of the model", "rain, wet")


def test_debug_shows_where_an_error_arose(run, tmp_path: Path) -> None:
    done = run("info", tmp_path / "nope", "--debug")
    assert done.code == 2
    assert "Traceback" in done.err
    assert "Error: " in done.err
    assert run("--debug", "info", tmp_path / "nope").err == done.err


@pytest.mark.parametrize(
    ("error", "limit", "line"),
    [
        (KeyError("inner"), -1, "KeyError: 'inner' (unexpected; --debug shows where)."),
        (MemoryError(), -1, "There is not enough memory: use fewer rows"),
        (KeyError("inner"), 1_500_000_000, "There is not enough memory: use fewer rows"),
    ],
)
def test_an_unexpected_error_is_a_line_too(run, csv: Path, tmp_path: Path, monkeypatch, error, limit, line) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(MarkovField, "fit", fail)
    monkeypatch.setattr("resource.getrlimit", lambda kind: (limit, -1))
    done = run("fit", csv, *ROLES, "-o", tmp_path / "m", "--no-check")
    assert done.code == 1
    assert f"Error: {line}" in done.err


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_old_output_stays_when_the_work_fails(
    run, csv: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    (tmp_path / "old.csv").write_text("old")
    monkeypatch.setattr(MarkovField, "transform", fail)
    monkeypatch.setattr(MarkovField, "fit", fail)
    for command in (["predict", model, csv], ["fit", csv, *ROLES, "--no-check"]):
        done = run(*command, "-o", tmp_path / "old.csv")
        assert done.code == (130 if error is KeyboardInterrupt else 2)
        if error is KeyboardInterrupt:
            assert done.err.splitlines()[-1] == "Interrupted; no result was written."
    assert (tmp_path / "old.csv").read_text() == "old"
    assert os.listdir(tmp_path) == ["old.csv"]


def test_a_write_that_fails_leaves_the_old_output(run, csv: Path, model: Path, tmp_path: Path, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", str(tmp_path / "old.csv"))

    (tmp_path / "old.csv").write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    run("predict", model, csv, "-o", tmp_path / "old.csv").one_error("old.csv: No space left on device")
    assert (tmp_path / "old.csv").read_text() == "old"
    assert os.listdir(tmp_path) == ["old.csv"]


def test_nothing_of_the_command_line_stays_behind(run) -> None:
    before = warnings.filters[:], warnings.showwarning
    run("--version")
    assert (warnings.filters[:], warnings.showwarning) == before


# -- options -------------------------------------------------------------------------------------------------


def test_options_of_the_command_line_have_the_defaults_of_the_estimator() -> None:
    defaults = MarkovField().get_params()
    context: Any = build_commands(app).commands["fit"]  # pyright: ignore[reportAttributeAccessIssue]
    shown = {option.name: option.default for option in context.params}
    for name in EVERYDAY:
        assert parse_value(shown[name]) == defaults[name], name


def test_rare_options_are_parameters_of_the_estimator(run, csv: Path, tmp_path: Path) -> None:
    fit = ("fit", csv, *ROLES, "-o", tmp_path / "m", *QUICK)
    done = run(*fit, "--set", "solver.tolerance=1")
    done.one_error("--set solver.tolerance=1: solver has no option 'tolerance'; its options are: tol, kkt_tol")
    done = run(*fit, "--set", "solver.tol=small", "--set", "l2=-1", "--refit", "maybe")
    done.one_error(
        "--set solver.tol=small: tol must be a number that is not negative, got 'small'",
        "--set l2=-1: l2 must be",
        "--refit maybe: refit must be yes, no or 'ml'",
    )
    run(*fit, "--set", "solve.tol=1").one_error("there is no option 'solve'; names are read, kinds, missing")
    run(*fit, "--set", "read.sep=;").one_error("write read.NAME=VALUE; names are missing_only,", "separator, encoding")
    run(*fit, "--set", "l2").one_error("write l2=VALUE; the value is ")
    run(*fit, "--set", "solver.tol").one_error("write solver.tol=VALUE; the value is ")
    run("info", tmp_path / "m", "--set", "l2=1").one_error("--set")
    assert not (tmp_path / "m").exists()


def test_a_rule_may_be_given_after_its_options(run, csv: Path, tmp_path: Path) -> None:
    words = ("--set", "induction.threshold=0.1,0.3", "--set", "missing.max_copies=16", "--set", "missing=em")
    run("fit", csv, *ROLES, "-o", tmp_path / "m", *QUICK, *words, "--induction", "ideal-parent").ok()
    params = load(tmp_path / "m").get_params()
    assert (params["induction"], params["missing"]) == (IdealParent(threshold=(0.1, 0.3)), EM(max_copies=16))


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("fit",), "sparsefield fit"),
        (("analyze", "stability"), "sparsefield analyze stability"),
        (("nothing",), "sparsefield"),
    ],
)
def test_usage_errors_point_to_the_help_of_the_command(run, words, command) -> None:
    done = run(*words)
    assert done.code == 2
    assert done.err.endswith(f"Try '{command} --help'.\n")
