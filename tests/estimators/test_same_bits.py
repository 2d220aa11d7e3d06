"""The same data give the same bits: on any number of threads, and again."""

from __future__ import annotations

import numpy as np
import pytest

from sparsefield import CRFClassifier, MarkovField, Solver, config


def table(n_rows: int = 900, missing: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 2, n_rows)]
    for count in (2, 3, 2, 4, 2, 2, 3):
        columns.append(np.where(rng.random(n_rows) < 0.5, columns[-1] % count, rng.integers(0, count, n_rows)))
    X = np.column_stack(columns).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    return X


@pytest.mark.parametrize(
    ("induction", "objective", "missing"),
    [("cfi", "pl", 0.1), ("grafting", "cd", 0.0)],
)
def test_any_number_of_threads_gives_the_same_file(tmp_path, objective, induction, missing) -> None:
    X = table(missing=missing)
    assert len(X) > 2 * config.block_rows(len(X))
    outcomes = []
    for n_jobs in (1, 3):
        field = MarkovField(
            l1=2.0,
            objective=objective,
            induction=induction,
            n_jobs=n_jobs,
            solver=Solver(certify=False, max_iter=40),
            random_state=5,
        ).fit(X)
        field.save(tmp_path / "field")
        answers = (field.score(X), field.predict_proba(X)["x4"].tobytes(), field.sample(600, burn_in=5).rows())
        outcomes.append(((tmp_path / "field").read_bytes(), *answers))
    assert outcomes[0] == outcomes[1]


def test_fitting_again_gives_the_same_bits(tmp_path) -> None:
    X = table(missing=0.1)
    field = MarkovField(l1=2.0, n_jobs=2)
    field.fit(X).save(tmp_path / "first")
    first = field.field_
    field.fit(X).save(tmp_path / "second")
    assert first is not field.field_
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_a_classifier_gives_the_same_bits_on_any_number_of_threads() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(900, 4))
    Y = (X[:, :3] + rng.normal(size=(900, 3)) > 0).astype(int)
    fits = [CRFClassifier(l1=2.0, n_jobs=n_jobs).fit(X, Y) for n_jobs in (1, 2, 3)]
    for fit in fits[1:]:
        assert np.array_equal(fits[0].field_.theta, fit.field_.theta)
        assert np.array_equal(np.array(fits[0].predict_proba(X)), np.array(fit.predict_proba(X)))
