"""Completions of incomplete rows: all of them with their probabilities, or several that are drawn by Gibbs sampling;
sums over completions, by which observed cells are predicted.

Random numbers are hashes of a key for each row and of counters: what a row draws does not depend on other rows.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from sparsefield.kernels.coded_columns import (
    add_columns,
    choose_state,
    exponentiate_states,
    state_logit,
    state_logits,
    state_weights,
    write_columns,
)
from sparsefield.kernels.elementary import FAST, mix, uniform
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
    cells = problem.cell_offsets, problem.cell_variable, problem.state_offsets
    _draw_copies(*cells, problem.coding, slots, keys, burn_in, sweeps, problem.widest, values, drawn, sums)


@njit(nogil=True, cache=True)
def _draw_copies(
    cell_offsets, cell_variable, state_offsets, coding, slots, keys, burn_in, sweeps, widest, values, drawn, sums
):
    copies = drawn.shape[1]
    strata, top, total = np.arange(copies), np.empty(copies), np.empty(copies)
    z, p = np.empty((widest, copies)), np.empty((coding.most_states, copies))
    for g in range(drawn.shape[0]):
        for c in range(copies):
            columns = values[slots.slot_offsets[g] : slots.slot_offsets[g + 1]]
            write_columns(coding, cell_variable[g], drawn[g, c], columns, c)
    for sweep in range(burn_in + sweeps):
        for e in range(keys.shape[0]):
            stream = mix(keys[e], sweep + 1)
            for g in range(cell_offsets[e], cell_offsets[e + 1]):
                first, last, v = slots.slot_offsets[g], slots.slot_offsets[g + 1], cell_variable[g]
                # All copies of a cell that depends on no other missing one have the same probabilities, in each sweep.
                alike = slots.arc_offsets[first] == slots.arc_offsets[last]
                alike = alike and slots.term_offsets[first] == slots.term_offsets[last]
                if alike and sums.shape[0] and sweep != burn_in:
                    continue
                own = p[: state_offsets[g + 1] - state_offsets[g]]
                cell_weights(coding, slots, v, g, values, z[: last - first], own, top, total)
                for c in range(copies if sweep >= burn_in and sums.shape[0] else 0):
                    factor = (sweeps if alike else 1) / total[c]
                    for k in range(own.shape[0]):
                        sums[state_offsets[g] + k] += own[k, c] * factor
                stream = draw_cell(coding, v, own, total, strata, stream, values[first:last], drawn[g])


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


@njit(nogil=True, cache=True, inline="always")
def cell_weights(coding, slots, v, cell, values, z, p, top, total):
    """Set p (states, copies) to weights of the states of a cell of the target v, and ``total`` to their sums.

    z (columns of the cell, copies) receives the logits of its columns; ``top`` (copies,) is a buffer.
    """
    for s in range(z.shape[0]):
        _slot_logits(slots, slots.slot_offsets[cell] + s, values, z[s])
    state_logits(coding, v, z, 0, p, top)
    exponentiate_states(p, top, total)


@njit(nogil=True, cache=True, inline="always")
def draw_cell(coding, v, p, total, strata, stream, columns, codes):
    """Draw the code of a cell in every copy, write its columns, and return the advanced stream.

    Every c-th part of the unit interval is used once by c copies.
    """
    offset, stream = uniform(stream)
    stream = _shuffle(strata, stream)
    for c in range(strata.shape[0]):
        codes[c] = choose_state(p[:, c], p.shape[0], total[c] * (strata[c] + offset) / strata.shape[0])
        write_columns(coding, v, codes[c], columns, c)
    return stream


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
def draw_frequencies(coding, variables, owners, keys, drawn):
    """Draw missing cells from the training frequencies of their states, independently of each other.

    ``variables`` and ``owners`` (missing cells,) are the targets of the cells, and their rows or entities, which have
    the ``keys``.
    """
    copies = drawn.shape[1]
    strata = np.arange(copies)
    for g in range(drawn.shape[0]):
        v = variables[g]
        p = coding.frequencies[coding.state_offsets[v] : coding.state_offsets[v + 1]]
        offset, stream = uniform(mix(mix(keys[owners[g]], 0), v))
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
    columns : (columns, rows x copies), copies of a row adjacent; those of missing cells are set
    drawn : (cells, copies), codes; updated
    """
    copies, coding = drawn.shape[1], graph.coding
    strata, z = np.arange(copies), np.empty((graph.widest, columns.shape[1]))
    factors, sources = np.empty(4), np.empty(4, dtype=np.int64)
    p = np.empty(coding.most_states)
    for sweep in range(-1, sweeps):  # before the first, columns are those of the codes
        for v in range(cell_offsets.shape[0] - 1):
            if cell_offsets[v] == cell_offsets[v + 1]:
                continue
            first, last = graph.target_offsets[v], graph.target_offsets[v + 1]
            count, width = coding.state_offsets[v + 1] - coding.state_offsets[v], last - first
            for s in range(width if sweep >= 0 else 0):
                logits(graph, theta, first + s, columns, factors, sources, z[s])
            for g in range(cell_offsets[v], cell_offsets[v + 1]):
                row = missing_rows[g]
                offset, stream = uniform(mix(mix(keys[row], sweep + 1), v))
                _shuffle(strata, stream)
                for c in range(copies):
                    if sweep >= 0:
                        total = state_weights(coding, v, z, row * copies + c, p)
                        drawn[g, c] = choose_state(p, count, total * (strata[c] + offset) / copies)
                    write_columns(coding, v, drawn[g, c], columns[first:last], row * copies + c)


