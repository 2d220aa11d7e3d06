"""This module estimates how well rows determine a field: intervals of weights and edges, stability of centrality."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, get_args

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sparsefield.analysis.bootstrap import Progress, Resampling, Weighting, dropped_rows, resampled_rows
from sparsefield.analysis.case_dropping import SHARES, CentralityStability, EdgeCentrality, check_shares, correlate
from sparsefield.analysis.confidence_intervals import ConfidenceIntervals, Method
from sparsefield.analysis.godambe import Estimate, minimize, sandwich
from sparsefield.analysis.imputed_estimates import ImputedEstimates
from sparsefield.analysis.interval_warnings import (
    describe_unknown_values,
    shown_once,
    warn_if_not_converged,
    warn_of_other_table,
    warn_of_penalty,
)
from sparsefield.analysis.refit_problem import RefitProblem
from sparsefield.analysis.resampled_selection import learn_again, select_again
from sparsefield.compute import Engine, Threads
from sparsefield.data import DenseDataset, LocalDataset
from sparsefield.errors import DataError
from sparsefield.estimators.refit_rows import RefitRows
from sparsefield.induction import FixedGraph
from sparsefield.model import Field
from sparsefield.parameter_checks import raise_problems
from sparsefield.solver import Trainer, fingerprint, warm_start
from sparsefield.solver.checkpoint import CheckpointFile, make_folder

WEIGHTS_FILE, SELECTIONS_FILE = "bootstrap-weights.checkpoint", "bootstrap-selections.checkpoint"


@dataclass(frozen=True)
class BootstrapOptions:
    """What determines the results of a bootstrap, besides data and field."""

    n: int
    selections: int
    seed: int
    l2: float

    @property
    def total(self) -> int:
        """Number of all resamples, those with another selection counted twice."""
        return self.n + self.selections


class UncertaintyMethods(RefitRows):
    """Methods that say how well the rows determine the weights of the field."""

    kind_: str

    def confidence_intervals(
        self,
        X: Any,
        y: Any = None,
        *,
        method: Method = "godambe",
        level: float = 0.95,
        n: int = 1000,
        selections: int = 100,
        seed: int = 0,
        sample_weight: Any = None,
        drop_incomplete: bool = False,
        imputations: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> ConfidenceIntervals:
        """Estimate the weights of the selected features without L1, with l2 = max(l2, 0.01), and their uncertainty.

        A `PenaltyWarning` names features whose weights this l2 determines more than the rows do, as where two columns
        determine each other. The estimates are those of a refit (``refit=True``), also where the field has the smaller
        weights of an L1 fit, which have no valid interval. Intervals hold for the features of the field as if these had
        been given: that they were selected with the same rows is not taken into account.

        Parameters
        ----------
        X : the table that the field was learned from
        y : labels, for a `CRFClassifier`
        method : {"godambe", "bootstrap"}
            "godambe": normal intervals from the sandwich covariance of the pseudo-likelihood; takes a moment.
            "bootstrap": percentiles of estimates from resampled rows.
        level : probability of the intervals
        n : number of resamples, for "bootstrap"
        selections : number of resamples, of these, whose features are selected again at the same l1
            Their share is the column ``frequency``. This takes a fit for each; 0 leaves it out.
        seed : seed of the resamples
        sample_weight : (rows,) weights, if the fit had some
            Rows are what is drawn, each with its weight: a weight is no number of rows.
        drop_incomplete : whether rows with missing cells are left out instead of refused
            Weights are then estimated from the complete rows alone, which is biased where cells are not missing
            completely at random.
        imputations : number of times that missing cells are imputed, such as 20, for "godambe" of a `MarkovField`
            Weights are estimated from each table that `impute` draws, and pooled by Rubin's rules; intervals are those
            of Student's t. None refuses a table with missing cells, which it may have with ``drop_incomplete``.
        checkpoint : folder for the finished resamples of a bootstrap
            A bootstrap that was interrupted continues from there, with the same result.
        progress : function that is called with the number of resamples that are done and their total number

        Returns
        -------
        ConfidenceIntervals
            Its frames ``weights`` and ``edges``, and its method ``differences()``.

        Examples
        --------
        >>> import numpy as np
        >>> from sparsefield import MarkovField
        >>> rain = np.random.default_rng(0).integers(0, 2, 400)
        >>> X = np.column_stack([rain, rain])
        >>> X[::5, 1] = 1 - X[::5, 1]
        >>> found = MarkovField(l1=10.0).fit(X).confidence_intervals(X).weights
        >>> [round(found[name][0], 2) for name in ("weight", "estimate", "standard_error", "low", "high")]
        [2.43, 2.72, 0.24, 2.25, 3.19]
        """
        check_is_fitted(self)
        _check_options(method, level, n, selections)
        if imputations is not None:
            self._check_imputations(imputations, method, drop_incomplete)
            rows = self._dense_rows(X, y, sample_weight)
            if rows.tables[0].has_missing:
                return self._pooled_intervals(X, rows, imputations, level, seed, sample_weight, progress)
        sample, problem, incomplete = self._refit_problem(X, y, sample_weight, drop_incomplete, intervals=True)
        estimate, *own = self._estimate_again(problem)
        found = ConfidenceIntervals(
            self.field_, method, level, *own, l2=self._refit_l2, kind=self.kind_, n_complete=problem.n_rows,
            n_incomplete=incomplete,
        )  # fmt: skip
        if method == "godambe":
            return found
        resampling = Resampling(problem, estimate, resampled_rows(problem.n_rows, seed))
        options = BootstrapOptions(n, min(selections, n) if self._selects() else 0, seed, float(problem.l2.max()))
        mark = fingerprint(sample, self.field_.features, self.field_.theta, options)
        files = _open_files(checkpoint, mark)
        draws = resampling.draw(n, self._n_threads, _count_from(progress, 0, options.total), files[0])
        selected = self._select_again(sample, resampling, options, progress, files[1])
        _delete(files)
        covariances = {"covariance": _covariance(draws), "godambe_covariance": found.covariance}
        return replace(found, **covariances, draws=draws, selected=selected)

    def _estimate_again(self, problem: RefitProblem) -> tuple[Estimate, np.ndarray, np.ndarray]:
        """Return the refit, and the weights of its features with their covariance; warn of what makes them doubtful."""
        with Threads(1):  # products of matrices that run on several threads differ in their last bits
            estimate = minimize(problem, self.field_.theta, problem.block.weight)
            covariance = sandwich(problem, estimate, problem.block.weight)
        warn_of_penalty(self.field_, problem, estimate, covariance)
        warn_if_not_converged(estimate, stacklevel=4)
        mine = slice(problem.n_biases, None)
        return estimate, estimate.theta[mine], covariance[mine, mine]

    def _check_imputations(self, imputations: Any, method: Method, drop_incomplete: bool) -> None:
        """Refuse a number of imputations that cannot be used, with all reasons."""
        problems = []
        if isinstance(imputations, bool) or not isinstance(imputations, Integral) or imputations < 2:
            problems.append(f"imputations must be a whole number from 2, got {imputations!r}.")
        if method != "godambe":
            problems.append(
                "imputations are for method='godambe', whose covariances can be pooled: leave method out, or pass the "
                "tables of impute one by one to a bootstrap."
            )
        if drop_incomplete:
            problems.append("imputations and drop_incomplete cannot be used together: remove one.")
        if not hasattr(self, "impute"):
            problems.append("imputations are for a MarkovField: use drop_incomplete=True for labels.")
        raise_problems(problems)

    def _pooled_intervals(
        self,
        X: Any,
        rows: DenseDataset,
        imputations: int,
        level: float,
        seed: int,
        sample_weight: Any,
        progress: Progress | None,
    ) -> ConfidenceIntervals:
        """Return the intervals of weights that are estimated from imputed tables, and pooled."""
        estimator: Any = self
        learned, (table,) = self.field_.record.n_rows, rows.tables
        if table.n_rows < learned:
            raise DataError(
                f"The table has {table.n_rows:,} rows, and the field was learned from {learned:,}, from which missing "
                "cells are imputed: pass the table of the fit, or drop_incomplete=True (--drop-incomplete)."
            )
        if table.unknown_rows:
            raise DataError(describe_unknown_values(estimator._read_by_name(X), table))
        warn_of_other_table(self.field_, table)
        n_imputed = int((table.codes() < 0).any(axis=0).sum())
        thetas, within = [], 0.0
        ways = {"seed": seed, "sample_weight": sample_weight, "progress": progress}
        with shown_once():
            for imputed in estimator.impute(X, imputations, **ways):
                (completed,) = self._dense_rows(imputed, None, sample_weight).tables
                _, theta, covariance = self._estimate_again(self._problem_of(completed))
                thetas.append(theta)
                within = within + covariance / imputations
        pooled = ImputedEstimates(np.array(thetas), np.asarray(within), n_imputed)
        own = pooled.estimates.mean(axis=0), pooled.total
        ways = {"l2": self._refit_l2, "kind": self.kind_, "n_complete": table.n_rows, "imputed": pooled}
        return ConfidenceIntervals(self.field_, "godambe", level, *own, **ways)

    def centrality_stability(
        self,
        X: Any,
        y: Any = None,
        *,
        n: int = 100,
        shares: Sequence[float] = SHARES,
        correlation: float = 0.7,
        probability: float = 0.95,
        select: bool = False,
        seed: int = 0,
        sample_weight: Any = None,
        drop_incomplete: bool = False,
        progress: Progress | None = None,
    ) -> CentralityStability:
        """Drop shares of the rows, and compare the centrality of the columns with that from all rows.

        The indices are strength, the sum of the strengths of the edges of a column, and expected influence, the sum of
        their signed weights. The correlation stability coefficient is the largest share that can be dropped such that
        the correlation with the index from all rows is kept. It is NaN for an index that is the same for all columns,
        as that of two columns, and for the expected influence of a field whose edges have no signs.

        Parameters
        ----------
        X : the table that the field was learned from
        y : labels, for a `CRFClassifier`
        n : number of resamples for each share
        shares : shares of the rows that are dropped, ascending
        correlation, probability : correlation that has to be kept, and with which probability
        select : whether features are selected again from the remaining rows
            False estimates the weights of the selected features again, without L1, which is fast. True learns again
            with l1 times the square root of the share of remaining rows, as R's bootnet does with its estimators.
        seed : seed of the resamples
        sample_weight : (rows,) weights, if the fit had some
        drop_incomplete : whether rows with missing cells are left out instead of refused
            The tables of `impute` have no missing cells, and can be passed one by one.
        progress : function that is called with the number of resamples that are done and their total number

        Examples
        --------
        >>> from sparsefield import MarkovField
        >>> from sparsefield.app.datasets import make_markov_field
        >>> X = make_markov_field(6, 500, weights=(-2.0, 2.0), burn_in=100, thin=5, seed=1).samples
        >>> stability = MarkovField(l1=10.0).fit(X).centrality_stability(X, n=20, shares=[0.1, 0.5])
        >>> sorted(stability.coefficients)
        ['expected_influence', 'strength']
        """
        check_is_fitted(self)
        check_shares(n, shares, correlation, probability)
        sample, problem, incomplete = self._refit_problem(X, y, sample_weight, drop_incomplete)
        with Threads(1):
            estimate = minimize(problem, self.field_.theta, problem.block.weight)
        warn_if_not_converged(estimate, stacklevel=3)
        field = self.field_ if select else _with_theta(self.field_, estimate.theta)
        centrality = EdgeCentrality(field)
        reference = centrality.indices(field.theta[None, problem.n_biases :])[:, 0]
        found = []
        for k, share in enumerate(shares):
            shown = _count_from(progress, k * n, len(shares) * n)
            weighting = dropped_rows(problem.n_rows, share, seed)
            if select:
                values = self._learned_centrality(sample, weighting, share, n, shown)
            else:
                drawn = Resampling(problem, estimate, weighting, 1.0 - share).draw(n, self._n_threads, shown)
                values = centrality.indices(drawn)
            found.append([correlate(*pair) for pair in zip(values, reference, strict=True)])
        values = np.array(found).swapaxes(0, 1)
        ways = (correlation, probability, centrality.signed, self.kind_, problem.n_rows, incomplete)
        return CentralityStability(np.array(shares, dtype=float), values, *ways)

    def _learned_centrality(
        self, sample: DenseDataset, weighting: Weighting, share: float, n: int, progress: Progress | None
    ) -> np.ndarray:
        """Return the indices (indices, resamples, columns) of fields that are learned from some of the rows."""
        estimator: Any = self
        options = replace(estimator._training_options(), l1=estimator.l1_ * float(np.sqrt(1.0 - share)))

        def make(rows: LocalDataset, engine: Engine) -> Trainer:
            return estimator._make_trainer(rows, options, engine, start=warm_start(self.field_))

        found = []
        for field in learn_again(sample, make, weighting, range(n), self._n_threads):
            found.append(EdgeCentrality(field).indices(field.theta[None, len(field.biases) :])[:, 0])
            if progress is not None:
                progress(len(found), n)
        return np.stack(found, axis=1)

    def _select_again(
        self,
        sample: DenseDataset,
        resampling: Resampling,
        options: BootstrapOptions,
        progress: Progress | None,
        saved: CheckpointFile | None,
    ) -> np.ndarray | None:
        """Return which features resamples select again (resamples, features); None where none is to be drawn."""
        if not options.selections:
            return None
        shown = _count_from(progress, options.n, options.total)
        make, weighting = self._selecting_trainer, resampling.weighting
        return select_again(sample, self.field_, make, weighting, options.selections, self._n_threads, shown, saved)

    @property
    def _n_threads(self) -> int | None:
        estimator: Any = self
        return estimator.n_jobs

    def _selecting_trainer(self, sample: LocalDataset, engine: Engine) -> Trainer:
        """Return a trainer that selects features as the fit did, and starts from its field."""
        estimator: Any = self
        options = replace(estimator._training_options(), l1=estimator.l1_)
        return estimator._make_trainer(sample, options, engine, start=warm_start(self.field_))

    def _selects(self) -> bool:
        """Return whether the fit selected features."""
        estimator: Any = self
        return bool(estimator.l1_ > 0.0) and not isinstance(estimator._resolve("induction"), FixedGraph)


def _check_options(method: Any, level: Any, n: Any, selections: Any) -> None:
    """Refuse invalid options, all at once."""
    problems = []
    if method not in get_args(Method):
        problems.append(f"method must be 'godambe' or 'bootstrap', got {method!r}.")
    if not 0.0 < level < 1.0:
        problems.append(f"level must be between 0 and 1, got {level!r}.")
    if not isinstance(n, Integral) or n < 2:
        problems.append(f"n must be a whole number from 2, got {n!r}.")
    if not isinstance(selections, Integral) or selections < 0:
        problems.append(f"selections must be a whole number from 0, got {selections!r}.")
    raise_problems(problems)


def _covariance(draws: np.ndarray) -> np.ndarray:
    """Return the covariance (features, features) of draws (draws, features), also of no features."""
    centered = draws - draws.mean(axis=0)
    return centered.T @ centered / (len(draws) - 1)


def _with_theta(field: Field, theta: np.ndarray) -> Field:
    """Return the field with other biases and weights."""
    biases, weights, higher = np.split(theta, np.cumsum([len(field.biases), len(field.weights)]))
    return replace(field, biases=biases, weights=weights, conjunction_weights=higher)


def _count_from(progress: Progress | None, before: int, total: int) -> Progress | None:
    """Return the progress of a part of all resamples, after ``before`` others."""
    return None if progress is None else lambda done, _: progress(before + done, total)


Files = tuple[CheckpointFile | None, CheckpointFile | None]


def _open_files(folder: str | os.PathLike[str] | None, mark: str) -> Files:
    """Return the files of the finished resamples: their weights, and their selections."""
    if folder is None:
        return None, None
    path = make_folder(folder)
    return CheckpointFile(path / WEIGHTS_FILE, mark), CheckpointFile(path / SELECTIONS_FILE, mark)


def _delete(files: Files) -> None:
    for file in files:
        if file is not None:
            file.path.unlink(missing_ok=True)
