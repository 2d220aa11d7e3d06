"""``fit``, ``evaluate`` and ``info`` for linked tables: what is wrong is said once, and before the work."""

from __future__ import annotations

import csv
import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sparsefield import config


def strict(text: str) -> Any:
    """JSON as the standard has it: no NaN, no infinity."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_fit_checks_and_says_what_was_learned(run, school: Path, tmp_path: Path) -> None:
    done = run("fit", school, "-o", tmp_path / "m", "--l1", "0.5").ok()
    assert "held-out cells" in done.out
    assert "across who" in done.out


def test_a_table_that_is_predicted_no_better_than_by_frequencies_is_named(run, tmp_path: Path) -> None:
    (tmp_path / "pupils.csv").write_text("\n".join(["id,grade", *(f"p{k},{'ab'[k * 7 % 5 % 2]}" for k in range(40))]))
    visits = [f"p{k % 40},{k // 40 % 2},{k // 40 % 2}" for k in range(400)]
    (tmp_path / "visits.csv").write_text("\n".join(["who,fun,glad", *visits]))
    (tmp_path / "schema.toml").write_text(
        '[tables.pupil]\nfile = "pupils.csv"\nkey = "id"\n[tables.visit]\nfile = "visits.csv"\n'
        '[links.who]\ntable = "visit"\ncolumn = "who"\nto = "pupil"\n'
    )
    done = run("fit", tmp_path, "-o", tmp_path / "m", "--l1", "20").ok()
    assert "Cells of pupil are predicted no better than by column frequencies" in done.out
    assert "Cells of visit" not in done.out


def test_a_fault_in_the_keys_is_said_once_before_the_work(run, school: Path, tmp_path: Path) -> None:
    with (school / "visits.csv").open("a") as file:
        file.write("999,1\n")
    done = run("fit", school, "-o", tmp_path / "m")
    done.one_error("schema.toml", "Link 'who'", "999 in row 91", "visits.csv", "pupils.csv")
    assert "Checking" not in done.err
    assert done.err.count("999") == 1


def test_a_fault_in_a_column_is_said_once(run, school: Path, tmp_path: Path) -> None:
    lines = (school / "pupils.csv").read_text().splitlines()
    (school / "pupils.csv").write_text("\n".join([f"{lines[0]},job", *(f"{line}," for line in lines[1:])]))
    done = run("fit", school, "-o", tmp_path / "m")
    done.one_error("Table 'pupil'", "'job'", "no values at all")
    assert "No check" not in done.err
    assert done.err.count("'job'") == 1


def test_data_that_only_the_check_cannot_use_are_learned_without_it(run, tmp_path: Path) -> None:
    """Once a tenth is held out, nearly all of a column's values are different, as those of an identifier are."""
    distinct = config.IDENTIFIER_STATES + 50
    cells = math.ceil(distinct / config.IDENTIFIER_SHARE)
    lines = [f"v{k % distinct},{k % 2}\n" for k in range(cells)]
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(lines))
    done = run("fit", tmp_path / "t.csv", "-o", tmp_path / "m", "--set", "solver.max_iter=3", "--l1", 0.1).ok()
    assert "Note: No check: With 10% of the cells held out: Column 'a'" in done.err
    assert (tmp_path / "m").is_file()


OPTIONS = (
    "--observed grade, --missing x, --set read.header=no, --weight fun, --top-levels 3, --group grade, --latent a=2"
)


@pytest.mark.parametrize("words", OPTIONS.split(", "))
def test_options_for_one_table_are_refused(run, school: Path, tmp_path: Path, words: str) -> None:
    done = run("fit", school, "-o", tmp_path / "m", *words.split())
    done.one_error("for one table", *(["schema file"] if "latent" not in words else []))


def test_json_has_null_where_there_is_no_number(run, tmp_path: Path) -> None:
    """Without yes/no columns there is no area for yes."""
    (tmp_path / "t.csv").write_text("a,b\n" + "x,u\ny,v\nz,w\n" * 10)
    result = strict(run("evaluate", tmp_path / "t.csv", "--folds", 2, "--json").out)
    assert result["summary"]["ap_positive"] == {"mean": None, "sd": None}
    assert result["summary"]["ap"]["mean"] > 0


def test_templates_are_found_where_that_is_asked_for(run, school: Path, tmp_path: Path) -> None:
    done = run("fit", school, "-o", tmp_path / "m", "--l1", "0.5", "--template", "auto", "--no-check").ok()
    assert "across who" in done.out


def test_info_calls_templates_by_their_labels(run, school: Path, tmp_path: Path) -> None:
    words = ("--template", "within pupil", "--template", "across who")
    run("fit", school, "-o", tmp_path / "m", "--no-check", "--l1", "0.5", *words).ok()
    done = run("info", tmp_path / "m")
    assert "Templates: within pupil, across who." in done.out
    assert "{" not in done.out


def test_a_database_is_fitted_and_filled_as_it_is(run, school: Path, tmp_path: Path) -> None:
    shop, model, folder = tmp_path / "school.sqlite", tmp_path / "m", tmp_path / "filled"
    with closing(sqlite3.connect(shop)) as connection, connection:
        for name in ("pupils", "visits"):
            names, *rows = csv.reader((school / f"{name}.csv").read_text().splitlines())
            connection.execute(f"CREATE TABLE {name} ({', '.join(names)})")
            cells = [[None if cell in ("", "NA") else cell for cell in row] for row in rows]
            connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(names))})", cells)
    done = run("schema", shop).ok()
    assert "[links.who]" in done.out
    assert "# guessed: " in done.out
    assert "1 link" in run("schema", shop, "-o", tmp_path / "schema.toml").out
    run("schema", shop, "-o", school / "other.toml").one_error("relative to it")
    run("fit", shop, "-o", model, "--l1", 1, "--no-check").ok()
    run("predict", model, shop, "-o", folder).ok()
    assert sorted(path.name for path in folder.iterdir()) == ["pupils.csv", "visits.csv"]
    one = ("fit", shop, "--set", "read.sheet=pupils", "-o", tmp_path / "one", "--l1", 1, "--no-check")
    run(*one).ok()
    run("predict", tmp_path / "one", shop, "-o", tmp_path / "one.csv").ok()