_LEAST_PROBABILITY = 1e-300
"""Smaller probabilities are replaced by this one, so that ratios are finite."""

_MANY_STATES = 256
"""With more states of all targets than these, fewer completions of a component are enumerated: they take longer."""


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


# -- observed cells beside missing ones, in fields of pairs ------------------------------------------------------------


class SumOptions(NamedTuple):
    """How sums over the completions of a row are computed."""

    most: int
    """Components of missing cells with more completions are drawn."""
    chains: int
    burn_in: int
    draws: int
    """Draws of each chain."""
    max_variance: float
    """Variance over draws of log-ratios of probabilities up to which the sum for an observed cell is used."""


@njit(nogil=True, cache=True)
def sum_enumerated(coding, offsets, arcs, depends, codes, labels, levels, most, out, drawn):
    """Add to ``out`` what the logits of observed cells given all other observed ones have beyond ``levels``.

    Those given a completion, too, have the mean of p(state | others) / p(observed state | others) over completions
    added in logs. Components of missing cells with few joint states are enumerated, others have to be drawn.

    Parameters
    ----------
    offsets : (targets + 1,), the first column of each target
    arcs : offsets, sources and weights of the arcs to each target column
    depends : offsets and indices of the targets that share a feature with each target
    codes : (targets, rows), -1 for missing cells
    labels : (targets, rows), the number of the connected component of each missing cell of a row, and -1 elsewhere
    levels : (states, rows), logits of states without the missing cells
    most : number of completions that are enumerated
    out : (states, rows)
    drawn : (targets, rows) bool, set for missing cells that have to be drawn
    """
    starts, n = coding.state_offsets, codes.shape[0]
    cells, potentials, z = np.empty(n, dtype=np.int64), np.empty(most), np.empty((offsets[n], 1))
    most *= min(1.0, _MANY_STATES / starts[-1])
    for row in range(codes.shape[1]):
        last = -1
        for v in range(n):
            last = max(last, labels[v, row])
        for component in range(last + 1):
            size, joint = 0, 1.0
            for v in range(n):
                if labels[v, row] == component:
                    cells[size] = v
                    size, joint = size + 1, joint * (starts[v + 1] - starts[v])
            for v in cells[: size if joint > most else 0]:
                drawn[v, row] = True
            near = _observed_neighbors(depends, cells[: 0 if joint > most else size], codes[:, row])
            if near.shape[0]:
                own, level = cells[:size], levels[:, row]
                _add_enumerated(coding, offsets, arcs, own, near, codes[:, row], level, z, potentials, out[:, row])


@njit(nogil=True, cache=True)
def _observed_neighbors(depends, cells, codes):
    """Return the observed cells that share a feature with some missing ones."""
    near, count = np.zeros(codes.shape[0], dtype=np.bool_), 0
    for v in cells:
        for k in range(depends[0][v], depends[0][v + 1]):
            i = depends[1][k]
            count += codes[i] >= 0 and not near[i]
            near[i] = codes[i] >= 0
    neighbors, filled = np.empty(count, dtype=np.int64), 0
    for i in range(near.shape[0]):
        if near[i]:
            neighbors[filled] = i
            filled += 1
    return neighbors


# Calls that hand over a tuple count the references of all its arrays, which takes longer than most cells.


@njit(nogil=True, cache=True, inline="always")
def _move(coding, offsets, arcs, v, before, after, z):
    """Replace the effect of a state of a cell, if it is not -1, by that of another on logits z (target columns, 1)."""
    first, n_scores = offsets[v], coding.n_scores[v]
    arc_offsets, arc_source, arc_weight = arcs
    for is_new in range(0 if before >= 0 else 1, 2):
        state, factor = coding.state_offsets[v] + (after if is_new else before), 1.0 if is_new else -1.0
        for d in range(n_scores + 1):
            column, value = first + d, factor
            if d < n_scores:
                value *= coding.scores[state, d]
            elif coding.indicator[state] >= 0:
                column = first + coding.indicator[state]
            else:
                break
            for k in range(arc_offsets[column], arc_offsets[column + 1]):
                if arc_source[k] < z.shape[0]:  # a feature has an arc from each of its columns to the other
                    z[arc_source[k], 0] += arc_weight[k] * value


