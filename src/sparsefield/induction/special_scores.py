"""Scores of candidates that every rule computes exactly: of labels given sparse covariates, and of the likelihood."""

from __future__ import annotations

import numpy as np

from sparsefield.data.coding import PENALTY_FACTORS, ColumnClass
from sparsefield.induction.candidates import Proposals, all_pairs, best_proposals, edge_norms
from sparsefield.objectives import CovariateGradientFactors, ExactGradients
from sparsefield.objectives.likelihood_evaluator import likelihood_factors
from sparsefield.objectives.objective import PairQuery


def score_covariates(factors: CovariateGradientFactors, query: PairQuery) -> Proposals:
    """Return the pairs of a label and a covariate whose gradient exceeds l1."""
    layout, covariates, n = factors.layout, factors.covariates, factors.layout.n_target_columns
    blocks = covariates.column_blocks
    parts = factors.engine.map(lambda block: covariates.large_sums(factors.errors, n, query.l1, block), blocks)
    keys, sums = (np.concatenate(part) for part in zip(*parts, strict=True))
    covariate, state = np.divmod(keys, n)
    pairs = np.column_stack([layout.column_of_target[state], n + covariate])
    scores = np.abs(sums) / PENALTY_FACTORS[layout.column_classes[pairs[:, 0]], ColumnClass.OBSERVED_SCORE]
    large = np.flatnonzero((scores > query.l1) & ~np.isin(layout.keys(pairs), query.known))
    return Proposals(pairs[large], sums[large], scores[large])


def score_by_likelihood(factors: ExactGradients, query: PairQuery) -> Proposals:
    """Return the pairs, or the pairs of edges, whose gradient of the likelihood exceeds l1: expected minus observed."""
    layout, pairs = factors.layout, all_pairs(factors.layout)
    pairs = pairs[~np.isin(layout.keys(pairs), query.known)]
    if not len(pairs):
        return Proposals(pairs, np.empty(0), np.empty(0))
    gradient = factors.gradient(pairs)
    score = np.abs(gradient) / likelihood_factors(layout, pairs)
    if query.edges is not None:
        score = edge_norms(layout, pairs, score, query.edges)
    proposals = Proposals(pairs, gradient, score).take(np.flatnonzero(score > query.l1))
    return proposals if query.limit is None or query.edges is not None else best_proposals(proposals, query.limit)
