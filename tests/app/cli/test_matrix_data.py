"""Names of the columns of a matrix come from a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from sparsefield import load
from sparsefield.app.tables.file_format import source_of

NAMES = ("bread", "butter", "jam")


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    """Baskets in which butter follows bread."""
    rng = np.random.default_rng(0)
    cells = rng.random((150, 3)) < (0.4, 0.1, 0.2)
    cells[:, 1] |= cells[:, 0] & (rng.random(150) < 0.6)
    sp.save_npz(tmp_path / "m.npz", sp.csr_matrix(cells.astype(np.int8)))
    return tmp_path / "m.npz"


def test_names_of_a_matrix_come_from_a_file(matrix, tmp_path, run) -> None:
    names, output = tmp_path / "names.txt", tmp_path / "m.safetensors"
    names.write_text("\n".join(NAMES) + "\n")
    fit = ("fit", matrix, "-o", output, "--l1", "3", "--columns", names)
    done = run(*fit, "--observed", "bread")
    assert done.code == 0
    assert [one.name for one in load(output).field_.schema.observed] == ["bread"]
    assert "butter=1 and bread=1 go together" in done.out
    assert "held-out cells" in done.out
    assert source_of(load(output).field_.record.source).columns == str(names)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"bread\nbutter\n", ("names.txt", "2 names", "3 columns")),
        (b"bread\n\nbutter\n", ("line 2 is empty",)),
        (b"\xff\n", ("UTF-8",)),
    ],
)
def test_bad_names_are_refused(matrix, tmp_path, run, text, words) -> None:
    names = tmp_path / "names.txt"
    names.write_bytes(text)
    run("fit", matrix, "-o", tmp_path / "m.safetensors", "--columns", names).one_error(*words)


def test_names_are_for_matrices(tmp_path, run) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m", "--columns", tmp_path / "names.txt").one_error(".npz matrix")
    run("fit", tmp_path / "m.npz", "-o", tmp_path / "m", "--columns", tmp_path / "n.txt").one_error("no such file")
