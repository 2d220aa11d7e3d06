"""This module numbers the columns of groups of rows, whose weights are shared weights plus differences.

Every group is a table with the schema of all rows, so that it has biases of its own. A weight that all groups share has
arcs in every table, the difference of a group in its own table only. Kernels, parametrization, penalties and optimizer
work on arcs and weights, so that a joint fit needs nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sparsefield.data import Arcs, Layout, Schema, Template
from sparsefield.induction.rule import FixedCandidatesRule


@dataclass(frozen=True)
class GroupLayout(Layout):
    """A layout of one table for each group, with features that all tables share.

    A feature within a table is a difference: it belongs to one group. A pair of a column of the first table and one of
    the second stands for the weight that all groups share, since no row has columns of two tables.
    """

    shared_factor: float = field(default=1.0, compare=False)
    difference_factor: float = field(default=1.0, compare=False)
    """Factors of l1 for shared weights, and for differences."""

    @classmethod
    def of(
        cls, schema: Schema, names: Sequence[str], shared_factor: float = 1.0, difference_factor: float = 1.0
    ) -> GroupLayout:
        """Return the layout of groups with given names, at least two."""
        templates = tuple(Template("within", (name,)) for name in names)
        count = len(names)
        ends, factors = tuple((k, k) for k in range(count)), (shared_factor, difference_factor)
        return cls(tuple(names), (schema,) * count, templates, ends, (), 1.0, *factors)

    @property
    def width(self) -> int:
        """Number of columns of one group."""
        return int(self.widths[0])

    def shared_features(self, pairs: np.ndarray) -> np.ndarray:
        """Return the shared features of pairs of columns of one table, (pairs, 2)."""
        return pairs + np.array([0, self.width])

    def differences(self, pairs: np.ndarray, group: int) -> np.ndarray:
        """Return the features of one group for pairs of columns of one table, (pairs, 2)."""
        return pairs + group * self.width

    def are_shared(self, features: np.ndarray) -> np.ndarray:
        """Return which features all groups share, (features,)."""
        return features[:, 0] // self.width != features[:, 1] // self.width

    def arcs(self, features: np.ndarray) -> Arcs:
        """Return the arcs of features: those of a shared one lead to the states of every group."""
        shared = self.are_shared(features)
        own, pairs = features[~shared], features[shared] % self.width
        parts = [self._pair_arcs(own, np.flatnonzero(~shared))]
        for group in range(len(self.tables)):
            parts.append(self._pair_arcs(self.differences(pairs, group), np.flatnonzero(shared)))
        return Arcs(*(np.concatenate([part[k] for part in parts]) for k in range(3)))

    def feature_factors(self, features: np.ndarray) -> np.ndarray:
        """Return the factors of l1 for features, (features,)."""
        return super().feature_factors(features) * np.where(
            self.are_shared(features), self.shared_factor, self.difference_factor
        )

    def features_of(self, pairs: np.ndarray) -> np.ndarray:
        """Return the shared weights and the differences of pairs; no differences where these have no finite penalty."""
        n_groups = len(self.tables) if np.isfinite(self.difference_factor) else 0
        groups = [self.differences(pairs, group) for group in range(n_groups)]
        return np.concatenate([self.shared_features(pairs), *groups])

    def group_weights(self, features: np.ndarray, weights: np.ndarray, group: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the pairs of one table and their weights in a group: shared weights plus differences."""
        mine = self.are_shared(features) | (features[:, 0] // self.width == group)
        pairs = features[mine] % self.width
        single, place = np.unique(pairs, axis=0, return_inverse=True)
        total = np.bincount(place.ravel(), weights[mine], len(single))
        return single[total != 0.0], total[total != 0.0]


@dataclass(frozen=True)
class GroupCandidates(FixedCandidatesRule):
    """Put the shared weight and all differences of some pairs of columns into the working set."""

    pairs: np.ndarray
    name = "groups"

    def start(self, layout: Layout) -> np.ndarray:
        assert isinstance(layout, GroupLayout)
        return layout.features_of(self.pairs)
