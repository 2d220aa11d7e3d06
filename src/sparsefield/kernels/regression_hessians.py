"""Hessians of the regressions of single variables, and the Newton system that they make.

Under pseudo-likelihood every variable is a multinomial regression of its columns on the sources of its arcs; its loss
and errors are those of `sparsefield.kernels.mean_field_sweep`. Newton steps, Wald statistics, intervals, bootstraps
and comparisons of groups all have their Hessians from here.

Assignments of arrays to slices, and expressions of whole arrays, are loops here: they take seconds to compile.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401  # loaded before the number of its threads is limited
from numba import njit

from sparsefield.kernels.coded_columns import column_value, expected_columns
from sparsefield.kernels.elementary import add_scaled

CHUNK = 64
"""Sources whose products with all sources before them are one product of matrices: the other half is symmetric."""

HESSIAN_ROWS = 4096
"""Rows of a design that are in memory at a time."""

MIN_CURVATURE = 1e-10
"""Share of the largest curvature of a variable's biases, below which a combination of them has none."""

_ROUNDS = 4
"""Rounds in which the rows that are all kept are told from those that are sampled."""


class Designs(NamedTuple):
    """The parameters of the regressions of a table, by column of its targets: the bias first, then those of arcs."""

    offsets: np.ndarray
    """(target columns + 1,)"""
    source: np.ndarray
    """(parameters of all columns,): -1 for a bias, a column, or the number of columns plus that of a product."""
    parameter: np.ndarray
    """(parameters of all columns,): index into theta."""
    products: np.ndarray
    """(products, columns), padded with -1."""
    target_offsets: np.ndarray
    """(targets + 1,): the first column of each target."""

    def of_variable(self, v: int) -> slice:
        """Return the parameters of one target."""
        return slice(*self.offsets[self.target_offsets[[v, v + 1]]].tolist())


def make_designs(graph: Any, n_columns: int) -> Designs:
    """Return the designs of a table with ``n_columns`` columns from its adjacency lists."""
    n = len(graph.arc_offsets) - 1
    states, n_terms = np.arange(n), len(graph.term_source)
    target = np.concatenate([states, *(np.repeat(states, np.diff(k)) for k in (graph.arc_offsets, graph.term_offsets))])
    source = np.concatenate([np.full(n, -1), graph.arc_source, n_columns + np.arange(n_terms)])
    parameter = np.concatenate([graph.first + states, graph.arc_feature, graph.term_feature])
    order = np.argsort(target, kind="stable")
    offsets = np.searchsorted(target[order], np.arange(n + 1))
    return Designs(offsets, source[order], parameter[order], graph.term_source, graph.target_offsets)


