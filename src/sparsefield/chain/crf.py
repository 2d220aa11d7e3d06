"""`ChainCRF`, a linear-chain conditional random field for sequences of labels."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from msgspec.structs import replace as replace_fields
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from sparsefield.chain.model import (
    FEATURE_ARRAYS,
    ChainFileRecord,
    ChainModel,
    encode_labels,
    learn_classes,
    load_chain,
)
from sparsefield.chain.problem import Candidates, ChainProblem, ChainTrainer, best_labels, select_l1, sum_chains
from sparsefield.chain.reading import ReadSequences, is_frame, read_labels, read_sequences
from sparsefield.compute.threads import Threads
from sparsefield.data import check_weights, make_frame
from sparsefield.data.frame_building import Frame
from sparsefield.data.frames import check_kind
from sparsefield.errors import DataError
from sparsefield.induction import FullL1, Grafting
from sparsefield.model.feature_tables import path_table
from sparsefield.model.model_file import CHAIN_FORMAT, damaged, write_model
from sparsefield.options import (
    FLAG,
    RULES,
    Abbreviated,
    changed_fields,
    from_plain,
    problems_of,
    raise_problems,
    resolve_parts,
    to_plain,
)
from sparsefield.solver import EBIC, HeldOut, SelectionCriterion, Solver

PARAMETER_RULES = {**RULES, **dict.fromkeys(("fit_intercept", "all_states", "all_transitions", "warm_start"), FLAG)}
PARTS = {
    "induction": Abbreviated(
        (Grafting, FullL1), {"grafting": Grafting, "full": FullL1}, "in Python Grafting(...) or FullL1()"
    ),
    "selection": Abbreviated(
        (HeldOut, EBIC), {"heldout": partial(HeldOut, folds=1), "ebic": EBIC}, "in Python HeldOut(...) or EBIC(...)"
    ),
    "solver": Abbreviated((Solver,), {None: Solver}, "a Solver such as Solver(max_iter=5000)"),
}
"""Parameters that are option objects."""
SOLVER_OPTIONS = {"kkt_tol", "max_iter", "callbacks"}
TOKENS_FOR_THREADS = 50_000
"""Fewer tokens are labeled on one thread."""


@dataclass(kw_only=True, eq=False, repr=False, match_args=False)
class ChainCRF(BaseEstimator):
    """A linear-chain conditional random field, trained by its exact conditional likelihood.

    The score of a labeling is the sum of the weights of its features: pairs of an attribute of a token and its label,
    pairs of a label and the next one, and an intercept for each label. With ``l1`` > 0, features are added while their
    expected counts differ from the observed ones by more than ``l1``, and the fit ends with a check of all candidates.

    Parameters
    ----------
    l1 : float or "auto"
        Strength of the L1 penalty, l1 x sum of abs(weight). "auto" selects it, see ``selection``.
    l2 : float
        Strength of the L2 penalty, l2 / 2 x sum of weight^2; CRFsuite's ``c2`` is half of it.
    fit_intercept : bool
        Whether each label has a weight of its own. Intercepts have the L2 penalty, so that they are finite for labels
        that a part of the data lacks and equal an attribute that is always 1, but no L1 penalty, which would select
        among labels instead of features.
    all_states : bool
        Whether pairs of an attribute and a label that never occur together are candidates, too.
    all_transitions : bool
        Whether pairs of labels that never follow each other are candidates, too.
    induction : "grafting", "full", Grafting or FullL1
        Which candidates are added to the working set: those with the largest exact gradients, or all at once.
    selection : "heldout", "ebic", HeldOut or EBIC
        Criterion by which ``l1="auto"`` takes the best value; "heldout" holds out a fifth of the sequences once, and
        ``HeldOut(folds=5)`` each fifth in turn.
    solver : Solver, optional
        ``Solver(max_iter=1000, kkt_tol=0.01)``: optimizer steps at most, and the largest violation of the optimality
        conditions, as a share of l1 (of one count if l1 is 0), with which a fit has converged. Its ``callbacks`` hear
        of each step, also of the fits that select l1.
    warm_start : bool
        Whether `fit` starts from the weights of the fit before, which changes the way to the optimum, not the optimum.
        Attributes and labels may join or leave.
    n_jobs : int or None
        Threads; None uses all cores. Results are the same for any number.
    random_state : None, int or generator
        Decides which sequences are held out.

    Attributes
    ----------
    classes_, attributes_ : (labels,) array of the labels, sorted; tuple of the attributes of training
    intercept_ : (labels,) array of the weights of labels alone
    n_features_ : number of state and transition features with a weight
    l1_ : the l1 of the fit, the selected one for ``l1="auto"``
    objective_ : minus the log-likelihood of training, and penalties
    kkt_violation_, converged_ : largest violation of the optimality conditions over all candidates, left-out ones
        included, and whether it is at most ``kkt_tol`` x l1
    n_iter_ : number of optimizer steps
    model_ : ChainModel

    Examples
    --------
    >>> from sparsefield import ChainCRF
    >>> X = [[{"word": "the"}, {"word": "dog"}], [{"word": "a"}, {"word": "cat"}]]
    >>> y = [["DET", "NOUN"], ["DET", "NOUN"]]
    >>> chain = ChainCRF(l1=0.01, l2=0.1).fit(X, y)
    >>> chain.predict([[{"word": "the"}, {"word": "cat"}]])
    [['DET', 'NOUN']]
    """

    l1: float | Literal["auto"] = 0.1
    l2: float = 0.1
    fit_intercept: bool = True
    all_states: bool = False
    all_transitions: bool = False
    induction: Literal["grafting", "full"] | Grafting | FullL1 = "grafting"
    selection: Literal["heldout", "ebic"] | SelectionCriterion = "heldout"
    solver: Solver | None = None
    warm_start: bool = False
    n_jobs: int | None = None
    random_state: Any = None

    def fit(self, X: Any, y: Any, *, sequence: str | None = None, sample_weight: Any = None) -> Self:
        """Learn weights from labeled sequences.

        Parameters
        ----------
        X : list of sequences, or frame
            A sequence is a list of tokens, or an array (tokens, attributes). A token is a dictionary of attributes, or
            a list of strings: a string value makes the attribute "key=value", numbers and flags count as values of the
            attribute "key". A frame has a row per token.
        y : list of lists of labels
            None marks a label that is not known; these are summed out. For a frame, the name of the column of labels,
            or a label per row.
        sequence : str, optional
            The column of a frame that names the sequence of each row.
        sample_weight : (sequences,), optional
            How often each sequence counts; sequences of a frame are in order of their first rows.
        """
        self._check_parameters()
        read = read_sequences(X, sequence=sequence, label_column=y if isinstance(y, str) else None)
        labels = read_labels(y, read, X)
        table = read.table
        weights = check_weights(sample_weight, table.n_sequences, "sequence")
        if weights is not None and not weights.all():
            counted = np.flatnonzero(weights)
            (table, tokens), weights = table.select_sequences(counted), weights[counted]
            labels = [labels[t] for t in tokens]
        classes = learn_classes(labels)
        start = self.model_.renumbered(read.numbers, classes) if self.warm_start and hasattr(self, "model_") else None
        with Threads(self.n_jobs) as engine:
            problem = ChainProblem(
                table,
                encode_labels(labels, classes),
                len(classes),
                engine,
                weights,
                Candidates(bool(self.all_states), bool(self.all_transitions), bool(self.fit_intercept)),
            )
            trainer = ChainTrainer(problem, float(self.l2), self._resolve("solver"), self._resolve("induction"))
            if self.l1 == "auto":
                criterion = self._resolve("selection")
                seed = self.random_state
                seed = seed.randint(2**31) if isinstance(seed, np.random.RandomState) else seed
                l1, path, near = select_l1(trainer, criterion, np.random.default_rng(seed))
                fitted, record = trainer.fit(l1, start or near)
                record = replace_fields(record, path=path, criterion=criterion.name)
            else:
                fitted, record = trainer.fit(float(self.l1), start)
        model = ChainModel(tuple(read.numbers), classes, fitted, record)
        self._restore(model, read.kind, sequence, y if isinstance(y, str) else None)
        if not record.converged:
            warnings.warn(
                f"The fit stopped after {record.n_iter} iterations with a violation of {record.kkt_violation:.2g}: "
                "raise max_iter of Solver, or the penalties.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    @property
    def state_features_(self) -> Frame:
        """Frame of the state features, strongest first: attribute, label, weight."""
        features, weights = self._model.weights.features, self._model.weights.theta
        attributes = np.array(self.attributes_, dtype=object)[features.attributes]
        return self._feature_frame(weights[: features.n_states], attribute=attributes, label=features.labels)

    @property
    def transition_features_(self) -> Frame:
        """Frame of the transitions, strongest first: label, next_label, weight."""
        features, weights = self._model.weights.features, self._model.weights.theta
        label, follower = np.divmod(features.steps, features.n_labels)
        return self._feature_frame(weights[features.n_states : features.n_pairs], label=label, next_label=follower)

    def _feature_frame(self, weights: np.ndarray, **parts: np.ndarray) -> Frame:
        """Return features, strongest first; numbers of labels become labels."""
        order = np.argsort(-np.abs(weights), kind="stable")
        columns = {name: part if part.dtype == object else self.classes_[part] for name, part in parts.items()}
        return make_frame(
            {name: part[order].tolist() for name, part in [*columns.items(), ("weight", weights)]}, self.kind_
        )

    @property
    def path_(self) -> Frame:
        """Frame of the values of l1 that were tried: l1, features, score per token, its error, selected, criterion."""
        record = self._model.record
        if not record.path:
            raise AttributeError("There is no path: l1 was given. Fit with l1='auto'.")
        return path_table(record.path, record.criterion, self.kind_)

    @property
    def history_(self) -> Frame:
        """Frame with a row per optimizer step: objective, features, phase, seconds and more."""
        return make_frame(self._model.record.history(), self.kind_)

    def predict(self, X: Any) -> Any:
        """Return the most probable labeling of each sequence (Viterbi): lists of labels; for a frame, a label per row.

        Attributes that training did not have are ignored.
        """
        read = self._read(X)
        with self._engine(read) as engine:
            codes = best_labels(self._model.weights, read.table, engine)
        labels = read.arrange(self.classes_[codes])
        return labels if read.rows is not None else [part.tolist() for part in labels]

    def predict_marginals(self, X: Any) -> Any:
        """Return p(label) of each token: an array (tokens, labels) per sequence; for a frame, (rows, labels)."""
        read = self._read(X)
        with self._engine(read) as engine:
            return read.arrange(sum_chains(self._model.weights, read.table, engine)[0])

    def log_likelihood(self, X: Any, y: Any) -> np.ndarray:
        """Return ln p(labels) of each sequence, (sequences,); labels that are None are summed out."""
        read = self._read(X)
        codes = encode_labels(read_labels(y, read, X), self.classes_)
        with self._engine(read) as engine:
            return ChainProblem(read.table, codes, len(self.classes_), engine).log_likelihoods(self._model.weights)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of tokens that are labeled correctly; weights are of sequences.

        Tokens whose label is None do not count.
        """
        read = self._read(X)
        labels = read_labels(y, read, X)
        weights = check_weights(sample_weight, read.table.n_sequences, "sequence")
        with self._engine(read) as engine:
            codes = best_labels(self._model.weights, read.table, engine)
        known = np.array([label is not None for label in labels], dtype=float)
        if weights is not None:
            known *= np.repeat(weights, np.diff(read.table.sequences))
        right = [a == b for a, b in zip(labels, self.classes_[codes].tolist(), strict=True)]
        return float(known @ right / known.sum()) if known.any() else float("nan")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted chain to one safetensors file, which `sparsefield.load` reads without running any code."""
        params = self.get_params(deep=False)
        del params["n_jobs"]
        if not isinstance(self.random_state, Integral):
            params["random_state"] = None
        if self.solver is not None:
            params["solver"] = replace(self.solver, callbacks=None)
        model, labels = self._model, tuple(self.classes_.tolist())
        way = self.kind_, self.sequence_, self._label_column
        document = ChainFileRecord(model.attributes, labels, model.record.without_timing(), to_plain(params), *way)
        arrays = {key: np.asarray(getattr(model.weights.features, key), kind) for key, kind in FEATURE_ARRAYS.items()}
        write_model(path, document, arrays | {"weights": model.weights.theta}, CHAIN_FORMAT)

    def _restore(self, model: ChainModel, kind: str, sequence: str | None, label_column: str | None) -> None:
        """Set the attributes of a fitted chain."""
        record, weights = model.record, model.weights
        self.model_, self.kind_, self.sequence_, self._label_column = model, kind, sequence, label_column
        self.classes_, self.attributes_ = model.classes, model.attributes
        self.intercept_, self.n_features_ = weights.parameters[1][: len(model.classes)], weights.features.n_pairs
        self.l1_, self.objective_, self.kkt_violation_ = record.l1, record.objective, record.kkt_violation
        self.converged_, self.n_iter_ = record.converged, record.n_iter

    @property
    def _model(self) -> ChainModel:
        check_is_fitted(self, "model_")
        return self.model_

    def _resolve(self, name: str) -> Any:
        """Return the option object that a parameter is or abbreviates."""
        return PARTS[name].resolve(name, getattr(self, name))

    def _check_parameters(self) -> None:
        problems = problems_of(self.get_params(deep=False), rules=PARAMETER_RULES)
        problems += resolve_parts(PARTS, self._resolve)[1]
        if isinstance(self.solver, Solver):
            others = sorted(changed_fields(self.solver).keys() - SOLVER_OPTIONS)
            problems += [f"Solver({name}=...) has no meaning for a chain: leave it out." for name in others]
        raise_problems(problems)

    def _read(self, X: Any) -> ReadSequences:
        model = self._model
        if is_frame(X) and self.sequence_ is None:
            raise DataError("X is a frame, and this chain was fitted to lists of sequences: pass such a list.")
        sequence = self.sequence_ if is_frame(X) else None
        return read_sequences(X, model.numbers, len(model.attributes), sequence, self._label_column)

    def _engine(self, read: ReadSequences) -> Threads:
        return Threads(1 if read.table.n_rows < TOKENS_FOR_THREADS else self.n_jobs)


def restore_chain(path: str | os.PathLike[str]) -> ChainCRF:
    """Return the fitted chain that ``save`` wrote to a file."""
    model, document = load_chain(path)
    kinds = [kind for part in PARTS.values() for kind in part.kinds]
    try:
        chain = ChainCRF(**{name: from_plain(value, kinds) for name, value in document.params.items()})
        chain._check_parameters()
        chain._restore(model, check_kind(document.kind), document.sequence, document.label_column)
    except (TypeError, ValueError) as error:
        raise damaged(path, error) from error
    return chain
