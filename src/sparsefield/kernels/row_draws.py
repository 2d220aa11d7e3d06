"""Completions of incomplete rows: all of them with their probabilities, or several that are drawn by Gibbs sampling.

Random numbers are hashes of a key for each row and of counters: what a row draws does not depend on other rows.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from sparsefield.kernels.coded_columns import choose_state, state_logit, state_weights, write_columns
from sparsefield.kernels.elementary import mix, uniform
from sparsefield.kernels.mean_field_sweep import logits


@njit(nogil=True, cache=True)
def row_keys(seed, number, tables, rows):
    """Return a key for each row (rows,) of some tables (rows,), which differs between seeds and numbers."""
    keys = np.empty(rows.shape[0], dtype=np.uint64)
    for k in range(rows.shape[0]):
        # The seed is hashed first: `mix` alone would swap the numbers of neighboring seeds.
        keys[k] = mix(mix(mix(mix(np.uint64(0), seed), number), tables[k]), rows[k])
    return keys


@njit(nogil=True, cache=True)
def _shuffle(order, stream):
    """Set an array to a random permutation of 0, 1, ... (Fisher and Yates) and return the advanced stream."""
    for k in range(order.shape[0]):
        order[k] = k  # not the permutation before, which depends on other rows
    for k in range(order.shape[0] - 1, 0, -1):
        u, stream = uniform(stream)
        other = np.int64(u * (k + 1))
        order[k], order[other] = order[other], order[k]
    return stream


class MissingArcs(NamedTuple):
    """The logits of missing cells given the observed ones, and the arcs from other missing cells.

    A *slot* is a column of a missing cell.
    """

    slot_offsets: np.ndarray
    """(missing cells + 1,)"""
    base: np.ndarray
    """(slots,): logits of the columns without the other missing cells."""
    arc_offsets: np.ndarray
    """(slots + 1,)"""
    arc_slot: np.ndarray
    """(arcs,): slot of the source."""
    arc_weight: np.ndarray
    term_offsets: np.ndarray
    """(slots + 1,): arcs from products of several slots."""
    term_slot: np.ndarray
    """(term arcs, sources): padded with -1."""
    term_weight: np.ndarray


@njit(nogil=True, cache=True)
def start_copies(problem, keys, drawn):
    """Draw the missing cells of every copy from the probabilities of the problem, independently of each other."""
    copies = drawn.shape[1]
    strata = np.arange(copies)
    for e in range(problem.entity_start.shape[0]):
        stream = mix(keys[e], 0)
        for g in range(problem.cell_offsets[e], problem.cell_offsets[e + 1]):
            offset, stream = uniform(stream)
            stream = _shuffle(strata, stream)
            p = problem.probabilities[problem.state_offsets[g] : problem.state_offsets[g + 1]]
            for c in range(copies):
                drawn[g, c] = choose_state(p, p.shape[0], (strata[c] + offset) / copies)


@njit(nogil=True, cache=True)
def draw_copies(problem, slots, keys, burn_in, sweeps, values, drawn, sums):
    """Draw the missing cells of several copies of rows by Gibbs sampling, ``burn_in`` and ``sweeps`` times.

    The copies of a cell share its random number, each with a shift of its own, such that every c-th part of the unit
    interval is used once by c copies (stratified sampling): where their conditional distributions are equal, states
    are as frequent among copies as they are probable. Each copy by itself is an ordinary Gibbs chain.

    Parameters
    ----------
    slots : `MissingArcs` of the problem
    keys : (entities,)
    values : (slots, copies), buffer for the columns of drawn cells
    drawn : (missing cells, copies), codes; updated
    sums : (states of all missing cells,) or nothing; the conditional probabilities that states are drawn from, after
        the burn-in, are added to it
    """
    copies, coding = drawn.shape[1], problem.coding
    strata, z = np.arange(copies), np.empty((problem.widest, copies))
    p = np.empty(coding.most_states)
    for g in range(drawn.shape[0]):
        for c in range(copies):
            columns = values[slots.slot_offsets[g] : slots.slot_offsets[g + 1]]
            write_columns(coding, problem.cell_variable[g], drawn[g, c], columns, c)
    for sweep in range(burn_in + sweeps):
        for e in range(problem.entity_start.shape[0]):
            stream = mix(keys[e], sweep + 1)
            for g in range(problem.cell_offsets[e], problem.cell_offsets[e + 1]):
                first, v = slots.slot_offsets[g], problem.cell_variable[g]
                count = coding.state_offsets[v + 1] - coding.state_offsets[v]
                columns = values[first : slots.slot_offsets[g + 1]]
                for s in range(columns.shape[0]):
                    _slot_logits(slots, first + s, values, z[s])
                offset, stream = uniform(stream)
                stream = _shuffle(strata, stream)
                last = first + columns.shape[0]
                alike = slots.arc_offsets[first] == slots.arc_offsets[last]  # all copies have the same probabilities
                alike = alike and slots.term_offsets[first] == slots.term_offsets[last]
                total = 1.0
                for c in range(copies):
                    if c == 0 or not alike:
                        total = state_weights(coding, v, z, c, p)
                        if sweep >= burn_in and sums.shape[0]:
                            factor = (copies if alike else 1) / total
                            for k in range(count):
                                sums[problem.state_offsets[g] + k] += p[k] * factor
                    drawn[g, c] = choose_state(p, count, total * (strata[c] + offset) / copies)
                    write_columns(coding, v, drawn[g, c], columns, c)


@njit(nogil=True, cache=True, inline="always")
def _slot_logits(slots, slot, values, z):
    """Set z to the logits of a slot in every copy."""
    base, arc_slot, arc_weight = slots.base[slot], slots.arc_slot, slots.arc_weight
    for c in range(z.shape[0]):
        z[c] = base
    for j in range(slots.arc_offsets[slot], slots.arc_offsets[slot + 1]):
        weight, source = arc_weight[j], arc_slot[j]
        for c in range(z.shape[0]):
            z[c] += weight * values[source, c]
    term_slot, term_weight = slots.term_slot, slots.term_weight
    for j in range(slots.term_offsets[slot], slots.term_offsets[slot + 1]):
        for c in range(z.shape[0]):
            product = term_weight[j]
            for i in range(term_slot.shape[1]):
                if term_slot[j, i] >= 0:
                    product *= values[term_slot[j, i], c]
            z[c] += product


@njit(nogil=True, cache=True)
def add_potentials(graph, theta, n_variables, missing, codes, columns, potential):
    """Add to ``potential`` (rows,) the logits of missing cells, each given the cells before it.

    Parameters
    ----------
    n_variables : number of targets to complete; later ones are latent
    missing : (targets, rows), which cells are missing
    codes : (targets, rows), their codes
    columns : (columns, rows), 0 in missing cells; set to those of their codes
    """
    z, coding = np.empty((graph.widest, columns.shape[1])), graph.coding
    factors, sources = np.empty(4), np.empty(4, dtype=np.int64)
    for v in range(n_variables):
        first, last = graph.target_offsets[v], graph.target_offsets[v + 1]
        for s in range(last - first):
            logits(graph, theta, first + s, columns, factors, sources, z[s])
        for i in range(columns.shape[1]):
            if missing[v, i]:
                potential[i] += state_logit(coding, v, coding.state_offsets[v] + codes[v, i], z, i)
                write_columns(coding, v, codes[v, i], columns[first:last], i)


@njit(nogil=True, cache=True)
def set_columns(graph, cell_offsets, missing_rows, drawn, columns):
    """Set the columns of missing cells to the codes ``drawn`` (cells, copies); copies of a row are adjacent columns."""
    copies = drawn.shape[1]
    for v in range(cell_offsets.shape[0] - 1):
        mine = columns[graph.target_offsets[v] : graph.target_offsets[v + 1]]
        for g in range(cell_offsets[v], cell_offsets[v + 1]):
            for c in range(copies):
                write_columns(graph.coding, v, drawn[g, c], mine, missing_rows[g] * copies + c)


@njit(nogil=True, cache=True)
def draw_frequencies(coding, cell_offsets, missing_rows, keys, drawn):
    """Draw missing cells from the training frequencies of their states, independently of each other."""
    copies = drawn.shape[1]
    strata = np.arange(copies)
    for v in range(cell_offsets.shape[0] - 1):
        p = coding.frequencies[coding.state_offsets[v] : coding.state_offsets[v + 1]]
        for g in range(cell_offsets[v], cell_offsets[v + 1]):
            offset, stream = uniform(mix(mix(keys[missing_rows[g]], 0), v))
            _shuffle(strata, stream)
            for c in range(copies):
                drawn[g, c] = choose_state(p, p.shape[0], (strata[c] + offset) / copies)


@njit(nogil=True, cache=True)
def draw_rows(graph, theta, cell_offsets, missing_rows, keys, sweeps, columns, drawn):
    """Draw the missing cells of copies of rows without links by Gibbs sampling, variable by variable, ``sweeps`` times.

    Random numbers are stratified over copies, as in `draw_copies`.

    Parameters
    ----------
    cell_offsets, missing_rows : the missing cells, as in a `Block`
    keys : (rows,)
    columns : (columns, rows x copies), copies of a row adjacent; updated
    drawn : (cells, copies), codes; updated
    """
    copies, coding = drawn.shape[1], graph.coding
    strata, z = np.arange(copies), np.empty((graph.widest, columns.shape[1]))
    factors, sources = np.empty(4), np.empty(4, dtype=np.int64)
    p = np.empty(coding.most_states)
    for sweep in range(sweeps):
        for v in range(cell_offsets.shape[0] - 1):
            if cell_offsets[v] == cell_offsets[v + 1]:
                continue
            first, last = graph.target_offsets[v], graph.target_offsets[v + 1]
            count = coding.state_offsets[v + 1] - coding.state_offsets[v]
            for s in range(last - first):
                logits(graph, theta, first + s, columns, factors, sources, z[s])
            for g in range(cell_offsets[v], cell_offsets[v + 1]):
                row = missing_rows[g]
                offset, stream = uniform(mix(mix(keys[row], sweep + 1), v))
                _shuffle(strata, stream)
                for c in range(copies):
                    total = state_weights(coding, v, z, row * copies + c, p)
                    drawn[g, c] = choose_state(p, count, total * (strata[c] + offset) / copies)
                    write_columns(coding, v, drawn[g, c], columns[first:last], row * copies + c)


_LEAST_PROBABILITY = 1e-300
"""Smaller probabilities are replaced by this one, so that ratios are finite."""


@njit(nogil=True, cache=True)
def add_ratios(codes, owner, weight, offsets, p, totals):
    """Add, for every observed cell, weight x p(state | others) / p(observed state | others) over completions.

    Parameters
    ----------
    codes : (targets, rows) of the incomplete rows, -1 for missing cells
    owner, weight : (completions,), the incomplete row and the probability of each completion
    offsets : (targets + 1,), the first state of each target
    p : (states, completions), probabilities of all states given the rest of the completion
    totals : (states, rows), the sums; updated
    """
    for v in range(codes.shape[0]):
        for c in range(owner.shape[0]):
            row = owner[c]
            if codes[v, row] < 0:
                continue
            factor = weight[c] / max(p[offsets[v] + codes[v, row], c], _LEAST_PROBABILITY)
            for state in range(offsets[v], offsets[v + 1]):
                totals[state, row] += factor * max(p[state, c], _LEAST_PROBABILITY)
