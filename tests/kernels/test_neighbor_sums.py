"""Sums over linked rows are those of a product with the matrix of links, whatever the number of blocks."""

from __future__ import annotations

import numpy as np
import pytest

from sparsefield.kernels.neighbor_sums import add_up_neighbors


@pytest.mark.parametrize("most", [1, 4])
def test_sums_are_products_with_the_matrix_of_links(most: int) -> None:
    rng = np.random.default_rng(most)
    counts = rng.integers(0, most + 1, 30)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    neighbors = rng.integers(0, 12, offsets[-1])
    links = np.zeros((30, 12))
    np.add.at(links, (np.repeat(np.arange(30), counts), neighbors), 1.0)
    values, columns = rng.normal(size=(5, 12)), np.array([3, 0, -1])
    wanted = np.stack([links @ values[3], links @ values[0], counts])
    for first, rows in ((0, 30), (10, 7), (30, 0)):
        out = np.full((3, rows), np.nan)
        add_up_neighbors(offsets, neighbors, first, values, columns, out)
        np.testing.assert_allclose(out, wanted[:, first : first + rows], atol=1e-12)
