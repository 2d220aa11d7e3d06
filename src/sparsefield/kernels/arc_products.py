"""This module multiplies the arcs of a block in single precision: weights x columns, and errors x columns.

Fits use it while they are far from their optimum. Eight arcs are processed at a time, in chunks of rows whose columns
stay in cache, so that it is faster than `sparsefield.kernels.mean_field_sweep`.
"""

# Intrinsics are called without their first parameter, the context.
# pyright: reportCallIssue=false

import numpy as np
from numba import njit

from sparsefield.kernels import vector_lanes as vec
from sparsefield.kernels.vector_lanes import SINGLE_LANES

MAX_CHUNK_ROWS = 256
"""Rows of all columns that are processed together, at most."""


def in_chunks(columns: np.ndarray) -> np.ndarray:
    """Return columns (columns, rows) in single precision, (chunks, columns, rows of a chunk).

    Chunks have the same number of rows, a multiple of `SINGLE_LANES`, with zeros behind the last row.
    """
    n_columns, n_rows = columns.shape
    chunks = max(1, -(-n_rows // MAX_CHUNK_ROWS))
    height = -(-n_rows // (chunks * SINGLE_LANES)) * SINGLE_LANES
    out = np.empty((chunks, n_columns, height), np.float32)
    copy_chunks(columns, out)
    return out


@njit(nogil=True, cache=True)
def copy_chunks(columns, out):
    """Set out to what `in_chunks` returns."""
    for chunk in range(out.shape[0]):
        start = min(chunk * out.shape[2], columns.shape[1])
        rows = min(columns.shape[1] - start, out.shape[2])
        for c in range(columns.shape[0]):
            for i in range(rows):
                out[chunk, c, i] = columns[c, start + i]
            for i in range(rows, out.shape[2]):
                out[chunk, c, i] = 0.0


@njit(nogil=True, cache=True)
def _add_column(sums, weight, column):
    """Add weight x column to sums."""
    for i in range(0, sums.shape[0], SINGLE_LANES):
        vec.store(sums, i, vec.add_product(vec.load(sums, i), weight, vec.load(column, i)))


@njit(nogil=True, cache=True)
def _add_columns(sums, weights, columns, which):
    """Add eight columns, each times its weight, to sums."""
    a, b = columns[which[0]], columns[which[1]]
    c, d = columns[which[2]], columns[which[3]]
    e, f = columns[which[4]], columns[which[5]]
    g, h = columns[which[6]], columns[which[7]]
    for i in range(0, sums.shape[0], SINGLE_LANES):
        one, other = vec.load(sums, i), vec.multiply(vec.splat(weights[1]), vec.load(b, i))
        one = vec.add_product(one, weights[0], vec.load(a, i))
        one = vec.add_product(one, weights[2], vec.load(c, i))
        other = vec.add_product(other, weights[3], vec.load(d, i))
        one = vec.add_product(one, weights[4], vec.load(e, i))
        other = vec.add_product(other, weights[5], vec.load(f, i))
        one = vec.add_product(one, weights[6], vec.load(g, i))
        other = vec.add_product(other, weights[7], vec.load(h, i))
        vec.store(sums, i, vec.add(one, other))


@njit(nogil=True, cache=True)
def arc_sums(offsets, sources, weights, chunks, out):
    """Set out (states, rows) to the sums over the arcs of each state of weight x source.

    Parameters
    ----------
    offsets : (states + 1,), where the arcs of each state begin
    sources, weights : (arcs,), the column and the weight of each arc; weights are float32
    chunks : the columns, as `in_chunks` returns them
    out : (states, rows), float64
    """
    sums, some, which = np.empty(chunks.shape[2], np.float32), np.empty(8, np.float32), np.empty(8, np.int64)
    for chunk in range(chunks.shape[0]):
        columns, start = chunks[chunk], chunk * chunks.shape[2]
        for state in range(out.shape[0]):
            for i in range(sums.shape[0]):
                sums[i] = 0.0
            pending = 0
            for k in range(offsets[state], offsets[state + 1]):
                if weights[k] != 0.0:
                    some[pending], which[pending] = weights[k], sources[k]
                    pending += 1
                    if pending == 8:
                        _add_columns(sums, some, columns, which)
                        pending = 0
            for k in range(pending):
                _add_column(sums, some[k], columns[which[k]])
            for i in range(start, min(start + sums.shape[0], out.shape[1])):
                out[state, i] = sums[i - start]


@njit(nogil=True, cache=True)
def _dot(a, b):
    """Return the dot product of two vectors."""
    total = vec.splat(np.float32(0.0))
    for i in range(0, a.shape[0], SINGLE_LANES):
        total = vec.add_product(total, vec.load(a, i), vec.load(b, i))
    return np.float64(vec.horizontal_sum(total))


@njit(nogil=True, cache=True)
def _add_dots(error, columns, which, out):
    """Add the dot products of an error with eight columns to out."""
    a, b = columns[which[0]], columns[which[1]]
    c, d = columns[which[2]], columns[which[3]]
    e, f = columns[which[4]], columns[which[5]]
    g, h = columns[which[6]], columns[which[7]]
    sum_a = sum_b = sum_c = sum_d = sum_e = sum_f = sum_g = sum_h = vec.splat(np.float32(0.0))
    for i in range(0, error.shape[0], SINGLE_LANES):
        some = vec.load(error, i)
        sum_a = vec.add_product(sum_a, some, vec.load(a, i))
        sum_b = vec.add_product(sum_b, some, vec.load(b, i))
        sum_c = vec.add_product(sum_c, some, vec.load(c, i))
        sum_d = vec.add_product(sum_d, some, vec.load(d, i))
        sum_e = vec.add_product(sum_e, some, vec.load(e, i))
        sum_f = vec.add_product(sum_f, some, vec.load(f, i))
        sum_g = vec.add_product(sum_g, some, vec.load(g, i))
        sum_h = vec.add_product(sum_h, some, vec.load(h, i))
    out[0] += vec.horizontal_sum(sum_a)
    out[1] += vec.horizontal_sum(sum_b)
    out[2] += vec.horizontal_sum(sum_c)
    out[3] += vec.horizontal_sum(sum_d)
    out[4] += vec.horizontal_sum(sum_e)
    out[5] += vec.horizontal_sum(sum_f)
    out[6] += vec.horizontal_sum(sum_g)
    out[7] += vec.horizontal_sum(sum_h)


@njit(nogil=True, cache=True)
def arc_dots(offsets, sources, errors, chunks, out):
    """Set out (arcs,) to the dot products of the error of the state of each arc with its source.

    The products of a chunk are summed in single precision, and chunks in double precision.

    Parameters
    ----------
    offsets, sources, chunks : as of `arc_sums`
    errors : the errors of the states, in chunks like the columns
    """
    for k in range(out.shape[0]):
        out[k] = 0.0
    for chunk in range(chunks.shape[0]):
        columns = chunks[chunk]
        for state in range(errors.shape[1]):
            error = errors[chunk, state]
            k, end = offsets[state], offsets[state + 1]
            while k + 8 <= end:
                _add_dots(error, columns, sources[k : k + 8], out[k : k + 8])
                k += 8
            while k < end:
                out[k] += _dot(error, columns[sources[k]])
                k += 1
