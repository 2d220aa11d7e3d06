"""This module fits linear chains to words: ours and CRFsuite's, on the same attributes."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.sentences import FEATURES
from sparsefield.estimators import ChainCRF

__all__ = ["Model", "as_chains", "fit_chain", "fit_crfsuite"]

Array = np.ndarray[Any, np.dtype[Any]]

LEAST_PROBABILITY = 1e-300


@dataclass(frozen=True)
class Model:
    """A fitted model has ``label(frame)``, which returns a label per row."""

    label: Callable[[pl.DataFrame], Array]
    weights: int
    tag: Callable[[list[list[list[str]]]], Any] | None = None
    """Labels sequences of lists of attributes, for methods that take such."""
    log_likelihood: Callable[[pl.DataFrame], float] | None = None
    """Returns the log-likelihood of the labels of a frame, for models of whole sequences."""


def as_chains(frame: pl.DataFrame) -> Iterator[tuple[list[list[str]], list[str]]]:
    """Return the covariates of the words of each sentence in CRFsuite's format, and their labels."""
    for part in frame.partition_by("sentence", maintain_order=True):
        rows = part.select(FEATURES).iter_rows(named=True)
        yield [[f"{name}={value}" for name, value in row.items()] for row in rows], part["label"].to_list()


def fit_crfsuite(train: pl.DataFrame, c1: float, c2: float, *, all_states: bool = False) -> Model:
    """Fit CRFsuite's chain by L-BFGS on the exact likelihood; it is decoded exactly."""
    crfsuite: Any = import_module("pycrfsuite")  # compiled, without types, and not always there
    trainer = crfsuite.Trainer("lbfgs", verbose=False)
    options = {"feature.possible_transitions": True, "feature.possible_states": all_states}
    trainer.set_params({"c1": c1, "c2": c2, "max_iterations": 1000, **options})
    for words, labels in as_chains(train):
        trainer.append(words, labels)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "chain.crfsuite")
        trainer.train(path)
        tagger = crfsuite.Tagger()
        tagger.open(path)
    found = tagger.info()

    def label(frame: pl.DataFrame) -> Array:
        return np.array([label for words, _ in as_chains(frame) for label in tagger.tag(words)])

    def tag(sequences: list[list[list[str]]]) -> list[list[str]]:
        return [tagger.tag(words) for words in sequences]

    def log_likelihood(frame: pl.DataFrame) -> float:
        total = 0.0
        for words, labels in as_chains(frame):
            tagger.set(words)
            total += math.log(max(tagger.probability(labels), LEAST_PROBABILITY))
        return total

    return Model(label, len(found.state_features) + len(found.transitions), tag, log_likelihood)


def fit_chain(train: pl.DataFrame, l1: float, l2: float, **options: Any) -> Model:
    """Fit our linear chain by its exact likelihood, on the same attributes; it is decoded exactly."""
    words, labels = (list(part) for part in zip(*as_chains(train), strict=True))
    same = {"fit_intercept": False, "all_transitions": True}  # the model of CRFsuite
    chain = ChainCRF(l1=l1, l2=l2, n_jobs=1, **same, **options).fit(words, labels)

    def label(frame: pl.DataFrame) -> Array:
        return np.concatenate(chain.predict([words for words, _ in as_chains(frame)]))

    def log_likelihood(frame: pl.DataFrame) -> float:
        words, labels = (list(part) for part in zip(*as_chains(frame), strict=True))
        return float(chain.log_likelihood(words, labels).sum())

    return Model(label, chain.n_features_, chain.predict, log_likelihood)
