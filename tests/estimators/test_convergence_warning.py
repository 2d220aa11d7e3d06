"""A fit that did not converge warns, in every estimator and at the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.exceptions import ConvergenceWarning

from sparsefield import CRFClassifier, MarkovField, Relational, RelationalField, Solver
from sparsefield.app.cli import app, run_app


def table(n_rows: int = 80) -> np.ndarray:
    rng = np.random.default_rng(0)
    first = rng.integers(0, 2, n_rows)
    return np.column_stack([np.where(rng.random(n_rows) < 0.8, first, 1 - first) for _ in range(4)])


@pytest.mark.parametrize(("kind", "certify"), [(MarkovField, False), (CRFClassifier, True), (RelationalField, True)])
def test_every_estimator_warns(kind, certify: bool) -> None:
    X, field = table(), kind(l1=0.1, solver=Solver(max_iter=2, certify=certify))
    linked = Relational({"a": pl.DataFrame(X, schema=list("abcd"))})
    given = {RelationalField: (linked,), CRFClassifier: (X[:, 1:], X[:, 0])}.get(kind, (X,))
    with pytest.warns(ConvergenceWarning, match="The fit stopped after 2 iterations"):
        field.fit(*given)
    assert not field.converged_


def test_commands_print_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pl.DataFrame(table(), schema=list("abcd")).write_csv(tmp_path / "t.csv")
    words = [str(tmp_path / "t.csv"), "--l1", "0.1", "--set", "solver.max_iter=2"]
    assert run_app(app, "sparsefield", ["fit", *words, "-o", str(tmp_path / "m"), "--no-check"]) == 0
    assert "Note: The fit stopped after 2 iterations" in capsys.readouterr().err
    assert run_app(app, "sparsefield", ["evaluate", *words, "--folds", "2"]) == 0
    assert "2 of 2 fits stopped before they converged" in capsys.readouterr().err
