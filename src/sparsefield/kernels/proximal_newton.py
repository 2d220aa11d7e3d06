"""Proximal Newton steps: the minimum of a quadratic model of the loss, plus L1, by coordinate descent.

Also whole fits of a field with an L1 penalty to few rows, without the interpreter.
"""

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401  # loaded before the number of its threads is limited
from numba import njit

from sparsefield.kernels.mean_field_sweep import sweep

MAX_CHANGE = 3.0
"""Change of a parameter in one step of `descend`, at most."""

MIN_CURVATURE = 1e-2
"""Added to the curvature of each parameter, which bounds the length of steps."""

SUFFICIENT_DECREASE, MAX_HALVINGS = 1e-4, 12

MIN_CONTRACTION = 0.5
"""Steps converge slowly when one of them leaves more than this share of the violation."""

MODEL_TOLERANCE, MAX_PASSES = 0.03, 200
"""The quadratic model is minimized up to this share of the violation, in this many passes at most."""

_LARGE = 0.3
"""A pass changes the parameters whose violation is larger than this share of the largest one: a change costs far more
than a look, and where parameters depend on each other, most small violations vanish with the large ones."""

_SHARE = 0.9
"""A pass changes no parameter whose violation is smaller than this share of the tolerance."""


@njit(nogil=True, cache=True)
def minimize(model, gradient, strengths, ridge, theta, max_change, tolerance, max_passes, step):
    """Set ``step`` to a minimizer of gradient . step + step . (H + ridge) step / 2 + L1 of theta + step.

    H is the sum of the blocks of the model, each over its arcs, and the step of an arc is that of its parameter.

    Parameters
    ----------
    model : arc_offsets, starts, blocks, parameter_offsets, arcs_of, block_of: see `NewtonSystem`
    gradient, strengths, ridge, theta : (parameters,)
    max_change : bound of each entry of the step
    tolerance : largest violation of optimality at which the descent ends
    max_passes : number of passes over the parameters at most
    step : (parameters,), output
    """
    size, offsets, arcs_of, block_of = theta.shape[0], model.parameter_offsets, model.arcs_of, model.block_of
    arc_offsets, starts, blocks = model.arc_offsets, model.starts, model.blocks
    products = np.zeros(arc_offsets[-1])
    diagonal, listed = np.empty(size), np.empty(size, dtype=np.int64)
    for f in range(size):
        diagonal[f], step[f] = ridge[f], 0.0
        for j in range(offsets[f], offsets[f + 1]):
            a = arcs_of[j]
            block = block_of[a]
            start, width = arc_offsets[block], arc_offsets[block + 1] - arc_offsets[block]
            row = starts[block] + (a - start) * width
            for i in range(offsets[f], offsets[f + 1]):
                if block_of[arcs_of[i]] == block:
                    diagonal[f] += blocks[row + arcs_of[i] - start]
    for _ in range(max_passes):
        # At one point: what each parameter has when its turn comes says little, since all others move after it.
        worst, n_listed = 0.0, 0
        for f in range(size):
            slope = _slope(gradient[f] + ridge[f] * step[f], arcs_of, offsets[f], offsets[f + 1], products)
            violation = _violation(slope, theta[f] + step[f], strengths[f])
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
            slope = _slope(gradient[f] + ridge[f] * step[f], arcs_of, offsets[f], offsets[f + 1], products)
            old = theta[f] + step[f]
            if _violation(slope, old, strengths[f]) > least:
                value = old - slope / diagonal[f]
                new = np.sign(value) * max(abs(value) - strengths[f] / diagonal[f], 0.0)
                change = min(max(new - theta[f], -max_change), max_change) - step[f]
                step[f] += change
                for j in range(offsets[f], offsets[f + 1]):
                    a = arcs_of[j]
                    block = block_of[a]
                    start, stop = arc_offsets[block], arc_offsets[block + 1]
                    row = starts[block] + (a - start) * (stop - start)
                    for b in range(stop - start if change != 0.0 else 0):  # 0 where the step has its largest size
                        products[start + b] += change * blocks[row + b]


@njit(nogil=True, cache=True)
def _slope(slope, arcs_of, first, last, products):
    """Add the products of the arcs of a parameter to its slope: the derivative of the model, without L1."""
    for j in range(first, last):
        slope += products[arcs_of[j]]
    return slope


@njit(nogil=True, cache=True)
def _violation(slope, value, strength):
    """Return by how much a parameter violates its optimality condition."""
    if value > 0.0:
        return abs(slope + strength)
    if value < 0.0:
        return abs(slope - strength)
    return max(abs(slope) - strength, 0.0)


@njit(nogil=True, cache=True)
def largest_violation(theta, gradient, strengths):
    """Return the largest violation of the optimality conditions of all parameters."""
    worst = 0.0
    for f in range(theta.shape[0]):
        worst = max(worst, _violation(gradient[f], theta[f], strengths[f]))
    return worst


