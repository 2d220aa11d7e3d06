"""Mean-field updates of every target cell of a block (Eq. 3), with loss, errors (Definition 1) and gradient (Eq. 12).

Pseudo-likelihood (`pl`) updates every cell from q0. Contrastive divergence (`cd`) updates the variables in order, and
each update uses the ones before it.
"""

import math

import numpy as np
from numba import njit

from sparsefield.kernels.coded_columns import expected_columns, exponentiate_states, invert, scale_rows, state_logits
from sparsefield.kernels.elementary import FAST, add_four_scaled, add_scaled, dot, exp_minus_abs, four_dots

_CHUNK_ROWS = 128
"""Rows of a variable with many states that are processed together."""

_PRODUCT_LIMIT = 1e200
"""Largest product of the normalizers of a row before its logarithm is taken: one logarithm replaces many."""

# A call that hands over a tuple counts the references of all its arrays, which takes longer than a variable of a short
# block. So what `sweep` calls for every variable has plain arrays as arguments.


@njit(nogil=True, cache=True, fastmath=FAST, inline="always")
def logits(graph, theta, state, columns, factors, sources, z):
    """Set z = b_s + sum_r w_sr q_r for the rows of a block; ``factors`` and ``sources`` are buffers for four arcs."""
    first, last = graph.arc_offsets[state], graph.arc_offsets[state + 1]
    bias, source, feature = theta[graph.first + state], graph.term_source, graph.term_feature
    for i in range(z.shape[0]):
        z[i] = bias
    _add_arcs(first, last, graph.arc_feature, graph.arc_source, theta, columns, factors, sources, z)
    first, last = graph.term_offsets[state], graph.term_offsets[state + 1]
    if first < last:
        _add_terms(first, last, graph.term_run, source, feature, theta, columns, factors, sources, z)


@njit(nogil=True, cache=True, fastmath=FAST)
def _add_arcs(first, last, arc_feature, arc_source, theta, columns, factors, sources, z):
    """Add the arcs of a state to its logits, those from first to last."""
    pending = 0
    for k in range(first, last):
        weight = theta[arc_feature[k]]
        if weight != 0.0:
            factors[pending] = weight
            sources[pending] = arc_source[k]
            pending += 1
            if pending == 4:
                add_four_scaled(z, factors, columns, sources)
                pending = 0
    for k in range(pending):
        add_scaled(z, factors[k], columns[sources[k]])


@njit(nogil=True, cache=True, fastmath=FAST)
def _add_terms(k, end, term_run, term_source, term_feature, theta, columns, factors, sources, z):
    """Add the arcs from conjunctions to the logits of a state, those from k to the end."""
    inner = np.empty(z.shape[0])
    while k < end:
        stop = k + term_run[k]
        for i in range(inner.shape[0]):
            inner[i] = 0.0
        pending = 0
        for j in range(k, stop):
            weight = theta[term_feature[j]]
            if weight != 0.0:
                factors[pending] = weight
                sources[pending] = term_source[j, 0]
                pending += 1
                if pending == 4:
                    add_four_scaled(inner, factors, columns, sources)
                    pending = 0
        for j in range(pending):
            add_scaled(inner, factors[j], columns[sources[j]])
        _multiply_columns(inner, columns, term_source[k])
        for i in range(inner.shape[0]):
            z[i] += inner[i]
        k = stop


@njit(nogil=True, cache=True, fastmath=FAST)
def _multiply_columns(values, columns, which):
    """Multiply values by all columns in ``which`` but the first; negative entries are skipped."""
    for j in range(1, which.shape[0]):
        if which[j] >= 0:
            column = columns[which[j]]
            for i in range(values.shape[0]):
                values[i] *= column[i]


@njit(nogil=True, cache=True, fastmath=FAST)
def _fold_products(products, logs):
    """Move the products of normalizers into the sums of their logarithms."""
    for i in range(products.shape[0]):
        logs[i] += math.log(products[i])
        products[i] = 1.0


@njit(nogil=True, cache=True, fastmath=FAST)
def _update_binary(z, u, products, logs, q1):
    """Set q1 to the beliefs of a binary variable and add its log-normalizer to products and logs."""
    for i in range(z.shape[0]):
        d = 1.0 + u[i]
        q1[i] = (1.0 if z[i] > 0.0 else u[i]) / d
        products[i] *= d
        logs[i] += z[i] if z[i] > 0.0 else 0.0


