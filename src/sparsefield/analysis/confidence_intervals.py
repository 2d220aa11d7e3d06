"""This module holds estimated weights with their uncertainty, and makes frames of intervals and of differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from scipy.stats import chi2, norm

from sparsefield.analysis.feature_sentences import name_features
from sparsefield.analysis.imputed_estimates import ImputedEstimates
from sparsefield.analysis.network import Network
from sparsefield.data.frame_building import make_frame, make_label_columns
from sparsefield.errors import DataError
from sparsefield.frame_protocol import Frame
from sparsefield.model import Field
from sparsefield.model.feature_tables import feature_names
from sparsefield.objectives.wald import wald_test

Method = Literal["godambe", "bootstrap"]

DIFFERENCES_AT_A_TIME = 256
"""Differences between edges whose draws are in memory at a time."""


@dataclass(frozen=True, eq=False)
class ConfidenceIntervals:
    """The weights of a field, estimated without L1 but with L2, with their uncertainty.

    `weights` and `edges` are frames; `differences` tests whether edges differ in strength.
    """

    field: Field
    method: Method
    level: float
    estimates: np.ndarray
    """(features,): the weights of the selected features without L1."""
    covariance: np.ndarray
    """(features, features)"""
    godambe_covariance: np.ndarray | None = None
    """(features, features), for tests of several weights, where `covariance` is that of draws: few draws have too low a
    rank."""
    draws: np.ndarray | None = None
    """(replicates, features): estimates from resampled rows; None for the method "godambe"."""
    selected: np.ndarray | None = None
    """(resamples, features), bool: which features resamples at the same l1 select; None where none was drawn."""
    l2: float = 0.0
    """L2 penalty of the estimates."""
    kind: str = "polars"
    """Kind of the frames."""
    n_complete: int = 0
    """Number of rows that were used: complete ones, or all if missing cells were imputed."""
    n_incomplete: int = 0
    """Number of rows with missing cells, which were left out."""
    imputed: ImputedEstimates | None = None
    """The estimates from imputed tables, of which `estimates` is the mean; None where no cells were imputed."""

    def __repr__(self) -> str:
        drawn = "" if self.draws is None else f", {len(self.draws):,} resamples"
        drawn += "" if self.imputed is None else f", {self.imputed.m:,} imputations"
        size = f"{len(self.estimates):,} weights and {len(self.network.strengths):,} edges"
        how = f"{self.n_complete:,} rows: {self.method}{drawn}, level {self.level:g}"
        return f"<ConfidenceIntervals of {size} from {how}; .weights, .edges>"

    @property
    def frequencies(self) -> np.ndarray | None:
        """(features,): share of the resamples at the same l1 that select each feature; None where none was drawn."""
        return None if self.selected is None else self.selected.mean(axis=0)

    @property
    def weights(self) -> Frame:
        """Frame of all features, strongest first: columns as in ``features_``, and the interval of each weight.

        ``weight`` is the weight in the field, which L1 may have shrunk; ``estimate`` the one without L1, to which
        ``standard_error``, ``low`` and ``high`` belong. ``frequency`` is the share of resamples at the same l1 that
        select the feature, and ``missing_information`` the fraction of the information on the weight that is missing
        where cells were imputed.
        """
        own = np.concatenate([self.field.weights, self.field.conjunction_weights])
        order = np.argsort(-np.abs(own), kind="stable")
        single = sp.eye_array(len(own), format="csr")
        low, high = self._limits(single)
        found = {"estimate": self.estimates, "standard_error": self.standard_errors, "low": low, "high": high}
        found |= self._missing_information(single)
        found |= {} if self.frequencies is None else {"frequency": self.frequencies}
        columns = {name: values[order] for name, values in found.items()}
        return make_frame({**feature_names(self.field, order, self.kind), "weight": own[order], **columns}, self.kind)

    @property
    def edges(self) -> Frame:
        """Frame of all edges, strongest estimate first: variable_a, variable_b, and the interval of its signed weight.

        ``strength`` is the norm of the weights in the field, as in ``edges_``. ``estimate`` is sign x the norm of the
        estimated weights; an edge without a sign has ``sign`` 0 and a positive estimate. Intervals are those of the
        weights along the direction of the estimate. ``p_value`` is that of the Wald test that all weights are 0.
        ``frequency`` is the share of resamples at the same l1 that select any of its features.
        """
        network, signs = self.network, np.where(self.network.signs == 0, 1, self.network.signs)
        directions = sp.diags_array(signs.astype(float)) @ self._directions
        low, high = self._limits(directions)
        own = np.concatenate([self.field.weights, self.field.conjunction_weights])
        found = {
            "sign": network.signs,
            "strength": np.array([np.linalg.norm(own[mine]) for mine in self._members]),
            "estimate": directions @ self.estimates,
            "standard_error": self._errors(directions),
            "low": np.where(network.signs == 0, np.maximum(low, 0.0), low),
            "high": high,
            "p_value": np.array([self._p_value(mine) for mine in self._members]),
            **self._missing_information(directions),
        }
        if self.selected is not None:
            found["frequency"] = np.array([self.selected[:, mine].any(axis=1).mean() for mine in self._members])
        every = np.arange(len(signs))
        return make_frame({**self._edge_names(every, ("variable_a", "variable_b")), **found}, self.kind)

    @property
    def by_feature(self) -> dict[str, tuple[float, float]]:
        """{name of a feature: (low, high)}, with names as in reports, such as "rain=1 & wet=1"."""
        low, high = self._limits(sp.eye_array(len(self.estimates), format="csr"))
        features = name_features(self.field, range(len(self.estimates)))
        return {feature.name: (float(a), float(b)) for feature, a, b in zip(features, low, high, strict=True)}

    def differences(self, edges: Sequence[tuple[str, str]] | None = None, *, signed: bool = False) -> Frame:
        """Return all pairs of edges, the stronger one first, with the difference of their strengths and its interval.

        The two edges are estimated from the same rows; their covariance is taken into account. P-values are not
        adjusted for the number of pairs.

        Parameters
        ----------
        edges : pairs of column names
            Only these edges are compared; None compares all.
        signed : whether weights are compared with their signs, so that -0.5 and 0.5 differ
            Edges without a sign are left out then.

        Returns
        -------
        frame
            variable_a, variable_b, other_a, other_b, difference, standard_error, low, high, p_value
        """
        chosen = self._find_edges(edges)
        directions = self._directions
        if signed:
            chosen = chosen[self.network.signs[chosen] != 0]
            directions = sp.diags_array(self.network.signs.astype(float)) @ directions
        values = directions @ self.estimates
        chosen = chosen[np.argsort(-values[chosen], kind="stable")]
        first, second = (chosen[side] for side in np.triu_indices(len(chosen), 1))
        between = sp.csr_array(directions[first] - directions[second])
        errors, difference = self._errors(between), between @ self.estimates
        low, high = self._limits(between)
        if self.imputed is None:
            p_values = 2.0 * norm.sf(np.abs(difference) / np.maximum(errors, np.finfo(float).tiny))
        else:
            p_values = self.imputed.pool(between, self.level).p_value
        found = {"difference": difference, "standard_error": errors, "low": low, "high": high, "p_value": p_values}
        names = self._edge_names(first, ("variable_a", "variable_b"))
        return make_frame({**names, **self._edge_names(second, ("other_a", "other_b")), **found}, self.kind)

    @cached_property
    def standard_errors(self) -> np.ndarray:
        """(features,): standard errors of the estimates."""
        return np.sqrt(np.maximum(self.covariance.diagonal(), 0.0))

    @cached_property
    def network(self) -> Network:
        """The network with the estimated weights; its edges are numbered by strength."""
        n = len(self.field.weights)
        return Network(replace(self.field, weights=self.estimates[:n], conjunction_weights=self.estimates[n:]))

    @cached_property
    def _members(self) -> list[list[int]]:
        """The numbers of the features of each edge."""
        return [self.network.feature_numbers(k) for k in range(len(self.network.strengths))]

    @cached_property
    def _directions(self) -> sp.csr_array:
        """(edges, features): the direction of the estimated weights of each edge; its product with them is the norm."""
        sizes = [len(mine) for mine in self._members]
        row, column = np.repeat(np.arange(len(sizes)), sizes), np.concatenate([[], *self._members]).astype(np.int64)
        values = self.estimates[column] / self.network.strengths[row]
        return sp.csr_array((values, (row, column)), shape=(len(sizes), len(self.estimates)))

    def _errors(self, directions: Any) -> np.ndarray:
        """Return the standard errors of combinations of weights (combinations, features)."""
        return np.sqrt(np.maximum(np.asarray((directions.multiply(directions @ self.covariance)).sum(axis=1)), 0.0))

    def _limits(self, directions: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper limits of the intervals of combinations of weights (combinations, features)."""
        tail = 0.5 * (1.0 - self.level)
        if self.imputed is not None:
            pooled = self.imputed.pool(directions, self.level)
            return pooled.low, pooled.high
        if self.draws is None:
            estimates, reach = directions @ self.estimates, norm.isf(tail) * self._errors(directions)
            return estimates - reach, estimates + reach
        found = [np.empty((2, 0))]
        for start in range(0, directions.shape[0], DIFFERENCES_AT_A_TIME):
            drawn = directions[start : start + DIFFERENCES_AT_A_TIME] @ self.draws.T
            found.append(np.quantile(drawn, [tail, 1.0 - tail], axis=1))
        low, high = np.concatenate(found, axis=1)
        return low, high

    def _missing_information(self, directions: Any) -> dict[str, np.ndarray]:
        """Return the column of the fraction of missing information, where cells were imputed."""
        if self.imputed is None:
            return {}
        return {"missing_information": self.imputed.pool(directions, self.level).missing_information}

    def _p_value(self, features: list[int]) -> float:
        if self.imputed is not None:
            return self.imputed.test(features)
        covariance = self.covariance if self.godambe_covariance is None else self.godambe_covariance
        statistic, degrees = wald_test(self.estimates[features], covariance[np.ix_(features, features)])
        return float(chi2.sf(statistic, degrees))

    def _edge_names(self, edges: np.ndarray, names: tuple[str, str]) -> dict[str, Any]:
        labels, ends = self.network.labels, self.network.ends[edges].reshape(-1, 2)
        return make_label_columns({name: [labels[k] for k in ends[:, i]] for i, name in enumerate(names)}, self.kind)

    def _find_edges(self, wanted: Sequence[tuple[str, str]] | None) -> np.ndarray:
        """Return the numbers of some edges, or of all; pairs of columns that share no feature are refused."""
        labels, ends = self.network.labels, self.network.ends.tolist()
        if wanted is None:
            return np.arange(len(ends))
        numbers = {frozenset((labels[a], labels[b])): k for k, (a, b) in enumerate(ends)}
        absent = [pair for pair in wanted if frozenset(pair) not in numbers]
        if absent:
            shown = ", ".join(" - ".join(map(str, pair)) for pair in absent)
            raise DataError(f"The field has no edge {shown}: `edges_` lists all.")
        return np.unique([numbers[frozenset(pair)] for pair in wanted])
