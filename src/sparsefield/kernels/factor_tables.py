"""This module conditions a `MissingProblem` on its observed cells and collects the features between missing cells.

A *ground feature* is a weight on a set of missing cells, each in one of its states: the values of the observed members
are multiplied into the weight. All missing members have an arc to a feature; the first one writes it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit


class CellIndex(NamedTuple):
    """The positions of missing cells in the beliefs of a problem."""

    at: np.ndarray
    """(beliefs,): the missing cell that a belief belongs to, -1 for none."""
    start: np.ndarray
    """(missing cells,): position of the belief of the first state."""
    offsets: np.ndarray
    """(missing cells + 1,): where the states of a cell, reference state first, begin in a list of all states."""


class GroundFeatures(NamedTuple):
    """Weights on sets of missing cells, each in one state."""

    offsets: np.ndarray
    """(features + 1,)"""
    cell: np.ndarray
    """(members of all features,): missing cells, ascending within a feature."""
    code: np.ndarray
    """(members of all features,): state of the cell; never 0, the reference state."""
    weight: np.ndarray
    """(features,)"""


@njit(nogil=True, cache=True, inline="always")
def mix(key, value):
    """Return a 64-bit hash of two numbers (the finalizer of SplitMix64)."""
    z = (key ^ np.uint64(value)) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(nogil=True, cache=True)
def ground_features(problem, theta, cells, write, out, unary_logits, keys):
    """Count ground features and their members; with ``write``, also store them.

    ``unary_logits`` then receives the logits given the observed cells, and ``keys`` a hash of each missing cell, which depends
    only on its variable and on the observed values that it shares features with.
    """
    count, size = 0, 0
    for e in range(problem.entity_start.shape[0]):
        for g in range(problem.cell_offsets[e], problem.cell_offsets[e + 1]):
            key = mix(np.uint64(0), problem.cell_state[g])
            for s in range(problem.cell_width[g]):
                state = problem.cell_state[g] + s
                total = theta[state]
                more, count, size, key = _ground_arcs(problem, theta, cells, e, g, s, write, out, count, size, key)
                total += more
                more, count, size, key = _ground_terms(problem, theta, cells, e, g, s, write, out, count, size, key)
                if write:
                    unary_logits[cells.offsets[g] + s + 1] = total + more
            if write:
                keys[g] = key
    return count, size


@njit(nogil=True, cache=True, inline="always")
def _ground_arcs(problem, theta, cells, e, g, s, write, out, count, size, key):
    """Process the pair features of one state: sum the contributions of observed cells, ground the others."""
    own, row, state, total = problem.entity_start[e], problem.entity_row[e], problem.cell_state[g] + s, 0.0
    for k in range(problem.arc_offsets[state], problem.arc_offsets[state + 1]):
        column, view, weight = problem.arc_column[k], problem.arc_view[k], theta[problem.arc_feature[k]]
        first, last = 0, 1
        if view >= 0:
            at = problem.view_start[view] + row
            first, last = problem.neighbor_offsets[at], problem.neighbor_offsets[at + 1]
            if column < 0:
                total += weight * (last - first)
                continue
        for n in range(first, last):
            position = column + (own if view < 0 else problem.neighbor_start[n])
            other = cells.at[position]
            if other < 0:
                total += weight * problem.beliefs[position]
                key = mix(key, np.int64(problem.beliefs[position] * 1e6))
            elif other > g and weight != 0.0:
                if write:
                    out.cell[size], out.code[size] = g, s + 1
                    out.cell[size + 1], out.code[size + 1] = other, position - cells.start[other] + 1
                    out.weight[count] = weight
                    out.offsets[count + 1] = size + 2
                count, size = count + 1, size + 2
    return total, count, size, key


@njit(nogil=True, cache=True, inline="always")
def _ground_terms(problem, theta, cells, e, g, s, write, out, count, size, key):
    """Process the conjunctions of one state; observed members are multiplied into the weight."""
    own, state, total = problem.entity_start[e], problem.cell_state[g] + s, 0.0
    for k in range(problem.term_offsets[state], problem.term_offsets[state + 1]):
        weight, members, first = theta[problem.term_feature[k]], 1, True
        for j in range(problem.term_column.shape[1]):
            if problem.term_column[k, j] < 0:
                continue
            position = own + problem.term_column[k, j]
            if cells.at[position] >= 0:
                members += 1
                first = first and cells.at[position] > g
            else:
                weight *= problem.beliefs[position]
                key = mix(key, np.int64(problem.beliefs[position] * 1e6))
        if weight == 0.0 or not first:
            continue
        if members == 1:
            total += weight
            continue
        if write:
            _write_term(problem, cells, own, k, out, size, g, s)
            out.weight[count] = weight
            out.offsets[count + 1] = size + members
        count, size = count + 1, size + members
    return total, count, size, key


@njit(nogil=True, cache=True, inline="always")
def _write_term(problem, cells, own, k, out, size, g, s):
    """Write the missing members of a conjunction in ascending order."""
    out.cell[size], out.code[size] = g, s + 1
    end = size + 1
    for j in range(problem.term_column.shape[1]):
        position = own + max(problem.term_column[k, j], 0)
        other = cells.at[position]
        if problem.term_column[k, j] < 0 or other < 0:
            continue
        at = end
        while out.cell[at - 1] > other:
            out.cell[at], out.code[at] = out.cell[at - 1], out.code[at - 1]
            at -= 1
        out.cell[at], out.code[at] = other, position - cells.start[other] + 1
        end += 1


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
