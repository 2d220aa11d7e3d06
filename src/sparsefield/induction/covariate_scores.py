"""This module scores the candidates of labels given sparse covariates, each pair of a label and a covariate exactly."""

from __future__ import annotations

import numpy as np

from sparsefield.data import Layout
from sparsefield.data.coding import PENALTY_FACTORS, ColumnClass
from sparsefield.induction.candidates import Proposals, best_proposals, concatenate_proposals
from sparsefield.induction.rule import InductionRule
from sparsefield.objectives import AnyGradientFactors, CovariateGradientFactors


def score_pairs(
    rule: InductionRule,
    factors: AnyGradientFactors | CovariateGradientFactors,
    layout: Layout,
    min_gradient: float,
    known: np.ndarray,
    limit: int | None = None,
) -> Proposals:
    """Return the pairs that a rule proposes: see `InductionRule.score` for the parameters.

    With sparse covariates, these are the pairs of labels that it proposes, and all pairs of a label and a covariate
    with a large gradient.
    """
    if not isinstance(factors, CovariateGradientFactors):
        return rule.score(factors, layout, min_gradient, known, limit)
    n = layout.n_target_columns
    state, other = np.divmod(known, layout.n_columns)
    among = other < n
    labels = factors.labels.layout
    known_labels = state[among] * np.int64(labels.n_columns) + other[among]
    parts = [
        rule.score(factors.labels, labels, min_gradient, known_labels, limit),
        score_covariates(factors, layout, min_gradient, known),
    ]
    found = concatenate_proposals(parts)
    return found if limit is None else best_proposals(found, limit)


def score_covariates(
    factors: CovariateGradientFactors, layout: Layout, min_gradient: float, known: np.ndarray
) -> Proposals:
    """Return the pairs of a label and a covariate whose gradient exceeds ``min_gradient``, and that are not known."""
    n, covariates = layout.n_target_columns, factors.covariates
    blocks = covariates.column_blocks
    parts = factors.engine.map(lambda block: covariates.large_sums(factors.errors, n, min_gradient, block), blocks)
    keys, sums = (np.concatenate(part) for part in zip(*parts, strict=True))
    covariate, state = np.divmod(keys, n)
    pairs = np.column_stack([layout.column_of_target[state], n + covariate])
    scores = np.abs(sums) / PENALTY_FACTORS[layout.column_classes[pairs[:, 0]], ColumnClass.OBSERVED_SCORE]
    kept = np.flatnonzero((scores > min_gradient) & ~np.isin(layout.keys(pairs), known))
    return Proposals(pairs[kept], sums[kept], scores[kept])
