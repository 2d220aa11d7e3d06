"""A sparse fit that was killed goes on where it stood, and ends with the bits of one that never was."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sparse_tables import switches

from sparsefield import FitCallbacks, FixedGraph, MarkovField, Solver, config
from sparsefield.errors import DataError
from sparsefield.parameters import CHECKPOINT_NAME
from sparsefield.solver.checkpoint import Checkpoint


class Killed(BaseException):
    """Stands for a power cut: nothing in the library may catch it."""


def killer(after: int):
    def progress(step) -> None:
        if step.iteration == after:
            raise Killed

    return progress


@pytest.fixture(autouse=True)
def all_matrices_are_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "SPARSE_DENSITY", 1.0)
    monkeypatch.setattr(config, "CELLS_OF_SPARSE_BLOCK", 100)


SETTINGS = {
    "cfi": {},
    "grafting": {"induction": "grafting"},
    "two stages": {"solver__stages": 2, "penalize_biases": True},
    "full": {"induction": "full"},
    "graph": {"induction": FixedGraph(edges=[(k, k + 1) for k in range(11)])},
    "no certificate": {"solver__certify": False, "solver__max_iter": 60},
    "one step a batch": {"induction__steps_per_batch": 1},
}


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_killed_at_any_iteration_a_sparse_fit_ends_with_the_same_bits(setting, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    X = switches(0, n_rows=100, n_columns=12, density=0.1)
    batch = {} if setting in ("full", "graph") else {"induction__batch_size": 6}
    options = {"l1": 0.7, "n_jobs": 1, **batch, **SETTINGS[setting]}
    field = MarkovField(l1=2.0).set_params(**options).fit(X)
    field.save(tmp_path / "straight")
    whole = (tmp_path / "straight").read_bytes()
    differ = []
    for after in range(1, field.n_iter_ + 1, max(field.n_iter_ // 12, 1)):
        again = MarkovField(l1=2.0).set_params(**options, solver=Solver(checkpoint=tmp_path / "folder"))
        again.callbacks = FitCallbacks(on_iteration=killer(after))
        with pytest.raises(Killed):
            again.fit(X)
        again.callbacks = None
        again.fit(X).save(tmp_path / "resumed")
        assert not (tmp_path / "folder" / CHECKPOINT_NAME).exists()
        if (tmp_path / "resumed").read_bytes() != whole:
            differ.append(after)
    assert field.n_iter_ > 3
    assert differ == []


FIT = """
import sys
import numpy as np
import scipy.sparse as sp
from sparsefield import CFI, MarkovField, Solver
rng = np.random.default_rng(0)
on = rng.random((3000, 150)) < 0.004
for k in range(1, 150):
    on[:, k] |= on[:, k - 1] & (rng.random(3000) < 0.7)
X = sp.csr_matrix(on.astype(np.int8))
assert X.nnz < 0.03 * on.size
folder = sys.argv[2] if len(sys.argv) > 2 else None
MarkovField(l1=1.0, induction=CFI(batch_size=30), n_jobs=2,
            solver=Solver(checkpoint=folder), verbose=1).fit(X).save(sys.argv[1])
"""


@pytest.mark.slow
def test_a_process_killed_at_random_moments_ends_with_the_same_file(tmp_path: Path) -> None:
    straight, resumed, folder = (str(tmp_path / name) for name in ("straight", "resumed", "folder"))
    told = subprocess.run([sys.executable, "-c", FIT, straight], check=True, capture_output=True, text=True)
    length = len(told.stderr.splitlines())
    assert length > 20
    chance, reached = random.Random(0), []
    for _ in range(4):
        child = subprocess.Popen([sys.executable, "-c", FIT, resumed, folder], stderr=subprocess.PIPE, text=True)
        assert child.stderr is not None
        for line in child.stderr:
            last = int(line.split()[0])
            if chance.random() < 4 / length:  # some iterations on, and at any moment of the next one
                time.sleep(chance.uniform(0.0, 0.01))
                break
        os.kill(child.pid, signal.SIGKILL)
        child.communicate()
        reached.append(last)
    subprocess.run([sys.executable, "-c", FIT, resumed, folder], check=True, capture_output=True)
    assert max(reached) > 6  # some of the fits went on from what an earlier one had saved
    assert Path(resumed).read_bytes() == Path(straight).read_bytes()
    assert not list(Path(folder).iterdir())


def test_a_checkpoint_of_other_data_or_options_is_refused(tmp_path) -> None:
    X = switches(1, n_rows=150, n_columns=15, density=0.1)
    options = {"l1": 0.7, "induction__batch_size": 6, "n_jobs": 1, "solver__checkpoint": tmp_path}
    field = MarkovField(l1=2.0).set_params(**options)
    field.callbacks = FitCallbacks(on_iteration=killer(12))
    with pytest.raises(Killed):
        field.fit(X)
    assert (tmp_path / CHECKPOINT_NAME).is_file()
    moved = X.tolil()
    moved[0, 0], moved[0, 1] = 1 - moved[0, 0], 1 - moved[0, 1]
    weight = np.ones(X.shape[0])
    weight[7] = 1.5
    for odd, given in [
        (sp.csr_matrix(moved), {}),
        (X[:, ::-1], {}),
        (X[:-1], {}),
        (X, {"observed": ["x2"]}),
        (X, {"sample_weight": weight}),
        (X.toarray(), {}),
    ]:
        with pytest.raises(DataError, match="another folder"):
            MarkovField(l1=2.0).set_params(**options).fit(odd, **given)
    with pytest.raises(DataError, match="another folder"):
        MarkovField(l1=2.0).set_params(**{**options, "l1": 0.8}).fit(X)
    MarkovField(l1=2.0).set_params(**{**options, "n_jobs": 2}).fit(X)  # threads change nothing
    assert not (tmp_path / CHECKPOINT_NAME).exists()