@njit(nogil=True, cache=True)
def newton_step(system, theta, gradient, strengths, ridge, max_change, share, tolerance, max_passes):
    """Return the step to the minimum of the model of a `NewtonSystem`, plus L1 and ridge.

    No weight changes by more than ``max_change``. Free biases follow the weights: where sums over linked rows have a
    mean of hundreds, they move by hundreds times as much. The minimum need not be more exact than ``share`` of the
    violation of optimality here, or than ``tolerance``.
    """
    reduced, start, strong = gradient.copy(), theta.copy(), strengths.copy()
    arc_offsets, free_offsets, free_biases = system.arc_offsets, system.free_offsets, system.free_biases
    parameter_of, product_starts, of_weights = system.parameter_of, system.product_starts, system.of_weights
    for v in range(free_offsets.shape[0] - 1):
        first, last = arc_offsets[v], arc_offsets[v + 1]
        left, right = free_offsets[v], free_offsets[v + 1]
        for f in range(left, right):
            bias, at = free_biases[f], product_starts[v] + (f - left) * (last - first)
            for j in range(last - first):
                reduced[parameter_of[first + j]] -= gradient[bias] * of_weights[at + j]
            reduced[bias], start[bias], strong[bias] = 0.0, 0.0, np.inf
    step = np.empty(theta.shape[0])
    tolerance = max(share * largest_violation(start, reduced, strong), tolerance)
    minimize(system, reduced, strong, ridge, start, max_change, tolerance, max_passes, step)
    for v in range(free_offsets.shape[0] - 1):
        first, last = arc_offsets[v], arc_offsets[v + 1]
        left, right = free_offsets[v], free_offsets[v + 1]
        for f in range(left, right):
            change, at = 0.0, system.inverse_starts[v] + (f - left) * (right - left)
            for g in range(left, right):
                change -= system.of_gradient[at + g - left] * gradient[free_biases[g]]
            change, at = min(max(change, -max_change), max_change), product_starts[v] + (f - left) * (last - first)
            for j in range(last - first):
                change -= of_weights[at + j] * step[parameter_of[first + j]]
            step[free_biases[f]] = change
    return step


@njit(nogil=True, cache=True)
def descend(block, graph, strengths, ridge, theta, gradient, working, system, share, tolerance, max_steps):
    """Minimize the loss of rows plus L1 and ridge from theta, in place, while steps of a model converge fast.

    Parameters
    ----------
    block, graph : rows of one table, and the arcs of all candidates
    strengths, ridge : (parameters,), of biases and of all candidates; a bias without strength is free
    theta, gradient : (parameters,); the gradient of loss and ridge is set
    working, system : candidates, and the Hessians over them, perhaps of other rows that have the same free biases
    share : weight of the rows as a share of the weight of the rows of the model
    tolerance : largest violation of optimality, over all candidates, at which the fit ends
    max_steps : at most

    Returns
    -------
    steps : the number of steps
    converged : whether the violation is small enough; otherwise another model is needed, since steps converge slowly,
        none lowers the objective, or a candidate outside of the model violates optimality
    """
    n_biases = graph.target_offsets[-1]
    errors, moved = np.empty((n_biases, block.weight.shape[0])), theta.copy()
    value = penalized_loss(block, graph, theta, strengths, ridge, errors)
    gradient_of_pairs(block, graph, errors, theta, ridge, gradient)
    violation = largest_violation(theta, gradient, strengths)
    chosen = np.concatenate((np.arange(n_biases), n_biases + working))
    outside = np.ones(theta.shape[0], np.bool_)
    outside[chosen] = False
    for number in range(max_steps):
        if violation <= tolerance:
            return number, True
        step = newton_step(
            system, theta[chosen], gradient[chosen] / share, strengths[chosen] / share,
            ridge[chosen] / share + MIN_CURVATURE, MAX_CHANGE, MODEL_TOLERANCE, 0.0, MAX_PASSES,
        )  # fmt: skip
        change = np.abs(theta[chosen] + step) - np.abs(theta[chosen])
        predicted = (gradient[chosen] * step + strengths[chosen] * change).sum()  # were the loss linear
        length, new, lower = 1.0, 0.0, False
        for _ in range(MAX_HALVINGS):
            moved[chosen] = theta[chosen] + length * step
            new = penalized_loss(block, graph, moved, strengths, ridge, errors)
            lower = new <= value + SUFFICIENT_DECREASE * length * predicted + 1e-13 * abs(value)
            if lower:
                break
            length *= 0.5
        if not lower:
            return number, False
        before, value = violation, new
        theta[:] = moved
        gradient_of_pairs(block, graph, errors, theta, ridge, gradient)
        violation = largest_violation(theta, gradient, strengths)
        if violation > tolerance and (
            violation > MIN_CONTRACTION * before
            or largest_violation(theta[outside], gradient[outside], strengths[outside]) > tolerance
        ):
            return number + 1, False
    return max_steps, violation <= tolerance


@njit(nogil=True, cache=True)
def penalized_loss(block, graph, theta, strengths, ridge, errors):
    """Return the loss of rows plus the L1 and L2 penalties, and set the errors (target columns, rows)."""
    empty = np.empty((0, 0))
    loss = sweep(block, graph, theta, 0, len(block.codes), False, block.beliefs, errors, empty, empty)
    return loss + (strengths * np.abs(theta) + 0.5 * ridge * theta * theta).sum()


@njit(nogil=True, cache=True)
def gradient_of_pairs(block, graph, errors, theta, ridge, gradient):
    """Set the gradient of loss and ridge from the errors, by one product of matrices: all pairs are candidates."""
    products = np.dot(errors, block.beliefs.T)
    gradient[:] = ridge * theta
    for state in range(errors.shape[0]):
        gradient[state] += errors[state].sum()
        for k in range(graph.arc_offsets[state], graph.arc_offsets[state + 1]):
            gradient[graph.arc_feature[k]] += products[state, graph.arc_source[k]]
