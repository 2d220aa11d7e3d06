"""This module defines the working set: the features that the optimizer works on."""

from __future__ import annotations

from functools import partial

import numpy as np

from sparsefield.data import Layout
from sparsefield.objectives import Evaluator
from sparsefield.objectives.likelihood_evaluator import likelihood_factors

LATENT_PENALTY_FACTOR = 0.1
"""Factor of l1 for weights of a latent state, each of which replaces many weights between columns. Of 0, 0.03, 0.1, 0.3
and 1 the small ones score about equally, and 0.1 drops states that the data do not support."""


class WorkingSet:
    """The features that the optimizer works on, with everything that is derived from them.

    Attributes
    ----------
    features : (features, columns)
        Columns of each feature, -1 where there are fewer.
    protected : (features,) bool
        Features that are never dropped: those of latent variables.
    penalty_factors : (features,)
        Factors of l1.
    groups : (features,) or None
        Keys of the groups that are penalized by their norm: the edges; None for L1.
    arcs, graphs
        The features as arcs of the layout, and as the evaluator compiled them.
    pair_keys, conjunction_keys
        Sorted keys of the pairs, and of the features of more than two columns.
    """

    def __init__(
        self,
        layout: Layout,
        evaluator: Evaluator,
        *,
        max_order: int = 2,
        order_penalty: float = 1.0,
        protected_pairs: np.ndarray | None = None,
        grouped: bool = False,
        by_likelihood: bool = False,
    ) -> None:
        self.layout, self.grouped, self.by_likelihood = layout, grouped, by_likelihood
        self._base_factors = partial(likelihood_factors, layout) if by_likelihood else layout.feature_factors
        self._evaluator, self._order_penalty = evaluator, order_penalty
        self._protected_keys = None if protected_pairs is None else layout.keys(protected_pairs)
        self.set_features(np.empty((0, max_order), dtype=np.int64))

    def __len__(self) -> int:
        return len(self.features)

    def set_features(self, features: np.ndarray) -> None:
        """Replace all features, (features, columns)."""
        self.features, self.protected = features, self._are_protected(features)
        self.arcs = self.layout.arcs(features)
        self.graphs = self._evaluator.compile(self.arcs)
        self.penalty_factors = self.penalty_factors_of(features)
        self.groups = self.layout.edge_keys(features[:, :2]) if self.grouped else None
        higher = self.have_higher_order(features)
        self.pair_keys = np.sort(self.layout.keys(features[~higher, :2]))
        self.conjunction_keys = np.sort(self.layout.keys(features[higher]))

    def penalty_factors_of(self, features: np.ndarray) -> np.ndarray:
        """Return the factors, (features,), by which l1 is multiplied.

        There are so many conjunctions that some look useful by chance, so each column beyond two raises the factor.
        Pairs of levels have a larger factor than pairs of scores; under the likelihood, pairs of targets have half of
        it. Where edges are penalized as groups, their degrees of freedom raise the factor.
        """
        factors = self._order_penalty ** ((features >= 0).sum(axis=1) - 2.0) * self._base_factors(features)
        if self.grouped:
            factors *= self.layout.edge_factors(features[:, :2])
        factors[self._are_protected(features)] *= LATENT_PENALTY_FACTOR
        return factors

    def numbered_groups(self, features: np.ndarray) -> np.ndarray | None:
        """Return the groups of features as numbers 0, 1, ...; None for L1."""
        if not self.grouped:
            return None
        return np.unique(self.layout.edge_keys(features[:, :2]), return_inverse=True)[1]

    @staticmethod
    def have_higher_order(features: np.ndarray) -> np.ndarray:
        """Return whether features have more than two columns, (features,)."""
        return features[:, 2] >= 0 if features.shape[1] > 2 else np.zeros(len(features), dtype=bool)

    def _are_protected(self, features: np.ndarray) -> np.ndarray:
        if self._protected_keys is None:
            return np.zeros(len(features), dtype=bool)
        return np.isin(self.layout.keys(features), self._protected_keys)
