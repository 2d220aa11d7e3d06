"""This module scores candidate pairs by the exact gradient of the likelihood: expected minus observed counts."""

from __future__ import annotations

import numpy as np

from sparsefield.induction.candidates import Proposals, all_pairs, best_proposals
from sparsefield.induction.edge_scores import edge_norms
from sparsefield.objectives.likelihood_evaluator import ExactGradients, likelihood_factors


def score_by_likelihood(
    factors: ExactGradients,
    min_gradient: float,
    known: np.ndarray,
    limit: int | None = None,
    *,
    known_edges: np.ndarray | None = None,
) -> Proposals:
    """Return pairs whose gradient exceeds ``min_gradient`` times their penalty factor, the best ``limit`` of them.

    Pairs with a key in ``known`` are left out. With ``known_edges``, the keys of their edges, the penalty is that of
    groups: the norm of an edge counts, see `edge_norms`, and all its other pairs are returned.
    """
    layout = factors.layout
    pairs = all_pairs(layout)
    pairs = pairs[~np.isin(layout.keys(pairs), known)]
    if not len(pairs):
        return Proposals(pairs, np.empty(0), np.empty(0))
    gradient = factors.gradient(pairs)
    score = np.abs(gradient) / likelihood_factors(layout, pairs)
    if known_edges is not None:
        score = edge_norms(layout, pairs, score, known_edges)
    proposals = Proposals(pairs, gradient, score).take(np.flatnonzero(score > min_gradient))
    return proposals if limit is None or known_edges is not None else best_proposals(proposals, limit)
