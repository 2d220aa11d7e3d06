"""Table of the states of two columns, crossed: the weights of each pair, and how often it occurs in the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sparsefield.analysis.network import Network
from sparsefield.app.pages.cell_beliefs import group_states
from sparsefield.app.pages.data_shares import DataShares
from sparsefield.data.candidate_pairs import COUNT_COLUMN
from sparsefield.data.layout import Layout
from sparsefield.data.schema import Label, Variable


@dataclass(frozen=True)
class PairTable:
    """The states of two columns, crossed; the states of a number are its bins."""

    names: tuple[str, str]
    template: str
    """Template of the edge; empty within one plain table."""
    states: tuple[tuple[Label, ...], tuple[Label, ...]]
    weights: np.ndarray
    """(states, states): the sum of the weights of the features of a pair of states, minus the means of its row and
    column under the training frequencies: the part that neither state explains alone."""
    counts: np.ndarray | None
    """(states, states): rows of the data; None without data, and over links."""


def make_pair_table(network: Network, number: int, shares: Mapping[str, DataShares]) -> PairTable | None:
    """Return the table of an edge; None if one of its ends is the number of linked rows, or has no states.

    ``shares`` are those of the tables of the data, if there are any.
    """
    edge = network.edge(number)
    variables = [network.variable(node) for node in edge.ends]
    one, two = variables
    if one is None or two is None or not one.states or not two.states:
        return None
    weights = _center(_level_weights(network, number, one, two), one, two)
    grouped = _group_rows(one, _group_rows(two, weights.T).T)
    states = (_states(one), _states(two))
    labels = (network.labels[edge.ends[0]], network.labels[edge.ends[1]])
    own = [network.table_of(node) for node in edge.ends]
    over_link = edge.template != "" and not edge.template.startswith("within")
    counts = None
    if own[0] == own[1] and own[0] in shares and not over_link:
        counts = shares[own[0]].cross_counts(one.name, two.name)
    return PairTable(labels, edge.template if over_link else "", states, grouped, counts)


class _Column(NamedTuple):
    """A column of the flat numbering: its variable's node and its place among the columns of the variable."""

    node: int
    place: int


def _level_weights(network: Network, number: int, one: Variable, two: Variable) -> np.ndarray:
    """Return (states, states) sums of the weights of pair features, levels of numbers included, in state order."""
    field, ends = network.field, network.edge(number).ends
    by_column = np.zeros((one.width, two.width))
    for k in network.feature_numbers(number):
        if k < len(field.weights):
            a, b = (_find_column(network, int(column)) for column in field.pairs[k])
            if a is None or b is None:
                continue
            if a.node != ends[0] or (ends[0] == ends[1] and _is_backward(field.layout, int(field.pairs[k, 1]))):
                a, b = b, a
            by_column[a.place, b.place] += field.weights[k]
    found = one.coded @ by_column @ two.coded.T
    out = np.empty_like(found)
    out[np.ix_(one.position_of_code, two.position_of_code)] = found
    return out


def _find_column(network: Network, flat: int) -> _Column | None:
    layout = network.field.layout
    table = int(layout.table_of_column[flat])
    views, columns = layout.column_views(table)
    place = flat - int(layout.column_starts[table])
    view, column = int(views[place]), int(columns[place])
    if column == COUNT_COLUMN:
        return None
    source = table if view < 0 else layout.neighbor_views[view].source_table
    schema = layout.schemas[source]
    variable = int(schema.variable_of_column[column])
    return _Column(int(network.starts[source]) + variable, column - int(schema.offsets[variable]))


def _is_backward(layout: Layout, flat: int) -> bool:
    table = int(layout.table_of_column[flat])
    view = int(layout.column_views(table)[0][flat - int(layout.column_starts[table])])
    return view >= 0 and not layout.neighbor_views[view].forward


def _center(weights: np.ndarray, one: Variable, two: Variable) -> np.ndarray:
    """Return weights whose means over each row and column, under the training frequencies, are 0."""
    a, b = _frequencies(one), _frequencies(two)
    weights = weights - a @ weights
    return weights - (weights @ b)[:, None]


def _frequencies(variable: Variable) -> np.ndarray:
    found = np.asarray(variable.frequencies or np.ones(len(variable.states)), dtype=float)
    return found / found.sum() if found.sum() > 0 else np.full(len(found), 1.0 / len(found))


def _group_rows(variable: Variable, weights: np.ndarray) -> np.ndarray:
    """Return rows of bins, the means of their levels, if the variable is a number with bins."""
    if not variable.bins:
        return weights
    share = _frequencies(variable)
    sums = group_states(variable, (weights * share[:, None]).T)[1].T
    return sums / group_states(variable, share)[1][:, None]


def _states(variable: Variable) -> tuple[Label, ...]:
    return group_states(variable, np.zeros(len(variable.states)))[0]
