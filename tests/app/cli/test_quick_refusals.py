"""Refusals need few imports, take one line, and end with the code of bad usage."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sparsefield import ChainCRF, MarkovField
from sparsefield.app.cli import app, run_app
from sparsefield.model.model_file import VERSION

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
        [sys.executable, "-c", PROGRAM],
        input="info m\ninfo read",
        capture_output=True,
        text=True,
        cwd=folder,
        check=True,
    )
    assert done.stdout.splitlines()[-2:] == ["0 0", "scipy"]
