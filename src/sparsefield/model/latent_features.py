"""This module separates the features of latent variables from those between columns of the table."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sparsefield.data import Arcs, Layout
from sparsefield.model.field import Adjacency, compile_adjacency


class LatentSplit(NamedTuple):
    """A field over one table, split into its visible features and the features of latent states."""

    whole: tuple[Adjacency, ...]
    visible: Adjacency
    """Arcs between visible columns."""
    first: int
    """Index of the first latent state; earlier states are visible."""
    members: np.ndarray
    """(latent states, joint states): 1 where a joint state of the latent variables contains the state."""
    column: np.ndarray
    """(features,): visible column of each feature between a column and a latent state ``first + state``."""
    state: np.ndarray
    feature: np.ndarray
    """Index into theta."""
    one: np.ndarray
    """(features,): ``one`` and ``other`` are two latent states that share the feature ``tie``."""
    other: np.ndarray
    tie: np.ndarray

    def joint_state_logits(self, theta: np.ndarray, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (columns, joint states) contributions to the columns' logits, and (joint states,) their own logits."""
        weights = np.zeros((n_columns, len(self.members)))
        weights[self.column, self.state] = theta[self.feature]
        level = theta[self.first : self.first + len(self.members)] @ self.members
        for one, other, tie in zip(self.one, self.other, self.tie, strict=True):
            level = level + theta[tie] * self.members[one] * self.members[other]
        return weights @ self.members, level

    def add_gradient(self, totals: np.ndarray, moved: np.ndarray, out: np.ndarray) -> None:
        """Write the gradient of latent features to ``out``.

        ``totals`` (columns, joint states) and ``moved`` (joint states,) are sums of residuals over rows.
        """
        out[self.feature] = (totals @ self.members.T)[self.column, self.state]
        out[self.tie] = (self.members[self.one] * self.members[self.other]) @ moved


def split_latent(layout: Layout, arcs: Arcs) -> LatentSplit:
    """Split the arcs of a field over one table into visible and latent ones."""
    (schema,) = layout.schemas
    first, last = int(schema.target_offsets[-1 - len(schema.latent)]), schema.n_target_columns
    from_latent, to_latent = (arcs.source >= first) & (arcs.source < last), arcs.target >= first
    visible = np.flatnonzero(~from_latent & ~to_latent)
    outside, among = to_latent & ~from_latent, to_latent & from_latent & (arcs.target < arcs.source)
    (graph,) = compile_adjacency(layout, Arcs(arcs.target[visible], arcs.source[visible], arcs.feature[visible]))
    return LatentSplit(
        compile_adjacency(layout, arcs),
        graph,
        first,
        joint_states(tuple(variable.width for variable in schema.latent)),
        arcs.source[outside],
        arcs.target[outside] - first,
        last + arcs.feature[outside],
        arcs.target[among] - first,
        arcs.source[among] - first,
        last + arcs.feature[among],
    )


@lru_cache(maxsize=16)
def joint_states(widths: tuple[int, ...]) -> np.ndarray:
    """Return (latent states, joint states): 1 where a joint state contains a state other than the reference state."""
    codes = np.indices([width + 1 for width in widths]).reshape(len(widths), -1)
    parts = [codes[k] == np.arange(1, width + 1)[:, None] for k, width in enumerate(widths)]
    return np.concatenate(parts).astype(float)
