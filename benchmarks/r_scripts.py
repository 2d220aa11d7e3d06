"""This module runs scripts of R, for comparisons with R's packages where these are installed."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["has_packages", "read_cpu_seconds", "run_script"]


@cache
def has_packages(*packages: str) -> bool:
    """Return whether R and some of its packages are installed."""
    if shutil.which("Rscript") is None:
        return False
    listed = ", ".join(f"'{package}'" for package in packages)
    asked = f"quit(status = !all(sapply(c({listed}), requireNamespace, quietly = TRUE)))"
    return subprocess.run(["Rscript", "-e", asked], capture_output=True, check=False).returncode == 0


def run_script(folder: Path, script: str, *arguments: Any) -> float:
    """Run a script of R and return the wall seconds that it has measured.

    Parameters
    ----------
    folder : the script finds its input here and writes its results and ``seconds.txt``
    script : text of the script, whose arguments are the folder and ``arguments``

    Raises
    ------
    RuntimeError
        With the last line of R's message, if the script fails.
    """
    (folder / "script.R").write_text(script)
    call = ["Rscript", str(folder / "script.R"), str(folder), *map(str, arguments)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"Rscript failed: {(done.stderr.strip().splitlines() or ['without a message'])[-1]}")
    return float((folder / "seconds.txt").read_text().split()[0])


def read_cpu_seconds(folder: Path) -> float:
    """Return the CPU seconds that a script has written after the wall seconds; 0 where it has not."""
    words = (folder / "seconds.txt").read_text().split()
    return float(words[1]) if len(words) > 1 else 0.0
