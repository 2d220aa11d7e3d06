"""Checkpoints: a fit that was killed goes on, and reaches the optimum of one that never was."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
from sparse_tables import switches

import sparsefield
from sparsefield import Features, FitCallbacks, MarkovField, Relational, RelationalField, Solver
from sparsefield.errors import CheckpointWarning, DataError
from sparsefield.parameters import CHECKPOINT_NAME


class Killed(BaseException):
    """Stands for a power cut: nothing in the library may catch it."""


def killer(after: int):
    def progress(step) -> None:
        if step.iteration == after:
            raise Killed

    return progress


def table(missing: float = 0.0, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (120, 6)).astype(float)
    X[:, 1:] = np.where(rng.random((120, 5)) < 0.6, X[:, :1], X[:, 1:])
    X[rng.random(X.shape) < missing] = np.nan
    return X


def village(seed: int = 0) -> Relational:
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, 2, (60, 4)).astype(float)
    cells[:, 1] = np.where(rng.random(60) < 0.8, cells[:, 0], cells[:, 1])
    people = pl.DataFrame(np.where(rng.random(cells.shape) < 0.1, np.nan, cells), schema=["a", "b", "c", "d"])
    people = people.fill_nan(None).with_columns(id=pl.int_range(60))
    knows = pl.DataFrame({"who": rng.integers(0, 60, 150), "whom": rng.integers(0, 60, 150)})
    links = {"who": ("knows", "who", "person"), "whom": ("knows", "whom", "person")}
    return Relational({"person": people, "knows": knows}, keys={"person": "id"}, links=links)


OPTIONS = {"l1": 0.5, "induction__batch_size": 4, "n_jobs": 1}
SETTINGS = {
    "complete": (MarkovField(l1=2.0).set_params(**OPTIONS), table),
    "em": (MarkovField(l1=2.0).set_params(**OPTIONS), lambda: table(0.15)),
    "clamped": (MarkovField(l1=2.0).set_params(**OPTIONS, missing="mean-field"), lambda: table(0.15)),
    "sparse": (MarkovField(l1=2.0).set_params(**OPTIONS), lambda: switches(0, n_rows=300, n_columns=20, density=0.02)),
    "three columns": (MarkovField(l1=2.0, features=Features(max_order=3)).set_params(**OPTIONS), table),
    "latent": (MarkovField(l1=2.0, latent={"h": 2}).set_params(**OPTIONS, random_state=0), lambda: table(0.15)),
    "linked": (RelationalField(l1=2.0).set_params(**OPTIONS), village),
    "likelihood": (MarkovField(objective="ml", l1=4.0, n_jobs=1), lambda: np.minimum(table(0.1)[:, :4], 1.0)),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_fit_that_was_killed_reaches_the_certified_optimum_of_one_that_never_was(setting, tmp_path) -> None:
    field, make = SETTINGS[setting]
    data = make()
    field = clone(field).set_params(solver=Solver(kkt_tol=1e-4))
    whole = clone(field).fit(data)
    continued = clone(field).set_params(solver__checkpoint=tmp_path)
    continued.set_params(solver__callbacks=FitCallbacks(on_iteration=killer(whole.n_iter_ - 1)))
    with pytest.raises(Killed):
        continued.fit(data)
    continued.set_params(solver__callbacks=None)
    continued.fit(data)
    assert continued.converged_
    assert continued.n_iter_ > 5 * ((whole.n_iter_ - 1) // 5)  # it went on from what was saved
    # Completions of missing cells are drawn again, and clamped beliefs have several fixed points.
    varying = setting in ("em", "clamped", "latent", "linked")
    if setting in ("latent", "linked"):  # many local optima: the continued fit must not end at a worse one
        assert continued.objective_ <= whole.objective_ * 1.01
    else:
        assert continued.objective_ == pytest.approx(whole.objective_, rel=1e-2 if varying else 1e-5)
    if not varying:
        np.testing.assert_array_equal(continued.field_.pairs, whole.field_.pairs)
    assert not (tmp_path / CHECKPOINT_NAME).exists()


FIT = """
import logging, sys
import numpy as np
from sparsefield import CFI, MarkovField, Solver
logging.basicConfig(level="INFO")
rng = np.random.default_rng(0)
X = rng.integers(0, 2, (400, 30)).astype(float)
X[:, 1:] = np.where(rng.random((400, 29)) < 0.7, X[:, :-1], X[:, 1:])
X[rng.random(X.shape) < 0.05] = np.nan
folder = sys.argv[2] if len(sys.argv) > 2 else None
MarkovField(l1=1.0, induction=CFI(batch_size=5), n_jobs=2,
            solver=Solver(checkpoint=folder)).fit(X).save(sys.argv[1])