@njit(nogil=True, cache=True, inline="always")
def _add_enumerated(coding, offsets, arcs, cells, neighbors, codes, levels, z, potentials, out):
    """Add logarithms of means of ratios over all joint states of a component."""
    starts, n = coding.state_offsets, cells.shape[0]
    first, width = np.zeros(n + 1, dtype=np.int64), 0
    for a in range(n):
        first[a + 1] = first[a] + starts[cells[a] + 1] - starts[cells[a]]
    for i in neighbors:
        width += starts[i + 1] - starts[i] - 1  # all but the observed state
    ties, factors, place = np.empty((first[n], first[n])), np.empty((first[n], width)), np.empty(width, dtype=np.int64)
    fields = np.empty((n + 1, first[n]))
    for a in range(n):
        for t in range(first[a], first[a + 1]):
            fields[0, t] = fields[n, t] = levels[starts[cells[a]] + t - first[a]]
            for c in range(z.shape[0]):
                z[c, 0] = 0.0
            _move(coding, offsets, arcs, cells[a], -1, t - first[a], z)
            p = 0
            for b in range(n + neighbors.shape[0]):
                w, level, filled = cells[b] if b < n else neighbors[b - n], 0.0, p
                for s in range(starts[w], starts[w + 1]):
                    effect = state_logit(coding, w, s, z[offsets[w] : offsets[w + 1]], 0) - coding.log_base[s]
                    if b < n:
                        ties[t, first[b] + s - starts[w]] = effect
                    elif s == starts[w] + codes[w]:
                        level = effect
                    else:
                        place[p], factors[t, p] = s, effect
                        p += 1
                for q in range(filled, p):
                    factors[t, q] -= level
    for a in range(n):  # relative to a probable completion, products of factors are neither huge nor tiny
        top = first[a]
        for t in range(first[a], first[a + 1]):
            top = t if fields[n, t] > fields[n, top] else top
        for t in range(first[n]):
            fields[n, t] += ties[top, t]
        for p in range(width):
            highest = factors[top, p]
            out[place[p]] += highest
            for t in range(first[a], first[a + 1]):
                factors[t, p] = math.exp(min(factors[t, p] - highest, 600.0 / n))
    code, sums = np.empty(n, dtype=np.int64), np.zeros((n, width))
    norm = _enumerate(first, ties, fields, code, np.empty(n), potentials)
    _sum_factors(first, potentials, factors, code, sums)
    for p in range(width):
        out[place[p]] += math.log(max(sums[0, p] / norm, _LEAST_PROBABILITY))


