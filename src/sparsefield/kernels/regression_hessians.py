"""Hessians of the regressions of single variables, and the Newton system that they make.

Under pseudo-likelihood every variable is a multinomial regression of its columns on the sources of its arcs; its loss
and errors are those of `sparsefield.kernels.mean_field_sweep`. Newton steps, Wald statistics, intervals, bootstraps
and comparisons of groups all have their Hessians from here.

They are products of matrices, which would not be faster in a kernel, and take seconds to compile there.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
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


def set_newton_system(
    block: Any,
    coding: Any,
    p: np.ndarray,
    columns: np.ndarray,
    designs: Designs,
    free: np.ndarray,
    max_rows: int,
    least: float,
    variables: range,
    before: int,
    system: NewtonSystem,
) -> None:
    """Set the matrices of some variables of a table.

    Parameters
    ----------
    block : weight, cell_offsets, missing_rows
    p : (states, rows), probabilities of the states of these variables
    columns : (columns, rows) float32
    max_rows : number of rows that the Hessian of a variable is computed from, at most: see `choose_rows`
    least : added to the curvature of biases
    before : number of variables of the tables before this one
    """
    for v in variables:
        ends = designs.offsets[designs.target_offsets[v] : designs.target_offsets[v + 1] + 1]
        if ends[0] == ends[-1]:
            continue
        own, weight = designs.of_variable(v), _observed_weight(block, v)
        states, table = p[slice(*coding.state_offsets[v : v + 2])], _state_columns(coding, v, len(ends) - 1)
        variance = ((table * table).T @ states - np.square(table.T @ states)).sum(axis=0) * weight
        rows, before_choice = np.empty(len(weight), dtype=np.int64), variance.copy()
        rows = rows[: choose_rows(variance, max_rows, rows)]
        if len(rows) < len(weight):
            states, weight = states.take(rows, axis=1), weight[rows] * (variance[rows] / before_choice[rows])
        values = _source_values(designs.source[own], designs.products, columns, rows)
        biases, is_free = ends[:-1] - ends[0], np.zeros(len(values), dtype=bool)
        is_free[biases] = column = free[designs.parameter[own][biases]]
        # Sums over linked rows may have means far beyond their deviations, which free biases make up for.
        centers, owner = values.sum(axis=1) / max(len(weight), 1), np.repeat(np.arange(len(column)), np.diff(ends))
        centers[(np.abs(centers) <= 1.0) | ~column[owner]] = 0.0
        if centers.any():
            values = values - centers[:, None]
        hessian, of_biases = regression_hessian(table, states, weight, values, ends - ends[0], coding.n_scores[v])
        arcs = np.flatnonzero(~is_free)
        cross, matrix = hessian[is_free].take(arcs, axis=1), hessian.take(arcs, axis=0).take(arcs, axis=1)
        inverse = _pseudo_inverse(of_biases[np.ix_(column, column)], least)
        product, number = inverse @ cross, before + v
        matrix -= product.astype(np.float32).T @ cross
        system.of_gradient[slice(*system.inverse_starts[number : number + 2])] = inverse.ravel()
        system.blocks[slice(*system.starts[number : number + 2])] = matrix.ravel()
        if centers.any():
            product[(np.cumsum(column) - 1)[owner[arcs]], np.arange(len(arcs))] += centers[arcs]
        system.of_weights[slice(*system.product_starts[number : number + 2])] = product.ravel()


def _observed_weight(block: Any, v: int) -> np.ndarray:
    """Return the weights of rows, 0 where a variable is missing."""
    weight = block.weight.copy()
    weight[block.missing_rows[slice(*block.cell_offsets[v : v + 2])]] = 0.0
    return weight


def _state_columns(coding: Any, v: int, n_columns: int) -> np.ndarray:
    """Return the columns of a variable, (states, columns)."""
    states, n_scores = slice(*coding.state_offsets[v : v + 2]), coding.n_scores[v]
    indicator = coding.indicator[states]
    table, on = np.zeros((len(indicator), n_columns)), np.flatnonzero(indicator >= 0)
    table[:, :n_scores] = coding.scores[states, :n_scores]
    table[on, indicator[on]] = 1.0
    return table


def _pseudo_inverse(matrix: np.ndarray, least: float) -> np.ndarray:
    """Return the inverse of a Hessian of biases; of those of all states a constant is undetermined, and stays."""
    if len(matrix) < 2:
        return 1.0 / (matrix + least)
    values, directions = np.linalg.eigh(matrix)
    factors = np.where(values > MIN_CURVATURE * values[-1], 1.0 / (values + least), 0.0)
    return (directions * factors) @ directions.T


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
        source, weight, total = designs.source[designs.of_variable(v)], _observed_weight(block, v), np.zeros(())
        states, table = p[slice(*coding.state_offsets[v : v + 2])], _state_columns(coding, v, len(ends) - 1)
        for start in range(0, len(weight) if len(source) else 0, HESSIAN_ROWS):
            some = slice(start, start + HESSIAN_ROWS)
            chosen = columns[:, some]
            values = _source_values(source, designs.products, chosen, np.arange(chosen.shape[1]))
            parts = table, states[:, some], weight[some], values, ends - ends[0], coding.n_scores[v]
            total = total + regression_hessian(*parts)[0]
        hessians.append(total.ravel() if len(source) else np.empty(0))
    return np.concatenate(hessians)


def regression_hessian(
    table: np.ndarray, p: np.ndarray, weight: np.ndarray, values: np.ndarray, ends: np.ndarray, n_scores: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the Hessian of the regression of a variable in the precision of its sources, and that of its biases.

    It is the sum over rows of the covariance of two columns of the variable times the product of two sources. That of
    two indicators is minus the product of their means: one product of matrices for all of them, and a small one for
    the variances of each.

    Parameters
    ----------
    table : (states, columns) of the variable: its scores first, then indicators
    p, weight : (states, rows) and (rows,); a weight is 0 where the variable is missing
    values : (parameters, rows), those of the sources, 1 for a bias
    ends : (columns + 1,), the first parameter of each column
    """
    means, widths = table.T @ p, np.diff(ends)
    of_biases = (table.T * (p @ weight)) @ table - (weight * means) @ means.T
    if len(means) == 1:  # the product of a matrix with itself takes half the time
        roots = np.sqrt(weight * (np.square(table[:, 0]) @ p - means[0] ** 2).clip(0.0)).astype(values.dtype)
        roots = values * roots
        return roots @ roots.T, of_biases
    column, hessian = np.repeat(np.arange(len(means)), widths), np.empty((len(values),) * 2, values.dtype)
    for a in range(n_scores):
        own, others = slice(ends[a], ends[a + 1]), slice(ends[a], None)
        covariances = ((table[:, a:] * table[:, a, None]).T @ p - means[a:] * means[a]) * weight
        scaled = values[others] * covariances.astype(values.dtype)[column[others] - a]
        hessian[own, others] = values[own] @ scaled.T
        hessian[others, own] = hessian[own, others].T
    first, of_rows = ends[n_scores], np.sqrt(weight)
    roots = values[first:] * (of_rows * means).astype(values.dtype)[column[first:]]
    np.negative(roots @ roots.T, out=hessian[first:, first:])
    deviations = np.sqrt(weight * means[n_scores:] * (1.0 - means[n_scores:]).clip(0.0)).astype(values.dtype)
    for own, deviation in zip(map(slice, ends[n_scores:-1], ends[n_scores + 1 :]), deviations, strict=True):
        of_column = values[own] * deviation
        hessian[own, own] = of_column @ of_column.T
    hessian[ends[:-1, None], ends[:-1]] = of_biases
    return hessian, of_biases


def _source_values(source: np.ndarray, products: np.ndarray, columns: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the values of sources, (parameters, rows), in some rows, all if there are as many: see `Designs`."""
    if len(rows) == columns.shape[1]:
        values = columns[np.clip(source, 0, len(columns) - 1)]
    else:
        values = np.empty((len(source), len(rows)), columns.dtype)
        gather(columns, source, rows, values)
    values[source < 0] = 1.0
    for j in np.flatnonzero(source >= len(columns)):
        members = products[source[j] - len(columns)]
        values[j] = columns[members[members >= 0]][:, rows].prod(axis=0)
    return values


@njit(nogil=True, cache=True)
def gather(columns, source, rows, values):
    """Set values (sources, chosen rows) to some columns in some rows; sources that are no columns are not set."""
    for j in range(source.shape[0]):
        if 0 <= source[j] < columns.shape[0]:
            column, out = columns[source[j]], values[j]
            for i in range(rows.shape[0]):
                out[i] = column[rows[i]]
