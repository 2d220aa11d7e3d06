"""This module writes the pseudo-likelihood as one (multinomial) regression per variable, on the sources of its arcs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparsefield.data import Arcs, Layout


@dataclass(frozen=True)
class VariableRegression:
    """The regression of a variable on the sources of its arcs; parameters by column: weights, then the intercept."""

    table: int
    target: int
    columns: slice
    """Columns of the variable in its table."""
    arcs: tuple[np.ndarray, ...]
    """For each column, the numbers of the arcs that lead to it."""

    @property
    def every_arc(self) -> np.ndarray:
        return np.concatenate(self.arcs)

    @property
    def weight_positions(self) -> np.ndarray:
        """Return the positions of the weights among the parameters."""
        ends = np.cumsum([len(mine) + 1 for mine in self.arcs]) - 1
        return np.delete(np.arange(ends[-1] + 1), ends)


def variable_regressions(layout: Layout, arcs: Arcs, *, without_arcs: bool = False) -> list[VariableRegression]:
    """Return the regressions of all variables that have arcs; with ``without_arcs`` of all that have columns."""
    order = np.argsort(arcs.target, kind="stable")
    ends = np.searchsorted(arcs.target[order], np.arange(layout.n_target_columns + 1))
    found = []
    for table, schema in enumerate(layout.schemas):
        first = int(layout.target_starts[table])
        for target in range(len(schema.targets)):
            start, stop = (int(schema.target_offsets[k]) for k in (target, target + 1))
            if ends[first + stop] > ends[first + start] or (without_arcs and stop > start):
                of_states = tuple(order[ends[first + s] : ends[first + s + 1]] for s in range(start, stop))
                found.append(VariableRegression(table, target, slice(start, stop), of_states))
    return found


def column_designs(
    layout: Layout, regression: VariableRegression, arcs: Arcs, expectations: np.ndarray
) -> list[np.ndarray]:
    """Return the design (arcs + 1, rows) of each column of a variable: the sources of its arcs, and a constant.

    ``expectations`` are the values (columns, rows) of the columns of the table.
    """
    start, designs = layout.column_starts[regression.table], []
    for mine in regression.arcs:
        source = arcs.source[mine]
        plain = source < layout.n_columns
        found = np.ones((len(mine) + 1, expectations.shape[1]), dtype=expectations.dtype)
        found[:-1][plain] = expectations[source[plain] - start]
        for k in np.flatnonzero(~plain):
            columns = arcs.conjunctions[source[k] - layout.n_columns]
            found[k] = expectations[columns[columns >= 0] - start].prod(axis=0)
        designs.append(found)
    return designs


def regression_hessian(
    designs: Sequence[np.ndarray], coded: np.ndarray, probabilities: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Return the Hessian (parameters, parameters) of the regression of a variable.

    Parameters
    ----------
    designs : see `column_designs`
    coded : (columns, states), the values of the columns for each state
    probabilities : (states, rows)
    weight : (rows,), 0 where the variable is missing
    """
    sizes = np.cumsum([0, *map(len, designs)])
    hessian, intercepts = np.zeros((sizes[-1], sizes[-1])), sizes[1:] - 1
    means = coded @ probabilities
    own = (coded * (probabilities @ weight)) @ coded.T - (means * weight) @ means.T
    hessian[np.ix_(intercepts, intercepts)] = own
    with_arcs = [c for c in range(len(coded)) if len(designs[c]) > 1]
    for a in with_arcs:
        here, left = slice(sizes[a], sizes[a + 1]), designs[a]
        covariances = weight * ((coded[a] * coded) @ probabilities - means[a] * means)
        hessian[here, intercepts] = left @ covariances.T
        hessian[intercepts, here] = hessian[here, intercepts].T
        for b in with_arcs[: with_arcs.index(a) + 1]:
            there = slice(sizes[b], sizes[b + 1])
            product = (left * covariances[b]) @ designs[b].T
            hessian[here, there], hessian[there, here] = product, product.T
    return hessian
