"""`ChainCRF`, a linear-chain conditional random field for sequences of labels."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from sparsefield import config
from sparsefield.chain.fitting import as_generator, fit_chain
from sparsefield.chain.inference import best_labels, draw_labels, log_likelihoods, n_best_labels, sum_chains
from sparsefield.chain.labels import (
    SequenceScores,
    drop_column,
    encode_labels,
    learn_classes,
    read_labels,
    score_sequences,
)
from sparsefield.chain.model import ChainModel, load_chain, save_chain
from sparsefield.chain.reading import ReadSequences, is_frame, read_sequences
from sparsefield.chain.training import ChainProgress
from sparsefield.compute.block_collection import Engine
from sparsefield.compute.threads import Threads
from sparsefield.data import make_frame
from sparsefield.errors import DataError, ModelFileError
from sparsefield.frame_protocol import Frame
from sparsefield.parameter_checks import (
    COUNT,
    FLAG,
    JOBS,
    POSITIVE,
    RANDOM_STATE,
    Rule,
    attributes,
    number,
    problems_of,
    raise_problems,
)

PARAMETER_RULES: dict[str, Rule] = {
    "l1": number(words=("auto",)),
    "l2": number(words=("auto",)),
    "all_states": FLAG,
    "all_transitions": FLAG,
    "max_iter": COUNT,
    "kkt_tol": POSITIVE,
    "validation_fraction": number(0.0, 1.0, above=True, below=True),
    "n_jobs": JOBS,
    "random_state": RANDOM_STATE,
    "callback": attributes("None or a function", methods=("__call__",)),
}
NOT_SAVED = ("n_jobs", "callback")
TOKENS_FOR_THREADS = 50_000
"""Fewer tokens are labeled on one thread."""


class ChainCRF(BaseEstimator):
    """A linear-chain conditional random field, trained by its exact conditional likelihood.

    The score of a labeling is the sum of the weights of its features: pairs of an attribute of a token and its label,
    and pairs of a label and the next one. All labels have weights. With ``l1`` > 0, features are added while their
    expected counts differ from the observed ones by more than ``l1``, and the fit ends with a check of all candidates.

    Parameters
    ----------
    l1 : float or "auto"
        Strength of the L1 penalty, l1 x sum of abs(weight). "auto" selects it by held-out sequences.
    l2 : float or "auto"
        Strength of the L2 penalty, l2 / 2 x sum of weight^2; CRFsuite's ``c2`` is half of it.
    all_states : bool
        Whether pairs of an attribute and a label that never occur together are candidates, too.
    all_transitions : bool
        Whether pairs of labels that never follow each other are candidates, too.
    max_iter : int
        Optimizer steps at most.
    kkt_tol : float
        Largest violation of the optimality conditions, as a share of l1 (of one count if l1 is 0), with which a fit has
        converged.
    validation_fraction : float
        Share of the sequences that is held out where a penalty is "auto".
    n_jobs : int or None
        Threads; None uses all cores. Results are the same for any number.
    random_state : None, int or generator
        Decides which sequences are held out, and what `sample` draws.
    callback : callable, optional
        Called after each step, also of the fits that select penalties, with a `ChainProgress`: iteration, objective,
        violation, n_features.

    Attributes
    ----------
    model_ : ChainModel
        Attributes, labels, features and weights.

    Examples
    --------
    >>> from sparsefield import ChainCRF
    >>> X = [[{"word": "the"}, {"word": "dog"}], [{"word": "a"}, {"word": "cat"}]]
    >>> y = [["DET", "NOUN"], ["DET", "NOUN"]]
    >>> chain = ChainCRF(l1=0.01, l2=0.1).fit(X, y)
    >>> chain.predict([[{"word": "the"}, {"word": "cat"}]])
    [['DET', 'NOUN']]
    """

    def __init__(
        self,
        *,
        l1: float | Literal["auto"] = 0.1,
        l2: float | Literal["auto"] = 0.1,
        all_states: bool = False,
        all_transitions: bool = False,
        max_iter: int = 1000,
        kkt_tol: float = config.KKT_TOLERANCE,
        validation_fraction: float = 0.2,
        n_jobs: int | None = None,
        random_state: Any = None,
        callback: Callable[[ChainProgress], None] | None = None,
    ) -> None:
        self.l1, self.l2 = l1, l2
        self.all_states, self.all_transitions = all_states, all_transitions
        self.max_iter, self.kkt_tol, self.validation_fraction = max_iter, kkt_tol, validation_fraction
        self.n_jobs, self.random_state, self.callback = n_jobs, random_state, callback

    def fit(self, X: Any, y: Any, *, sequence: str | None = None) -> Self:
        """Learn weights from labeled sequences.

        Parameters
        ----------
        X : list of sequences, or frame
            A sequence is a list of tokens, or an array (tokens, attributes), also a sparse one. A token is a dictionary
            of attributes, or a list of strings: a string value makes the attribute "key=value", numbers and flags count
            as values of the attribute "key". A frame has a row per token.
        y : list of lists of labels
            None marks a label that is not known; these are summed out. For a frame, the name of the column of labels,
            or a label per row.
        sequence : str, optional
            The column of a frame that names the sequence of each row.
        """
        self._check_parameters()
        read = read_sequences(drop_column(X, y), sequence=sequence)
        labels = read_labels(y, read, X)
        classes = learn_classes(labels)
        with Threads(self.n_jobs) as engine:
            self.model_, self._path = fit_chain(self, read, encode_labels(labels, classes), classes, engine)
        self.sequence_, self.kind_ = sequence, read.kind
        self._label_column = y if isinstance(y, str) else None
        if not self.model_.record.converged:
            record = self.model_.record
            warnings.warn(
                f"The fit stopped after {record.n_iter} iterations with a violation of {record.kkt_violation:.2g}: "
                "raise max_iter, or the penalties.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    @property
    def classes_(self) -> np.ndarray:
        """The labels, sorted, (labels,)."""
        return self._model.classes

    @property
    def state_features_(self) -> Frame:
        """Frame of the state features, strongest first: attribute, label, weight."""
        return make_frame(self._model.state_table(), self.kind_)

    @property
    def transition_features_(self) -> Frame:
        """Frame of the transitions, strongest first: label, next_label, weight."""
        return make_frame(self._model.transition_table(), self.kind_)

    @property
    def attributes_(self) -> tuple[str, ...]:
        """The attributes of training."""
        return self._model.attributes

    @property
    def n_features_(self) -> int:
        """Number of features with a weight."""
        return len(self._model.theta)

    @property
    def l1_(self) -> float:
        """The l1 of the fit: the selected one for ``l1="auto"``."""
        return self._model.record.l1

    @property
    def l2_(self) -> float:
        """The l2 of the fit: the selected one for ``l2="auto"``."""
        return self._model.record.l2

    @property
    def path_(self) -> Frame:
        """Frame of the penalties that were tried: l1, l2, n_features, score (held-out log-likelihood per token)."""
        path = getattr(self, "_path", ())
        if not path:
            raise AttributeError("There is no path: fit with l1='auto' or l2='auto'.")
        names = ("l1", "l2", "n_features", "score")
        return make_frame({name: [getattr(point, name) for point in path] for name in names}, self.kind_)

    @property
    def objective_(self) -> float:
        """Minus the log-likelihood of training, and penalties."""
        return self._model.record.objective

    @property
    def kkt_violation_(self) -> float:
        """Largest violation of the optimality conditions over all candidates, left-out ones included."""
        return self._model.record.kkt_violation

    @property
    def converged_(self) -> bool:
        """Whether the violation is at most ``kkt_tol`` x l1."""
        return self._model.record.converged

    @property
    def n_iter_(self) -> int:
        """Number of optimizer steps."""
        return self._model.record.n_iter

    def predict(self, X: Any) -> Any:
        """Return the most probable labeling of each sequence (Viterbi): lists of labels; for a frame, a label per row.

        Attributes that training did not have are ignored.
        """
        read = self._read(X)
        with self._engine(read) as engine:
            codes = best_labels(self._model, read.table, engine)
        return self._answer(codes, read)

    def predict_marginals(self, X: Any) -> Any:
        """Return p(label) of each token: an array (tokens, labels) per sequence; for a frame, (rows, labels)."""
        read = self._read(X)
        with self._engine(read) as engine:
            return read.arrange(sum_chains(self._model, read.table, engine).marginals)

    def predict_best(self, X: Any, n: int) -> list[list[tuple[list[Any], float]]]:
        """Return the ``n`` most probable labelings of each sequence with their probabilities, best first."""
        if not COUNT.accepts(n):
            raise ValueError(f"n must be {COUNT.wanted}, got {n!r}.")
        read = self._read(X)
        with self._engine(read) as engine:
            found = n_best_labels(self._model, read.table, n, engine)
            log_sums = sum_chains(self._model, read.table, engine).log_sums
        return [
            [(self.classes_[path].tolist(), float(np.exp(score - total))) for path, score in zip(*one, strict=True)]
            for one, total in zip(found, log_sums, strict=True)
        ]

    def log_likelihood(self, X: Any, y: Any) -> np.ndarray:
        """Return ln p(labels) of each sequence, (sequences,); labels that are None are summed out."""
        read = self._read(X)
        codes = encode_labels(read_labels(y, read, X), self.classes_)
        with self._engine(read) as engine:
            return log_likelihoods(self._model, read.table, codes, engine)

    def sample(self, X: Any, n_samples: int = 1, *, random_state: Any = None) -> list[Any]:
        """Return ``n_samples`` labelings, each as `predict` returns it, drawn from their exact distribution."""
        if not COUNT.accepts(n_samples):
            raise ValueError(f"n_samples must be {COUNT.wanted}, got {n_samples!r}.")
        read = self._read(X)
        rng = as_generator(self.random_state if random_state is None else random_state)
        with self._engine(read) as engine:
            drawn = draw_labels(self._model, read.table, n_samples, rng, engine)
        return [self._answer(codes, read) for codes in drawn]

    def score(self, X: Any, y: Any) -> float:
        """Return the share of tokens that are labeled correctly."""
        return self.evaluate(X, y).token_accuracy

    def evaluate(self, X: Any, y: Any) -> SequenceScores:
        """Return the accuracy of tokens and of sequences, and precision, recall and F1 of entities.

        Entities are those of BIO or IOBES labels, as seqeval defines them. Tokens whose label is None do not count.
        """
        read = self._read(X)
        labels = read_labels(y, read, X)
        with self._engine(read) as engine:
            found = self.classes_[best_labels(self._model, read.table, engine)].tolist()
        ends = read.table.offsets.tolist()
        truth, answers = ([one[a:b] for a, b in pairwise(ends)] for one in (labels, found))
        return score_sequences(truth, answers)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted chain to one safetensors file, which `sparsefield.load` reads without running any code."""
        params = {name: value for name, value in self.get_params().items() if name not in NOT_SAVED}
        if not isinstance(self.random_state, Integral):
            params["random_state"] = None
        extra = {"params": params, "kind": self.kind_, "sequence": self.sequence_, "label_column": self._label_column}
        save_chain(self._model, path, extra)

    @property
    def _model(self) -> ChainModel:
        check_is_fitted(self, "model_")
        return self.model_

    def _check_parameters(self) -> None:
        raise_problems(problems_of(self.get_params(), rules=PARAMETER_RULES))

    def _read(self, X: Any) -> ReadSequences:
        model = self._model
        if is_frame(X) and self.sequence_ is None:
            raise DataError("X is a frame, and this chain was fitted to lists of sequences: pass such a list.")
        sequence = self.sequence_ if is_frame(X) else None
        return read_sequences(drop_column(X, self._label_column), model.vocabulary, sequence)

    def _engine(self, read: ReadSequences) -> AbstractContextManager[Engine]:
        """Return the engine of an answer: threads only where they are worth their start.

        Answers have no matrix products, whose threads an entered engine would limit.
        """
        if self.n_jobs == 1 or read.table.n_tokens < TOKENS_FOR_THREADS:
            return nullcontext(Threads(1))
        return Threads(self.n_jobs)

    def _answer(self, codes: np.ndarray, read: ReadSequences) -> Any:
        """Return numbers of labels as labels."""
        if read.rows is not None:
            return read.arrange(self.classes_[codes])
        found, ends = list(map(self.classes_.tolist().__getitem__, codes.tolist())), read.table.offsets.tolist()
        return [found[a:b] for a, b in pairwise(ends)]


def restore_chain(path: str | os.PathLike[str]) -> ChainCRF:
    """Return the fitted chain that ``save`` wrote to a file."""
    model, extra = load_chain(path)
    try:
        chain = ChainCRF(**extra["params"])
        chain._check_parameters()
        chain.kind_, chain.sequence_, chain._label_column = extra["kind"], extra["sequence"], extra["label_column"]
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{path}: a chain with damaged options ({error}).") from error
    chain.model_, chain._path = model, ()
    return chain