@njit(nogil=True, cache=True, fastmath=FAST)
def _update_coded(coding, v, codes, all_cells, z, p, top, total, products, logs, q1):
    """Set q1 to the expected columns of a variable with column logits z; add its log-normalizer.

    The base measures of observed states are subtracted from logs, and missing cells add nothing unless ``all_cells``
    do. Rows are processed in chunks, so that the weights p of all states (states, chunk) stay in cache.
    """
    first = coding.state_offsets[v]
    for s in range(q1.shape[0]):
        for i in range(codes.shape[0]):
            q1[s, i] = 0.0
    for start in range(0, codes.shape[0], max(p.shape[1], 1)):
        stop = min(start + p.shape[1], codes.shape[0])
        highest, sums = top[: stop - start], total[: stop - start]
        state_logits(coding, v, z, start, p, highest)
        exponentiate_states(p, highest, sums)
        expected_columns(coding, v, p, q1, start, stop)
        for i in range(start, stop):
            if all_cells or codes[i] >= 0:
                products[i] *= sums[i - start]
                logs[i] += highest[i - start]
            if codes[i] >= 0:
                logs[i] -= coding.log_base[first + codes[i]]
        invert(sums)
        scale_rows(q1, start, sums)


@njit(nogil=True, cache=True, fastmath=FAST)
def _score_variable(q0, z, q1, weight, logs):
    """Subtract the expected logits under q0 from the log-normalizer and turn q1 into errors."""
    for s in range(z.shape[0]):
        for i in range(weight.shape[0]):
            logs[i] -= q0[s, i] * z[s, i]
            q1[s, i] = (q1[s, i] - q0[s, i]) * weight[i]


@njit(nogil=True, cache=True, fastmath=FAST)
def sweep(block, graph, theta, start, stop, sequential, current, errors, sums, probabilities):
    """Update every cell of the targets from ``start`` to ``stop`` once, and return their loss.

    The loss of a cell is - ln q1 of its state, and that of a missing cell, where it is updated, the sum of q0 (- ln q1)
    over its states.

    Parameters
    ----------
    block : codes, beliefs (q0), weight, cell_offsets, missing_rows
    graph : index of the first bias, target_offsets and coding of the targets, and arcs: for each target column its
        (source column, feature); arcs from conjunctions are left out, see `add_terms`
    theta : biases of all tables, then pair weights
    sequential : False for pl, where missing cells have no loss; True for cd, where they are updated and have one
    current : (columns, rows), the beliefs that logits are computed from: q0 itself for pl, a copy to update for cd
    errors : (target columns, rows), output: (q1 - q0) x row weight (Definition 1)
    sums : (columns of these targets, rows), added to the logits; or empty
    probabilities : (states, rows), output: the probabilities of all states, also those of missing cells, and then the
        loss means nothing; or empty
    """
    rows, weight, beliefs, codes = block.weight.shape[0], block.weight, block.beliefs, block.codes
    cell_offsets, missing_rows, target_offsets = block.cell_offsets, block.missing_rows, graph.target_offsets
    arc_offsets, arc_feature, arc_source = graph.arc_offsets, graph.arc_feature, graph.arc_source
    first_bias, coding = graph.first, graph.coding
    state_offsets, has_reference = coding.state_offsets, coding.has_reference
    products, logs, top, total = np.empty(rows), np.empty(rows), np.empty(rows), np.empty(rows)
    for i in range(rows):
        products[i], logs[i] = 1.0, 0.0
    logit_space = np.empty((graph.widest, rows))
    state_space = np.empty((coding.most_states, _CHUNK_ROWS))
    factors, sources = np.empty(4), np.empty(4, dtype=np.int64)
    predicts, bound = probabilities.shape[0] > 0, 1.0
    for v in range(start, stop):
        first, last = target_offsets[v], target_offsets[v + 1]
        if first == last:
            continue
        states = state_offsets[v + 1] - state_offsets[v]
        bound *= states
        if bound > _PRODUCT_LIMIT:
            _fold_products(products, logs)
            bound = float(states)
        z, q0, q1 = logit_space[: last - first], beliefs[first:last], errors[first:last]
        for s in range(last - first):
            state, bias = first + s, theta[first_bias + first + s]
            for i in range(rows):
                z[s, i] = bias
            if sums.shape[0] > 0:
                add_scaled(z[s], 1.0, sums[state - target_offsets[start]])
            begin, end = arc_offsets[state], arc_offsets[state + 1]
            _add_arcs(begin, end, arc_feature, arc_source, theta, current, factors, sources, z[s])
        begin, end = cell_offsets[v], cell_offsets[v + 1]
        if sequential or predicts:
            end = begin
        for k in range(begin, end):
            for s in range(last - first):
                z[s, missing_rows[k]] = 0.0
        if has_reference[v] and last - first == 1 and not predicts:
            exp_minus_abs(z[0], total)
            _update_binary(z[0], total, products, logs, q1[0])
            for k in range(begin, end):
                products[missing_rows[k]] *= 0.5  # the normalizer of the logit 0
        else:
            p = probabilities[state_offsets[v] : state_offsets[v + 1]] if predicts else state_space[:states]
            _update_coded(coding, v, codes[v], sequential, z, p, top, total, products, logs, q1)
            if predicts:
                scale_rows(p, np.int64(0), total)
        if sequential:
            for s in range(last - first):
                for i in range(rows):
                    current[first + s, i] = q1[s, i]
        _score_variable(q0, z, q1, weight, logs)
        for k in range(begin, end):
            for s in range(last - first):
                q1[s, missing_rows[k]] = 0.0
    _fold_products(products, logs)
    return dot(weight, logs)


