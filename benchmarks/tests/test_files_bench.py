"""The files that a fit runs through."""

from __future__ import annotations

import numpy as np

from benchmarks.files import HOME, files_of_fit


def test_a_fit_runs_through_the_training_loop_and_no_part_of_the_application() -> None:
    X = np.random.default_rng(0).integers(0, 2, (50, 3))
    names = {str(path.relative_to(HOME)) for path in files_of_fit(X)}
    assert {"estimators/markov_field.py", "solver/fit.py", "solver/owlqn.py"} <= names
    assert not [name for name in names if name.startswith(("app/", "analysis/"))]
