"""Elementary kernels are exact, and cached kernels have the bits of compiled ones."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from sparsefield.kernels.coded_columns import exponentiate_states
from sparsefield.kernels.elementary import exp_minus_abs


def exp(x: np.ndarray) -> np.ndarray:
    out = np.empty_like(x)
    exp_minus_abs(x, out)
    return out


def test_the_exponential_is_accurate_over_the_whole_range() -> None:
    x = np.concatenate([np.linspace(0, 708, 200001), np.geomspace(1e-300, 1, 1001), [0.0, 5e-324]])
    np.testing.assert_allclose(exp(x), np.exp(-x), rtol=1e-13, atol=0)
    assert exp(np.zeros(1))[0] == 1.0


def test_the_exponential_of_large_arguments_is_negligible() -> None:
    values = exp(np.array([709.0, 745.0, 1e4, 1e300, np.inf]))
    assert (values < 1e-300).all()
    assert (values >= 0).all()


def test_exponentials_relative_to_a_maximum() -> None:
    z = np.array([-3.0, 0.0, 2.0, -1e6])
    top = np.array([0.0, 1.0, 2.0, 5.0])
    out, total = z.copy(), np.empty(4)
    exponentiate_states(out[None], top, total)
    assert np.array_equal(out, total)
    np.testing.assert_allclose(out[:3], np.exp(z - top)[:3], rtol=1e-14, atol=0)
    assert 0 <= out[3] < 1e-300


FITS = """
import hashlib
import numpy as np
import polars as pl
import scipy.sparse as sp
from sparsefield import Features, MarkovField, Relational, RelationalField

rng = np.random.default_rng(0)
X = rng.integers(0, 3, (300, 8)).astype(float)
X[:, 1:] = np.where(rng.random((300, 7)) < 0.6, X[:, :-1], X[:, 1:])
binary = (X > 0).astype(float)
missing = np.where(rng.random(X.shape) < 0.1, np.nan, X)
sparse = sp.csr_matrix((rng.random((2000, 120)) < 0.03).astype(np.int8))
people = pl.DataFrame({"id": np.arange(300), "a": binary[:, 0].astype(int), "b": X[:, 1].astype(int)})
knows = pl.DataFrame({"who": rng.integers(0, 300, 600), "whom": rng.integers(0, 300, 600)})
links = {"who": ("knows", "who", "person"), "whom": ("knows", "whom", "person")}
linked = Relational({"person": people, "knows": knows}, keys={"person": "id"}, links=links)

fits = {
    "pl": (MarkovField(l1=2.0), X),
    "binary": (MarkovField(l1=2.0), binary),
    "cd": (MarkovField(l1=2.0, objective="cd"), X),
    "missing": (MarkovField(l1=2.0), missing),
    "bp": (MarkovField(l1=2.0, inference="bp"), missing),
    "latent": (MarkovField(l1=2.0, latent={"topic": 2}, random_state=0), binary),
    "latent, three states": (MarkovField(l1=2.0, latent={"topic": 3}, random_state=0), missing),
    "order 3": (MarkovField(l1=2.0, features=Features(max_order=3)), binary),
    "sparse": (MarkovField(l1=2.0), sparse),
    "linked": (RelationalField(l1=2.0), linked),
}
for name, (field, data) in fits.items():
    print(name, hashlib.sha256(field.fit(data).field_.theta.tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_compiled_and_cached_kernels_give_the_same_bits(tmp_path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    compiled, cached = (
        subprocess.run([sys.executable, "-c", FITS], env=environment, check=True, capture_output=True, text=True).stdout
        for _ in range(2)
    )
    assert len(compiled.splitlines()) == 10
    assert compiled == cached
