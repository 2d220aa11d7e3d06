"""What other values of l1, or other rows, would select: the whole path, and stability selection."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import fields, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from sparsefield.compute import Engine
from sparsefield.data import Dataset, LocalDataset, make_frame
from sparsefield.errors import DataError
from sparsefield.estimators.validation import as_seed
from sparsefield.model import Field, LeftOutFeature, PathRow, StabilityRecord, selection_table, widen
from sparsefield.solver import PathSelection, SelectionOptions
from sparsefield.solver.model_selection import LONG_PATIENCE
from sparsefield.solver.stability_selection import Selections, count_selections, halved_by

__all__ = ["ResamplingMethods"]

LISTENERS = ("_progress", "_hear_path", "_reading")
"""Who hears of a fit; a clone has none."""

FEWEST_ROWS = 4

LEFT_OUT, MOST_LEFT_OUT = 0.5, 20
"""A model remembers features that are not its own where at least this share of the resamples selects them, up to so
many."""


class _Walked(Exception):  # noqa: N818
    """The end of a fit that was only to choose l1."""

    def __init__(self, choice: PathSelection, kind: str) -> None:
        self.choice, self.kind = choice, kind


class ResamplingMethods:
    """Methods that learn again: along falling l1, or from halves of the rows."""

    field_: Field
    kind_: str

    def regularization_path(self, X: Any, y: Any = None, **options: Any) -> Any:
        """Fields along the whole path of falling l1, with what `fit` takes. The estimator itself stays as it is.

        Parameters
        ----------
        X, y, **options
            As for `fit`; ``selection`` says what fields are judged by, and the estimator's own l1 does not matter.

        Returns
        -------
        frame
            A row for each value, the largest first: l1, features (of two columns and more), score (the higher the
            better: for "heldout" the log-likelihood of what was held out, for "ebic" minus the criterion), error (its
            standard error, for "heldout") and chosen, which is true for the l1 that a fit with ``l1="auto"`` takes.
            That fit stops after three values in a row that are no better, this path after eight, so a better one may
            still follow.

        Examples
        --------
        >>> from sparsefield import MarkovField
        >>> from sparsefield.datasets import make_markov_field
        >>> path = MarkovField().regularization_path(make_markov_field(8, 300, burn_in=100, thin=10, seed=0).samples)
        >>> list(path.columns), len(path) > 8
        (['l1', 'features', 'score', 'error', 'chosen'], True)
        """
        estimator: Any = self
        walker: Any = clone(estimator)
        walker.set_params(l1="auto", checkpoint=None)
        for name in LISTENERS:
            if hasattr(self, name):
                setattr(walker, name, getattr(self, name))
        choose = walker._choose

        def walk(
            sample: Dataset,
            kind: str,
            start: Any = None,
            choice: PathSelection | None = None,
            place: Engine | None = None,
        ) -> None:
            walker._check_targets(sample)
            if choice is not None:
                raise _Walked(choice, kind)
            with walker._fit_engine(sample) if place is None else nullcontext(place) as engine:
                raise _Walked(walker._choose(sample, engine), kind)

        walker._choose = lambda sample, engine: choose(sample, engine, SelectionOptions(patience=LONG_PATIENCE))
        walker._learn = walk
        try:
            walker.fit(X, **options) if y is None else walker.fit(X, y, **options)
        except _Walked as end:
            rows = end.choice.rows()
            return make_frame(
                {field.name: [getattr(row, field.name) for row in rows] for field in fields(PathRow)}, end.kind
            )
        raise AssertionError("every fit learns")

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
            How many halves; an even number.
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
        sample: LocalDataset = estimator._compile_again(X, y, sample_weight)
        if sample.n_rows < FEWEST_ROWS:
            raise DataError(f"Rows are to be halved, and there are {sample.n_rows}: at least {FEWEST_ROWS} are needed.")
        seed = as_seed(estimator.random_state if random_state is None else random_state) or 0
        l1 = estimator.l1_ * float(np.sqrt(0.5 * sample.n_rows / self.field_.record.n_rows))
        options = replace(estimator._options(), l1=l1)
        with estimator._fit_engine(sample) as engine:
            found = count_selections(
                sample,
                lambda half: estimator._trainer(half, options, engine),
                pairs=int(resamples) // 2,
                seed=seed,
                width=options.max_order,
                hear=progress,
            )
        if options.certify and found.unconverged:
            warnings.warn(
                f"{found.unconverged:,} of {resamples:,} fits to halves of the rows stopped before their certificate.",
                ConvergenceWarning,
                stacklevel=2,
            )
        how = {"seed": seed, "l1": l1, "halved": halved_by(sample), "given_graph": estimator.induction == "graph"}
        return self._keep_stability(found, how)

    def _check_stability(self) -> None:
        """Refuse fields of which resamples would tell nothing."""
        estimator: Any = self
        if not self.field_.record.is_learned:
            raise DataError("The field was given, not learned: there are no options to learn from halves with.")
        if self.field_.layout.has_latent:
            raise DataError(
                "The field has latent variables, whose states mean something else in every fit: their features cannot "
                "be compared between resamples. Fit without hidden=."
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
