"""This module turns the parameters of a `ChainCRF` and its data into a fitted chain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sparsefield.chain.features import ChainFeatures, features_of_keys
from sparsefield.chain.inference import log_likelihoods
from sparsefield.chain.likelihood import ChainLikelihood
from sparsefield.chain.model import ChainModel, ChainRecord
from sparsefield.chain.reading import ReadSequences
from sparsefield.chain.selection import ChainPathPoint, ChainSelection, select_penalties, split_sequences
from sparsefield.chain.training import ChainFit, ChainOptions, ChainTrainer
from sparsefield.compute.block_collection import Engine
from sparsefield.data.token_table import TokenTable
from sparsefield.errors import DataError

MOST_CANDIDATES = 2 * 10**8
"""Weights that fit into memory, without l1."""


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