def predict_states(block, graph, theta, start, stop, out):
    """Set out (states, rows) to the probabilities of the cells of the targets from ``start`` to ``stop``.

    Each is given the other beliefs of its row.
    """
    errors, sums = np.empty((len(graph.arc_offsets) - 1, out.shape[1])), np.empty((0, 0))
    first, last = graph.target_offsets[start], graph.target_offsets[stop]
    if len(graph.term_feature):
        sums = np.zeros((last - first, out.shape[1]))
        add_terms(graph, theta, first, block.beliefs, sums)
    out[graph.coding.state_offsets[start] : graph.coding.state_offsets[stop]] = 1.0  # of a constant
    sweep(block, graph, theta, start, stop, False, block.beliefs, errors, sums, out)


@njit(nogil=True, cache=True)
def add_terms(graph, theta, first, columns, sums):
    """Add to ``sums`` (some target columns, rows) the arcs from conjunctions to the columns from ``first`` on."""
    factors, sources = np.empty(4), np.empty(4, dtype=np.int64)
    run, source, feature = graph.term_run, graph.term_source, graph.term_feature
    for s in range(sums.shape[0]):
        k, end = graph.term_offsets[first + s], graph.term_offsets[first + s + 1]
        _add_terms(k, end, run, source, feature, theta, columns, factors, sources, sums[s])


@njit(nogil=True, cache=True, fastmath=FAST)
def slopes(arc_offsets, source, errors, expectations, first, last, of_biases, of_arcs):
    """Set the slopes of the biases and arcs of the columns from ``first`` to ``last``: error . expectation (Eq. 13)."""
    for state in range(first, last):
        error, total = errors[state], 0.0
        for i in range(error.shape[0]):
            total += error[i]
        of_biases[state] = total
        k, end = arc_offsets[state], arc_offsets[state + 1]
        while k + 4 <= end:
            of_arcs[k], of_arcs[k + 1], of_arcs[k + 2], of_arcs[k + 3] = four_dots(
                error, expectations, source[k], source[k + 1], source[k + 2], source[k + 3]
            )
            k += 4
        while k < end:
            of_arcs[k] = dot(error, expectations[source[k]])
            k += 1


@njit(nogil=True, cache=True)
def list_entries(beliefs, offsets, rows, values):
    """List the beliefs that are not 0, column by column; return whether there is memory for them."""
    n = 0
    for column in range(beliefs.shape[0]):
        for i in range(beliefs.shape[1]):
            if beliefs[column, i] != 0.0:
                if n == rows.shape[0]:
                    return False
                rows[n], values[n] = i, beliefs[column, i]
                n += 1
        offsets[column + 1] = n
    return True


@njit(nogil=True, cache=True, fastmath=FAST)
def multiply_entries(offsets, rows, values, columns, by_column, by_row, to_rows):
    """Add to ``by_row`` (rows, states) the product of entries and ``by_column`` (columns, states), or the reverse."""
    for c in columns:
        for e in range(offsets[c], offsets[c + 1]):
            value, i = values[e], np.int64(rows[e])
            for s in range(by_row.shape[1]):
                if to_rows:
                    by_row[i, s] += value * by_column[c, s]
                else:
                    by_column[c, s] += value * by_row[i, s]


