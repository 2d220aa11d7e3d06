"""``sparsefield inspect``, called as a person would call it."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sparsefield import load


@pytest.fixture
def table(tmp_path: Path) -> Path:
    lines = [f"p{k},{'NA' if k % 5 == 0 else 20 + k % 17},{-99 if k % 8 == 0 else k % 4}\n" for k in range(40)]
    (tmp_path / "t.csv").write_text("who,age,grade\n" + "".join(lines))
    return tmp_path / "t.csv"


def test_it_prints_columns_and_advice(run, table: Path) -> None:
    done = run("inspect", table).ok()
    lines = done.out.splitlines()
    assert lines[0] == "t.csv is read as CSV in utf-8, separated by commas."
    size = "40 rows, 3 columns (1 ordinal, 1 numeric, 1 left out), 6.7% of the cells missing."
    assert lines[1] == f"{size} 2 columns have findings."
    assert "who      (nominal)" in done.out
    assert "- 'who' is an identifier, which cannot be learned: --id who" in lines
    assert lines[-4].endswith(": --missing -99")
    assert lines[-1] == f"sparsefield fit {table} -o model.safetensors --id who --missing -99"
    command = run("inspect", table, "--top-levels", 9, "--id", "who").out.strip().split("\n")[-1]
    assert command == f"sparsefield fit {table} -o model.safetensors --id who --top-levels 9 --missing -99"


SCALE = ("trifft gar nicht zu", "trifft eher nicht zu", "teils/teils", "trifft eher zu", "trifft voll zu")


@pytest.fixture
def survey(tmp_path: Path) -> Path:
    """Return a survey in Windows-1252 with semicolons, decimal commas, codes of missing answers and remarks."""
    rng = np.random.default_rng(0)
    n = 300
    mood = rng.normal(size=n)
    places = [np.clip(np.digitize(mood + rng.normal(size=n), [-1.5, -0.5, 0.5, 1.5]), 0, 4) for _ in range(3)]
    columns: dict[str, list] = {
        "Nr": list(range(1, n + 1)),
        "Datum": [f"{k % 28 + 1:02d}.{k % 12 + 1:02d}.2024" for k in range(n)],
        "Alter": [-9 if k % 25 == 0 else int(45 + 12 * mood[k]) for k in range(n)],
        "Größe": [f"{170 + 8 * one:.1f}".replace(".", ",") for one in mood],
        "Einkommen": [f"{1000 * np.exp(one / 2):.2f}".replace(".", ",") for one in mood],
        **{f"Frage {q}": [SCALE[place] for place in row] for q, row in enumerate(places, 1)},
        "Kinder": [99 if k % 30 == 0 else k % 5 for k in range(n)],
        "Anmerkung": [f"Zu Punkt {k} fehlt mir noch eine Erklärung" for k in range(n)],
        "PLZ": [f"0{k % 4}067" for k in range(n)],
    }
    for name in ("Größe", "Einkommen", "Frage 1", "Frage 2"):
        columns[name][7::40] = ["k.A."] * len(columns[name][7::40])
    lines = [";".join(columns), *(";".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    (tmp_path / "umfrage.csv").write_bytes("\n".join(lines).encode("cp1252"))
    return tmp_path / "umfrage.csv"


def test_the_printed_command_runs_and_does_what_the_advice_promises(run, survey: Path, tmp_path: Path) -> None:
    lines = run("inspect", survey).out.splitlines()
    assert "- 'Anmerkung' is free text: --id Anmerkung" in lines
    assert max(len(line) for line in lines if line.startswith("- ")) < 300
    words = shlex.split(lines[-1])
    assert words[:3] == ["sparsefield", "fit", str(survey)]
    assert [words[k + 1] for k, word in enumerate(words) if word == "--missing"] == ["-9", "k.A.", "99"]  # not "-"
    words[words.index("model.safetensors")] = str(tmp_path / "m")
    done = run(*words[1:], "--l1", 20, "--no-check").ok()
    assert "Left out" not in done.err
    assert "may mean" not in done.err
    schema = load(tmp_path / "m").field_.schema
    assert {variable.name: variable.kind for variable in schema.variables} == {
        "Datum": "numeric", "Alter": "numeric", "Größe": "numeric", "Einkommen": "numeric", "Frage 1": "nominal",
        "Frage 2": "nominal", "Frage 3": "nominal", "Kinder": "ordinal", "PLZ": "nominal",
    }  # fmt: skip
    assert set(schema.variables[schema.index_of_name["Frage 1"]].states) == set(SCALE)


def test_the_options_of_fit_answer_the_findings(run, survey: Path) -> None:
    words = shlex.split(run("inspect", survey).out.splitlines()[-1])[5:]
    done = run("inspect", survey, *words).ok()
    assert "Advice" not in done.out
    assert "Anmerkung" not in done.out
    assert re.search(r"^Einkommen +numeric", done.out, re.MULTILINE)


def test_a_fit_says_which_words_may_mean_missing_values(run, survey: Path, tmp_path: Path) -> None:
    done = run("fit", survey, "-o", tmp_path / "m", "--l1", 200, "--no-check", "--missing", "none")
    left_out, advice = (line for line in done.err.splitlines() if "'k.A.'" in line)
    assert "'Einkommen' (numbers as text, because of 'k.A.')" in left_out
    assert advice.startswith("Note: '-9', 'k.A.', '99' in 'Alter', ")
    assert "To use them: sparsefield fit " in done.err


def test_a_plain_fit_reads_unanimous_codes_as_missing_and_says_so(run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    answers = np.where(rng.random((200, 2)) < 0.1, "k.A.", rng.integers(1, 6, (200, 2)).astype(str))
    answers[3, 0] = answers[4, 1] = "-9"
    rows = [",".join(row) for row in answers]
    (tmp_path / "t.csv").write_text("\n".join(["F1,F2", *rows]) + "\n")
    done = run("fit", tmp_path / "t.csv", "-o", tmp_path / "m", "--l1", 50, "--no-check")
    assert "Note: Read as missing values in all columns: 'k.A.' (as in F1, F2), '-9' (as in F1, F2); " in done.err
    field = load(tmp_path / "m")
    assert [variable.states for variable in field.field_.schema.variables] == [(1, 2, 3, 4, 5)] * 2
    run("predict", tmp_path / "m", tmp_path / "t.csv", "-o", tmp_path / "o.csv").ok()
    done = run("fit", tmp_path / "t.csv", "-o", tmp_path / "m", "--l1", 50, "--no-check", "--nominal", "F1,F2")
    assert "Read as missing" not in done.err


def test_advice_repeats_the_codes_that_were_read_as_missing(run, tmp_path: Path) -> None:
    """With --missing only its words are: the others would be values again."""
    rng = np.random.default_rng(0)
    answers = np.where(rng.random((200, 2)) < 0.1, "k.A.", rng.integers(1, 6, (200, 2)).astype(str))
    answers[:9, 0] = "99"
    (tmp_path / "t.csv").write_text("\n".join(["F1,F2", *map(",".join, answers)]) + "\n")
    options = ("-o", tmp_path / "m", "--l1", 50, "--no-check")
    (advice,) = (line for line in run("fit", tmp_path / "t.csv", *options).err.splitlines() if "'99'" in line)
    assert advice.endswith(": --missing 99 --missing k.A.")
    run("fit", tmp_path / "t.csv", *options, *advice.rpartition(": ")[2].split()).ok()
    assert [v.states for v in load(tmp_path / "m").field_.schema.variables] == [(1, 2, 3, 4, 5)] * 2


def test_json_has_all_columns(run, table: Path) -> None:
    found = json.loads(run("inspect", table, "--json").out)
    assert [column["name"] for column in found["columns"]] == ["who", "age", "grade"]
    assert found["columns"][0]["left_out"] == "an identifier"
    assert found["advice"][0]["option"] == "--id who"


def test_it_writes_a_page(run, table: Path, tmp_path: Path) -> None:
    done = run("inspect", table, "-o", tmp_path / "book.html")
    assert done.out.endswith(f"Wrote {tmp_path / 'book.html'}.\n")
    assert "Codebook of t.csv" in (tmp_path / "book.html").read_text()
    run("inspect", table, "-o", tmp_path / "book.pdf").one_error(".html")


def test_a_wide_table_is_cut_unless_all_is_given(run, tmp_path: Path) -> None:
    pl.DataFrame({f"c{k}": [0, 1, 1] for k in range(50)}).write_parquet(tmp_path / "w.parquet")
    assert "20 columns not shown" in run("inspect", tmp_path / "w.parquet").out
    shown = run("inspect", tmp_path / "w.parquet", "--all").out
    assert "not shown" not in shown
    assert "c49" in shown


def test_linked_tables_and_matrices_are_refused(run, school: Path, tmp_path: Path) -> None:
    run("inspect", school).one_error("one at a time")
    run("inspect", tmp_path / "m.npz").one_error("sparse 0/1 matrix")
