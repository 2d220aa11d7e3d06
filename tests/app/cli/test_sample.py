"""``sample`` draws rows from a saved model of one table or of linked tables."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sparsefield import CRFClassifier, MarkovField, load
from sparsefield.app.datasets import make_markov_field

QUICK = ("--burn-in", "20")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A field that was made up: six columns, x0 to x5, of three states."""
    path = tmp_path_factory.mktemp("models") / "made.safetensors"
    field = make_markov_field(6, 1, states=3, neighbors=2.0, weights=(-1.0, 1.0), burn_in=1, seed=1).field
    field.save(path)
    return path


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A learned field: words, truth and 0/1 that follow heat, which is observed."""
    rng = np.random.default_rng(0)
    heat = np.round(rng.normal(20, 5, 200), 1)
    mood = np.where(rng.random(200) < 0.9, np.where(heat > 20, "good", "bad"), "fair")
    table = pl.DataFrame({"heat": heat, "mood": mood, "wet": (heat < 20).astype(int), "umbrella": heat < 18})
    path = tmp_path_factory.mktemp("models") / "weather.safetensors"
    MarkovField(l1=2.0, n_jobs=1).fit(table, observed=["heat"]).save(path)
    return path


def text(path: Path) -> pl.DataFrame:
    return pl.read_csv(path, infer_schema=False)


# -- rows out of nothing -------------------------------------------------------------------------------------


def test_rows_are_those_of_the_library(run, made: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    done = run("sample", made, "-o", out, "-n", 7, *QUICK, "--seed", 3).ok()
    assert done.out == f"7 rows drawn with 7 chains of 20 sweeps each.\nWrote {out}.\n"
    assert "Drawing 7 rows ..." in done.err
    expected = load(made).sample(7, chains=7, burn_in=20, random_state=3)
    assert pl.read_csv(out).equals(expected)
    assert os.listdir(tmp_path) == ["out.csv"]


def test_the_default_is_a_thousand_rows_each_with_its_own_chain(run, made: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    done = run("sample", made, "-o", out, *QUICK)
    assert done.out == f"1,000 rows drawn with 1,000 chains of 20 sweeps each.\nWrote {out}.\n"
    assert text(out).shape == (1000, 6)
    words = " ".join(run("sample", "--help").out.replace("│", " ").split())
    for default in ("1,000 by default", "[default: 500]", "[default: 0]"):
        assert default in words


# -- missing values ------------------------------------------------------------------------------------------


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    path = tmp_path / "asked.csv"
    path.write_text("who,heat,mood,wet,umbrella\n007,25.0,,?,false\n008,12.5,bad,1,\n009,NA,fair,0,TRUE\n")
    return path


def test_missing_values_are_sampled_and_other_cells_stay(run, weather: Path, asked: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    done = run("sample", weather, "-o", out, "--given", asked, "-n", 40, *QUICK).ok()
    assert done.out == f"120 rows drawn, 40 for each row of {asked}, with 40 chains of 20 sweeps each.\nWrote {out}.\n"
    assert "Sampling 3 missing values in 3 columns and 3 rows, 40 times ..." in done.err
    drawn = text(out)
    assert drawn.columns == ["who", "heat", "mood", "wet", "umbrella"]
    assert drawn["who"].to_list() == ["007"] * 40 + ["008"] * 40 + ["009"] * 40
    one, two, three = (drawn.slice(start, 40) for start in (0, 40, 80))
    assert set(one["umbrella"]) == {"false"}
    assert set(one["mood"]) <= {"good", "fair", "bad"}
    assert set(one["wet"]) <= {"0", "1"}
    assert one["mood"].to_list().count("good") > 20, "it is warm"
    assert two.select("heat", "mood", "wet").unique().rows() == [("12.5", "bad", "1")]
    assert set(two["umbrella"]) <= {"TRUE", "false"}, "spelled as in the table"
    assert three.unique().rows() == [("009", "NA", "fair", "0", "TRUE")], "a row without missing values"
    expected = load(weather).sample(
        40,
        given=pl.DataFrame(
            {"heat": [25.0, 12.5, None], "mood": [None, "bad", "fair"], "wet": [None, 1, 0],
             "umbrella": [False, None, True]}
        ),
        chains=40, burn_in=20, random_state=0,
    )  # fmt: skip
    assert one["mood"].to_list() == expected["mood"][:40].to_list()
    assert two["umbrella"].to_list() == ["TRUE" if v else "false" for v in expected["umbrella"][40:80]]


def test_a_missing_target_column_is_added(run, weather: Path, made: Path, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("heat,wet,umbrella\n25.0,0,false\n")
    done = run("sample", weather, "-o", tmp_path / "o.csv", "--given", tmp_path / "t.csv", "-n", 2, *QUICK)
    assert "Note: The table has no column 'mood'; it is added and filled." in done.err
    assert text(tmp_path / "o.csv").columns == ["heat", "wet", "umbrella", "mood"]
    (tmp_path / "t.csv").write_text("x2,id\n1,a\n")
    done = run("sample", made, "-o", tmp_path / "o.csv", "--given", tmp_path / "t.csv", "-n", 2, *QUICK)
    (line,) = [line for line in done.err.splitlines() if line.startswith("Note: ")]
    assert line.startswith("Note: The table lacks 5 columns of the model, which are added and filled; columns: x0, x1")
    assert text(tmp_path / "o.csv").columns == ["x2", "id", "x0", "x1", "x3", "x4", "x5"]
    assert text(tmp_path / "o.csv").select("x2", "id").rows() == [("1", "a")] * 2


def test_a_table_without_missing_values_is_repeated_with_a_note(run, made: Path, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x0,x1,x2,x3,x4,x5\n0,1,2,0,1,2\n2,2,2,2,2,2\n")
    done = run(
        "sample", made, "-o", tmp_path / "o.csv", "--given", tmp_path / "t.csv", "-n", 2, "--burn-in", 10**9
    ).ok()
    assert "there are no missing values to sample" in done.err
    assert text(tmp_path / "o.csv").rows() == [("0", "1", "2", "0", "1", "2")] * 2 + [("2",) * 6] * 2


# -- linked tables -------------------------------------------------------------------------------------------


def test_sampled_linked_tables_are_written_to_a_folder(run, school: Path, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run("sample", model, "-o", out, "--given", school, "--burn-in", 50).ok()
    assert done.out == (
        "7 missing values in 1 column of 2 linked tables, sampled with 1 chain of 50 sweeps.\n"
        f"Wrote {out / 'pupil.csv'}, {out / 'visit.csv'}.\n"
    )
    before, after = text(school / "pupils.csv"), text(out / "pupil.csv")
    missing = before["mood"] == "?"
    assert after.drop("mood").equals(before.drop("mood"))
    assert after.filter(~missing).equals(before.filter(~missing))
    assert set(after["mood"].filter(missing)) <= {"glad", "sad", "odd"}
    assert (out / "visit.csv").read_bytes() == (school / "visits.csv").read_bytes()
    from sparsefield.app.tables.schema_file import read_schema

    expected = load(model).sample(read_schema(school), sweeps=50, random_state=0).tables["pupil"]["mood"]
    assert after["mood"].to_list() == expected.to_list()
    draws = {run("sample", model, "-o", out, "--given", school, "--burn-in", 5, "--seed", s).code for s in range(3)}
    assert draws == {0}


def test_linked_tables_are_required_and_sampled_once(
    run, school: Path, model: Path, made: Path, tmp_path: Path
) -> None:
    out = ("-o", tmp_path / "out")
    run("sample", model, *out).one_error("over linked tables", "--given")
    run("sample", model, *out, "--given", school / "pupils.csv").one_error("pass linked tables")
    run("sample", model, *out, "--given", school, "-n", 2).one_error("-n is not for linked tables", "remove it")
    run("sample", model, "-o", tmp_path / "o.csv", "--given", school).one_error("give a folder")
    run("sample", model, *out, "--given", school, "--missing", "x").one_error("schema file")
    run("sample", made, "-o", tmp_path / "o.csv", "--given", school).one_error("pass one table")
    (school / "visit.csv").write_bytes((school / "visits.csv").read_bytes())
    (school / "schema.toml").write_text((school / "schema.toml").read_text().replace("visits.csv", "visit.csv"))
    run("sample", model, "-o", school, "--given", school).one_error("one of the files that are read")
    assert not (tmp_path / "out").exists()


def test_unknown_states_of_linked_tables_are_refused(run, school: Path, model: Path, tmp_path: Path) -> None:
    visits = (school / "visits.csv").read_text()
    (school / "visits.csv").write_text(visits + "000,much\n")
    done = run("sample", model, "-o", tmp_path / "out", "--given", school)
    done.one_error("Column 'fun' of table 'visit'", "1 cell with", "'much'", "its states are 0, 1", "leave them empty")
    assert "Sampling" not in done.err
    (school / "schema.toml").write_text('[tables.pupil]\nfile = "pupils.csv"\n')
    run("sample", model, "-o", tmp_path / "out", "--given", school).one_error("Table 'visit'", "does not exist")


# -- what goes wrong -----------------------------------------------------------------------------------------


def test_errors_are_one_line_and_precede_sampling(
    run, made: Path, weather: Path, asked: Path, tmp_path: Path, monkeypatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("the work has begun")

    monkeypatch.setattr(MarkovField, "sample", never)
    out = ("-o", tmp_path / "o.csv")
    run("sample", tmp_path / "nope", *out).one_error("nope: there is no such file")
    run("sample", asked, *out).one_error("asked.csv: not a complete sparsefield model")
    run("sample", made).one_error("--output")
    for option in ("-n", "--burn-in"):
        run("sample", made, *out, option, 0).one_error(option, "1")
    run("sample", made, *out, "--seed", -1).one_error("--seed")
    run("sample", made, "-o", tmp_path / "no" / "o.csv").one_error("does not exist; create it first")
    run("sample", made, "-o", tmp_path / "o.pdf").one_error("should end in .csv")
    run("sample", made, "-o", tmp_path).one_error("should end in .csv")
    run("sample", weather, *out).one_error("observed columns: heat", "--given")
    given = (*out, "--given", tmp_path / "t.csv")
    run("sample", weather, *given).one_error("t.csv: there is no such file")
    (tmp_path / "t.csv").write_text("mood,wet\nbad,\n")
    run("sample", weather, *given).one_error("lacks the observed column 'heat'")
    (tmp_path / "t.csv").write_text("p,q\n1,2\n")
    run("sample", weather, *given).one_error("No column of the model", "columns: heat, mood, wet")
    (tmp_path / "t.csv").write_text("heat,mood,wet,umbrella\nhot,bad,1,true\n")
    run("sample", weather, *given).one_error("'heat' is numeric in the model, but holds 'hot'")
    for row, column, value in (
        ("1,odd,1,true", "mood", "odd"),
        ("1,bad,7,true", "wet", "7"),
        ("1,bad,1,x", "umbrella", "x"),
    ):
        (tmp_path / "t.csv").write_text(f"heat,mood,wet,umbrella\n1,,,\n{row}\n{row}\n")
        words = (f"Column {column!r}", "2 cells", f"{value!r}", "its states are", "leave them empty")
        run("sample", weather, *given).one_error(*words)
    (tmp_path / "t.npz").write_bytes(b"")
    run("sample", weather, *out, "--given", tmp_path / "t.npz").one_error("one table with missing values")
    run("sample", made, "-o", tmp_path / "t.csv", "--given", tmp_path / "t.csv").one_error("files that are read")
    CRFClassifier(l1=2.0, n_jobs=1).fit(np.array([[0], [1]] * 9), [0, 1] * 9).save(tmp_path / "c")
    run("sample", tmp_path / "c", *out).one_error("holds a CRFClassifier", "MarkovField")
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    run("sample", made, *out).one_error("is not writable")
    assert not (tmp_path / "o.csv").exists()


# -- info ----------------------------------------------------------------------------------------------------


def test_info_of_an_imported_field_mentions_no_fit(run, made: Path, weather: Path) -> None:
    done = run("info", made).ok()
    for word in (
        "Given, not learned.",
        "6 predicted, with 18 states",
        "x0: nominal; 0, 1, 2\n",
        "out of 60 possible pairs",
        "go together",
    ):
        assert word in done.out
    for word in ("iterations", "onverged", "Options", "nan", "None", "%", "candidates"):
        assert word not in done.out
    learned = run("info", weather).out
    assert "Given" not in learned
    assert "Converged" in learned
    assert "%" in learned
