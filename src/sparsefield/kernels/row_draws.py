"""Completions of incomplete rows: all of them with their probabilities, or several that are drawn by Gibbs sampling;
sums over completions, by which observed cells are predicted.

Random numbers are hashes of a key for each row and of counters: what a row draws does not depend on other rows.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from sparsefield.kernels.coded_columns import choose_state, state_logit, state_weights, write_columns
from sparsefield.kernels.elementary import add_scaled, mix, uniform
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


def start_copies(problem, keys, drawn):
    """Draw the missing cells of every copy from the probabilities of the problem, independently of each other."""
    _start_copies(problem.cell_offsets, problem.state_offsets, problem.probabilities, keys, drawn)


@njit(nogil=True, cache=True)
def _start_copies(cell_offsets, state_offsets, probabilities, keys, drawn):
    copies = drawn.shape[1]
    strata = np.arange(copies)
    for e in range(keys.shape[0]):
        stream = mix(keys[e], 0)
        for g in range(cell_offsets[e], cell_offsets[e + 1]):
            offset, stream = uniform(stream)
            stream = _shuffle(strata, stream)
            p = probabilities[state_offsets[g] : state_offsets[g + 1]]
            for c in range(copies):
                drawn[g, c] = choose_state(p, p.shape[0], (strata[c] + offset) / copies)


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
    z = np.empty((problem.widest, drawn.shape[1]))
    _draw_copies(*cells, problem.coding, slots, keys, burn_in, sweeps, z, values, drawn, sums)


@njit(nogil=True, cache=True)
def _draw_copies(
    cell_offsets, cell_variable, state_offsets, coding, slots, keys, burn_in, sweeps, z, values, drawn, sums
):
    copies = drawn.shape[1]
    strata = np.arange(copies)
    p = np.empty(coding.most_states)
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
                count = coding.state_offsets[v + 1] - coding.state_offsets[v]
                columns = values[first:last]
                for s in range(columns.shape[0]):
                    _slot_logits(slots, first + s, values, z[s])
                offset, stream = uniform(stream)
                stream = _shuffle(strata, stream)
                total = 1.0
                for c in range(copies):
                    if c == 0 or not alike:
                        total = state_weights(coding, v, z, c, p)
                        if sweep >= burn_in and sums.shape[0]:
                            factor = (copies * sweeps if alike else 1) / total
                            for k in range(count):
                                sums[state_offsets[g] + k] += p[k] * factor
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


def set_columns(graph, cell_offsets, missing_rows, drawn, columns):
    """Set the columns of missing cells to the codes ``drawn`` (cells, copies); copies of a row are adjacent columns."""
    offsets, coding, copies = graph.target_offsets, graph.coding, drawn.shape[1]
    for v in np.flatnonzero(np.diff(cell_offsets)):
        cells = slice(*cell_offsets[v : v + 2])
        place = missing_rows[cells, None] * copies + np.arange(copies)
        states = coding.state_offsets[v] + drawn[cells]
        for column in range(offsets[v + 1] - offsets[v]):
            is_score = column < coding.n_scores[v]
            values = coding.scores[states, column] if is_score else coding.indicator[states] == column
            columns[offsets[v] + column, place] = values


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


# -- observed cells beside missing ones, in fields of pairs ------------------------------------------------------------


class Couplings(NamedTuple):
    """What pairs of states of different targets add to the log-potential, a sparse matrix (states, states) by rows."""

    offsets: np.ndarray
    state: np.ndarray
    value: np.ndarray
    owner: np.ndarray
    """(states,): the target that each state belongs to."""


class SumOptions(NamedTuple):
    """How sums over the completions of a connected component of missing cells are computed."""

    most: int
    """Components with more completions are drawn in part."""
    inner: int
    """Completions of the cells of such a component that are enumerated for each draw of the others."""
    burn_in: int
    draws: int
    max_variance: float
    """Relative variance of one draw up to which the sum for an observed cell is used."""


@njit(nogil=True, cache=True)
def sum_completions(codes, labels, logits, offsets, couplings, keys, options, out, drawn, unsure):
    """Add to ``out`` the logarithm of the mean of p(state | others) / p(observed state | others) over completions.

    The cells of a component that have most influence on observed cells are enumerated, all of them where these are few.
    Others are drawn by Gibbs sampling, in turn with all enumerated cells together. For an observed cell that depends
    strongly on drawn cells the sum is computed once more, with those enumerated that have most influence on it.

    Parameters
    ----------
    codes : (targets, rows), -1 for missing cells
    labels : (targets, rows), the number of the connected component of each missing cell of a row, and -1 elsewhere
    logits : (states, rows), of missing cells when all other missing cells are left out
    offsets : (targets + 1,), the first state of each target
    keys : (rows,), which determine random numbers
    out : (states, rows), updated for observed cells
    drawn : (targets, rows) bool, set for the cells of components that are drawn in part
    unsure : (targets, rows) bool, set for observed cells whose sum has a large variance
    """
    following, place = np.empty(codes.shape[0], dtype=np.int64), np.full(offsets[-1], -1, dtype=np.int64)
    first, cells = np.empty(codes.shape[0], dtype=np.int64), np.empty(codes.shape[0], dtype=np.int64)
    potentials = np.empty(max(options.most, offsets[-1]))
    for row in range(codes.shape[1]):
        count = 0
        for v in range(codes.shape[0]):
            if labels[v, row] >= count:  # components are numbered in the order of their first cells
                first[count] = -1
                count += 1
        for v in range(codes.shape[0] - 1, -1, -1):
            if labels[v, row] >= 0:
                following[v] = first[labels[v, row]]
                first[labels[v, row]] = v
        for k in range(count):
            size, v = 0, first[k]
            while v >= 0:
                cells[size] = v
                size, v = size + 1, following[v]
            if _sum_component(
                cells[:size], codes[:, row], logits[:, row], offsets, couplings, mix(keys[row], k), options, place,
                potentials, out[:, row], unsure[:, row],
            ):  # fmt: skip
                for a in range(size):
                    drawn[cells[a], row] = True


@njit(nogil=True, cache=True)
def _sum_component(cells, codes, logits, offsets, couplings, stream, options, place, potentials, out, unsure):
    """Add the sums over the completions of one component; return whether it was drawn in part."""
    n, owner = cells.shape[0], couplings.owner
    start, touched, width = np.zeros(n + 1, dtype=np.int64), np.empty(out.shape[0], dtype=np.int64), 0
    for a in range(n):  # states of the component, and observed states that depend on it, get places
        v = cells[a]
        start[a + 1] = start[a] + offsets[v + 1] - offsets[v]
        for t in range(offsets[v], offsets[v + 1]):
            place[t] = start[a] + t - offsets[v]
            for e in range(couplings.offsets[t], couplings.offsets[t + 1]):
                i = owner[couplings.state[e]]
                if codes[i] >= 0 and place[offsets[i]] < 0:
                    for s in range(offsets[i], offsets[i + 1]):
                        place[s], touched[width] = width, s
                        width += 1
    effect, tie, unary = np.zeros((start[n], width)), np.zeros((start[n], start[n])), np.empty(start[n])
    for a in range(n):
        v = cells[a]
        for t in range(offsets[v], offsets[v + 1]):
            at = place[t]
            unary[at] = logits[t]
            for e in range(couplings.offsets[t], couplings.offsets[t + 1]):
                s = couplings.state[e]
                if codes[owner[s]] < 0:
                    tie[at, place[s]] += couplings.value[e]
                else:
                    effect[at, place[s]] += couplings.value[e]
            p = 0
            while p < width:  # relative to the observed state
                i = owner[touched[p]]
                observed = effect[at, p + codes[i]]
                for s in range(p, p + offsets[i + 1] - offsets[i]):
                    effect[at, s] -= observed
                p += offsets[i + 1] - offsets[i]
    for a in range(n):
        for t in range(offsets[cells[a]], offsets[cells[a] + 1]):
            place[t] = -1
    for p in range(width):
        place[touched[p]] = -1
    if width == 0:
        return False
    joint = 1.0
    for a in range(n):
        joint *= start[a + 1] - start[a]
    exact, limit = joint <= options.most, options.most if joint <= options.most else options.inner
    chances, logs, draws = np.ones(start[n]), np.empty((2, width)), 1 if exact else options.draws
    trace, fields = np.empty((draws, n), dtype=np.int64), np.empty((draws, start[n]))
    fields[0] = 0.0
    add_scaled(fields[0], 1.0, unary)
    for a in range(n):
        trace[0, a] = start[a]
        for t in range(start[a], start[a + 1]):
            trace[0, a] = t if unary[t] > unary[trace[0, a]] else trace[0, a]
        add_scaled(fields[0], 1.0, tie[trace[0, a]])
    if not exact:
        _draw_states(start, tie, effect, limit, options.burn_in, stream, potentials, trace, fields, chances)
    _average(start, tie, effect, limit, trace, fields, chances, potentials, logs)
    p = 0
    while p < width:
        i, first = owner[touched[p]], p
        p += offsets[i + 1] - offsets[i]
        if logs[1, first:p].max() > options.max_variance:
            _average(start, tie, effect[:, first:p].copy(), limit, trace, fields, chances, potentials, logs[:, first:p])
            unsure[i] |= logs[1, first:p].max() > options.max_variance
    for p in range(width):
        out[touched[p]] += logs[0, p]
    return not exact


@njit(nogil=True, cache=True)
def _strongest(start, tie, effect, limit):
    """Choose the cells with most effect on observed ones, which have at most ``limit`` joint states together.

    Returns an order of all cells, in which they come first; their states, and where those of each begin; and the ties
    between these states.
    """
    strength, joint, first = np.zeros(start.shape[0] - 1), 1.0, np.zeros(start.shape[0], dtype=np.int64)
    states, inside = np.empty(start[-1], dtype=np.int64), 0
    for a in range(strength.shape[0]):
        for t in range(start[a], start[a + 1]):
            for p in range(effect.shape[1]):
                strength[a] = max(strength[a], abs(effect[t, p]))
    order = np.argsort(-strength)
    while inside < order.shape[0]:
        a = order[inside]
        joint *= start[a + 1] - start[a]
        if inside and joint > limit:
            break
        first[inside + 1] = first[inside] + start[a + 1] - start[a]
        for t in range(start[a], start[a + 1]):
            states[first[inside] + t - start[a]] = t
        inside += 1
    ties = np.empty((first[inside], first[inside]))
    for s in range(first[inside]):
        for t in range(first[inside]):
            ties[s, t] = tie[states[s], states[t]]
    return order, states[: first[inside]], first[: inside + 1], ties


@njit(nogil=True, cache=True)
def _draw_states(start, tie, effect, limit, burn_in, stream, potentials, trace, fields, chances):
    """Draw the states of all cells by Gibbs sampling: those with most effect together, then each by itself.

    ``trace`` (draws, cells) and ``fields`` (draws, states) receive states and logits after each round, and begin with
    those to start from. The probabilities with which single cells are drawn are added to ``chances``.
    """
    order, inner, first, ties = _strongest(start, tie, effect, limit)
    inside, state, field, p = first.shape[0] - 1, trace[0].copy(), fields[0].copy(), np.empty(chances.shape[0])
    levels, code, value = np.empty((inside + 1, len(inner))), np.empty(inside, dtype=np.int64), np.empty(inside)
    for step in range(burn_in + trace.shape[0]):
        for k in range(inside):
            add_scaled(field, -1.0, tie[state[order[k]]])
        for t in range(len(inner)):
            levels[0, t] = field[inner[t]]
        leaves, norm = _enumerate(first, ties, levels, code, value, potentials)
        left, stream = uniform(stream)
        leaf, left = 0, left * norm - potentials[0]
        while left >= 0.0 and leaf < leaves - 1:
            leaf += 1
            left -= potentials[leaf]
        for k in range(inside - 1, -1, -1):  # the last of the cells changes first
            a = order[k]
            count = start[a + 1] - start[a]
            state[a] = start[a] + leaf % count
            leaf //= count
            add_scaled(field, 1.0, tie[state[a]])
        for a in range(state.shape[0]):
            count, top, total = start[a + 1] - start[a], -np.inf, 0.0
            for s in range(count):
                top = max(top, field[start[a] + s])
            for s in range(count):
                p[s] = math.exp(field[start[a] + s] - top)
                total += p[s]
            left, stream = uniform(stream)
            drawn = start[a] + choose_state(p, count, left * total)
            for s in range(count):
                chances[start[a] + s] += p[s] / total
            if drawn != state[a]:
                add_scaled(field, 1.0, tie[drawn])
                add_scaled(field, -1.0, tie[state[a]])
                state[a] = drawn
        for a in range(state.shape[0] if step >= burn_in else 0):
            trace[step - burn_in, a] = state[a]
        for t in range(field.shape[0] if step >= burn_in else 0):
            fields[step - burn_in, t] = field[t]


@njit(nogil=True, cache=True)
def _average(start, tie, effect, limit, trace, fields, chances, potentials, logs):
    """Set logs[0] to the logarithms of the means of exp(effect) over completions, logs[1] to variances of draws.

    The cells with most effect are enumerated, up to ``limit`` completions, the others have the states of a trace.
    """
    order, inner, first, ties = _strongest(start, tie, effect, limit)
    (m, width), (draws, n), inside = effect.shape, trace.shape, first.shape[0] - 1
    levels, code, value = np.empty((inside + 1, len(inner))), np.empty(inside, dtype=np.int64), np.empty(inside)
    factors, inner_factors, sums = np.empty((m, width)), np.empty((len(inner), width)), np.zeros((inside, width))
    shift, totals, weight = np.zeros(width), np.zeros(width), np.empty(width)
    for a in range(n):  # relative to a probable completion, products of factors are neither huge nor tiny
        add_scaled(shift, 1.0, effect[trace[0, a]])
        for t in range(start[a], start[a + 1]):
            for p in range(width):
                factors[t, p] = math.exp(min(effect[t, p] - effect[trace[0, a], p], 600.0 / n))
    for t in range(len(inner)):
        for p in range(width):
            inner_factors[t, p] = factors[inner[t], p]
    for draw in range(draws):
        for t in range(len(inner)):
            levels[0, t] = fields[draw, inner[t]]
            for k in range(inside):
                levels[0, t] -= tie[trace[draw, order[k]], inner[t]]
        _, norm = _enumerate(first, ties, levels, code, value, potentials)
        weight[:] = 1.0 / (norm * draws)
        for k in range(inside, n):
            for p in range(width):
                weight[p] *= factors[trace[draw, order[k]], p]
        _sum_factors(first, potentials, inner_factors, code, sums)
        for p in range(width):
            totals[p] += weight[p] * sums[0, p]
    for p in range(width):
        logs[0, p], logs[1, p] = math.log(max(totals[p], _LEAST_PROBABILITY)) + shift[p], 0.0
        for k in range(inside, n):
            norm, mean, square = 0.0, 0.0, 0.0
            for t in range(start[order[k]], start[order[k] + 1]):
                norm += chances[t]
                mean += chances[t] * factors[t, p]
                square += chances[t] * factors[t, p] ** 2
            logs[1, p] += math.log(square * norm / mean**2)


@njit(nogil=True, cache=True)
def _enumerate(first, ties, levels, code, value, potentials):
    """Set weights of the joint states of some cells, whose states begin at ``first``; return their number and sum.

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
    return leaf, norm


@njit(nogil=True, cache=True)
def _sum_factors(first, weights, factors, code, sums):
    """Set sums[0] to the sum over completions of weight x product of the factors of their states; others to 0."""
    last, depth, leaf, width = code.shape[0] - 1, 0, 0, sums.shape[1]
    code[0], sums[:] = -1, 0.0
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