class NewtonSystem(NamedTuple):
    """The Hessians of the regressions of all variables, each minimized over its free biases.

    A free bias has no penalty, and its step follows from those of the weights.
    """

    arc_offsets: np.ndarray
    """(variables + 1,): the first arc of each variable; penalized biases count as arcs."""
    starts: np.ndarray
    """(variables + 1,): where the matrix (arcs, arcs) of each variable begins."""
    blocks: np.ndarray
    """All matrices, one after the other, float32."""
    parameter_offsets: np.ndarray
    """(parameters + 1,)"""
    arcs_of: np.ndarray
    """The arcs of each parameter."""
    block_of: np.ndarray
    """(arcs,): the variable of each arc."""
    parameter_of: np.ndarray
    """(arcs,): the parameter of each arc: a weight, or a penalized bias."""
    free_offsets: np.ndarray
    """(variables + 1,)"""
    free_biases: np.ndarray
    """The free biases of all variables, as parameters."""
    inverse_starts: np.ndarray
    of_gradient: np.ndarray
    """Inverse Hessians of free biases: their step is minus this times their gradient, ..."""
    product_starts: np.ndarray
    of_weights: np.ndarray
    """... minus this (free biases, arcs) times the step of the arcs."""

    def matrices(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the parameters (arcs,) and the Hessian (arcs, arcs) of each variable."""
        for arcs, entries in zip(pairwise(self.arc_offsets), pairwise(self.starts), strict=True):
            width = arcs[1] - arcs[0]
            yield self.parameter_of[slice(*arcs)], self.blocks[slice(*entries)].reshape(width, width)


def empty_system(designs: Sequence[Designs], free: np.ndarray, n_parameters: int) -> NewtonSystem:
    """Return the system of all tables, whose matrices `set_newton_system` sets.

    ``free`` (biases of all tables,) says which biases have no penalty.
    """
    is_free = [(design.source < 0) & free[np.minimum(design.parameter, len(free) - 1)] for design in designs]
    ends = [design.offsets[design.target_offsets] for design in designs]
    sums = [np.concatenate([[0], np.cumsum(mask)])[end] for mask, end in zip(is_free, ends, strict=True)]
    n_free = np.concatenate([np.diff(part) for part in sums])
    n_arcs = np.concatenate([np.diff(end) for end in ends]) - n_free
    arcs = [design.parameter[~mask] for design, mask in zip(designs, is_free, strict=True)]
    biases = [design.parameter[mask] for design, mask in zip(designs, is_free, strict=True)]
    parameter_of, matrices = np.concatenate(arcs), [_offsets(n) for n in (n_arcs**2, n_free**2, n_free * n_arcs)]
    return NewtonSystem(
        _offsets(n_arcs),
        matrices[0],
        np.empty(matrices[0][-1], np.float32),
        _offsets(np.bincount(parameter_of, minlength=n_parameters)),
        np.argsort(parameter_of, kind="stable"),
        np.repeat(np.arange(len(n_arcs)), n_arcs),
        parameter_of,
        _offsets(n_free),
        np.concatenate(biases),
        matrices[1],
        np.empty(matrices[1][-1]),
        matrices[2],
        np.empty(matrices[2][-1]),
    )


def _offsets(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts)])


@njit(nogil=True, cache=True)
def set_newton_system(block, coding, p, columns, designs, free, max_rows, least, first, last, before, system):
    """Set the matrices of the variables of a table from ``first`` to ``last``.

    Parameters
    ----------
    block : weight, cell_offsets, missing_rows
    p : (states, rows), probabilities of the states of these variables
    columns : (columns, rows) float32
    max_rows : number of rows that the Hessian of a variable is computed from, at most: see `choose_rows`
    least : added to the curvature of biases
    before : number of variables of the tables before this one
    """
    for v in range(first, last):
        ends = designs.offsets[designs.target_offsets[v] : designs.target_offsets[v + 1] + 1]
        begin, end = ends[0], ends[-1]
        if begin == end:
            continue
        weight = block.weight.copy()
        for g in range(block.cell_offsets[v], block.cell_offsets[v + 1]):
            weight[block.missing_rows[g]] = 0.0
        states, rows, weight = _chosen_rows(coding, v, p, weight, ends.shape[0] - 1, max_rows)
        source, parameter = designs.source[begin:end], designs.parameter[begin:end]
        hessian, of_biases = regression_hessian(
            coding, v, states, weight, columns, rows, source, designs.products, ends - begin
        )
        arcs, column, n_arcs, n_free = np.empty(end - begin, np.int64), np.empty(ends.shape[0], np.int64), 0, 0
        for c in range(ends.shape[0] - 1):
            is_free = free[parameter[ends[c] - begin]]
            if is_free:
                column[n_free] = c
                n_free += 1
            for k in range(ends[c] + is_free - begin, ends[c + 1] - begin):
                arcs[n_arcs] = k
                n_arcs += 1
        own, cross, number = np.empty((n_free, n_free)), np.empty((n_free, n_arcs)), before + v
        for c in range(n_free):
            for d in range(n_free):
                own[c, d] = of_biases[column[c], column[d]]
            for a in range(n_arcs):
                cross[c, a] = hessian[ends[column[c]] - begin, arcs[a]]
        inverse = _pseudo_inverse(own, least)
        matrix = system.blocks[system.starts[number] : system.starts[number + 1]]
        for a in range(n_arcs):
            for b in range(n_arcs):
                matrix[a * n_arcs + b] = hessian[arcs[a], arcs[b]]
        product, row = system.of_weights[system.product_starts[number] :], np.empty(n_arcs)
        for c in range(n_free):
            row[:] = 0.0
            for d in range(n_free):
                system.of_gradient[system.inverse_starts[number] + c * n_free + d] = inverse[c, d]
                add_scaled(row, inverse[c, d], cross[d])
            for a in range(n_arcs):
                product[c * n_arcs + a] = row[a]
        for a in range(n_arcs):
            row[:] = 0.0
            for c in range(n_free):
                add_scaled(row, product[c * n_arcs + a], cross[c])
            for b in range(n_arcs):
                matrix[a * n_arcs + b] -= row[b]


@njit(nogil=True, cache=True)
def _pseudo_inverse(matrix, least):
    """Return the inverse of a Hessian of biases; of those of all states a constant is undetermined, and stays."""
    if matrix.shape[0] == 1:
        matrix[0, 0] = 1.0 / (matrix[0, 0] + least)
    if matrix.shape[0] < 2:
        return matrix
    values, directions = np.linalg.eigh(matrix)
    inverse = np.zeros(matrix.shape)
    for k in range(values.shape[0]):
        factor = 1.0 / (values[k] + least) if values[k] > MIN_CURVATURE * values[-1] else 0.0
        for c in range(values.shape[0]):
            for d in range(values.shape[0]):
                inverse[c, d] += factor * directions[c, k] * directions[d, k]
    return inverse


@njit(nogil=True, cache=True)
def _chosen_rows(coding, v, p, weight, n_columns, max_rows):
    """Return probabilities, numbers and weights of rows that stand for all: see `choose_rows`."""
    start, n_rows, n_scores = coding.state_offsets[v], weight.shape[0], coding.n_scores[v]
    states, means = p[start : coding.state_offsets[v + 1]], np.zeros((n_columns, n_rows))
    expected_columns(coding, v, states, means, np.int64(0), n_rows)
    variance, square = np.zeros(n_rows), np.empty(n_rows)
    for c in range(n_columns):
        square[:] = 0.0
        if c >= n_scores:  # the square of an indicator is the indicator
            add_scaled(square, 1.0, means[c])
        for k in range(states.shape[0] if c < n_scores else 0):
            add_scaled(square, coding.scores[start + k, c] ** 2, states[k])
        for i in range(n_rows):
            variance[i] += (square[i] - means[c, i] * means[c, i]) * weight[i]
    rows, before = np.empty(n_rows, dtype=np.int64), variance.copy()
    rows = rows[: choose_rows(variance, max_rows, rows)]
    chosen, scaled = np.empty((states.shape[0], rows.shape[0])), np.empty(rows.shape[0])
    for i in range(rows.shape[0]):
        scaled[i] = weight[rows[i]] * (variance[rows[i]] / before[rows[i]])
    for k in range(states.shape[0]):
        _gather(states[k], rows, chosen[k])
    return chosen, rows, scaled


@njit(nogil=True, cache=True)
def choose_rows(variance, max_rows, rows):
    """Set ``rows`` to about ``max_rows`` rows at most, make their variances stand for all, and return their number.

    Rows of large variance are all kept. Others are sampled at even intervals of the sum of their variances, so that
    each is kept with a probability in proportion to its variance, and those that are kept have the same variance.
    """
    step, bound, total = 0.0, np.inf, 0.0
    for _ in range(_ROUNDS):
        total, positive, large = 0.0, 0, 0
        for i in range(variance.shape[0]):
            if variance[i] >= bound:
                large += 1
            elif variance[i] > 0.0:
                positive += 1
                total += variance[i]
        if large + positive <= max_rows or large >= max_rows:
            break
        step = total / (max_rows - large)
        if bound == step:
            break
        bound = step
    count, position = 0, 0.5 * step
    for i in range(variance.shape[0]):
        value = variance[i]
        if value <= 0.0:
            continue
        if step > 0.0 and value < bound:
            position -= value
            if position > 0.0:
                continue
            while position <= 0.0:
                position += step
            variance[i] = step
        rows[count] = i
        count += 1
    return count


def variable_hessians(block: Any, coding: Any, p: np.ndarray, columns: np.ndarray, designs: Designs) -> np.ndarray:
    """Return the Hessians of the regressions of all variables of a table over their designs, one after the other, flat.

    ``p`` (states, rows) are the probabilities of states, and ``columns`` (columns, rows) the values of columns.
    """
    hessians = [np.empty(0)]
    for v in range(len(designs.target_offsets) - 1):
        ends = designs.offsets[designs.target_offsets[v] : designs.target_offsets[v + 1] + 1]
        source, weight = designs.source[ends[0] : ends[-1]], block.weight.copy()
        weight[block.missing_rows[block.cell_offsets[v] : block.cell_offsets[v + 1]]] = 0.0
        states, total = p[coding.state_offsets[v] : coding.state_offsets[v + 1]], np.zeros((len(source),) * 2)
        for start in range(0, len(weight) if len(source) else 0, HESSIAN_ROWS):
            rows = np.arange(start, min(start + HESSIAN_ROWS, len(weight)))
            chosen = np.ascontiguousarray(states[:, rows])
            hessian, _ = regression_hessian(
                coding, v, chosen, weight[rows], columns, rows, source, designs.products, ends - ends[0]
            )
            total += hessian
        hessians.append(total.ravel())
    return np.concatenate(hessians)


@njit(nogil=True, cache=True)
def regression_hessian(coding, v, p, weight, columns, rows, source, products, ends):
    """Return the Hessian of the regression of a variable in the precision of the columns, and that of its biases.

    It is the sum over rows of the covariance of two columns of the variable times the product of two sources.

    Parameters
    ----------
    p, weight : (states, rows) and (rows,); a weight is 0 where the variable is missing
    columns : (columns, all rows), of which ``rows`` are chosen
    source, products : of the parameters of the variable: see `Designs`
    ends : (columns of the variable + 1,), the first parameter of each column
    """
    n_columns, size, n_rows = ends.shape[0] - 1, source.shape[0], rows.shape[0]
    values, scaled = np.empty((size, n_rows), columns.dtype), np.empty((size, n_rows), columns.dtype)
    set_sources(source, products, columns, rows, values)
    means, covariance, factors = np.zeros((n_columns, n_rows)), np.empty(n_rows), np.empty(n_rows, columns.dtype)
    expected_columns(coding, v, p, means, np.int64(0), n_rows)
    hessian, of_biases = np.empty((size, size), columns.dtype), np.empty((n_columns, n_columns))
    for a in range(n_columns):
        for b in range(a + 1):
            covariance[:] = 0.0
            for k in range(p.shape[0]):
                value = column_value(coding, v, k, a) * column_value(coding, v, k, b)
                if value != 0.0:
                    add_scaled(covariance, value, p[k])
            mean, other, total = means[a], means[b], 0.0
            for i in range(n_rows):
                covariance[i] = weight[i] * (covariance[i] - mean[i] * other[i])
                factors[i] = covariance[i]
                total += covariance[i]
            of_biases[a, b] = of_biases[b, a] = total
            for start in range(ends[a], ends[a + 1], CHUNK):
                stop = min(start + CHUNK, ends[a + 1])
                last = stop if a == b else ends[b + 1]
                for j in range(start, stop):
                    source_values, products_of_source = values[j], scaled[j]
                    for i in range(n_rows):
                        products_of_source[i] = source_values[i] * factors[i]
                product = np.dot(scaled[start:stop], values[ends[b] : last].T)
                for j in range(stop - start):
                    for k in range(last - ends[b]):
                        hessian[start + j, ends[b] + k] = hessian[ends[b] + k, start + j] = product[j, k]
    return hessian, of_biases


@njit(nogil=True, cache=True)
def set_sources(source, products, columns, rows, values):
    """Set values (parameters, rows) to 1 for biases, and to the sources of arcs in some rows: see `Designs`."""
    for j in range(source.shape[0]):
        if source[j] < 0:
            values[j, :] = 1.0
        elif source[j] < columns.shape[0]:
            _gather(columns[source[j]], rows, values[j])
        else:
            members = products[source[j] - columns.shape[0]]
            values[j, :] = 1.0
            for m in members:
                for i in range(rows.shape[0] if m >= 0 else 0):
                    values[j, i] *= columns[m, rows[i]]


@njit(nogil=True, cache=True)
def _gather(column, rows, out):
    for i in range(rows.shape[0]):
        out[i] = column[rows[i]]
