"""This module measures how much of the true network a field has found."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsefield.model import Field

__all__ = ["compare_edges", "nodewise_strengths", "strengths_of"]

Array = np.ndarray[Any, np.dtype[Any]]


def strengths_of(field: Field) -> Array:
    """Return the norm of the weights that two columns share, (nodes, nodes)."""
    variables = field.schema.variable_of_column[field.pairs]
    squares = np.zeros((field.schema.n_variables,) * 2)
    np.add.at(squares, (variables[:, 0], variables[:, 1]), field.weights**2)
    return np.sqrt(squares + squares.T)


def nodewise_strengths(weights: Array, *, both: bool) -> Array:
    """Return strengths (nodes, nodes) of regressions: an edge needs both of its weights (the AND rule), or either."""
    size = np.abs(weights)
    return np.minimum(size, size.T) if both else np.maximum(size, size.T)


def compare_edges(strengths: Array, true_edges: Array) -> dict[str, float]:
    """Compare the edges that were found with the true ones.

    Parameters
    ----------
    strengths : array (nodes, nodes), symmetric
        0 where there is no edge.
    true_edges : array (nodes, nodes) of bool

    Returns
    -------
    dict
        edges, how many were found; edge_precision, the share of these that is true, NaN when there are none;
        edge_recall, the share of the true ones that was found; edge_ap, the area under the precision-recall curve
        when all pairs are ranked by strength; edge_roc, the probability that a true edge ranks before another pair.

    Examples
    --------
    >>> strengths = np.array([[0, 2.0, 1.0], [2.0, 0, 0], [1.0, 0, 0]])
    >>> compare_edges(strengths, strengths > 1)["edge_precision"]
    0.5
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    upper = np.triu_indices(len(strengths), k=1)
    score, truth = strengths[upper], true_edges[upper]
    found = score > 0
    right = int((found & truth).sum())
    has_both = 0 < truth.sum() < truth.size
    return {
        "edges": float(found.sum()),
        "edge_precision": right / int(found.sum()) if found.any() else np.nan,
        "edge_recall": right / int(truth.sum()) if truth.any() else np.nan,
        "edge_ap": float(average_precision_score(truth, score)) if has_both else np.nan,
        "edge_roc": float(roc_auc_score(truth, score)) if has_both else np.nan,
    }
