"""Proximal Newton fits of a field with an L1 penalty to few rows, without the interpreter."""

import math

import numpy as np
from numba import njit

from sparsefield.kernels.coded_regressions import evaluate, set_gradient
from sparsefield.kernels.coordinate_descent import minimize

MAX_CHANGE = 3.0
"""Change of a parameter in one step, at most."""

MIN_CURVATURE = 1e-2
"""Added to the curvature of each parameter, which bounds the length of steps."""

SUFFICIENT_DECREASE, MAX_HALVINGS = 1e-4, 12

MIN_CONTRACTION = 0.5
"""Steps converge slowly when one of them leaves more than this share of the violation."""

MODEL_TOLERANCE, MAX_PASSES = 0.03, 200
"""The quadratic model is minimized up to this share of the violation, in this many passes at most."""


@njit(nogil=True, cache=True)
def descend(rows, arcs, strengths, ridge, theta, gradient, working, system, share, tolerance, max_steps):
    """Minimize the loss of rows plus L1 and ridge from theta, in place, while steps of a model converge fast.

    Parameters
    ----------
    rows, arcs : see `CodedRows` and `RegressionArcs`; the features are all candidates
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
    n_biases = rows.offsets[-1]
    errors, moved = np.empty((n_biases, rows.weight.shape[0])), theta.copy()
    value = evaluate(rows, arcs, theta, errors) + penalty(theta, strengths, ridge)
    set_gradient(rows, arcs, errors, theta, ridge, gradient)
    violation = largest_violation(theta, gradient, strengths)
    chosen = np.concatenate((np.arange(n_biases), n_biases + working))
    outside = np.ones(theta.shape[0], np.bool_)
    outside[chosen] = False
    for number in range(max_steps):
        if violation <= tolerance:
            return number, True
        step = newton_step(system, theta[chosen], gradient[chosen], strengths[chosen], ridge[chosen], share)
        change = np.abs(theta[chosen] + step) - np.abs(theta[chosen])
        predicted = (gradient[chosen] * step + strengths[chosen] * change).sum()  # were the loss linear
        length, new, found = 1.0, 0.0, False
        for _ in range(MAX_HALVINGS):
            moved[chosen] = theta[chosen] + length * step
            new = evaluate(rows, arcs, moved, errors) + penalty(moved, strengths, ridge)
            if new <= value + SUFFICIENT_DECREASE * length * predicted + 1e-13 * abs(value):
                found = True
                break
            length *= 0.5
        if not found:
            return number, False
        before, value = violation, new
        theta[:] = moved
        set_gradient(rows, arcs, errors, theta, ridge, gradient)
        violation = largest_violation(theta, gradient, strengths)
        if violation > tolerance and (
            violation > MIN_CONTRACTION * before
            or largest_violation(theta[outside], gradient[outside], strengths[outside]) > tolerance
        ):
            return number + 1, False
    return max_steps, violation <= tolerance


@njit(nogil=True, cache=True)
def penalty(theta, strengths, ridge):
    """Return the L1 and L2 penalties of parameters."""
    return (strengths * np.abs(theta) + 0.5 * ridge * theta * theta).sum()


@njit(nogil=True, cache=True)
def largest_violation(theta, gradient, strengths):
    """Return the largest violation of the optimality conditions of all parameters."""
    worst = 0.0
    for f in range(theta.shape[0]):
        if theta[f] == 0.0:
            worst = max(worst, abs(gradient[f]) - strengths[f])
        else:
            worst = max(worst, abs(gradient[f] + math.copysign(strengths[f], theta[f])))
    return worst


@njit(nogil=True, cache=True)
def newton_step(system, theta, gradient, strengths, ridge, share):
    """Return the step to the minimum of the quadratic model plus penalties; free biases follow from the weights.

    The model is that of rows of which the fitted ones are a share.
    """
    reduced, start, strong, curvature = gradient / share, theta.copy(), strengths / share, ridge / share + MIN_CURVATURE
    slopes, at = reduced.copy(), 0
    for v in range(system.starts.shape[0]):
        arc, last = system.arc_offsets[v], system.arc_offsets[v + 1]
        for f in range(system.free_offsets[v], system.free_offsets[v + 1]):
            slope = slopes[system.free_biases[f]]
            for j in range(last - arc):
                reduced[system.parameter_of[arc + j]] -= slope * system.of_weights[at + j]
            at += last - arc
    for f in range(system.free_biases.shape[0]):
        bias = system.free_biases[f]
        reduced[bias], start[bias], strong[bias] = 0.0, 0.0, np.inf
    step = np.empty(theta.shape[0])
    tolerance = MODEL_TOLERANCE * largest_violation(start, reduced, strong)
    minimize(system, reduced, strong, curvature, start, MAX_CHANGE, tolerance, MAX_PASSES, step)
    at, matrix = 0, 0
    for v in range(system.starts.shape[0]):
        arc, last = system.arc_offsets[v], system.arc_offsets[v + 1]
        left, right = system.free_offsets[v], system.free_offsets[v + 1]
        for f in range(left, right):
            moved = 0.0
            for g in range(left, right):
                moved -= system.of_gradient[matrix + g - left] * slopes[system.free_biases[g]]
            for j in range(last - arc):
                moved -= system.of_weights[at + j] * step[system.parameter_of[arc + j]]
            step[system.free_biases[f]] = moved
            matrix += right - left
            at += last - arc
    return np.minimum(np.maximum(step, -MAX_CHANGE), MAX_CHANGE)
