"""``explore`` serves a page until it is interrupted, and refuses wrong data."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from dask_processes import LIMIT

from sparsefield import RelationalField, load
from sparsefield.app.cli.models import open_model
from sparsefield.app.cli.pages import read_table_rows
from sparsefield.app.pages.session import Session
from sparsefield.app.tables.file_format import FileFormat
from sparsefield.app.tables.schema_file import parse_schema_file

CODE = "from sparsefield.app.cli import main; main()"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    rain = rng.integers(0, 2, 200)
    wet = np.where(rng.random(200) < 0.9, rain, 1 - rain)
    words = [("?" if k % 7 == 0 else "true" if one else "false") for k, one in enumerate(wet)]
    path = tmp_path / "days.csv"
    pl.DataFrame(
        {"day": [f"d{k}" for k in range(200)], "rain": rain, "wet": words, "more": ["x;y", "z"] * 100}
    ).write_csv(path, separator=";")
    return path


@pytest.fixture
def plain_model(table: Path, run) -> Path:
    path = table.parent / "days.safetensors"
    run("fit", table, "--id", "day,more", "--set", "read.separator=;", "-o", path, "--no-check", "--l1", "1").ok()
    return path


@pytest.mark.slow
def test_the_page_is_served_until_interrupted(plain_model: Path, table: Path) -> None:
    pytest.importorskip("uvicorn")
    words = [sys.executable, "-c", CODE, "explore", str(plain_model), str(table), "--set", "read.separator=;"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as served:
        assert served.stdout is not None
        assert served.stderr is not None
        address = served.stdout.readline().strip()
        try:
            assert address.startswith("http://127.0.0.1:")
            with urllib.request.urlopen(address, timeout=LIMIT) as page:
                assert b"<h1>days</h1>" in page.read()
            with (
                pytest.raises(urllib.error.HTTPError, match="403"),
                urllib.request.urlopen(address[:-8], timeout=LIMIT) as page,
            ):
                page.read()
        finally:
            served.send_signal(signal.SIGINT)
            errors = served.stderr.read()
    assert served.returncode == 0
    assert errors.splitlines()[-1] == "Stopped."
    assert "Ctrl-C" in errors
    assert "Traceback" not in errors


def test_linked_rows_are_inferred_together(school: Path, model: Path) -> None:
    field = load(model)
    assert isinstance(field, RelationalField)
    rows = read_table_rows(open_model(model), school, FileFormat())
    expected = field.predict_proba(parse_schema_file(school).data)
    session = Session("school", field, rows)

    def view(table: str, row: int) -> dict:
        return session.row({"table": table, "row": row, "method": "mean-field"})

    (missing_cell,) = view("pupil", 0)["missing"]
    assert missing_cell["name"] == "mood"
    np.testing.assert_allclose(missing_cell["belief"], expected["pupil"]["mood"][0], atol=1e-4)
    assert [cell["name"] for cell in view("pupil", 0)["values"]] == ["grade"]
    assert rows.row_name("pupil", 0) == "000 (row 1)"


def test_data_of_the_wrong_kind_are_refused(school: Path, model: Path, plain_model: Path, table: Path, run) -> None:
    pytest.importorskip("uvicorn")
    run("explore", model, table).one_error("days.csv", "linked tables")
    run("explore", plain_model, school).one_error("one table", "CSV")
    run("explore", table).one_error("days.csv")
    other = table.parent / "other.csv"
    other.write_text("a,b\n1,2\n")
    run("explore", plain_model, other).one_error("No column of the model is in the table", "rain")
    (table.parent / "x.npz").touch()
    run("explore", plain_model, table.parent / "x.npz").one_error("sparse matrix")


def test_without_a_server_the_error_names_the_remedy(plain_model: Path, run, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr("sparsefield.app.cli.pages.find_spec", lambda name: None if name == "uvicorn" else real(name))
    run("explore", plain_model).one_error('pip install "sparsefield[explore]"')
