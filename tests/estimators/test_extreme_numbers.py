"""No NaN and no infinity comes out of numbers and weights near the ends of the range of floats."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from sparsefield import MarkovField, Solver
from sparsefield.errors import ClippedValueWarning, DataError

RNG = np.random.default_rng(0)
X = RNG.normal(size=60) * 1e-5
TABLE = pd.DataFrame({"y": (X > 0) ^ (RNG.random(60) < 0.1), "z": RNG.integers(0, 2, 60), "x": X})


def test_a_covariate_far_beyond_training_is_clipped_with_a_warning() -> None:
    field = MarkovField(l1=1.0).fit(TABLE, observed=["x"])
    far = pd.DataFrame({"y": [None, True, None], "z": [1, 0, 1], "x": [0.0, 1e304, -1.7e308]})
    with pytest.warns(ClippedValueWarning, match=r"'x' has 2 cell\(s\) more than 1,000,000 .* in row 1 \(1e\+304\)"):
        found = field.predict_proba(far)
    assert all(np.isfinite(values).all() for values in found.values())
    with pytest.warns(ClippedValueWarning):
        assert np.isfinite(field.score(far))


@pytest.mark.parametrize(
    ("make", "weight", "message"),
    [
        (np.asarray, 1e308, r"sample_weight of row 0 is 1e\+308: sums of weights beyond 1e\+30 overflow"),
        (sp.csr_matrix, 1e-320, "divisions by sums below 1e-30 overflow: multiply all by"),
    ],
)
def test_weights_whose_sums_overflow_are_refused(make, weight, message) -> None:
    data = make((RNG.random((20, 3)) < 0.4).astype(np.int8))
    with pytest.raises(DataError, match=message):
        MarkovField(l1=1.0).fit(data, sample_weight=np.full(20, weight))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_weights_near_the_largest_ones_give_finite_evidence() -> None:
    weight = np.where(np.arange(60) % 3 == 0, 1e29, 1.0)
    a = RNG.normal(size=60)
    table = pd.DataFrame({"a": a, "b": 2.0 * a, "c": 3.0 * a, "d": RNG.normal(size=60)})
    found = MarkovField(l1=3.0, solver=Solver(max_iter=30)).fit(table, sample_weight=weight)
    assert np.isfinite(found.edges_[["strength", "p_value"]].to_numpy()).all()


@pytest.mark.parametrize("size", [1e160, 10**400])
def test_numbers_that_cannot_be_squared_are_refused_with_the_column(size) -> None:
    cells: list = [size, *range(40)]
    with pytest.raises(DataError, match="Column 'big'"):
        MarkovField(l1=1.0).fit(pd.DataFrame({"big": pd.Series(cells, dtype=object), "a": [0, 1, *range(39)]}))
