"""Mean-field updates (Eq. 3) and Gibbs draws of missing cells in place, entity by entity.

Both loops read the weights of a `MissingProblem` directly, so that all rows share them. An arc over a view whose column
is negative counts the neighbors.
"""

import numpy as np
from numba import njit

from sparsefield.kernels.coded_columns import add_columns, choose_state, state_weights, write_columns


@njit(nogil=True, cache=True, inline="always")
def _cell_logits(problem, theta, entity, cell, z):
    """Set z (columns, 1) to the logits of the columns of a cell."""
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
        z[s, 0] = total


@njit(nogil=True, cache=True)
def mean_field(problem, theta, tolerance, max_sweeps):
    """Update the missing cells of all entities in order until no belief changes by more than ``tolerance``.

    The entities of a connected component stop together, when the largest change among them in a sweep is small; other
    components do not matter. Returns the number of entities that had not converged after ``max_sweeps``.
    """
    entities = problem.entity_start.shape[0]
    active = np.ones(problem.n_components, dtype=np.bool_)
    change = np.zeros(problem.n_components)
    z, p, coding = np.empty((problem.widest, 1)), np.empty(problem.coding.most_states), problem.coding
    beliefs, unconverged = problem.beliefs.reshape(-1, 1), entities
    for _ in range(max_sweeps):
        for c in range(problem.n_components):
            change[c] = 0.0
        for e in range(entities):
            component = problem.entity_component[e]
            if not active[component]:
                continue
            for g in range(problem.cell_offsets[e], problem.cell_offsets[e + 1]):
                _cell_logits(problem, theta, e, g, z)
                v, start = problem.cell_variable[g], problem.entity_start[e] + problem.cell_column[g]
                total = state_weights(coding, v, z, 0, p)
                for s in range(problem.cell_width[g]):
                    beliefs[start + s, 0] = 0.0
                for k in range(coding.state_offsets[v + 1] - coding.state_offsets[v]):
                    old, new = problem.probabilities[problem.state_offsets[g] + k], p[k] / total
                    problem.probabilities[problem.state_offsets[g] + k] = new
                    add_columns(coding, v, k, new, beliefs[start:], 0)
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

    Returns nothing: beliefs hold the columns of the drawn states, and ``drawn`` holds their codes.
    """
    z, p, coding = np.empty((problem.widest, 1)), np.empty(problem.coding.most_states), problem.coding
    beliefs = problem.beliefs.reshape(-1, 1)
    for _ in range(sweeps):
        for e in range(problem.entity_start.shape[0]):
            for g in range(problem.cell_offsets[e], problem.cell_offsets[e + 1]):
                _cell_logits(problem, theta, e, g, z)
                v, start = problem.cell_variable[g], problem.entity_start[e] + problem.cell_column[g]
                total = state_weights(coding, v, z, 0, p)
                count = coding.state_offsets[v + 1] - coding.state_offsets[v]
                drawn[g] = choose_state(p, count, rng.random() * total)
                write_columns(coding, v, drawn[g], beliefs[start : start + problem.cell_width[g]], 0)
