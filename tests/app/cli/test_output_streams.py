"""Commands write to devices, pipes, links and standard output as to files."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sparsefield import MarkovField, load
from sparsefield.app.cli import main


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
    args = {
        "predict": (fitted, table),
        "fit": (table, "--l1", "1", "--no-check"),
        "report": (fitted,),
    }[command]
    assert run(command, *args, "-o", "/dev/null").code == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_pipe_gets_a_model(table, run, tmp_path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_bytes)
        assert run("fit", table, "--l1", "1", "--no-check", "-o", pipe).code == 0
        (tmp_path / "copy").write_bytes(read.result())
    assert load(tmp_path / "copy").converged_


def test_a_link_to_another_folder_stays(table, run, tmp_path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "m").symlink_to("store/m")
    assert run("fit", table, "--l1", "1", "--no-check", "-o", tmp_path / "m").code == 0
    assert (tmp_path / "m").is_symlink()
    assert load(tmp_path / "store" / "m").converged_


def test_a_link_to_a_folder_that_does_not_exist_is_refused_first(table, run, tmp_path) -> None:
    (tmp_path / "m").symlink_to("nowhere/m")
    run("fit", table, "-o", tmp_path / "m").one_error("nowhere", "does not exist")


def test_a_page_named_like_standard_output_is_refused(fitted, run, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    run("report", fitted, "-o", "-").one_error("should end in .html")