@njit(nogil=True, cache=True, fastmath=FAST)
def sum_drawn(coding, slots, cells, neighbors, codes, stream, options, out, variance):
    """Set the logits of ``neighbors`` in ``out`` (states,), each given all others, by draws of missing cells of a row.

    Draws are from a mixture of the distributions of these cells given all observed ones, and given all but one of them
    (Silva and Zanella 2022): no observed cell gives draws with which it is left out a large weight. One that is left
    out is drawn as well.

    Parameters
    ----------
    slots : `MissingArcs` from and to cells that are drawn; slots are target columns, and the values of observed cells
        are differences from those observed
    cells, neighbors : the targets that are drawn, and those of observed cells that share a feature with one of them
    stream : determines random numbers
    variance : (target columns,), set to the variances over draws of the logits of observed cells
    """
    starts, offsets, chains = coding.state_offsets, slots.slot_offsets, options.chains
    p, totals, strata = np.empty((starts[-1], chains)), np.zeros((starts[-1], chains)), np.arange(chains)
    values, moments = np.zeros((offsets[-1], chains)), np.zeros((2, offsets[-1]))
    z, inverse, share = np.empty_like(values), np.empty((codes.shape[0], chains)), np.zeros((2, codes.shape[0]))
    lanes, hidden, drawn = np.empty((3, chains)), np.full(chains, -1), np.empty(chains, dtype=np.int64)
    top, total, norm = lanes[0], lanes[1], lanes[2]
    for step in range(options.burn_in + options.draws):
        for v in cells:
            own = p[starts[v] : starts[v + 1]]
            cell_weights(coding, slots, v, v, values, z[offsets[v] : offsets[v + 1]], own, top, total)
            stream = draw_cell(coding, v, own, total, strata, stream, values[offsets[v] : offsets[v + 1]], drawn)
        for c in range(chains):
            for s in range(offsets[hidden[c]], offsets[hidden[c] + 1] if hidden[c] >= 0 else 0):
                values[s, c] = 0.0
            norm[c], hidden[c] = 1.0, -1
        if 2 * step < options.burn_in:
            continue
        for i in neighbors:
            own = p[starts[i] : starts[i + 1]]
            cell_weights(coding, slots, i, i, values, z[offsets[i] : offsets[i + 1]], own, top, total)
            for c in range(chains):
                own[codes[i], c] = max(own[codes[i], c], _LEAST_PROBABILITY)
                inverse[i, c] = total[c] / own[codes[i], c]
                norm[c] += share[1, i] * inverse[i, c]
                share[0, i] += inverse[i, c]
        for i in neighbors:
            if step == options.burn_in - 1:  # the parts of the mixture have about equal shares
                share[1, i] = options.burn_in // 2 * chains / (share[0, i] * neighbors.shape[0])
            if step < options.burn_in:
                continue
            for c in range(chains):
                top[c] = 1.0 / (p[starts[i] + codes[i], c] * norm[c])
            for t in range(starts[i], starts[i + 1]):
                for c in range(chains):
                    totals[t, c] += top[c] * p[t, c]
            for s in range(offsets[i], offsets[i + 1]):
                for c in range(chains if slots.arc_offsets[s + 1] > slots.arc_offsets[s] else 0):
                    moments[0, s] += z[s, c]
                    moments[1, s] += z[s, c] * z[s, c]
        for c in range(chains):
            left, stream = uniform(stream)
            left = left * norm[c] - 1.0
            for i in neighbors:
                if left >= 0.0:
                    hidden[c], left = i, left - share[1, i] * inverse[i, c]
            if hidden[c] >= 0:
                i, (u, stream) = hidden[c], uniform(stream)
                columns = values[offsets[i] : offsets[i + 1]]
                left = u * inverse[i, c] * p[starts[i] + codes[i], c]
                code = choose_state(p[starts[i] : starts[i + 1], c], starts[i + 1] - starts[i], left)
                add_columns(coding, i, code, 1.0, columns, c)
                add_columns(coding, i, codes[i], -1.0, columns, c)
    draws = chains * options.draws
    for i in neighbors:
        for t in range(starts[i], starts[i + 1]):
            out[t] = math.log(max(totals[t].sum(), _LEAST_PROBABILITY))
        for s in range(offsets[i], offsets[i + 1]):
            mean = moments[0, s] / draws
            variance[s] = moments[1, s] / draws - mean * mean


@njit(nogil=True, cache=True)
def _enumerate(first, ties, levels, code, value, potentials):
    """Set weights of the joint states of some cells, whose states begin at ``first``; return their sum.

    ``levels`` (cells + 1, states) has the logits of all states given the cells before each: at 0 those given.
    """
    last, depth, leaf, top, norm = code.shape[0] - 1, 0, 0, -np.inf, 0.0
    code[0], value[0] = -1, 0.0
    while depth >= 0:
        code[depth] += 1
        t = first[depth] + code[depth]
        if t == first[depth + 1]:
            depth -= 1
        elif depth == last:
            potentials[leaf] = value[depth] + levels[depth, t]
            top = max(top, potentials[leaf])
            leaf += 1
        else:
            for s in range(first[depth + 1], ties.shape[0]):
                levels[depth + 1, s] = levels[depth, s] + ties[t, s]
            value[depth + 1] = value[depth] + levels[depth, t]
            depth += 1
            code[depth] = -1
    for k in range(leaf):
        potentials[k] = math.exp(potentials[k] - top)
        norm += potentials[k]
    return norm


@njit(nogil=True, cache=True)
def _sum_factors(first, weights, factors, code, sums):
    """Set sums[0] to the sum over completions of weight x product of the factors of their states; all are 0 before."""
    last, depth, leaf, width = code.shape[0] - 1, 0, 0, sums.shape[1]
    code[0] = -1
    while True:
        code[depth] += 1
        t = first[depth] + code[depth]
        if t == first[depth + 1]:
            if depth == 0:
                return
            depth -= 1
            t = first[depth] + code[depth]
            for p in range(width):
                sums[depth, p] += factors[t, p] * sums[depth + 1, p]
                sums[depth + 1, p] = 0.0
        elif depth == last:
            for p in range(width):
                sums[depth, p] += weights[leaf] * factors[t, p]
            leaf += 1
        else:
            depth += 1
            code[depth] = -1
