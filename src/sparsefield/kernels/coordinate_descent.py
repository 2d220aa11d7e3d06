"""This module minimizes a quadratic model of the loss, plus L1, by coordinate descent."""

import numpy as np
from numba import njit

from sparsefield.kernels.elementary import FAST

_LARGE = 0.3
"""A pass changes the parameters whose violation is larger than this share of the largest one: a change costs far more
than a look, and where parameters depend on each other, most small violations vanish with the large ones."""

_SHARE = 0.9
"""A pass changes no parameter whose violation is smaller than this share of the tolerance."""


@njit(nogil=True, cache=True, fastmath=FAST)
def minimize(model, gradient, strengths, ridge, theta, max_change, tolerance, max_passes, step):
    """Set ``step`` to a minimizer of gradient . step + step . (H + ridge) step / 2 + L1 of theta + step.

    H is the sum of the blocks of the model, each over its arcs, and the step of an arc is that of its parameter.

    Parameters
    ----------
    model : arc_offsets, starts, blocks, parameter_offsets, arcs_of, block_of: see `QuadraticModel`
    gradient, strengths, ridge, theta : (parameters,)
    max_change : bound of each entry of the step
    tolerance : largest violation of optimality at which the descent ends
    max_passes : number of passes over the parameters at most
    step : (parameters,), output
    """
    size = theta.shape[0]
    products = np.zeros(model.arc_offsets[-1])
    diagonal = np.empty(size)
    for f in range(size):
        diagonal[f] = ridge[f] + _curvature(model, f)
        step[f] = 0.0
    listed = np.empty(size, dtype=np.int64)
    for _ in range(max_passes):
        # At one point: what each parameter has when its turn comes says little, since all others move after it.
        worst, n_listed = 0.0, 0
        for f in range(size):
            violation = _violation(_slope(model, f, gradient, ridge, step, products), theta[f] + step[f], strengths[f])
            if violation > 0.0 and abs(step[f]) < max_change:
                worst = max(worst, violation)
            if violation > _SHARE * tolerance:
                listed[n_listed] = f
                n_listed += 1
        if worst <= tolerance:
            return
        least = max(_LARGE * worst, _SHARE * tolerance)
        for k in range(n_listed):
            f = listed[k]
            slope, old = _slope(model, f, gradient, ridge, step, products), theta[f] + step[f]
            if _violation(slope, old, strengths[f]) > least:
                new = _shrink(old - slope / diagonal[f], strengths[f] / diagonal[f])
                change = min(max(new - theta[f], -max_change), max_change) - step[f]
                if change != 0.0:  # otherwise the step has its largest size
                    step[f] += change
                    _add_step(model, f, change, products)


@njit(nogil=True, cache=True, fastmath=FAST, inline="always")
def _slope(model, f, gradient, ridge, step, products):
    """Return the derivative of the model for a parameter, without L1."""
    slope = gradient[f] + ridge[f] * step[f]
    for j in range(model.parameter_offsets[f], model.parameter_offsets[f + 1]):
        slope += products[model.arcs_of[j]]
    return slope


@njit(nogil=True, cache=True, fastmath=FAST, inline="always")
def _violation(slope, value, strength):
    """Return by how much a parameter violates its optimality condition."""
    if value > 0.0:
        return abs(slope + strength)
    if value < 0.0:
        return abs(slope - strength)
    return max(abs(slope) - strength, 0.0)


@njit(nogil=True, cache=True, fastmath=FAST, inline="always")
def _shrink(value, threshold):
    """Return the value, closer to 0 by a threshold."""
    if value > threshold:
        return value - threshold
    if value < -threshold:
        return value + threshold
    return 0.0


@njit(nogil=True, cache=True, fastmath=FAST)
def _curvature(model, f):
    """Return the second derivative of the model for a parameter."""
    total = 0.0
    for j in range(model.parameter_offsets[f], model.parameter_offsets[f + 1]):
        a = model.arcs_of[j]
        block = model.block_of[a]
        first, width = model.arc_offsets[block], model.arc_offsets[block + 1] - model.arc_offsets[block]
        row = model.starts[block] + (a - first) * width
        for i in range(model.parameter_offsets[f], model.parameter_offsets[f + 1]):
            b = model.arcs_of[i]
            if model.block_of[b] == block:
                total += model.blocks[row + b - first]
    return total


@njit(nogil=True, cache=True, fastmath=FAST)
def _add_step(model, f, change, products):
    """Add the change of a parameter, times the rows of its arcs, to the products of the blocks with the step."""
    for j in range(model.parameter_offsets[f], model.parameter_offsets[f + 1]):
        a = model.arcs_of[j]
        block = model.block_of[a]
        first, last = model.arc_offsets[block], model.arc_offsets[block + 1]
        row = model.starts[block] + (a - first) * (last - first)
        for b in range(last - first):
            products[first + b] += change * model.blocks[row + b]
