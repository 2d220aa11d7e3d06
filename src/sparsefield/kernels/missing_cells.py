"""This module updates missing cells in place, entity by entity: mean-field updates (Eq. 3) and Gibbs draws.

Both loops read the weights of a `MissingProblem` directly, so that all rows share them. An arc over a view whose column
is negative counts the neighbors.
"""

import math

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def _cell_logits(problem, theta, entity, cell, z):
    """Set z to the logits of the non-reference states of a cell and return the largest logit, 0 included."""
    own, row = problem.entity_start[entity], problem.entity_row[entity]
    top = 0.0
    for s in range(problem.cell_width[cell]):
        state = problem.cell_state[cell] + s
        total = theta[state]
        for k in range(problem.arc_offsets[state], problem.arc_offsets[state + 1]):
            column, view = problem.arc_column[k], problem.arc_view[k]
            if view < 0:
                value = problem.beliefs[own + column]
            else:
                value = 0.0
                at = problem.view_start[view] + row
                for n in range(problem.neighbor_offsets[at], problem.neighbor_offsets[at + 1]):
                    value += problem.beliefs[problem.neighbor_start[n] + column] if column >= 0 else 1.0
            total += theta[problem.arc_feature[k]] * value
        for k in range(problem.term_offsets[state], problem.term_offsets[state + 1]):
            product = theta[problem.term_feature[k]]
            for j in range(problem.term_column.shape[1]):
                if problem.term_column[k, j] >= 0:
                    product *= problem.beliefs[own + problem.term_column[k, j]]
            total += product
        z[s] = total
        top = max(top, total)
    return top


@njit(nogil=True, cache=True)
def _softmax(z, top, count):
    """Replace logits by probabilities in place."""
    total = math.exp(-top)
    for s in range(count):
        z[s] = math.exp(z[s] - top)
        total += z[s]
    for s in range(count):
        z[s] /= total


@njit(nogil=True, cache=True)
def mean_field(problem, theta, tolerance, max_sweeps, damping):
    """Update the missing cells of all entities in order until no belief changes by more than ``tolerance``.

    The entities of a connected component stop together, when the largest change among them in a sweep is small; other
    components do not matter. Returns the number of entities that had not converged after ``max_sweeps``.
    """
    entities = problem.entity_start.shape[0]
    active = np.ones(problem.n_components, dtype=np.bool_)
    change = np.zeros(problem.n_components)
    z = np.empty(problem.widest)
    unconverged = entities
    for _ in range(max_sweeps):
        for c in range(problem.n_components):
            change[c] = 0.0
        for e in range(entities):
            component = problem.entity_component[e]
            if not active[component]:
                continue
            for g in range(problem.cell_offsets[e], problem.cell_offsets[e + 1]):
                top = _cell_logits(problem, theta, e, g, z)
                _softmax(z, top, problem.cell_width[g])
                start = problem.entity_start[e] + problem.cell_column[g]
                for s in range(problem.cell_width[g]):
                    old = problem.beliefs[start + s]
                    new = old + (1.0 - damping) * (z[s] - old)
                    problem.beliefs[start + s] = new
                    change[component] = max(change[component], abs(new - old))
        for c in range(problem.n_components):
            active[c] = active[c] and change[c] > tolerance
        unconverged = 0
        for e in range(entities):
            unconverged += active[problem.entity_component[e]]
        if unconverged == 0:
            return 0
    return unconverged


@njit(nogil=True, cache=True)
def gibbs(problem, theta, rng, sweeps, drawn):
    """Draw every missing cell from its conditional distribution, ``sweeps`` times.

    Returns nothing: beliefs hold the drawn states one-hot, and ``drawn`` holds their codes.
    """
    z = np.empty(problem.widest)
    for _ in range(sweeps):
        for e in range(problem.entity_start.shape[0]):
            for g in range(problem.cell_offsets[e], problem.cell_offsets[e + 1]):
                top = _cell_logits(problem, theta, e, g, z)
                _softmax(z, top, problem.cell_width[g])
                left = rng.random()
                drawn[g] = 0
                for s in range(problem.cell_width[g]):
                    left -= z[s]
                    if left < 0.0:
                        drawn[g] = s + 1
                        break
                start = problem.entity_start[e] + problem.cell_column[g]
                for s in range(problem.cell_width[g]):
                    problem.beliefs[start + s] = 1.0 if drawn[g] == s + 1 else 0.0