@njit(nogil=True, cache=True, fastmath=FAST)
def slopes_of_terms(graph, errors, expectations, first, last, out):
    """Set the slopes of the arcs from conjunctions of the columns from ``first`` to ``last`` (Eq. 14).

    They are error . product of the other columns; the columns that the terms of a run share are multiplied once.
    """
    scaled, source = np.empty(errors.shape[1]), graph.term_source
    for state in range(first, last):
        k, end = graph.term_offsets[state], graph.term_offsets[state + 1]
        while k < end:
            stop = k + graph.term_run[k]
            for i in range(scaled.shape[0]):
                scaled[i] = errors[state, i]
            _multiply_columns(scaled, expectations, source[k])
            while k + 4 <= stop:
                out[k], out[k + 1], out[k + 2], out[k + 3] = four_dots(
                    scaled, expectations, source[k, 0], source[k + 1, 0], source[k + 2, 0], source[k + 3, 0]
                )
                k += 4
            while k < stop:
                out[k] = dot(scaled, expectations[source[k, 0]])
                k += 1


@njit(nogil=True, cache=True, fastmath=FAST)
def bias_hessian(errors, weight, is_score, out):
    """Set out[s] to the sum over rows of p (1 - p), computed from the errors of observed cells.

    For a column that is a score, the squared error stands for its variance.
    """
    for s in range(errors.shape[0]):
        total, squares, error = 0.0, 0.0, errors[s]
        for i in range(weight.shape[0]):
            total += abs(error[i])
            squares += error[i] * error[i] / (weight[i] + 1e-300)
        out[s] = squares if is_score[s] else max(total - squares, 0.0)


# -- products of columns, as features of three or more columns have them (Eq. 14) --------------------------------------


@njit(nogil=True, cache=True, fastmath=FAST)
def product_factors(errors, expectations, weight, members, averaged, change, before):
    """Set the weighted errors and the expectations of products of columns.

    Parameters
    ----------
    errors : (target columns, rows), each times the row's weight
    expectations : (columns, rows)
    weight : (rows,)
    members : (features, columns), padded with -1
    averaged : whether the expectations are (q0 + q1) / 2; then an error of a product is prod q1 - prod q0
    change : (features, rows), output: the errors of the products, times the row's weight
    before : (features, rows), output: the expectations of the products
    """
    rows = weight.shape[0]
    inverse, error, no_error = np.empty(rows), np.empty(rows), np.zeros(rows)
    for i in range(rows):
        inverse[i] = 1.0 / weight[i] if weight[i] > 0.0 else 0.0
    for f in range(members.shape[0]):
        made, product = change[f], before[f]
        for i in range(rows):
            made[i], product[i] = 0.0, 1.0
        for k in range(members.shape[1]):
            column = members[f, k]
            if column < 0:
                continue
            if column >= errors.shape[0]:
                _multiply(made, product, expectations[column], no_error, 0.0)
                continue
            for i in range(rows):
                error[i] = errors[column, i] * inverse[i]
            _multiply(made, product, expectations[column], error, 0.5 if averaged else 0.0)
        for i in range(rows):
            product[i] += 0.5 * made[i] if averaged else 0.0
            made[i] *= weight[i]


@njit(nogil=True, cache=True, fastmath=FAST)
def _multiply(change, before, expectation, error, half):
    """Multiply products by a column that changes from expectation - half x error to expectation + half x error."""
    for i in range(change.shape[0]):
        change[i] = change[i] * (expectation[i] + half * error[i]) + before[i] * error[i]
        before[i] *= expectation[i] - half * error[i]


@njit(nogil=True, cache=True)
def changes_of_conjunctions(graph, errors, expectations, weight, out):
    """Set out to the change of each feature of three or more columns under cd, <f>_q1 - <f>_q0 (Eq. 10)."""
    change, before = np.empty((1, weight.shape[0])), np.empty((1, weight.shape[0]))
    for f in range(graph.members.shape[0]):
        product_factors(errors, expectations, weight, graph.members[f : f + 1], True, change, before)
        out[f] = change.sum()
