"""This module runs a case in this process and judges what it came to."""

from __future__ import annotations

import contextlib
import io
import math
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.recipes import Campaign, CaseResult, NoCaseError, Recipe, WrongResultError
from sparsefield.errors import ClusterError, DataError, ModelFileError

COLUMN_CHECKS = re.compile(r"features, but \w+ is expecting|feature names should match")
"""Messages of scikit-learn about tables with other columns than in training."""

REFUSALS = (DataError, ModelFileError, ClusterError)


def judge(campaign: Campaign, recipe: Recipe) -> CaseResult:
    """Run a case in a temporary folder; an exception that is no refusal is a failure."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            campaign.run(recipe.steps, Path(folder))
        except (*REFUSALS, *campaign.refusals) as error:
            return CaseResult("refused" if str(error).strip() else "failure", _describe(error))
        except NoCaseError:
            return CaseResult("not built")
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # also the panics of polars
            checked = isinstance(error, ValueError) and COLUMN_CHECKS.search(str(error))
            return CaseResult("refused" if checked else "failure", _describe(error))
    return CaseResult("fine")


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def check_finite(value: Any, what: str) -> None:
    """Raise WrongResultError if a result contains NaN or an infinity."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            check_finite(part, f"{what}[{key!r}]")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise WrongResultError(f"{what} is {value}")
    elif isinstance(value, np.ndarray) and value.dtype.kind == "f" and not np.isfinite(value).all():
        raise WrongResultError(f"{what} is not finite")


@contextlib.contextmanager
def unchanged(path: Path) -> Iterator[None]:
    """Raise WrongResultError if a file is lost or changed within the context, however it ends."""
    before = path.read_bytes()
    try:
        yield
    finally:
        if not path.is_file() or path.read_bytes() != before:
            raise WrongResultError(f"the input file {path.name} was lost or changed")


def run_command(*words: str) -> None:
    """Run a command line; DataError for one line of an error, WrongResultError for anything else than success."""
    from sparsefield.app.cli import app, run_app

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run_app(app, "sparsefield", list(words))
    errors = [line for line in err.getvalue().splitlines() if line.startswith("Error: ")]
    if code == 2 and len(errors) == 1 and "Traceback" not in err.getvalue():
        raise DataError(errors[0])
    if code != 0:
        raise WrongResultError(f"exit code {code}: {err.getvalue().strip()[-200:]}")
