"""Fits of linear chains, with penalties that are chosen by the log-likelihood of held-out sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsefield.chain.inference import log_likelihoods
from sparsefield.chain.likelihood import ChainLikelihood
from sparsefield.chain.model import ChainFeatures, ChainModel, ChainRecord, features_of_keys
from sparsefield.chain.reading import ReadSequences
from sparsefield.chain.training import ChainFit, ChainOptions, ChainTrainer
from sparsefield.compute.block_collection import Engine
from sparsefield.data.token_table import TokenTable
from sparsefield.errors import DataError

L2_PATH = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01)
L1_PATH = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01)
MOST_CANDIDATES = 2 * 10**8
"""Weights that fit into memory, without l1."""
PATIENCE = 2
"""Values without an improvement after which a path ends."""

HeldOutScore = Callable[[ChainFit], float]


@dataclass(frozen=True)
class ChainPathPoint:
    """One pair of penalties that was tried."""

    l1: float
    l2: float
    n_features: int
    score: float
    """Log-likelihood of the held-out sequences, per token."""


@dataclass(frozen=True)
class ChainSelection:
    """The selected penalties, the fit at them, and all that were tried."""

    options: ChainOptions
    fit: ChainFit | None
    path: tuple[ChainPathPoint, ...]


def select_penalties(
    trainer: ChainTrainer, score: HeldOutScore, options: ChainOptions, *, l1: bool, l2: bool
) -> ChainSelection:
    """Choose penalties along paths from large to small values, with warm starts.

    If both are chosen, l2 is chosen without l1 first. Then l1 is chosen with that l2, and with smaller ones while that
    improves the score, because l1 does a part of what l2 does.

    Parameters
    ----------
    trainer : of the sequences that are not held out
    score : returns the held-out log-likelihood of a fit, per token
    options : penalties that are given
    l1, l2 : which of them to choose
    """
    if not (l1 and l2):
        return _follow(trainer, score, _along(options, "l1" if l1 else "l2"))
    best = _follow(trainer, score, _along(replace(options, l1=0.0), "l2"))
    path = best.path
    for value in (value for value in L2_PATH if value <= best.options.l2):
        found = _follow(trainer, score, _along(replace(options, l2=value), "l1"))
        path += found.path
        improved = _best_score(found) > _best_score(best)
        best = found if improved else best
        if not improved:
            break
    return replace(best, path=path)


def _along(options: ChainOptions, name: str) -> list[ChainOptions]:
    """Return options with falling values of one penalty."""
    if name == "l1":
        return [replace(options, l1=value) for value in L1_PATH]
    return [replace(options, l2=value) for value in L2_PATH]


def split_sequences(n: int, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the sequences to train with and to hold out, ascending; each has at least one."""
    order = rng.permutation(n)
    count = int(np.clip(round(share * n), 1, n - 1))
    return np.sort(order[count:]), np.sort(order[:count])


def _follow(trainer: ChainTrainer, score: HeldOutScore, path: Iterable[ChainOptions]) -> ChainSelection:
    """Return the best fit along a path, which ends after some values without an improvement."""
    best, fit, tried, failures, best_score = None, None, [], 0, -np.inf
    for options in path:
        fit = trainer.fit(options, fit)
        tried.append(ChainPathPoint(options.l1, options.l2, len(fit.theta), score(fit)))
        if best is None or tried[-1].score > best_score:
            best, best_score, failures = ChainSelection(options, fit, ()), tried[-1].score, 0
        else:
            failures += 1
        if failures == PATIENCE:
            break
    assert best is not None
    return replace(best, path=tuple(tried))


def _best_score(found: ChainSelection) -> float:
    return max(point.score for point in found.path)


