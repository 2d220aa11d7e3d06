"""A choice of l1 that was interrupted goes on where it stood, and ends with the bits of one that never was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from sparsefield import EBIC, FitCallbacks, HeldOut, MarkovField, Solver
from sparsefield.errors import CheckpointWarning, DataError
from sparsefield.parameters import CHECKPOINT_NAME
from sparsefield.solver import PathPoint, checkpoint
from sparsefield.solver.regularization_path import PathFold, PathTrainer

_step_to = PathTrainer.step_to


# Tiny tables may support ever smaller values of l1.
pytestmark = pytest.mark.filterwarnings("ignore::sparsefield.errors.SelectionWarning")


class Interrupted(BaseException):
    """Stands for a power cut: nothing in the library may catch it."""


def table(missing: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (60, 4)).astype(float)
    X[:, 1:] = np.where(rng.random((60, 3)) < 0.8, X[:, :1], X[:, 1:])
    X[rng.random(X.shape) < missing] = np.nan
    return X


SETTINGS = {
    "rows": (MarkovField(selection=HeldOut(folds=2), n_jobs=1), table()),
    "refit": (MarkovField(selection=HeldOut(folds=2), refit=True, n_jobs=1), table(0.1)),
    "missing": (MarkovField(selection=HeldOut(folds=2), n_jobs=1), table(0.1)),
    "ebic": (MarkovField(selection=EBIC(), n_jobs=1), table()),
    "cells": (MarkovField(selection=HeldOut(folds=2), n_jobs=1), table(0.1)[:45]),
}


def interrupt_after(count: int) -> FitCallbacks:
    heard = []

    def hear(point) -> None:
        heard.append(point)
        if len(heard) == count:
            raise Interrupted

    return FitCallbacks(on_path_point=hear)


@pytest.mark.grid(keep=2)
@pytest.mark.parametrize("setting", SETTINGS)
def test_interrupted_at_any_point_a_choice_ends_with_the_same_bits(setting, tmp_path) -> None:
    field, X = SETTINGS[setting]
    points: list[PathPoint] = []
    straight = clone(field)
    straight.callbacks = FitCallbacks(on_path_point=points.append)
    straight.fit(X).save(tmp_path / "straight")
    whole = (tmp_path / "straight").read_bytes()
    folder = tmp_path / "folder"
    for count in (1, len(points) // 2, len(points)):  # each goes on from the one before
        again = clone(field).set_params(solver=Solver(checkpoint=folder))
        again.callbacks = interrupt_after(count)
        with pytest.raises(Interrupted):
            again.fit(X)
        assert list(folder.glob("selection-fold-*"))
    again = clone(field).set_params(solver=Solver(checkpoint=folder)).fit(X)
    again.save(tmp_path / "resumed")
    assert (tmp_path / "resumed").read_bytes() == whole
    assert not list(folder.iterdir())


def test_a_fold_that_was_finished_is_not_learned_again(tmp_path, monkeypatch) -> None:
    field = MarkovField(selection=HeldOut(folds=2), n_jobs=1, solver=Solver(checkpoint=tmp_path))
    steps: list[float] = []
    monkeypatch.setattr(
        "sparsefield.solver.regularization_path.PathTrainer.step_to",
        lambda self, l1, start=None, **options: (steps.append(l1), _step_to(self, l1, start, **options))[1],
    )
    field.callbacks = interrupt_after(3)
    with pytest.raises(Interrupted):
        field.fit(table())
    before = len(steps)
    field.callbacks = interrupt_after(4)
    with pytest.raises(Interrupted):
        field.fit(table())
    assert before == 3
    assert len(steps) - before == 1  # the first fold at its fourth value


def test_an_interruption_between_folds_keeps_the_finished_fold(tmp_path, monkeypatch) -> None:
    field = MarkovField(selection=HeldOut(folds=2), n_jobs=1)
    field.fit(table()).save(tmp_path / "straight")
    scored: list[float] = []

    def interrupting(self, l1, start=None, **options):
        scored.append(start)
        if start is not None and scored[:-1].count(None) < len(scored) - 1:  # not the first start from other weights
            raise Interrupted
        return _step_to(self, l1, start, **options)

    with monkeypatch.context() as patch:
        patch.setattr(PathTrainer, "step_to", interrupting)
        with pytest.raises(Interrupted):
            clone(field).set_params(solver=Solver(checkpoint=tmp_path / "folder")).fit(table())
    clone(field).set_params(solver=Solver(checkpoint=tmp_path / "folder")).fit(table()).save(tmp_path / "resumed")
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "straight").read_bytes()


def test_an_interruption_of_the_fit_that_follows_keeps_the_choice(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(checkpoint.Checkpoint, "due", lambda self: True)
    field = MarkovField(selection=HeldOut(folds=2), n_jobs=1)
    field.fit(table()).save(tmp_path / "straight")
    again = clone(field).set_params(solver=Solver(checkpoint=tmp_path / "folder"))

    def hear(record) -> None:
        if (tmp_path / "folder" / CHECKPOINT_NAME).exists():
            raise Interrupted

    again.callbacks = FitCallbacks(on_iteration=hear)
    with pytest.raises(Interrupted):
        again.fit(table())
    monkeypatch.setattr(PathFold, "begin", None)  # no fold begins again
    again.callbacks = None
    again.fit(table()).save(tmp_path / "resumed")
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "straight").read_bytes()


def interrupted(folder: Path, **options) -> MarkovField:
    field = MarkovField(selection=HeldOut(folds=2), n_jobs=1, solver=Solver(checkpoint=folder), **options)
    field.callbacks = interrupt_after(2)
    with pytest.raises(Interrupted):
        field.fit(table())
    field.callbacks = None
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


@pytest.mark.parametrize("name", ["selection-fold-0.checkpoint", "selection-fold-0-point-1.checkpoint"])
def test_a_damaged_part_is_named_and_kept(tmp_path, name) -> None:
    field = interrupted(tmp_path)
    damaged = bytearray((tmp_path / name).read_bytes())
    damaged[-1] ^= 1
    (tmp_path / name).write_bytes(damaged)
    with pytest.raises(DataError, match=f"{name}: this checkpoint is damaged.*delete it"):
        field.fit(table())
    assert (tmp_path / name).read_bytes() == damaged


def test_a_missing_part_is_named(tmp_path) -> None:
    field = interrupted(tmp_path)
    (tmp_path / "selection-fold-0-point-1.checkpoint").unlink()
    with pytest.raises(DataError, match=r"point-1.checkpoint.*missing.*delete .*selection-fold-0.checkpoint"):
        field.fit(table())


def test_on_a_full_disk_the_choice_goes_on_with_a_note(tmp_path, monkeypatch) -> None:
    field = MarkovField(selection=HeldOut(folds=2), n_jobs=1)
    field.fit(table()).save(tmp_path / "straight")
    write, written = checkpoint.write_atomically, []

    def fill_up(path, content) -> None:
        written.append(path)
        if len(written) in (3, 4, 8):
            raise OSError(28, "No space left on device")
        write(path, content)

    monkeypatch.setattr(checkpoint, "write_atomically", fill_up)
    again = clone(field).set_params(solver=Solver(checkpoint=tmp_path / "folder"))
    again.callbacks = interrupt_after(5)
    with pytest.warns(CheckpointWarning, match="No space left on device.*The fit goes on"), pytest.raises(Interrupted):
        again.fit(table())
    again.callbacks = None
    again.fit(table()).save(tmp_path / "resumed")
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "straight").read_bytes()


FIT = """
import sys
import numpy as np
from sparsefield import HeldOut, MarkovField, Solver
rng = np.random.default_rng(0)
X = rng.integers(0, 2, (60, 4)).astype(float)
X[:, 1:] = np.where(rng.random((60, 3)) < 0.8, X[:, :1], X[:, 1:])
field = MarkovField(selection=HeldOut(folds=2), n_jobs=2, solver=Solver(checkpoint=sys.argv[2]), verbose=1)
field.fit(X).save(sys.argv[1])
"""


@pytest.mark.slow
def test_a_process_killed_while_it_chooses_ends_with_the_same_file(tmp_path) -> None:
    MarkovField(selection=HeldOut(folds=2), n_jobs=1).fit(table()).save(tmp_path / "straight")
    command = [sys.executable, "-c", FIT, tmp_path / "resumed", tmp_path / "folder"]
    for count in (1, 3, 5):
        child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert child.stderr is not None
        heard = 0
        while heard < count:
            heard += child.stderr.readline().startswith("l1 ")
        os.kill(child.pid, signal.SIGKILL)
        child.communicate()
        assert list((tmp_path / "folder").glob("selection-fold-*"))
    subprocess.run(command, check=True, capture_output=True)
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "straight").read_bytes()
    assert not list((tmp_path / "folder").glob("[!.]*"))  # a kill while writing leaves a hidden file
