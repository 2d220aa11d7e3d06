"""A choice of l1 that was interrupted goes on where it stood, and ends with the choice of one that never was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from sparsefield import EBIC, FitCallbacks, HeldOut, MarkovField, Solver
from sparsefield.errors import DataError
from sparsefield.solver import PathPoint

# Tiny tables may support ever smaller values of l1.
pytestmark = pytest.mark.filterwarnings("ignore::sparsefield.errors.SelectionWarning")


class Interrupted(BaseException):
    """Stands for a power cut: nothing in the library may catch it."""


def table(missing: float = 0.0, n_rows: int = 60, copied: float = 0.8) -> np.ndarray:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (n_rows, 4)).astype(float)
    X[:, 1:] = np.where(rng.random((n_rows, 3)) < copied, X[:, :1], X[:, 1:])
    X[rng.random(X.shape) < missing] = np.nan
    return X


SETTINGS = {
    "refit": (MarkovField(selection=HeldOut(folds=2), refit=True, n_jobs=1), table()),
    "missing": (MarkovField(selection=HeldOut(folds=2), n_jobs=1), table(0.1, 150, 0.4)),
    "ebic": (MarkovField(selection=EBIC(), n_jobs=1), table()),
}


def interrupt_after(count: int) -> FitCallbacks:
    heard = []

    def hear(point) -> None:
        heard.append(point)
        if len(heard) == count:
            raise Interrupted

    return FitCallbacks(on_path_point=hear)


@pytest.mark.parametrize("setting", SETTINGS)
def test_interrupted_at_any_point_a_choice_ends_as_one_that_never_was(setting, tmp_path) -> None:
    field, X = SETTINGS[setting]
    points: list[PathPoint] = []
    whole = clone(field)
    whole.set_params(solver__callbacks=FitCallbacks(on_path_point=points.append))
    whole.fit(X)
    again = clone(field).set_params(solver=Solver(checkpoint=tmp_path))
    for count in (1, len(points) // 2):  # the second goes on from the first
        again.set_params(solver__callbacks=interrupt_after(count))
        with pytest.raises(Interrupted):
            again.fit(X)
        assert list(tmp_path.glob("selection-fold-*"))
    again.set_params(solver__callbacks=None)
    again.fit(X)
    # Completions of missing cells are others, so that one of the neighboring values may be chosen.
    assert again.objective_ == pytest.approx(whole.objective_, rel=0.02 if setting == "missing" else 1e-4)
    if setting != "missing":
        assert again.l1_ == pytest.approx(whole.l1_)
    assert not list(tmp_path.iterdir())


def interrupted(folder: Path, **options) -> MarkovField:
    field = MarkovField(selection=HeldOut(folds=2), n_jobs=1, solver=Solver(checkpoint=folder), **options)
    field.set_params(solver__callbacks=interrupt_after(2))
    with pytest.raises(Interrupted):
        field.fit(table())
    field.set_params(solver__callbacks=None)
    return field


def test_a_choice_of_other_data_or_options_is_refused(tmp_path) -> None:
    field = interrupted(tmp_path)
    with pytest.raises(DataError, match=r"selection-fold-0.checkpoint: belongs to a fit of other data"):
        field.fit(table(0.1))
    for options in ({"l2": 2.0}, {"refit": True}, {"random_state": 3}):
        with pytest.raises(DataError, match="belongs to a fit of other data"):
            clone(field).set_params(**options).fit(table())
    with pytest.raises(DataError, match="belongs to a fit of other data"):
        clone(field).fit(table(), groups=np.arange(60) // 2)
    clone(field).set_params(n_jobs=2).fit(table())  # threads change nothing


def test_an_incomplete_part_is_named_and_kept(tmp_path) -> None:
    field, name = interrupted(tmp_path), "selection-fold-0.checkpoint"
    cut = (tmp_path / name).read_bytes()[:-1]
    (tmp_path / name).write_bytes(cut)
    with pytest.raises(DataError, match=f"{name}: not a complete checkpoint: delete it"):
        field.fit(table())
    assert (tmp_path / name).read_bytes() == cut