"""


@pytest.mark.slow
def test_a_process_killed_at_random_moments_ends_at_the_same_optimum(tmp_path: Path) -> None:
    straight, resumed, folder = (str(tmp_path / name) for name in ("straight", "resumed", "folder"))
    told = subprocess.run([sys.executable, "-c", FIT, straight], check=True, capture_output=True, text=True)
    length = len(told.stderr.splitlines())
    assert length > 10
    chance, reached = random.Random(0), []
    for _ in range(5):
        child = subprocess.Popen([sys.executable, "-c", FIT, resumed, folder], stderr=subprocess.PIPE, text=True)
        assert child.stderr is not None
        for line in child.stderr:
            last = int(line.split()[1])  # INFO:sparsefield:step 12 (certify): ...
            if chance.random() < 3 / length:  # some iterations on, and at any moment of the next one
                time.sleep(chance.uniform(0.0, 0.01))
                break
        os.kill(child.pid, signal.SIGKILL)
        child.communicate()
        reached.append(last)
    subprocess.run([sys.executable, "-c", FIT, resumed, folder], check=True, capture_output=True)
    resumed_field, straight_field = sparsefield.load(resumed), sparsefield.load(straight)
    assert resumed_field.field_.record.converged
    assert resumed_field.field_.record.objective == pytest.approx(straight_field.field_.record.objective, rel=1e-2)
    assert max(reached) > 6  # some of the fits went on from what an earlier one had saved
    assert not list(Path(folder).iterdir())


def test_what_a_process_killed_while_it_saved_has_left_goes_with_the_checkpoint(tmp_path, monkeypatch) -> None:
    class KilledError(BaseException):
        """A kill between the content of a file and its name."""

    def killed(*_: object) -> None:
        raise KilledError

    field = MarkovField(l1=2.0).set_params(**OPTIONS, solver=Solver(checkpoint=tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", killed)
        patched.setattr(Path, "unlink", lambda *_, **__: None)
        with pytest.raises(KilledError):
            field.fit(table())
    assert [path.suffix for path in tmp_path.iterdir()] == [".partial"]
    field.fit(table())
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_of_other_data_or_options_is_refused(tmp_path) -> None:
    field = MarkovField(l1=2.0).set_params(**OPTIONS, solver=Solver(checkpoint=tmp_path))
    field.set_params(solver__callbacks=FitCallbacks(on_iteration=killer(7)))
    with pytest.raises(Killed):
        field.fit(table())
    assert (tmp_path / CHECKPOINT_NAME).is_file()
    field.set_params(solver__callbacks=None)
    for data, weight in ((table(seed=1), None), (table()[:-1], None), (table(), np.arange(1.0, 121.0))):
        with pytest.raises(DataError, match="another folder"):
            field.fit(data, sample_weight=weight)
    with pytest.raises(DataError, match="another folder"):
        MarkovField(l1=2.0).set_params(**{**OPTIONS, "l1": 0.6}, solver=Solver(checkpoint=tmp_path)).fit(table())
    MarkovField(l1=2.0).set_params(**{**OPTIONS, "n_jobs": 2}, solver=Solver(checkpoint=tmp_path)).fit(
        table()
    )  # threads change nothing
    assert not (tmp_path / CHECKPOINT_NAME).exists()


def test_a_damaged_checkpoint_is_reported_and_left_alone(tmp_path) -> None:
    (tmp_path / CHECKPOINT_NAME).write_bytes(b"not a checkpoint")
    with pytest.raises(DataError, match="delete it to start again"):
        MarkovField(l1=2.0).set_params(**OPTIONS, solver=Solver(checkpoint=tmp_path)).fit(table())
    assert (tmp_path / CHECKPOINT_NAME).read_bytes() == b"not a checkpoint"


def test_a_folder_that_cannot_be_made_is_reported_before_the_work(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be created"):
        MarkovField(l1=2.0).set_params(**OPTIONS, solver=Solver(checkpoint=tmp_path / "file" / "folder")).fit(table())


def test_on_a_full_disk_the_fit_goes_on_with_a_note(tmp_path, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    wanted = MarkovField(l1=2.0).set_params(**OPTIONS).fit(table())
    monkeypatch.setattr(os, "fsync", fail)
    field = MarkovField(l1=2.0).set_params(**OPTIONS, solver=Solver(checkpoint=tmp_path))
    with pytest.warns(CheckpointWarning, match=f"{CHECKPOINT_NAME}: .*No space left on device.*The fit goes on"):
        field.fit(table())
    assert np.array_equal(field.field_.theta, wanted.field_.theta)
    assert not list(tmp_path.iterdir())
