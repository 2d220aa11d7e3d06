"""Tables and outputs that cannot be used are refused at once, with all reasons."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sparsefield import ChainCRF, MarkovField, load
from sparsefield.app.cli import app, run_app
from sparsefield.app.cli.inputs import group_levels
from sparsefield.model.model_file import VERSION

FAST = ("--l1", 5, "--no-check")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    n = 200
    smokes = rng.integers(0, 2, n)
    frame = pl.DataFrame(
        {
            "person": [f"p{k}" for k in range(n)],
            "remark": [f"a long remark that person {k} wrote down" for k in range(n)],
            "nothing": [None] * n,
            "always": ["yes"] * n,
            "city": [f"c{min(k % 70, 66 - k % 60)}" if k % 3 else "c0" for k in range(n)],
            "smokes": smokes,
            "coughs": np.where(rng.random(n) < 0.9, smokes, 1 - smokes),
            "importance": rng.integers(1, 4, n) / 2,
        }
    )
    frame.write_csv(tmp_path / "t.csv")
    return tmp_path / "t.csv"


def columns_of(model: Path) -> list[str]:
    return list(load(model).field_.schema.input_names)


def test_one_note_names_all_columns_that_are_left_out(run, table: Path, tmp_path: Path) -> None:
    done = run("fit", table, "-o", tmp_path / "m", *FAST).ok()
    notes = [line for line in done.err.splitlines() if line.startswith("Note: ")]
    assert notes[0].startswith("Note: Left out: 'person' (an identifier), 'remark' (free text), 'nothing' (empty); ")
    assert len(notes) == 1
    assert columns_of(tmp_path / "m") == ["always", "city", "smokes", "coughs", "importance"]


def test_columns_that_options_name_are_refused_all_at_once(run, table: Path, tmp_path: Path) -> None:
    done = run("fit", table, "-o", tmp_path / "m", "--nominal", "person,nothing", *FAST)
    done.one_error("'person' has 200 different values", "'nothing' has no values at all", "--id")


def test_a_table_of_identifiers_is_refused(run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"p{k},q{k}\n" for k in range(20)))
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m", *FAST).one_error("No column can be learned", "'a'", "'b'")


def test_an_identifier_of_numbers_can_be_kept(run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("row,b\n" + "".join(f"{k},{k % 2}\n" for k in range(40)))
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m", *FAST)
    assert columns_of(tmp_path / "m") == ["b"]
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m", "--numeric", "row", *FAST)
    assert columns_of(tmp_path / "m") == ["row", "b"]


def test_left_out_columns_come_back_unchanged(run, table: Path, tmp_path: Path) -> None:
    run("fit", table, "-o", tmp_path / "m", *FAST)
    before = pl.read_csv(table, infer_schema=False)
    rows = before.with_columns(coughs=pl.when(pl.int_range(pl.len()) > 5).then("coughs"))
    rows.write_csv(tmp_path / "new.csv")
    done = run("predict", tmp_path / "m", tmp_path / "new.csv", "-o", tmp_path / "o.csv").ok()
    assert "Note" not in done.err
    after = pl.read_csv(tmp_path / "o.csv", infer_schema=False)
    assert after.drop("coughs").equals(before.drop("coughs"))
    assert after["coughs"].null_count() == 0


def test_rare_levels_are_grouped_and_known_to_predict(run, table: Path, tmp_path: Path) -> None:
    run("fit", table, "-o", tmp_path / "m", "--top-levels", 5, *FAST).ok()
    (city,) = [v for v in load(tmp_path / "m").field_.schema.variables if v.name == "city"]
    counts = pl.read_csv(table)["city"].value_counts(name="rows").sort("rows", "city", descending=[True, False])
    assert set(city.states) == {"(other)", *counts["city"].head(5)}
    rows = pl.read_csv(table, infer_schema=False)[:4].with_columns(
        city=pl.Series(["c0", "a new one", None, "c66"]), coughs=pl.Series([None, "1", "0", "1"])
    )
    rows.write_csv(tmp_path / "new.csv")
    done = run("predict", tmp_path / "m", tmp_path / "new.csv", "-o", tmp_path / "o.csv").ok()
    assert "do not occur in training" not in done.err
    after = pl.read_csv(tmp_path / "o.csv", infer_schema=False)
    assert after["city"].to_list()[:2] == ["c0", "a new one"]
    assert after["city"][2] in city.states
    assert after["city"][3] == "c66"


def test_missing_cells_are_not_grouped() -> None:
    table = pl.DataFrame({"a": ["x", "x", "y", None, "z"], "n": [1, 2, 3, 4, 5]})
    assert group_levels(table, ["a", "n"], 1)["a"].to_list() == ["x", "x", "(other)", None, "(other)"]
    assert group_levels(table, ["a"], 2)["a"].to_list() == ["x", "x", "y", None, "(other)"]
    assert group_levels(table, ["a"], 3).equals(table)


def test_weights_are_those_of_the_estimator(run, table: Path, tmp_path: Path) -> None:
    words = ("--id", "person,remark,nothing,always,city", "--weight", "importance")
    done = run("fit", table, "-o", tmp_path / "m", *words, "--l1", 5).ok()
    assert "held-out cells, predicted from all others" in done.out
    rows = pl.read_csv(table)
    field = MarkovField(l1=5.0).fit(rows.select("smokes", "coughs"), sample_weight=rows["importance"].to_numpy())
    assert load(tmp_path / "m").features_.equals(field.features_)
    run("analyze", "stability", tmp_path / "m", table, "--weight", "importance", "--resamples", 2).ok()


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("--weight", "city"), ("'city'", "row 1", "weights are numbers")),
        (("--weight", "nothing"), ("'nothing'", "row 1", "weights are numbers")),
        (("--weight", "size"), ("--weight names the column 'size'",)),
        (("--weight", "smokes", "--observed", "smokes"), ("'smokes' is the --weight",)),
    ],
)
def test_mistakes_of_weights_are_one_line(run, table: Path, tmp_path: Path, words, parts) -> None:
    run("fit", table, "-o", tmp_path / "m", *words, *FAST).one_error(*parts)


def test_a_column_may_be_named_rows(run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("rows,level\n" + "a,1\nb,2\nc,1\n" * 20)
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m", "--l1", 1, "--no-check", "--top-levels", 2).ok()


PROGRAM = """
import sys
from sparsefield.app.cli import app, run_app
codes = [run_app(app, "sparsefield", line.split(" ")) for line in sys.stdin.read().splitlines()]
print(*codes)
print(*(name for name in ("numba", "sklearn", "pandas", "scipy") if name in sys.modules))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    X = np.repeat(np.eye(2, dtype=int), 20, axis=0)
    MarkovField(l1=1.0).fit(X).save(tmp_path / "m")
    content = (tmp_path / "m").read_bytes()
    (tmp_path / "truncated").write_bytes(content[:-8])
    size = 8 + int.from_bytes(content[:8], "little")
    newer = content[8:size].replace(b'"version":"%d"' % VERSION, b'"version":"%d"' % (VERSION + 1))
    (tmp_path / "newer").write_bytes(len(newer).to_bytes(8, "little") + newer + content[size:])
    ChainCRF(l1=0.0).fit([[["a"], ["b"]]], [["x", "y"]]).save(tmp_path / "chain")
    (tmp_path / "text").write_text("a,b\n1,2\n")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    return tmp_path