def fit_chain(
    chain: Any, read: ReadSequences, codes: np.ndarray, classes: np.ndarray, engine: Engine
) -> tuple[ChainModel, tuple[ChainPathPoint, ...]]:
    """Return the fitted chain, and the penalties that were tried.

    ``chain`` has the parameters of a `ChainCRF`; ``codes`` has the number of the label of each token, -1 where it is
    not known.
    """
    table, m = read.table, len(classes)
    if chain.all_states and chain.l1 == 0.0 and table.n_attributes * m > MOST_CANDIDATES:
        raise DataError(
            f"{table.n_attributes:,} attributes x {m} labels are too many weights: set l1 above 0, or all_states=False."
        )
    options = ChainOptions(_number(chain.l1), _number(chain.l2), chain.max_iter, chain.kkt_tol)
    found = ChainSelection(options, None, ())
    if "auto" in (chain.l1, chain.l2):
        found = _select(chain, table, codes, classes, options, engine)
    trainer = _trainer(chain, table, codes, m, engine, chain.callback)
    fit = trainer.fit(found.options, found.fit)
    model = _model(tuple(read.vocabulary.numbers), classes, fit, found.options)
    record = replace(model.record, n_sequences=table.n_sequences, n_tokens=table.n_tokens)
    return replace(model, record=record), found.path


def as_generator(random_state: Any) -> np.random.Generator:
    """Return a generator for a seed; generators are returned, and a RandomState of numpy gives a seed."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return np.random.default_rng(random_state)


def _number(strength: Any) -> float:
    return 0.0 if strength == "auto" else float(strength)


def _select(
    chain: Any, table: TokenTable, codes: np.ndarray, classes: np.ndarray, options: ChainOptions, engine: Engine
) -> ChainSelection:
    """Choose the penalties that are "auto" on held-out sequences."""
    if table.n_sequences < 2:
        raise DataError("l1 and l2 cannot be selected from one sequence: pass numbers, or divide it.")
    kept, held = split_sequences(table.n_sequences, chain.validation_fraction, as_generator(chain.random_state))
    (train, train_rows), (test, test_rows) = table.select_sequences(kept), table.select_sequences(held)
    trainer = _trainer(chain, train, codes[train_rows], len(classes), engine, chain.callback)
    known = max(int((codes[test_rows] >= 0).sum()), 1)
    names = tuple(map(str, range(table.n_attributes)))

    def score(fit: ChainFit) -> float:
        model = _model(names, classes, fit, options)
        return float(log_likelihoods(model, test, codes[test_rows], engine).sum()) / known

    loose = replace(options, kkt_tol=max(options.kkt_tol, 0.1))
    found = select_penalties(trainer, score, loose, l1=chain.l1 == "auto", l2=chain.l2 == "auto")
    return replace(found, options=replace(found.options, kkt_tol=options.kkt_tol))


def _trainer(chain: Any, table: TokenTable, codes: np.ndarray, m: int, engine: Engine, listener: Any) -> ChainTrainer:
    likelihood = ChainLikelihood(table, codes, m, engine)
    candidates = seen_features(table, codes, m, all_transitions=bool(chain.all_transitions))
    return ChainTrainer(likelihood, candidates, all_states=bool(chain.all_states), listener=listener)


def seen_features(table: TokenTable, codes: np.ndarray, n_labels: int, *, all_transitions: bool) -> ChainFeatures:
    """Return the pairs of attribute and label, and of label and next label, that occur in the data.

    A label that is not known may be any.
    """
    every = np.arange(n_labels)
    owner = np.repeat(codes, np.diff(table.tokens))
    known = owner >= 0
    keys = table.attributes[known].astype(np.int64) * n_labels + owner[known]
    states = [np.unique(keys)]
    if not known.all():
        open_attributes = np.unique(table.attributes[~known]).astype(np.int64)
        states.append((open_attributes[:, None] * n_labels + every).ravel())
    steps = np.arange(n_labels**2)
    if not all_transitions and (codes >= 0).all():
        inner = np.ones(max(len(codes) - 1, 0), dtype=bool)
        ends = table.offsets[1:-1] - 1
        inner[ends[(ends >= 0) & (ends < len(inner))]] = False
        steps = np.unique(codes[:-1][inner] * n_labels + codes[1:][inner])
    both = np.concatenate([np.unique(np.concatenate(states)), steps + table.n_attributes * n_labels])
    return features_of_keys(both, table.n_attributes, n_labels)


def _model(attributes: tuple[str, ...], classes: np.ndarray, fit: ChainFit, options: ChainOptions) -> ChainModel:
    record = ChainRecord(options.l1, options.l2, fit.objective, fit.kkt_violation, fit.converged, fit.n_iter)
    return ChainModel(attributes, classes, fit.features, fit.theta, record)
