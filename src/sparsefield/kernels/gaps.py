"""Filling the hidden cells of a block: mean-field sweeps (Eq. 3) and Gibbs sweeps."""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def _cell_logits(graph, theta, first, last, beliefs, row, z):
    """Logits of one cell's states less the base, and the largest of all."""
    top = 0.0
    for state in range(first, last):
        total = theta[state]
        for k in range(graph.arc_offsets[state], graph.arc_offsets[state + 1]):
            total += theta[graph.arc_feature[k]] * beliefs[graph.arc_source[k], row]
        z[state - first] = total
        top = max(top, total)
    return top


@njit(nogil=True, cache=True)
def _softmax(z, top, count):
    """Turn logits into probabilities in place."""
    total = math.exp(-top)
    for s in range(count):
        z[s] = math.exp(z[s] - top)
        total += z[s]
    for s in range(count):
        z[s] /= total


@njit(nogil=True, cache=True)
def mean_field(block, graph, theta, beliefs, tolerance, max_sweeps, damping):
    """Update the gaps of a block variable by variable until no belief of a row moves by more than ``tolerance``.

    Each row stops by itself, so a row's beliefs never depend on its neighbours in the block. Returns the number of
    rows that had not converged at the cap.
    """
    rows = block.weight.shape[0]
    moving = np.zeros(rows, dtype=np.bool_)
    change = np.zeros(rows)
    for row in block.gap_rows:
        moving[row] = True
    z = np.empty(graph.widest)
    for _ in range(max_sweeps):
        for i in range(rows):
            change[i] = 0.0
        for v in range(block.codes.shape[0]):
            first, last = graph.state_offsets[v], graph.state_offsets[v + 1]
            for g in range(block.gap_offsets[v], block.gap_offsets[v + 1]):
                row = block.gap_rows[g]
                if not moving[row]:
                    continue
                top = _cell_logits(graph, theta, first, last, beliefs, row, z)
                _softmax(z, top, last - first)
                for s in range(last - first):
                    old = beliefs[first + s, row]
                    new = old + (1.0 - damping) * (z[s] - old)
                    beliefs[first + s, row] = new
                    change[row] = max(change[row], abs(new - old))
        left = 0
        for i in range(rows):
            if moving[i]:
                moving[i] = change[i] > tolerance
                left += moving[i]
        if left == 0:
            return 0
    return left


@njit(nogil=True, cache=True)
def gibbs(block, graph, theta, beliefs, codes, seed, sweeps):
    """Draw every gap of a block, ``sweeps`` times over; beliefs hold the drawn states one-hot."""
    np.random.seed(seed)  # noqa: NPY002 (inside numba this seeds the generator of its own thread)
    z = np.empty(graph.widest)
    for _ in range(sweeps):
        for v in range(codes.shape[0]):
            first, last = graph.state_offsets[v], graph.state_offsets[v + 1]
            for g in range(block.gap_offsets[v], block.gap_offsets[v + 1]):
                row = block.gap_rows[g]
                top = _cell_logits(graph, theta, first, last, beliefs, row, z)
                _softmax(z, top, last - first)
                left = np.random.random()  # noqa: NPY002
                drawn = 0
                for s in range(last - first):
                    left -= z[s]
                    if left < 0.0:
                        drawn = s + 1
                        break
                codes[v, row] = drawn
                for s in range(last - first):
                    beliefs[first + s, row] = 1.0 if drawn == s + 1 else 0.0
