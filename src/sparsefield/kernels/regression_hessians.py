"""Hessians of the regressions of single variables, and the Newton system that they make.

Under pseudo-likelihood every variable is a multinomial regression of its columns on the sources of its arcs; its loss
and errors are those of `sparsefield.kernels.mean_field_sweep`. Newton steps, Wald statistics, intervals, bootstraps
and comparisons of groups all have their Hessians from here.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401  # loaded before the number of its threads is limited
from numba import njit

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


def set_newton_system(
    block: Any,
    coding: Any,
    p: np.ndarray,
    columns: np.ndarray,
    designs: Designs,
    free: np.ndarray,
    max_rows: int,
    least: float,
    first: int,
    last: int,
    before: int,
    system: NewtonSystem,
) -> None:
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
        own, coded = designs.of_variable(v), coding.columns_of(v)
        if own.start == own.stop:
            continue
        states, weight = p[coding.state_offsets[v] : coding.state_offsets[v + 1]], _weight_of(block, v)
        variance = (np.square(coded).sum(axis=1) @ states - np.square(coded.T @ states).sum(axis=0)) * weight
        chosen, rows = variance.copy(), np.empty(len(weight), dtype=np.int64)
        rows = rows[: choose_rows(chosen, max_rows, rows)]
        weight = weight[rows] * (chosen[rows] / variance[rows])
        ends = designs.offsets[designs.target_offsets[v] : designs.target_offsets[v + 1] + 1] - own.start
        hessian, of_biases = regression_hessian(coded, states[:, rows], weight, columns, rows, own, designs, ends)
        is_free = np.zeros(len(hessian), dtype=bool)
        is_free[ends[:-1]] = free[designs.parameter[own][ends[:-1]]]
        arcs, biases, number = np.flatnonzero(~is_free), np.flatnonzero(is_free), before + v
        matrix = of_biases[np.ix_(is_free[ends[:-1]], is_free[ends[:-1]])]
        if len(matrix) < 2:
            inverse = 1.0 / (matrix + least)
        else:  # of the biases of all states a constant is undetermined, and stays
            values, directions = np.linalg.eigh(matrix)
            known = values > MIN_CURVATURE * values[-1]
            inverse = (directions * np.where(known, 1.0 / (values + least), 0.0)) @ directions.T
        cross = hessian[np.ix_(biases, arcs)].astype(np.float64)
        product = inverse @ cross
        reduced = hessian[np.ix_(arcs, arcs)] - product.T @ cross
        system.blocks[system.starts[number] : system.starts[number + 1]] = reduced.ravel()
        system.of_gradient[system.inverse_starts[number] : system.inverse_starts[number + 1]] = inverse.ravel()
        system.of_weights[system.product_starts[number] : system.product_starts[number + 1]] = product.ravel()


def variable_hessians(block: Any, coding: Any, p: np.ndarray, columns: np.ndarray, designs: Designs) -> np.ndarray:
    """Return the Hessians of the regressions of all variables of a table over their designs, one after the other, flat.

    ``p`` (states, rows) are the probabilities of states, and ``columns`` (columns, rows) the values of columns.
    """
    parts = [np.empty(0)]
    for v in range(len(designs.target_offsets) - 1):
        own, weight = designs.of_variable(v), _weight_of(block, v)
        states, total = p[coding.state_offsets[v] : coding.state_offsets[v + 1]], 0.0
        ends = designs.offsets[designs.target_offsets[v] : designs.target_offsets[v + 1] + 1] - own.start
        for start in range(0, len(weight) if own.start < own.stop else 0, HESSIAN_ROWS):
            rows = np.arange(start, min(start + HESSIAN_ROWS, len(weight)))
            chosen = states[:, rows], weight[rows], columns, rows, own, designs, ends
            total = total + regression_hessian(coding.columns_of(v), *chosen)[0]
        parts.append(np.ravel(total) if own.start < own.stop else parts[0])
    return np.concatenate(parts)


def _weight_of(block: Any, v: int) -> np.ndarray:
    """Return the weights of the rows, 0 where a target is missing."""
    weight = block.weight.copy()
    weight[block.missing_rows[block.cell_offsets[v] : block.cell_offsets[v + 1]]] = 0.0
    return weight


def regression_hessian(
    coded: np.ndarray,
    p: np.ndarray,
    weight: np.ndarray,
    columns: np.ndarray,
    rows: np.ndarray,
    own: slice,
    designs: Designs,
    ends: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the Hessian of the regression of a variable in the precision of the columns, and that of its biases.

    It is the sum over rows of the covariance of two columns of the variable times the product of two sources.

    Parameters
    ----------
    coded : (states, columns of the variable)
    p, weight : (states, rows) and (rows,); a weight is 0 where the variable is missing
    columns : (columns, all rows), of which ``rows`` are chosen
    own : the parameters of the variable among those of ``designs``
    ends : (columns of the variable + 1,), the first parameter of each column
    """
    values = np.empty((own.stop - own.start, len(rows)), columns.dtype)
    set_sources(designs.source[own], designs.products, columns, rows, values)
    means, n_columns = coded.T @ p, coded.shape[1]
    hessian = np.zeros((len(values), len(values)), columns.dtype)
    if n_columns > 1:  # of two columns that are never 1 at once, the covariance is minus the product of their means
        scaled = values * np.repeat(means * np.sqrt(weight), np.diff(ends), axis=0).astype(columns.dtype)
        hessian -= scaled @ scaled.T
    for a in range(n_columns):
        for b in range(a + 1):
            products, one, other = coded[:, a] * coded[:, b], slice(*ends[a : a + 2]), slice(*ends[b : b + 2])
            if products.any():
                covariance = np.maximum(products @ p - means[a] * means[b], 0.0 if a == b else -np.inf) * weight
                if a == b:
                    root = values[one] * np.sqrt(covariance).astype(columns.dtype)
                    hessian[one, one] = root @ root.T
                else:
                    hessian[one, other] = (values[one] * covariance.astype(columns.dtype)) @ values[other].T
                    hessian[other, one] = hessian[one, other].T
    return hessian, (coded.T * (p @ weight)) @ coded - (means * weight) @ means.T


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
