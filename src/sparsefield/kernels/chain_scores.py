"""Products of the sparse attributes of tokens with weights of labels, and with errors of labels.

Rows of labels are padded to a multiple of `LANES`, and stored in flat arrays.
"""

# Intrinsics are called without their first parameter, the context.
# pyright: reportCallIssue=false

import numpy as np
from numba import njit

from sparsefield.kernels import elementary as vec
from sparsefield.kernels.elementary import FAST, LANES

PADDING_SCORE = -1e30
"""Score of the labels that fill up a row: its exponential vanishes beside any other."""


@njit(nogil=True, cache=True)
def padded_width(n_labels):
    """Return the length of a row of labels in flat arrays."""
    return (n_labels + LANES - 1) // LANES * LANES


@njit(nogil=True, cache=True, forceinline=True)
def _dense_scores(tokens, attributes, values, rows, base, first, last, scores):
    """Set the scores of tokens by the rows of weights of their attributes, (attributes x width,)."""
    width = base.shape[0]
    for t in range(first, last):
        begin, end, place = tokens[t], tokens[t + 1], (t - first) * width
        for q in range(0, width - LANES, 2 * LANES):
            one, other = vec.load(base, q), vec.load(base, q + LANES)
            for e in range(begin, end):
                row = attributes[e] * width + q
                value = values[e] if values.shape[0] else 1.0
                one = vec.add_product(one, value, vec.load(rows, row))
                other = vec.add_product(other, value, vec.load(rows, row + LANES))
            vec.store(scores, place + q, one)
            vec.store(scores, place + q + LANES, other)
        if width % (2 * LANES):
            q = width - LANES
            one = vec.load(base, q)
            for e in range(begin, end):
                value = values[e] if values.shape[0] else 1.0
                one = vec.add_product(one, value, vec.load(rows, attributes[e] * width + q))
            vec.store(scores, place + q, one)


@njit(nogil=True, cache=True, forceinline=True)
def _sparse_scores(tokens, attributes, values, offsets, labels, weights, base, first, last, scores):
    """Set the scores of tokens by the features of their attributes."""
    width = base.shape[0]
    for t in range(first, last):
        place = (t - first) * width
        for j in range(width):
            scores[place + j] = base[j]
        for e in range(tokens[t], tokens[t + 1]):
            value = values[e] if values.shape[0] else 1.0
            for k in range(offsets[attributes[e]], offsets[attributes[e] + 1]):
                scores[place + labels[k]] += value * weights[k]


@njit(nogil=True, cache=True)
def state_scores(table, weights, base, first, last, scores):
    """Set scores, ((last - first) x width,), to those of the tokens from ``first`` to ``last``.

    Parameters
    ----------
    table : offsets of sequences, tokens, attributes, values
        Attributes of tokens by row (CSR); no ``values`` means that all are 1.
    weights : offsets, labels, weights, rows
        The features of an attribute are those from offsets[a] to offsets[a + 1]. ``rows``, unless empty, has the same
        weights as rows of labels, (attributes x width,), which is faster and needs more memory.
    base : (width,), scores of a token without attributes, and `PADDING_SCORE` for padding
    """
    _, tokens, attributes, values = table
    offsets, labels, theta, rows = weights
    if rows.shape[0]:
        _dense_scores(tokens, attributes, values, rows, base, first, last, scores)
    else:
        _sparse_scores(tokens, attributes, values, offsets, labels, theta, base, first, last, scores)


@njit(nogil=True, cache=True, forceinline=True)
def _label_sums(tokens, values, first, last, errors, width, sums):
    """Set sums, (width,), to the sum over entries of value x errors of the token."""
    for q in range(0, width - LANES, 2 * LANES):
        one, other = vec.splat(0.0), vec.splat(0.0)
        for e in range(first, last):
            row = tokens[e] * width + q
            value = values[e] if values.shape[0] else 1.0
            one = vec.add_product(one, value, vec.load(errors, row))
            other = vec.add_product(other, value, vec.load(errors, row + LANES))
        vec.store(sums, q, one)
        vec.store(sums, q + LANES, other)
    if width % (2 * LANES):
        q = width - LANES
        one = vec.splat(0.0)
        for e in range(first, last):
            value = values[e] if values.shape[0] else 1.0
            one = vec.add_product(one, value, vec.load(errors, tokens[e] * width + q))
        vec.store(sums, q, one)


@njit(nogil=True, cache=True, fastmath=FAST)
def feature_sums(by_attribute, offsets, labels, errors, width, first, last, out):
    """Set out, (features,), to the sum over tokens of attribute x error for the attributes from ``first`` to ``last``.

    ``by_attribute`` has the offsets of attributes, and the tokens and values of their entries (CSC); ``errors`` has a
    row of labels per token, (tokens x width,).
    """
    columns, tokens, values = by_attribute
    sums = np.empty(width)
    for a in range(first, last):
        begin, end = columns[a], columns[a + 1]
        if LANES * (offsets[a + 1] - offsets[a]) > width:
            _label_sums(tokens, values, begin, end, errors, width, sums)
            for k in range(offsets[a], offsets[a + 1]):
                out[k] = sums[labels[k]]
            continue
        for k in range(offsets[a], offsets[a + 1]):
            j, total = labels[k], 0.0
            for e in range(begin, end):
                total += errors[tokens[e] * width + j] * (values[e] if values.shape[0] else 1.0)
            out[k] = total


@njit(nogil=True, cache=True, fastmath=FAST)
def large_sums(by_attribute, errors, n_labels, threshold, first, last, keys, sums):
    """Find pairs of an attribute and a label whose sum of attribute x error is beyond the threshold.

    The numbers attribute x n_labels + label of the pairs are written to ``keys``, and the sums to ``sums``, while there
    is room. Returns how many there are.
    """
    columns, tokens, values = by_attribute
    width = padded_width(n_labels)
    here, count = np.empty(width), 0
    for a in range(first, last):
        _label_sums(tokens, values, columns[a], columns[a + 1], errors, width, here)
        for j in range(n_labels):
            if abs(here[j]) > threshold:
                if count < sums.shape[0]:
                    keys[count], sums[count] = a * n_labels + j, here[j]
                count += 1
    return count
