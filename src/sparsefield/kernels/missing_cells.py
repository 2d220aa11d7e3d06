"""This module updates missing cells in place, entity by entity: mean-field updates (Eq. 3) and Gibbs draws.

Both loops read the weights of a `MissingProblem` directly, so that all rows share them. An arc over a view whose column
is negative counts the neighbors.
"""

import math

import numpy as np
from numba import njit


@njit(nogil=True, cache=True, inline="always")
def _cell_logits(problem, theta, entity, cell, z):
    """Set z to the logits of the columns of a cell."""
    own, row = problem.entity_start[entity], problem.entity_row[entity]
    for s in range(problem.cell_width[cell]):
        state = problem.cell_target[cell] + s
        total = theta[state]
        current, first, last = -1, 0, 0
        for k in range(problem.arc_offsets[state], problem.arc_offsets[state + 1]):
            weight = theta[problem.arc_feature[k]]
            if weight == 0.0:
                continue
            column, view = problem.arc_column[k], problem.arc_view[k]
            if view < 0:
                total += weight * problem.beliefs[own + column]
                continue
            if view != current:  # the arcs of a view are consecutive
                at = problem.view_start[view] + row
                current, first, last = view, problem.neighbor_offsets[at], problem.neighbor_offsets[at + 1]
            value = 0.0
            if column < 0:
                value += last - first
            elif last == first + 1:  # a loop of one round would take several times as long
                value += problem.beliefs[problem.neighbor_start[first] + column]
            else:
                for n in range(first, last):
                    value += problem.beliefs[problem.neighbor_start[n] + column]
            total += weight * value
        for k in range(problem.term_offsets[state], problem.term_offsets[state + 1]):
            product = theta[problem.term_feature[k]]
            for j in range(problem.term_column.shape[1]):
                if problem.term_column[k, j] >= 0:
                    product *= problem.beliefs[own + problem.term_column[k, j]]
            total += product
        z[s] = total


@njit(nogil=True, cache=True, inline="always")
def _probabilities(coding, variable, z, p):
    """Set p to the probabilities of the states of a variable with column logits z; return their number."""
    first, count = coding.state_offsets[variable], coding.state_offsets[variable + 1] - coding.state_offsets[variable]
    top, total = -np.inf, 0.0
    for k in range(count):
        logit = coding.log_base[first + k]
        if coding.indicator[first + k] >= 0:
            logit += z[coding.indicator[first + k]]
        for d in range(coding.n_scores[variable]):
            logit += coding.scores[first + k, d] * z[d]
        p[k] = logit
        top = max(top, logit)
    for k in range(count):
        p[k] = math.exp(p[k] - top)
        total += p[k]
    for k in range(count):
        p[k] /= total
    return count


@njit(nogil=True, cache=True, inline="always")
def _add_columns(coding, variable, code, factor, columns):
    """Add the values of the columns of a state, times a factor."""
    state = coding.state_offsets[variable] + code
    if coding.indicator[state] >= 0:
        columns[coding.indicator[state]] += factor
    for d in range(coding.n_scores[variable]):
        columns[d] += factor * coding.scores[state, d]


@njit(nogil=True, cache=True)
def mean_field(problem, theta, tolerance, max_sweeps):
    """Update the missing cells of all entities in order until no belief changes by more than ``tolerance``.

    The entities of a connected component stop together, when the largest change among them in a sweep is small; other
    components do not matter. Returns the number of entities that had not converged after ``max_sweeps``.
    """
    entities = problem.entity_start.shape[0]
    active = np.ones(problem.n_components, dtype=np.bool_)
    change = np.zeros(problem.n_components)
    z, p = np.empty(problem.widest), np.empty(problem.coding.most_states)
    unconverged = entities
    for _ in range(max_sweeps):
        for c in range(problem.n_components):
            change[c] = 0.0
        for e in range(entities):
            component = problem.entity_component[e]
            if not active[component]:
                continue
            for g in range(problem.cell_offsets[e], problem.cell_offsets[e + 1]):
                _cell_logits(problem, theta, e, g, z)
                count = _probabilities(problem.coding, problem.cell_variable[g], z, p)
                start = problem.entity_start[e] + problem.cell_column[g]
                columns = problem.beliefs[start : start + problem.cell_width[g]]
                for s in range(columns.shape[0]):
                    columns[s] = 0.0
                for k in range(count):
                    old = problem.probabilities[problem.state_offsets[g] + k]
                    problem.probabilities[problem.state_offsets[g] + k] = p[k]
                    _add_columns(problem.coding, problem.cell_variable[g], k, p[k], columns)
                    change[component] = max(change[component], abs(p[k] - old))
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

    Returns nothing: beliefs hold the columns of the drawn states, and ``drawn`` holds their codes.
    """
    z, p = np.empty(problem.widest), np.empty(problem.coding.most_states)
    for _ in range(sweeps):
        for e in range(problem.entity_start.shape[0]):
            for g in range(problem.cell_offsets[e], problem.cell_offsets[e + 1]):
                _cell_logits(problem, theta, e, g, z)
                count = _probabilities(problem.coding, problem.cell_variable[g], z, p)
                left = rng.random()
                code = 0
                for k in range(1, count):
                    left -= p[k]
                    if left < 0.0:
                        code = k
                        break
                drawn[g] = code
                start = problem.entity_start[e] + problem.cell_column[g]
                columns = problem.beliefs[start : start + problem.cell_width[g]]
                for s in range(columns.shape[0]):
                    columns[s] = 0.0
                _add_columns(problem.coding, problem.cell_variable[g], code, 1.0, columns)
