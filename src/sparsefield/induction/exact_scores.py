"""This module scores candidate pairs by the exact gradient of the likelihood: expected minus observed counts."""

from __future__ import annotations

import numpy as np

from sparsefield.induction.candidates import Proposals, all_pairs, best_proposals
from sparsefield.objectives.likelihood_evaluator import ExactGradients, likelihood_factors


def score_by_likelihood(
    factors: ExactGradients, min_gradient: float, known: np.ndarray, limit: int | None = None, *, grouped: bool = False
) -> Proposals:
    """Return pairs whose gradient exceeds ``min_gradient`` times their penalty factor, the best ``limit`` of them.

    Pairs with a key in ``known`` (sorted) are left out. Where edges are ``grouped``, these are keys of edges, the norm
    of the scaled gradients of an edge counts, and all its pairs are returned.
    """
    layout = factors.layout
    pairs = all_pairs(layout)
    pairs = pairs[~np.isin(layout.edge_keys(pairs) if grouped else layout.keys(pairs), known)]
    if not len(pairs):
        return Proposals(pairs, np.empty(0), np.empty(0))
    gradient = factors.gradient(pairs)
    score = np.abs(gradient) / likelihood_factors(layout, pairs)
    if grouped:
        _, edge = np.unique(layout.edge_keys(pairs), return_inverse=True)
        score = np.sqrt(np.bincount(edge, np.square(score / layout.edge_factors(pairs))))[edge]
    found = Proposals(pairs, gradient, score).take(np.flatnonzero(score > min_gradient))
    return found if limit is None or grouped else best_proposals(found, limit)
