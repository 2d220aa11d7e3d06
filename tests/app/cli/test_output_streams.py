"""Outputs are files, devices or standard output, and tables come back as they were."""

from __future__ import annotations

import csv
import io
import os
import stat
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparsefield import MarkovField
from sparsefield.app.cli import app as command_line
from sparsefield.app.cli import main, run_app


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 60)
    b = np.where(rng.random(60) < 0.9, a, 1 - a)
    path = tmp_path_factory.mktemp("streams") / "table.csv"
    pl.DataFrame({"a": a, "b": [None if k % 10 == 0 else int(v) for k, v in enumerate(b)]}).write_csv(path)
    return path


@pytest.fixture(scope="module")
def fitted(table: Path) -> Path:
    path = table.parent / "m.safetensors"
    MarkovField(l1=1.0).fit(pl.read_csv(table)).save(path)
    return path


def test_standard_output_gets_the_file_and_nothing_else(table, fitted, capfd) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["predict", str(fitted), str(table), "-o", "/dev/stdout"])
    assert not caught.value.code
    out, err = capfd.readouterr()
    assert out.splitlines()[0] == "a,b"
    assert len(out.splitlines()) == 61
    assert "Wrote /dev/stdout" in err


@pytest.mark.parametrize("command", ["predict", "fit", "report"])
def test_a_device_is_written_to_and_stays(table, fitted, run, command) -> None:
    args = {"predict": (fitted, table), "fit": (table, "--l1", "1", "--no-check"), "report": (fitted,)}[command]
    run(command, *args, "-o", "/dev/null").ok()
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_link_to_a_folder_that_does_not_exist_is_refused_first(table, run, tmp_path) -> None:
    (tmp_path / "m").symlink_to("nowhere/m")
    run("fit", table, "-o", tmp_path / "m").one_error("nowhere", "does not exist")


def test_a_page_named_like_standard_output_is_refused(fitted, run, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    run("report", fitted, "-o", "-").one_error("should end in .html")


ROWS = 24

WAYS_TO_WRITE = {
    "booleans": ("TRUE", "FALSE"),
    "small booleans": ("true", "false"),
    "digits": ("1", "2", "3"),
    "codes": ("007", "010", "112"),
    "numbers": ("1.50", "2.25", "10.00", "11.75", "13.5", "0.25"),
    "words": ("never", "often", "häufig", 'it\'s; so, "said"'),
}
"""Cells of a column, as people write them."""


@dataclass(frozen=True)
class TextTable:
    """A table as text, and how it is written to a file."""

    columns: dict[str, list[str]]
    separator: str
    encoding: str
    line_ending: str
    decimal: str

    def as_bytes(self) -> bytes:
        out = io.StringIO()
        writer = csv.writer(out, delimiter=self.separator, lineterminator=self.line_ending)
        writer.writerow(self.columns)
        writer.writerows(zip(*self.columns.values(), strict=True))
        return out.getvalue().encode(self.encoding)


@st.composite
def text_tables(draw: st.DrawFn) -> TextTable:
    separator = draw(st.sampled_from([",", ";", "\t"]))
    decimal = draw(st.sampled_from([".", ","])) if separator != "," else "."
    kinds = draw(st.lists(st.sampled_from(sorted(WAYS_TO_WRITE)), min_size=2, max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    columns = {"id": [f"P{k:03d}x" for k in range(ROWS)]}
    for k, kind in enumerate(kinds):
        words = [word.replace(".", decimal) if kind == "numbers" else word for word in WAYS_TO_WRITE[kind]]
        cells = [*words, *rng.choice(words, ROWS - len(words))]
        for row in range(len(words) + 2, ROWS, 7):
            cells[row] = ["", "NA"][k % 2]
        columns[f"{kind} {k}"] = cells
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
    return TextTable(columns, separator, encoding, draw(st.sampled_from(["\n", "\r\n"])), decimal)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text_tables())
def test_only_missing_cells_of_a_file_change(tmp_path: Path, table: TextTable) -> None:
    data, model, out = tmp_path / "t.csv", tmp_path / "m", tmp_path / "out.csv"
    data.write_bytes(table.as_bytes())
    assert run_app(command_line, "sparsefield", ["fit", str(data), "-o", str(model), "--l1=1", "--no-check", "-q"]) == 0
    assert run_app(command_line, "sparsefield", ["predict", str(model), str(data), "-o", str(out), "-q"]) == 0
    text = out.read_bytes().decode(table.encoding)
    assert out.read_bytes()[:2] == data.read_bytes()[:2]
    assert text.count("\r\n") == (len(text.splitlines()) if table.line_ending == "\r\n" else 0)
    names, *rows = csv.reader(io.StringIO(text, newline=""), delimiter=table.separator)
    assert names == list(table.columns)
    for name, cells in zip(names, zip(*rows, strict=True), strict=True):
        spellings = set(table.columns[name]) - {"", "NA"}
        for before, after in zip(table.columns[name], cells, strict=True):
            if before not in ("", "NA"):
                assert after == before
            elif name.startswith("numbers"):
                assert table.decimal in after
            else:
                assert after in spellings
