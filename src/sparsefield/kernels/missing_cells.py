"""The missing cells of a `MissingProblem`: mean field (Eq. 3) and Gibbs draws in place, and the features between them.

Mean field and draws read the weights of the problem directly, so that all rows share them. An arc over a view whose
column is negative counts the neighbors. A *ground feature* is a weight on the product of columns of missing cells: the
values of the observed members are multiplied into the weight. All missing members have an arc to a feature; the first
one writes it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from sparsefield.kernels import coded_columns as coded
from sparsefield.kernels.elementary import mix


@njit(nogil=True, cache=True, inline="always")
def _cell_logits(problem, theta, entity, cell, z):
    """Set z (columns, 1) to the logits of the columns of a cell."""
    own, row = problem.entity_start[entity], problem.entity_row[entity]
    for s in range(problem.cell_width[cell]):
        state = problem.cell_target[cell] + s
        total = theta[state]
        if problem.expected_logits.shape[1] > 0:
            total += problem.expected_logits[cell, s]
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
                total = coded.state_weights(coding, v, z, np.int64(0), p)
                for s in range(problem.cell_width[g]):
                    beliefs[start + s, 0] = 0.0
                for k in range(coding.state_offsets[v + 1] - coding.state_offsets[v]):
                    old, new = problem.probabilities[problem.state_offsets[g] + k], p[k] / total
                    problem.probabilities[problem.state_offsets[g] + k] = new
                    coded.add_columns(coding, v, k, new, beliefs[start:], np.int64(0))
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
                total = coded.state_weights(coding, v, z, np.int64(0), p)
                count = coding.state_offsets[v + 1] - coding.state_offsets[v]
                drawn[g] = coded.choose_state(p, count, rng.random() * total)
                coded.write_columns(coding, v, drawn[g], beliefs[start : start + problem.cell_width[g]], np.int64(0))


class CellIndex(NamedTuple):
    """The positions of missing cells in the beliefs of a problem."""

    at: np.ndarray
    """(beliefs,): the missing cell that a belief belongs to, -1 for none."""
    start: np.ndarray
    """(missing cells,): position of the belief of the first column."""
    offsets: np.ndarray
    """(missing cells + 1,): where the columns of a cell begin in a list of all columns."""


class GroundFeatures(NamedTuple):
    """Weights on products of columns of missing cells."""

    offsets: np.ndarray
    """(features + 1,)"""
    cell: np.ndarray
    """(members of all features,): missing cells, ascending within a feature."""
    column: np.ndarray
    """(members of all features,): column of the cell, among its own."""
    weight: np.ndarray
    """(features,)"""


def ground_features(problem, theta, cells, write, out, column_logits, keys):
    """Count ground features and their members; with ``write``, also store them.

    ``column_logits`` then receives the logits of columns given the observed cells, and ``keys`` a hash of each missing
    cell, which depends only on its variable and on the observed values that it shares features with.
    """
    size = _ground_pairs(problem, theta, cells, write, out, column_logits, keys)
    if len(problem.term_feature):
        return _ground_terms(problem, theta, cells, write, out, column_logits, keys, size // 2, size)
    return size // 2, size


@njit(nogil=True, cache=True)
def _ground_pairs(problem, theta, cells, write, out, column_logits, keys):
    """Ground the features of pairs, each of which has two members, and return the number of members."""
    size, expected = 0, problem.expected_logits
    arc_column, arc_view, arc_feature = problem.arc_column, problem.arc_view, problem.arc_feature
    neighbor_offsets, neighbor_start, beliefs = problem.neighbor_offsets, problem.neighbor_start, problem.beliefs
    for e in range(problem.entity_start.shape[0]):
        own, row = problem.entity_start[e], problem.entity_row[e]
        for g in range(problem.cell_offsets[e], problem.cell_offsets[e + 1]):
            key = mix(np.uint64(0), problem.cell_target[g])
            for s in range(problem.cell_width[g]):
                state = problem.cell_target[g] + s
                total = theta[state]
                if expected.shape[1] > 0:
                    total += expected[g, s]
                    key = mix(key, np.int64(expected[g, s] * 1e6))
                for k in range(problem.arc_offsets[state], problem.arc_offsets[state + 1]):
                    column, view, weight = arc_column[k], arc_view[k], theta[arc_feature[k]]
                    first, last = 0, 1
                    if view >= 0:
                        at = problem.view_start[view] + row
                        first, last = neighbor_offsets[at], neighbor_offsets[at + 1]
                        if column < 0:
                            total += weight * (last - first)
                            continue
                    for n in range(first, last):
                        position = column + (own if view < 0 else neighbor_start[n])
                        other = cells.at[position]
                        if other < 0:
                            total += weight * beliefs[position]
                            key = mix(key, np.int64(beliefs[position] * 1e6))
                        elif other > g and weight != 0.0:
                            if write:
                                out.cell[size], out.column[size] = g, s
                                out.cell[size + 1], out.column[size + 1] = other, position - cells.start[other]
                                out.weight[size // 2] = weight
                                out.offsets[size // 2 + 1] = size + 2
                            size += 2
                if write:
                    column_logits[cells.offsets[g] + s] = total
            if write:
                keys[g] = key
    return size


@njit(nogil=True, cache=True)
def _ground_terms(problem, theta, cells, write, out, column_logits, keys, count, size):
    """Ground the conjunctions; observed members are multiplied into the weight."""
    term_column, beliefs = problem.term_column, problem.beliefs
    for e in range(problem.entity_start.shape[0]):
        own = problem.entity_start[e]
        for g in range(problem.cell_offsets[e], problem.cell_offsets[e + 1]):
            for s in range(problem.cell_width[g]):
                state = problem.cell_target[g] + s
                for k in range(problem.term_offsets[state], problem.term_offsets[state + 1]):
                    weight, members, first = theta[problem.term_feature[k]], 1, True
                    for j in range(term_column.shape[1]):
                        if term_column[k, j] < 0:
                            continue
                        position = own + term_column[k, j]
                        if cells.at[position] >= 0:
                            members += 1
                            first = first and cells.at[position] > g
                        else:
                            weight *= beliefs[position]
                            if write:
                                keys[g] = mix(keys[g], np.int64(beliefs[position] * 1e6))
                    if weight == 0.0 or not first:
                        continue
                    if members == 1:
                        if write:
                            column_logits[cells.offsets[g] + s] += weight
                        continue
                    if write:
                        _write_term(problem, cells, own, k, out, size, g, s)
                        out.weight[count] = weight
                        out.offsets[count + 1] = size + members
                    count, size = count + 1, size + members
    return count, size


@njit(nogil=True, cache=True, inline="always")
def _write_term(problem, cells, own, k, out, size, g, s):
    """Write the missing members of a conjunction in ascending order."""
    out.cell[size], out.column[size] = g, s
    end = size + 1
    for j in range(problem.term_column.shape[1]):
        position = own + max(problem.term_column[k, j], 0)
        other = cells.at[position]
        if problem.term_column[k, j] < 0 or other < 0:
            continue
        at = end
        while out.cell[at - 1] > other:
            out.cell[at], out.column[at] = out.cell[at - 1], out.column[at - 1]
            at -= 1
        out.cell[at], out.column[at] = other, position - cells.start[other]
        end += 1


@njit(nogil=True, cache=True)
def add_feature_tables(problem, features, sets, set_of_feature, starts, writes, out):
    """Add each ground feature, as a function of the states of its cells, to the table of its set of cells.

    Tables begin at ``starts`` (sets,); of the sets that share one, only one ``writes`` (sets,).
    """
    coding = problem.coding
    for f in range(set_of_feature.shape[0]):
        if not writes[set_of_feature[f]]:
            continue
        member, first = features.offsets[f], sets.offsets[set_of_feature[f]]
        arity, start = features.offsets[f + 1] - member, starts[set_of_feature[f]]
        rest = sets.stride[first]  # entries for each state of the first cell
        for k in range(sets.states[first]):
            variable = problem.cell_variable[features.cell[member]]
            factor = features.weight[f] * coded.column_value(coding, variable, k, features.column[member])
            if factor == 0.0:
                continue
            for entry in range(rest):
                value, left = factor, entry
                for m in range(arity - 1, 0, -1):
                    code = left % sets.states[first + m] if m > 1 else left  # divisions take most of the time
                    left = left // sets.states[first + m] if m > 1 else 0
                    variable = problem.cell_variable[features.cell[member + m]]
                    value *= coded.column_value(coding, variable, code, features.column[member + m])
                    if value == 0.0:
                        break
                out[start + k * rest + entry] += value


@njit(nogil=True, cache=True)
def mix_component_keys(keys, component, n_components):
    """Return a hash (components,) of the keys of the cells of each component, in their order."""
    mixed = np.zeros(n_components, dtype=np.uint64)
    for g in range(component.shape[0]):
        mixed[component[g]] = mix(mixed[component[g]], keys[g])
    return mixed


@njit(nogil=True, cache=True)
def absorb_tables(sets, tables, home, factors, out):
    """Add the table of each set of cells to the table of the factor home[set], which contains all cells of the set."""
    for k in range(home.shape[0]):
        f, start = home[k], sets.table_offsets[k]
        for entry in range(factors.table_offsets[f + 1] - factors.table_offsets[f]):
            rest, position, at = entry, 0, sets.offsets[k + 1] - 1
            for m in range(factors.offsets[f + 1] - 1, factors.offsets[f] - 1, -1):
                if at >= sets.offsets[k] and sets.cell[at] == factors.cell[m]:
                    position += (rest % factors.states[m]) * sets.stride[at]
                    at -= 1
                rest //= factors.states[m]
            out[factors.table_offsets[f] + entry] += tables[start + position]


@njit(nogil=True, cache=True)
def expected_features(problem, features, factors, factor_of_feature, marginals, out):
    """Set out (ground features,) to the expectations of the products of columns.

    ``marginals`` has the probabilities of the joint states of each factor, as its table has log-potentials.
    """
    coding = problem.coding
    for f in range(factor_of_feature.shape[0]):
        factor, total = factor_of_feature[f], 0.0
        first, last = factors.offsets[factor], factors.offsets[factor + 1]
        for entry in range(factors.table_offsets[factor], factors.table_offsets[factor + 1]):
            value, rest, member = marginals[entry], entry - factors.table_offsets[factor], features.offsets[f + 1] - 1
            for m in range(last - 1, first - 1, -1):
                code = rest % factors.states[m]
                rest //= factors.states[m]
                if member >= features.offsets[f] and features.cell[member] == factors.cell[m]:
                    variable = problem.cell_variable[factors.cell[m]]
                    value *= coded.column_value(coding, variable, code, features.column[member])
                    member -= 1
            total += value
        out[f] = total
