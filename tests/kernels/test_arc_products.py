"""Products of arcs in single precision are those of plain matrices, up to rounding errors."""

from __future__ import annotations

import numpy as np
import pytest

from sparsefield.kernels.arc_products import MAX_CHUNK_ROWS, arc_dots, arc_sums, in_chunks

ROWS = [1, MAX_CHUNK_ROWS, 3 * MAX_CHUNK_ROWS + 5]


@pytest.mark.parametrize("n_rows", ROWS)
def test_arcs_are_multiplied_like_matrices(n_rows) -> None:
    rng = np.random.default_rng(1)
    degrees = np.array([0, 1, 7, 8, 9, 20])
    offsets = np.concatenate([[0], np.cumsum(degrees)])
    sources = np.concatenate([rng.permutation(25)[:degree] for degree in degrees])
    weights = rng.normal(size=len(sources)).astype(np.float32)
    weights[rng.random(len(weights)) < 0.3] = 0.0
    columns, errors = rng.normal(size=(25, n_rows)), rng.normal(size=(len(degrees), n_rows))
    matrix = np.zeros((len(degrees), 25))
    states = np.repeat(np.arange(len(degrees)), degrees)
    matrix[states, sources] = weights
    chunks = in_chunks(columns)

    sums = np.empty((len(degrees), n_rows))
    arc_sums(offsets, sources, weights, chunks, sums)
    np.testing.assert_allclose(sums, matrix @ columns, rtol=0, atol=1e-5)

    dots = np.empty(len(sources))
    arc_dots(offsets, sources, in_chunks(errors), chunks, dots)
    np.testing.assert_allclose(dots, (errors @ columns.T)[states, sources], rtol=0, atol=1e-6 * n_rows + 1e-5)
