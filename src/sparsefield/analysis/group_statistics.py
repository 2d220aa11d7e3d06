"""This module defines the statistics by which networks of groups are compared, and adjusted p-values."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from sparsefield.analysis.network import sum_by_node
from sparsefield.data import Schema

Adjustment = Literal["max", "holm", "bh", "none"]


@dataclass(frozen=True)
class CandidateEdges:
    """The pairs of variables that candidate pairs of columns belong to."""

    ends: np.ndarray
    """(edges, 2): numbers of variables, ascending."""
    edge_of_pair: np.ndarray
    """(pairs,)"""
    n_variables: int

    @classmethod
    def of(cls, schema: Schema, pairs: np.ndarray) -> CandidateEdges:
        """Return the edges of pairs of columns, (pairs, 2)."""
        ends, edge = np.unique(np.sort(schema.variable_of_column[pairs], axis=1), axis=0, return_inverse=True)
        return cls(ends.reshape(-1, 2), edge.ravel(), schema.n_variables)

    def norms(self, weights: np.ndarray) -> np.ndarray:
        """Return the Euclidean norm of the weights of each edge, (edges,)."""
        return np.sqrt(np.bincount(self.edge_of_pair, np.square(weights), len(self.ends)))

    def node_sums(self, strengths: np.ndarray) -> np.ndarray:
        """Return the sum of the strengths of the edges of each variable, (variables,)."""
        return sum_by_node(self.ends, strengths, self.n_variables)


@dataclass(frozen=True)
class GroupStatistics:
    """How much the networks of two groups, or of the two most different ones of several, differ."""

    global_strength: float
    """Difference of the sums of the strengths of all edges."""
    structure: float
    """Largest difference of an edge."""
    edges: np.ndarray
    """(edges,): norm of the difference of the weights."""
    nodes: np.ndarray
    """(variables,): difference of the strength centrality, the sum of the strengths of a variable's edges."""

    @classmethod
    def of(cls, edges: CandidateEdges, weights: np.ndarray) -> GroupStatistics:
        """Return the statistics of the weights of groups, (groups, pairs)."""
        pairs = list(combinations(range(len(weights)), 2))
        differences = np.max([edges.norms(weights[a] - weights[b]) for a, b in pairs], axis=0)
        strengths = np.array([edges.norms(part) for part in weights])
        nodes = np.array([edges.node_sums(part) for part in strengths])
        return cls(
            float(np.ptp(strengths.sum(axis=1))),
            float(differences.max(initial=0.0)),
            differences,
            np.ptp(nodes, axis=0),
        )

    def as_vector(self) -> np.ndarray:
        """Return all statistics in one array: global strength, structure, edges, nodes."""
        return np.concatenate([[self.global_strength, self.structure], self.edges, self.nodes])


def adjust(p: np.ndarray, method: Literal["holm", "bh", "none"]) -> np.ndarray:
    """Return p-values adjusted for multiple tests, without the statistics that "max" needs.

    "holm" bounds the probability of any false rejection, "bh" (Benjamini and Hochberg) the expected share of false ones
    among the rejections.

    Examples
    --------
    >>> adjust(np.array([0.01, 0.04, 0.03]), "holm").tolist()
    [0.03, 0.06, 0.06]
    >>> adjust(np.array([0.01, 0.04, 0.03]), "bh").round(3).tolist()
    [0.03, 0.04, 0.04]
    """
    count, order = len(p), np.argsort(p, kind="stable")
    found = p.copy()
    if method == "holm":
        found[order] = np.maximum.accumulate(p[order] * np.arange(count, 0, -1))
    elif method == "bh":
        raised = p[order] * count / np.arange(1, count + 1)
        found[order] = np.minimum.accumulate(raised[::-1])[::-1]
    return np.minimum(found, 1.0)
