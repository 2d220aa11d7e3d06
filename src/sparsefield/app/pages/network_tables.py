"""Edge list and adjacency matrix of a network, as frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparsefield.analysis.network import Network
from sparsefield.errors import DataError

if TYPE_CHECKING:
    import polars as pl

MAX_COLUMNS = 5_000
"""Columns of an adjacency matrix; a larger one would not fit into a table."""


def list_edges(network: Network) -> pl.DataFrame:
    """Return the edge list, strongest first: column_a, column_b, strength, sign, weight; over links also the template.

    The sign is 1, -1, or 0 where an edge has no sign. The weight is sign times strength, and null without a sign.
    """
    import polars as pl

    labels = np.array(network.labels, dtype=object)
    signs, strengths = network.signs, network.strengths
    columns = {
        "column_a": pl.Series(labels[network.ends[:, 0]].tolist(), dtype=pl.String),
        "column_b": pl.Series(labels[network.ends[:, 1]].tolist(), dtype=pl.String),
        "strength": strengths,
        "sign": signs,
        "weight": pl.Series([s * v if s else None for s, v in zip(signs, strengths, strict=True)], dtype=pl.Float64),
    }
    if network.linked:
        columns["template"] = [network.edge(k).template for k in range(len(strengths))]
    return pl.DataFrame(columns)


def adjacency_matrix(network: Network, *, signed: bool = False) -> pl.DataFrame:
    """Return the adjacency matrix as a frame: the name of a column, then the strength of its edge to each column.

    Where there is no edge the strength is 0. A matrix of ``signed`` weights has sign times strength, and null for an
    edge without a sign. Several edges over links between the same two columns are combined by the norm of their
    strengths, without a sign if their signs differ.
    """
    import polars as pl

    joined = set(network.ends.ravel().tolist())
    nodes = [*range(network.n_variables), *(k for k in sorted(joined) if k >= network.n_variables)]
    if len(nodes) > MAX_COLUMNS:
        raise DataError(
            f"An adjacency matrix of {len(nodes):,} columns is too large (at most {MAX_COLUMNS:,}): write the edge "
            "list instead."
        )
    place = {node: k for k, node in enumerate(nodes)}
    squares, signs = np.zeros((len(nodes), len(nodes))), np.full((len(nodes), len(nodes)), np.nan)
    for (a, b), sign, strength in zip(network.ends.tolist(), network.signs, network.strengths, strict=True):
        i, j = place[a], place[b]
        same = np.isnan(signs[i, j]) or signs[i, j] == sign
        squares[i, j] = squares[j, i] = squares[i, j] + strength**2
        signs[i, j] = signs[j, i] = sign if same else 0
    values = np.sqrt(squares)
    if signed:
        values = np.where(np.isnan(signs), 0.0, np.where(signs == 0, np.nan, np.nan_to_num(signs) * values))
    names = [network.labels[node] for node in nodes]
    head = "column" if "column" not in names else "(column)"
    matrix = {name: pl.Series(values[:, k]).fill_nan(None) for k, name in enumerate(names)}
    return pl.DataFrame({head: pl.Series(names, dtype=pl.String), **matrix})
