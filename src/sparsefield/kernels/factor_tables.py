"""From the arcs of a web to what hidden cells say of each other: ties between them, and tables of such.

A *tie* is a weight on a set of gaps, each in one of its states: a feature whose other members, the seen ones, are
multiplied into the weight. Every member of a feature has an arc to it; the gap that comes first speaks for all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit


class Cells(NamedTuple):
    """Where the gaps of a web lie."""

    at: np.ndarray
    """(places,): the gap that a place belongs to, -1 for none."""
    place: np.ndarray
    """(gaps,): the place of its first state."""
    offsets: np.ndarray
    """(gaps + 1,): where its states, base first, stand in a list of all states of all gaps."""


class Ties(NamedTuple):
    """Weights on sets of gaps, each in one state."""

    offsets: np.ndarray
    """(ties + 1,)"""
    missing_cell: np.ndarray
    """Ascending within a tie."""
    code: np.ndarray
    """State of that gap; never 0, the base."""
    weight: np.ndarray


@njit(nogil=True, cache=True, inline="always")
def mix(key, value):
    """One 64-bit number from two, as different as can be for any other two (the finish of SplitMix64)."""
    z = (key ^ np.uint64(value)) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(nogil=True, cache=True)
def tie_cells(web, theta, cells, write, ties, unary, keys):
    """Count ties and their members; with ``write``, put them into ``ties``, and what is seen into ``unary``.

    ``keys`` gets a number per gap that only depends on which cell it is, and on what it sees that is no gap.
    """
    count, size = 0, 0
    for e in range(web.entity_place.shape[0]):
        for g in range(web.cell_offsets[e], web.cell_offsets[e + 1]):
            key = mix(np.uint64(0), web.cell_state[g])
            for s in range(web.cell_width[g]):
                state = web.cell_state[g] + s
                total = theta[state]
                more, count, size, key = _tie_arcs(web, theta, cells, e, g, s, write, ties, count, size, key)
                total += more
                more, count, size, key = _tie_terms(web, theta, cells, e, g, s, write, ties, count, size, key)
                if write:
                    unary[cells.offsets[g] + s + 1] = total + more
            if write:
                keys[g] = key
    return count, size


@njit(nogil=True, cache=True, inline="always")
def _tie_arcs(web, theta, cells, e, g, s, write, ties, count, size, key):
    """The arcs of one state: what seen cells add to its logit, and ties to later gaps."""
    own, row, state, total = web.entity_place[e], web.entity_row[e], web.cell_state[g] + s, 0.0
    for k in range(web.arc_offsets[state], web.arc_offsets[state + 1]):
        column, view, weight = web.arc_column[k], web.arc_view[k], theta[web.arc_feature[k]]
        first, last = 0, 1
        if view >= 0:
            at = web.view_start[view] + row
            first, last = web.neighbor_offsets[at], web.neighbor_offsets[at + 1]
            if column < 0:
                total += weight * (last - first)
                continue
        for n in range(first, last):
            place = column + (own if view < 0 else web.neighbor_place[n])
            other = cells.at[place]
            if other < 0:
                total += weight * web.beliefs[place]
                key = mix(key, np.int64(web.beliefs[place] * 1e6))
            elif other > g and weight != 0.0:
                if write:
                    ties.missing_cell[size], ties.code[size] = g, s + 1
                    ties.missing_cell[size + 1], ties.code[size + 1] = other, place - cells.place[other] + 1
                    ties.weight[count] = weight
                    ties.offsets[count + 1] = size + 2
                count, size = count + 1, size + 2
    return total, count, size, key


@njit(nogil=True, cache=True, inline="always")
def _tie_terms(web, theta, cells, e, g, s, write, ties, count, size, key):
    """The same of conjunctions: seen members go into the weight, and one that is off ends it."""
    own, state, total = web.entity_place[e], web.cell_state[g] + s, 0.0
    for k in range(web.term_offsets[state], web.term_offsets[state + 1]):
        weight, members, first = theta[web.term_feature[k]], 1, True
        for j in range(web.term_column.shape[1]):
            if web.term_column[k, j] < 0:
                continue
            place = own + web.term_column[k, j]
            if cells.at[place] >= 0:
                members += 1
                first = first and cells.at[place] > g
            else:
                weight *= web.beliefs[place]
                key = mix(key, np.int64(web.beliefs[place] * 1e6))
        if weight == 0.0 or not first:
            continue
        if members == 1:
            total += weight
            continue
        if write:
            _write_term(web, cells, own, k, ties, size, g, s)
            ties.weight[count] = weight
            ties.offsets[count + 1] = size + members
        count, size = count + 1, size + members
    return total, count, size, key


@njit(nogil=True, cache=True, inline="always")
def _write_term(web, cells, own, k, ties, size, g, s):
    """Gaps among the members of a conjunction, in ascending order."""
    ties.missing_cell[size], ties.code[size] = g, s + 1
    end = size + 1
    for j in range(web.term_column.shape[1]):
        place = own + max(web.term_column[k, j], 0)
        other = cells.at[place]
        if web.term_column[k, j] < 0 or other < 0:
            continue
        at = end
        while ties.missing_cell[at - 1] > other:
            ties.missing_cell[at], ties.code[at] = ties.missing_cell[at - 1], ties.code[at - 1]
            at -= 1
        ties.missing_cell[at], ties.code[at] = other, place - cells.place[other] + 1
        end += 1


@njit(nogil=True, cache=True)
def mix_parts(keys, part, n_parts):
    """(parts,): the keys of each part's gaps, mixed in their order."""
    mixed = np.zeros(n_parts, dtype=np.uint64)
    for g in range(part.shape[0]):
        mixed[part[g]] = mix(mixed[part[g]], keys[g])
    return mixed


@njit(nogil=True, cache=True)
def add_tables(sets, tables, home, factors, out):
    """Add the table of each set of gaps to that of the factor that is its home, which has all of its gaps."""
    for k in range(home.shape[0]):
        f, start = home[k], sets.cells[k]
        for cell in range(factors.cells[f + 1] - factors.cells[f]):
            left, place, at = cell, 0, sets.offsets[k + 1] - 1
            for m in range(factors.offsets[f + 1] - 1, factors.offsets[f] - 1, -1):
                if at >= sets.offsets[k] and sets.missing_cell[at] == factors.missing_cell[m]:
                    place += (left % factors.states[m]) * sets.stride[at]
                    at -= 1
                left //= factors.states[m]
            out[factors.cells[f] + cell] += tables[start + place]
