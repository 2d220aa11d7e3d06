"""Kinds of columns at the command line: options, what ``fit`` and ``info`` print, imputed numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sparsefield import MarkovField, load

FAST = ("--l1", 5, "--no-check")


def make_people(n_rows: int = 240) -> pl.DataFrame:
    """Return people whose answers rise with their age, and whose debts are skewed; some values are missing."""
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, n_rows)
    place = np.clip((age - 18) // 20 + rng.integers(-1, 2, n_rows), 0, 2)
    trust = np.clip((age - 10) // 14 + rng.integers(-1, 2, n_rows), 1, 5)
    debt = np.exp(rng.normal(size=n_rows) * 1.5).round(2)
    frame = pl.DataFrame(
        {
            "age": age,
            "answer": np.array(["never", "rarely", "often"])[place],
            "trust": trust,
            "debt": debt,
            "zip": rng.choice([1010, 1020, 1030, 1040], n_rows),
        }
    )
    every = pl.int_range(n_rows)
    return frame.with_columns(
        age=pl.when(every % 10 != 3).then("age"),
        answer=pl.when(every % 10 != 5).then("answer"),
        debt=pl.when(every % 20 != 7).then("debt"),
    )


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("people") / "people.csv"
    make_people().write_csv(path)
    return path


def kinds_of(path: Path) -> dict[str, tuple[str, tuple]]:
    schema = load(path).field_.schema
    return {v.name: (v.kind, v.states if v.kind != "numeric" else ()) for v in schema.variables}


def test_kinds_are_found_out_and_printed(run, people: Path, tmp_path: Path) -> None:
    done = run("fit", people, "-o", tmp_path / "m", *FAST).ok()
    line = "Kinds: 2 numeric (age, debt), 2 ordinal (trust, zip), 1 nominal (answer). "
    assert f"\n{line}Change them with --numeric, --ordinal and --nominal.\n" in done.out
    assert {v.role for v in load(tmp_path / "m").field_.schema.variables} == {"target"}


def test_kinds_are_given_one_by_one_or_with_commas(run, people: Path, tmp_path: Path) -> None:
    order = "answer=never<rarely<often"
    apart = ("--numeric", "age", "--numeric", "trust", "--ordinal", order, "--nominal", "zip", "--ordinal", "debt")
    run("fit", people, "-o", tmp_path / "a", *apart, *FAST).ok()
    together = ("--numeric", "age,trust", "--ordinal", f"debt, {order}", "--nominal", "zip")
    run("fit", people, "-o", tmp_path / "b", *together, *FAST).ok()
    found = kinds_of(tmp_path / "a")
    assert kinds_of(tmp_path / "b") == found
    assert found["answer"] == ("ordinal", ("never", "rarely", "often"))
    assert {name: kind for name, (kind, _) in found.items()} == {
        "age": "numeric", "answer": "ordinal", "trust": "numeric", "debt": "ordinal", "zip": "nominal",
    }  # fmt: skip
    kinds = {"age": "numeric", "trust": "numeric", "debt": "ordinal", "answer": "never<rarely<often", "zip": "nominal"}
    assert load(tmp_path / "b").get_params()["kinds"] == kinds
    direct = MarkovField(l1=5.0, kinds=kinds, random_state=0).fit(pl.read_csv(people))
    assert load(tmp_path / "b").features_.equals(direct.features_)


@pytest.mark.slow
def test_normal_scores_are_asked_for_and_refused(run, people: Path, tmp_path: Path) -> None:
    words = ("--numeric", "age=normal-scores, debt=linear-scores", "--numeric", "trust")
    run("fit", people, "-o", tmp_path / "m", *words, *FAST).ok()
    loaded = load(tmp_path / "m")
    transforms = {v.name: v.transform for v in loaded.field_.schema.variables if v.numeric}
    assert transforms == {"age": "normal-scores", "debt": "linear-scores", "trust": "linear-scores"}
    assert loaded.get_params()["kinds"] == {"age": "normal-scores", "debt": "linear-scores", "trust": "numeric"}
    lines = run("info", tmp_path / "m").out.splitlines()
    assert any("age: numeric;" in line and line.endswith("levels, normal scores") for line in lines)
    assert any("debt: numeric;" in line and line.endswith("levels, linear scores") for line in lines)
    done = run("fit", people, "-o", tmp_path / "m", "--numeric", "age=ranks", *FAST)
    assert done.code != 0
    assert "--numeric has 'age=ranks': write age=linear-scores or age=normal-scores, or only its name" in done.err


def test_the_coding_of_the_paper_is_an_option(run, people: Path, tmp_path: Path) -> None:
    assert (
        run("fit", people, "-o", tmp_path / "m", "--set", "features.coding=reference", "--nominal", "zip", *FAST).code
        == 0
    )
    schema = load(tmp_path / "m").field_.schema
    assert schema.variables[schema.index_of_name["zip"]].has_reference


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("--numeric", "age", "--nominal", "zip,age"), ("--numeric and --nominal", "'age'", "remove one")),
        (("--ordinal", "answer=never<often"), ("'answer'", "'rarely' (row 1)", "Add what is missing")),
        (("--id", "age", "--numeric", "age"), ("'age' is an --id", "cannot also have a kind")),
        (("--numeric", "answer"), ("'answer'",)),
    ],
)
def test_mistakes_are_one_line(run, people: Path, tmp_path: Path, words, parts) -> None:
    run("fit", people, "-o", tmp_path / "m", *words, *FAST).one_error(*parts)
    assert not (tmp_path / "m").exists()


@pytest.fixture(scope="module")
def model(people: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "people.safetensors"
    kinds = {"answer": "never<rarely<often", "zip": "nominal"}
    MarkovField(l1=5.0, kinds=kinds, random_state=0).fit(pl.read_csv(people)).save(path)
    return path


def test_info_shows_kinds_orders_and_numbers(run, model: Path) -> None:
    out = run("info", model).out
    variables = {v.name: v for v in load(model).field_.schema.variables}
    assert "Kinds: 2 numeric (age, debt), 2 ordinal (answer, trust), 1 nominal (zip)." in out
    shares = [f"{share:.0%}" for share in variables["answer"].frequencies]
    assert f"answer: ordinal; never ({shares[0]}) < rarely ({shares[1]}) < often ({shares[2]})" in out
    age, debt = variables["age"], variables["debt"]
    assert f"age: numeric; mean {age.center:.4g}, standard deviation {age.scale:.4g}, {len(age.states)} levels, " in out
    assert f"{len(age.states)} levels, linear scores\n" in out
    assert f"{len(debt.states)} levels, normal scores\n" in out
    assert "columns without a state have weights per standard deviation" in out
    assert "age is high where answer is high" in out or "answer is high where" in out


def test_missing_numbers_are_imputed(run, people: Path, model: Path, tmp_path: Path) -> None:
    run("predict", model, people, "-o", tmp_path / "full.csv").ok()
    given, full = pl.read_csv(people), pl.read_csv(tmp_path / "full.csv")
    assert full["age"].dtype == pl.Int64  # whole numbers stay whole
    assert full.null_count().sum_horizontal().item() == 0
    imputed = load(model).transform(given).with_columns(pl.col("debt").round(2))  # which has two decimals
    for name in given.columns:
        missing = given[name].is_null()
        assert full[name].filter(~missing).equals(given[name].filter(~missing))
        assert full[name].filter(missing).to_list() == imputed[name].filter(missing).to_list()
    run("predict", model, people, "-o", tmp_path / "median.csv", "--fill", "median").ok()
    median = load(model).transform(given, fill="median")["debt"]
    assert pl.read_csv(tmp_path / "median.csv")["debt"].to_list() == pytest.approx(median.to_list(), abs=0.0051)
    run("predict", model, people, "-o", tmp_path / "odd.csv", "--fill", "best").one_error("fill", "median")


def test_probabilities_of_numbers_are_those_of_bins(run, people: Path, model: Path, tmp_path: Path) -> None:
    run("predict", model, people, "-o", tmp_path / "p.csv", "--proba").ok()
    table = pl.read_csv(tmp_path / "p.csv")
    variables = {v.name: v for v in load(model).field_.schema.variables}
    for name, states in (("age", variables["age"].bin_labels), ("answer", ("never", "rarely", "often"))):
        first = table.filter(pl.col("column") == name).head(len(states))
        assert first["state"].to_list() == list(states)
        assert first["probability"].sum() == pytest.approx(1.0)
    given, answers = pl.read_csv(people), load(model).predict_proba(pl.read_csv(people))["answer"]
    rows = given["answer"].is_null().arg_true().to_list()
    found = table.filter(pl.col("column") == "answer")
    assert found["row"].unique(maintain_order=True).to_list() == [row + 1 for row in rows]
    assert found["probability"].to_list() == pytest.approx(answers[rows].ravel().tolist())


def test_a_model_of_all_kinds_is_exported_and_reported(run, people: Path, model: Path, tmp_path: Path) -> None:
    run("export", model, "-o", tmp_path / "m.graphml").ok()
    run("report", model, "-o", tmp_path / "r.html", "--data", people).ok()
    page = (tmp_path / "r.html").read_text()
    assert "2 numeric, 2 ordinal, 1 nominal" in page
    assert "never&lt;rarely&lt;often" in page


def test_evaluate_shows_every_column_in_its_units(run, people: Path) -> None:
    words = ("--folds", 2, "--l1", 5, "--ordinal", "answer=never<rarely<often", "--nominal", "zip")
    done = run("evaluate", people, *words).ok()
    whole, columns = done.out.split("\n\n")
    assert "RMSE / SD" in whole.splitlines()[0]
    assert "column frequencies, means" in whole
    head, *lines = columns.splitlines()
    assert head.split()[:5] == ["column", "kind", "cells", "error", "baseline"]
    by_name = {line.split()[0]: line.split()[1:] for line in lines}
    assert {name: line[0] for name, line in by_name.items()} == {
        "age": "numeric", "answer": "ordinal", "trust": "ordinal", "debt": "numeric", "zip": "nominal",
    }  # fmt: skip
    assert by_name["age"][-2:] == ["in", "90%"]
    assert by_name["answer"][-1] == "off"
    assert by_name["answer"].count("levels") == 2
    result = json.loads(run("evaluate", people, *words, "--json").out)
    first = result["columns"][0]
    assert first["name"] == "age"
    gain = first["baseline_loss"] - first["loss"]
    assert float(by_name["age"][by_name["age"].index("\u00b1") - 1]) == pytest.approx(gain, abs=6e-4)
    assert first["calibration_error"] is None


def test_dates_of_parquet_files_are_filled_and_drawn_as_dates(run, tmp_path: Path) -> None:
    steps = np.random.default_rng(0).integers(0, 60, 120)
    days = pl.Series(np.datetime64("2020-01-01") + steps)
    times = days.cast(pl.Datetime("ms")) + pl.duration(hours=9)
    table = pl.DataFrame({"day": days, "late": (steps > 30).astype(int)}).with_columns(time=times)
    table = table.with_columns(pl.when(pl.int_range(120) != 3).then(pl.col("day", "time")))
    table.write_parquet(tmp_path / "t.parquet")
    run("fit", tmp_path / "t.parquet", "-o", tmp_path / "m", *FAST).ok()
    for words in (("predict", tmp_path / "m", tmp_path / "t.parquet"), ("sample", tmp_path / "m", "-n", 5)):
        run(*words, "-o", tmp_path / "out.parquet").ok()
        made = pl.read_parquet(tmp_path / "out.parquet")
        assert made.select("day", "time").schema == table.select("day", "time").schema
        assert made.null_count().sum_horizontal().item() == 0
        assert made["time"].is_between(pl.datetime(2020, 1, 1), pl.datetime(2020, 3, 2)).all()
    table.write_csv(tmp_path / "t.csv")
    run("predict", tmp_path / "m", tmp_path / "t.csv", "-o", tmp_path / "out.csv").ok()
    made = pl.read_csv(tmp_path / "out.csv", try_parse_dates=True)
    assert (made["day"].dtype, made["time"].dtype.base_type(), made["day"].null_count()) == (pl.Date, pl.Datetime, 0)


def test_a_check_shows_the_relative_errors_of_numbers(run, people: Path, tmp_path: Path) -> None:
    done = run("fit", people, "-o", tmp_path / "m", "--l1", 5).ok()
    heading = next(line for line in done.out.splitlines() if "RMSE / SD" in line)
    assert heading.split() == ["error", "CLL", "AP", "RMSE", "/", "SD"]
    numbers = tmp_path / "numbers.csv"
    pl.read_csv(people).select("age", "debt").write_csv(numbers)
    done = run("fit", numbers, "-o", tmp_path / "n", "--l1", 5)
    heading = next(line for line in done.out.splitlines() if "RMSE / SD" in line)
    assert heading.split() == ["RMSE", "/", "SD"]
