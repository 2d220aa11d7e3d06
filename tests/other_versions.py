"""This module runs tests with the oldest permitted packages, or other Pythons: ``make test-oldest``, ``test-pythons``.

It needs nothing but the standard library, since it runs before anything is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "versions"
EXTRA = "test"
PYTHONS = ("3.12", "3.13", "3.14")
MARKED = "not (slow or cluster or benchmark or browser)"

TESTS = (
    "tests/data/test_frames.py", "tests/data/test_kinds.py", "tests/data/test_schema.py",
    "tests/data/test_column_summaries.py", "tests/app/tables/test_database.py", "tests/app/tables/test_files.py",
    "tests/app/tables/test_graph_export.py", "tests/app/tables/test_matrix_files.py",
    "tests/app/tables/test_nasty_files.py", "tests/model/test_saved_kinds.py", "tests/solver/test_owlqn.py",
    "tests/estimators/test_kinds_of_tables.py", "tests/estimators/test_types_of_answers.py",
    "tests/estimators/test_types_of_cells.py", "tests/app/cli/test_cli.py", "tests/app/cli/test_kind_options.py",
    "tests/app/cli/test_written_tables.py",
)  # fmt: skip
"""Tests of what other libraries do for sparsefield: tables, files, compiled kernels, estimators, the command line."""

REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[(?P<extras>[^\]]*)\])?(?P<bounds>.*)")
LOWER = re.compile(r"(?:>=|==)\s*([0-9][0-9A-Za-z.]*)")


def oldest_versions(project: dict[str, Any], extra: str) -> dict[str, str]:
    """Return {package: lower bound} of the dependencies of a project and of an extra with all that it includes."""
    found = (_lower_bound(one) for one in _requirements(project, extra))
    return {name: version for name, version in found if version}


def find_python(version: str) -> str | None:
    """Return the path of a Python of a version, such as "3.12", which may be one of pyenv; None if there is none."""
    places = [shutil.which(f"python{version}")]
    places += sorted(map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python")), reverse=True)
    return next((place for place in places if place and _runs(place)), None)


def check_oldest() -> int:
    """Run the tests with the lower bounds of all packages."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [f"{name}=={version}\n" for name, version in sorted(oldest_versions(project, EXTRA).items())]
    # Old packages warn that newer ones beside them, which they do not limit, have deprecated something.
    return _run_tests("oldest", sys.executable, "".join(lines), ["-W", "ignore::DeprecationWarning"])


def check_pythons() -> int:
    """Run the tests with each other Python that is here, and say which are not."""
    codes = []
    for version in PYTHONS:
        python = find_python(version)
        if python is None:
            sys.stdout.write(f"Python {version} was skipped: there is no python{version} here.\n")
            continue
        codes.append(_run_tests(f"python{version}", python, "", []))
    return max(codes, default=0)


def _requirements(project: dict[str, Any], extra: str) -> Iterator[str]:
    yield from project["dependencies"]
    extras, seen = [extra], set()
    while extras:
        name = extras.pop()
        seen.add(name)
        for requirement in project["optional-dependencies"][name]:
            parts = REQUIREMENT.match(requirement)
            if parts and parts["name"] == project["name"]:
                extras += [one.strip() for one in parts["extras"].split(",") if one.strip() not in seen]
            else:
                yield requirement


def _lower_bound(requirement: str) -> tuple[str, str]:
    parts = REQUIREMENT.match(requirement)
    if parts is None:
        raise ValueError(f"{requirement!r} is not a requirement.")
    lower = LOWER.search(parts["bounds"])
    return parts["name"], lower.group(1) if lower else ""


def _runs(python: str) -> bool:
    """Return whether an interpreter can be started: those of pyenv are on the path also where they are not enabled."""
    return subprocess.run([python, "-c", "import venv"], capture_output=True, check=False).returncode == 0


def _run_tests(name: str, python: str, constraints: str, options: Sequence[str]) -> int:
    folder, start = BUILD / name, time.monotonic()
    made = _install(folder, python, constraints)
    installed = time.monotonic()
    # Kernels that another version of numba has compiled would be replaced.
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "numba"), "PYTHONPATH": str(ROOT / "src")}
    command = [str(made), "-m", "pytest", "-n", "auto", "--dist", "loadfile", "-p", "no:cacheprovider", "-m", MARKED]
    code = subprocess.run([*command, *options, *TESTS], cwd=ROOT, env=environment, check=False).returncode
    seconds = f"{installed - start:.0f} s to install, {time.monotonic() - installed:.0f} s to test"
    sys.stdout.write(f"{name}: {'passed' if code == 0 else 'failed'}, {seconds}.\n")
    return code


def _install(folder: Path, python: str, constraints: str) -> Path:
    """Return the interpreter of an environment, which is made anew if what it depends on has changed."""
    made, stamp = folder / "bin" / "python", folder / "installed.txt"
    wanted = f"{python}\n{constraints}\n{(ROOT / 'pyproject.toml').read_text(encoding='utf-8')}"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return made
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    limits = folder / "constraints.txt"
    limits.write_text(constraints, encoding="utf-8")
    install = [str(made), "-m", "pip", "install", "--quiet", "--no-compile", "--constraint", str(limits)]
    subprocess.run([*install, "-e", f".[{EXTRA}]"], cwd=ROOT, check=True)
    stamp.write_text(wanted, encoding="utf-8")
    return made


if __name__ == "__main__":
    sys.exit({"oldest": check_oldest, "pythons": check_pythons}[sys.argv[1]]())
