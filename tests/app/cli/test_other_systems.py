"""Commands run where a system lacks what Linux has, and read tables with its line ends; processes are started anew."""

import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from sparsefield import MarkovField

pytestmark = pytest.mark.slow

WITHOUT = "import sys; sys.modules |= dict.fromkeys(('fcntl', 'resource', 'termios', 'pwd')); "
MAIN = "from sparsefield.app.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_tables_are_learned_and_filled_in_without_modules_of_unix(tmp_path, ends) -> None:
    rows = ["a,b,c", *["yes,1,no", "no,2,yes", "yes,1,yes", "no,2,no"] * 30, "yes,,no"]
    results = {}
    for system, prologue in {"linux": "import sys; ", "other": WITHOUT}.items():
        folder = tmp_path / system
        folder.mkdir()
        (folder / "table.csv").write_bytes(ends.join([*rows, ""]).encode())
        for words in (
            ["fit", "table.csv", "-o", "m.safetensors"],
            ["predict", "m.safetensors", "table.csv", "-o", "o.csv"],
        ):
            done = subprocess.run(
                [sys.executable, "-c", prologue + MAIN, *words], cwd=folder, capture_output=True, text=True, timeout=300
            )
            assert done.returncode == 0, done.stderr
        results[system] = (folder / "o.csv").read_text().split()
    assert results["other"] == results["linux"]
    assert results["other"][-1] == "yes,1,no"


def fit_with_threads(table: np.ndarray) -> MarkovField:
    return MarkovField(l1=1.0, n_jobs=2).fit(table)


def test_a_process_that_is_spawned_as_on_windows_and_macos_learns_the_same_and_returns_it() -> None:
    table = (np.random.default_rng(0).random((60, 3)) < 0.5).astype(int)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        (field,) = processes.map(fit_with_threads, [table])
    np.testing.assert_array_equal(field.field_.theta, fit_with_threads(table).field_.theta)
