"""This module learns again: along the whole regularization path, and from halves of the rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from sparsefield.data import LocalDataset
from sparsefield.errors import DataError
from sparsefield.estimators.answer_tables import path_frame
from sparsefield.estimators.validation import as_seed
from sparsefield.frame_protocol import Frame
from sparsefield.induction import FixedGraph
from sparsefield.model import Field, LeftOutFeature, StabilityRecord, selection_table, widen
from sparsefield.solver import PathSelection
from sparsefield.solver.model_selection import LONG_PATIENCE
from sparsefield.solver.stability_selection import Selections, count_selections, halved_by

__all__ = ["ResamplingMethods"]

FEWEST_ROWS = 4

LEFT_OUT, MOST_LEFT_OUT = 0.5, 20
"""A model records features outside it that at least this share of the resamples selects, up to this number."""


class ResamplingMethods:
    """Methods that learn again: along the regularization path, or from halves of the rows."""

    field_: Field
    kind_: str

    def regularization_path(self, X: Any, y: Any = None, **options: Any) -> Frame:
        """Learn fields along the whole regularization path, and return their scores; the estimator does not change.

        Parameters
        ----------
        X, y, **options
            As for `fit`; ``selection`` is the criterion, and the estimator's own l1 is ignored.

        Returns
        -------
        frame
            A row for each value, the largest first: l1, features (of two columns and more), score (larger is better:
            for "heldout" the log-likelihood of held-out cells, for "ebic" minus the criterion), error (its standard
            error, for "heldout") and chosen, which is true for the l1 that a fit with ``l1="auto"`` selects. That fit
            stops after three values in a row that are no better, this path after eight, so a better one may follow.

        Examples
        --------
        >>> from sparsefield import MarkovField
        >>> from sparsefield.datasets import make_markov_field
        >>> path = MarkovField().regularization_path(make_markov_field(8, 300, burn_in=100, thin=10, seed=0).samples)
        >>> list(path.columns), len(path) > 8
        (['l1', 'features', 'score', 'error', 'chosen'], True)
        """
        estimator: Any = clone(self).set_params(l1="auto", solver__checkpoint=None)  # pyright: ignore
        estimator._check_parameters()
        with estimator._open_training_data(X, y, **options) as data, estimator._open_engine(data) as engine:
            selection: PathSelection = estimator._select_l1(data, engine, patience=LONG_PATIENCE)
            return path_frame(selection.rows(), data.kind)

    def stability(
        self,
        X: Any,
        resamples: int = 50,
        *,
        y: Any = None,
        sample_weight: Any = None,
        random_state: int | np.random.RandomState | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Any:
        """Stability selection: how often each feature is selected when only half of the rows are there.

        Halves come in pairs that share no row. Each is learned from with the field's own options and its own l1, less
        by the square root of 1/2: the noise in a gradient, which l1 is to hold down, grows with the square root of the
        rows. Linked tables are halved by sets of rows that are not linked with each other; where nearly all are, rows
        are halved, and those of the other half are still seen by their neighbors.

        The frequencies of the field's own features are kept in the field: `save` writes them, and reports show them.

        Parameters
        ----------
        X : the rows that the field was learned from, or others of their kind
        resamples : int
            Number of halves; an even number.
        y : labels, for a `CRFClassifier`
        sample_weight : (rows,) weights, if the fit had some
        random_state : seed, or a RandomState to draw one from; the estimator's own when None
        progress : hears how many resamples are done and how many there are

        Returns
        -------
        frame
            The features of two columns and more that are in the field, or that some resample selected: columns as in
            ``features_``, with weight 0 for those outside the field, and frequency; most frequent first.

        Examples
        --------
        >>> import numpy as np
        >>> from sparsefield import MarkovField
        >>> rain, dice = np.random.default_rng(0).integers(0, 2, (2, 400))
        >>> X = np.column_stack([rain, rain, dice])
        >>> X[::9, 1] = 1 - X[::9, 1]
        >>> found = MarkovField(l1=10.0).fit(X).stability(X, resamples=10)
        >>> found["variable_a"][0], found["variable_b"][0], found["frequency"][0]
        ('x0', 'x1', 1.0)
        """
        check_is_fitted(self)
        if not isinstance(resamples, Integral) or resamples < 2 or resamples % 2:
            raise ValueError(f"resamples must be an even number from 2, for halves come in pairs; got {resamples}.")
        estimator: Any = self
        self._check_stability()
        sample: LocalDataset = estimator._compile_with_schema(X, y, sample_weight)
        if sample.n_rows < FEWEST_ROWS:
            raise DataError(f"Rows are to be halved, and there are {sample.n_rows}: at least {FEWEST_ROWS} are needed.")
        seed = as_seed(estimator.random_state if random_state is None else random_state) or 0
        l1 = estimator.l1_ * float(np.sqrt(0.5 * sample.n_rows / self.field_.record.n_rows))
        options = replace(estimator._training_options(), l1=l1)
        with estimator._fit_engine(sample) as engine:
            found = count_selections(
                sample,
                lambda half: estimator._make_trainer(half, options, engine),
                pairs=int(resamples) // 2,
                seed=seed,
                width=options.max_order,
                progress=progress,
            )
        if options.certify and found.unconverged:
            warnings.warn(
                f"{found.unconverged:,} of {resamples:,} fits to halves of the rows stopped before their certificate.",
                ConvergenceWarning,
                stacklevel=2,
            )
        how = {
            "seed": seed,
            "l1": l1,
            "halved": halved_by(sample),
            "given_graph": isinstance(estimator.induction, FixedGraph),
        }
        return self._keep_stability(found, how)

    def _check_stability(self) -> None:
        """Refuse fields of which resamples would tell nothing."""
        estimator: Any = self
        if not self.field_.record.is_learned:
            raise DataError("The field was given, not learned: there are no options to learn from halves with.")
        if self.field_.layout.has_latent:
            raise DataError(
                "The field has latent variables, whose states mean something else in every fit: their features cannot "
                "be compared between resamples. Fit without latent=."
            )
        if not estimator.l1_ > 0.0:
            raise DataError("The field was learned with l1 = 0, which selects every candidate: fit with a larger l1.")

    def _keep_stability(self, found: Selections, how: dict[str, Any]) -> Any:
        """Frequencies into the field, and all of them as a frame."""
        field, width = self.field_, found.features.shape[1]
        own = field.layout.keys(widen(field.features, width))
        frequencies = found.frequencies_of(own)
        strange = np.flatnonzero(~np.isin(found.keys, own))
        often = strange[found.times[strange] >= LEFT_OUT * found.resamples]
        often = often[np.lexsort((-np.abs(found.weights[often]), -found.times[often]))][:MOST_LEFT_OUT]
        left_out = tuple(
            LeftOutFeature(
                columns=tuple(column for column in found.features[k].tolist() if column >= 0),
                weight=float(found.weights[k]),
                frequency=float(found.times[k] / found.resamples),
            )
            for k in often
        )
        stability = StabilityRecord(
            frequencies=tuple(frequencies.tolist()),
            resamples=found.resamples,
            mean_pairs=found.mean_pairs,
            left_out=left_out,
            **how,
        )
        self.field_ = replace(field, record=replace(field.record, stability=stability))
        every = np.concatenate([widen(field.features, width), found.features[strange]])
        weights = np.concatenate([field.weights, field.conjunction_weights, np.zeros(len(strange))])
        shares = np.concatenate([frequencies, found.times[strange] / found.resamples])
        return _table(field, every, weights, shares, self.kind_)


def _table(field: Field, features: np.ndarray, weights: np.ndarray, shares: np.ndarray, kind: str) -> Any:
    """Features in words, pairs before conjunctions."""
    higher = (features >= 0).sum(axis=1) > 2
    order = np.concatenate([np.flatnonzero(~higher), np.flatnonzero(higher)])
    pairs, conjunctions = features[~higher, :2], features[higher]
    named = Field(field.layout, np.zeros(field.layout.n_states), pairs, np.ones(len(pairs)))
    if len(conjunctions):
        named = replace(named, conjunctions=conjunctions, conjunction_weights=np.ones(len(conjunctions)))
    return selection_table(named, weights[order], shares[order], kind)