REFUSED = """
--nonsense
nonsense
fit
fit --nonsense
fit absent.csv -o new
fit other.csv -o new --observed z
fit other.csv -o new --set l2=abc
evaluate absent.csv
evaluate other.csv --weight z
predict absent other.csv -o new.csv
predict m absent.csv -o new.csv
predict m other.csv -o new.csv
predict text other.csv -o new.csv
predict truncated other.csv -o new.csv
predict newer other.csv -o new.csv
predict . other.csv -o new.csv
report m -o new.html --data absent.csv
report m -o new.html --data other.csv
report text -o new.html
sample m -o new.csv --given absent.csv
sample m -o new.csv --given other.csv
sample truncated -o new.csv
analyze stability m absent.csv
predict chain other.csv -o new.csv
report chain -o new.html
info chain
info absent
info text
export text -o new.graphml
"""


def test_refusals_import_neither_numba_nor_sklearn(folder: Path) -> None:
    lines = REFUSED.strip()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=lines, capture_output=True, text=True, cwd=folder, check=True
    )
    codes, imported = done.stdout.split("\n")[:2]
    commands = lines.splitlines()
    assert dict(zip(commands, codes.split(), strict=True)) == dict.fromkeys(commands, "2")
    assert set(imported.split()) <= {"scipy"}
    errors = done.stderr.splitlines()
    assert len(errors) == len(commands)
    assert all(line.startswith("Error: ") for line in errors)
    chains = [error for command, error in zip(commands, errors, strict=True) if "chain" in command]
    assert len(chains) == 3
    assert all("load it in Python with sparsefield.load" in error for error in chains)


def test_info_imports_neither_numba_nor_sklearn(folder: Path) -> None:
    (folder / "t.csv").write_text("x0,x1\n" + "0,1\n1,0\n" * 20)
    assert run_app(app, "sparsefield", ["fit", f"{folder / 't.csv'}", "-o", f"{folder / 'read'}", "--l1=1", "-q"]) == 0
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input="info m\ninfo read", capture_output=True, text=True, cwd=folder,
        check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-2:] == ["0 0", "scipy"]
