"""This module labels words by a field over linked words; labels are inferred in several ways."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from benchmarks.chain_peers import Array, Model
from benchmarks.sentences import FEATURES
from sparsefield.data import NEIGHBOR_COUNT, OffsetLink, Relational, Template
from sparsefield.errors import UnknownStateWarning
from sparsefield.estimators import RelationalField
from sparsefield.inference import MeanField
from sparsefield.solver import Features

__all__ = ["fit_ours", "link_words", "read_chain", "viterbi"]

DRAWS, SWEEPS = 15, 40
"""Gibbs chains whose last states vote, and how long each runs."""

NEXT, BEFORE = ("(next)", True), ("(before)", True)
"""Whether a word has a next one, and one before it."""


def link_words(frame: pl.DataFrame) -> Relational:
    """Link each word to the next of its sentence; features pair a label with a covariate, or with the next label."""
    return Relational(
        {"word": frame},
        links={"next": OffsetLink("word", within=("sentence",))},
        observed={"word": FEATURES},
        templates=["within word", Template("across", ("next",), left=("label",), right=("label",))],
    )


def fit_ours(
    train: pl.DataFrame, l1: float, l2: float, *, decoding: str, penalize_biases: bool = False, **options: Any
) -> Model:
    """Fit a field; labels are inferred by mean field, belief propagation, Gibbs samples or an exact search.

    Belief propagation is exact on a chain; the exact search uses the learned weights."""
    field = RelationalField(
        l1=l1,
        l2=l2,
        features=Features(penalize_biases=penalize_biases),
        inference=MeanField(tolerance=1e-3),
        n_jobs=1,
        **options,
    ).fit(link_words(train))
    label = {"mean field": _by_belief, "bp": _by_propagation, "gibbs": _by_draws, "viterbi": _by_search}[decoding]
    return Model(partial(label, field), len(field.features_) + len(field.biases_))


def read_chain(field: RelationalField) -> tuple[Array, dict[tuple[str, Any], Array], Array]:
    """Return the weights of a chain: (labels,), (labels,) per value of a feature, and (labels, next labels)."""
    place = {state: k for k, state in enumerate(field.states_["word"]["label"])}
    bias, steps = np.zeros(len(place)), np.zeros((len(place), len(place)))
    known: dict[tuple[str, Any], Array] = {}
    for one in field.biases_.filter(pl.col("variable") == "label").iter_rows(named=True):
        bias[place[one["state"]]] = one["weight"]
    for one in field.features_.iter_rows(named=True):
        a, b = (one["variable_a"], one["state_a"]), (one["variable_b"], one["state_b"])
        if a[0] == b[0]:
            steps[place[a[1]], place[b[1]]] = one["weight"]
        else:
            label, value = (a, b) if a[0] == "label" else (b, a)
            if (
                value[0] == NEIGHBOR_COUNT
            ):  # the number of next words (0 or 1) stands at the right, of words before at the left
                value = NEXT if value is b else BEFORE
            known.setdefault(value, np.zeros(len(place)))[place[label[1]]] = one["weight"]
    return bias, known, steps


def viterbi(logits: Array, steps: Array) -> list[int]:
    """Return the most probable chain.

    Examples
    --------
    >>> viterbi(np.array([[0.0, 1.0], [0.0, 0.0], [2.0, 0.0]]), np.array([[1.5, 0.0], [0.0, 1.5]]))
    [0, 0, 0]
    """
    best, came = logits[0], []
    for here in logits[1:]:
        paths = best[:, None] + steps
        came.append(paths.argmax(axis=0))
        best = paths.max(axis=0) + here
    chain = [int(best.argmax())]
    for back in reversed(came):
        chain.append(int(back[chain[-1]]))
    return chain[::-1]


def _by_belief(field: RelationalField, frame: pl.DataFrame) -> Array:
    beliefs = _quietly(field.predict_proba, _without_labels(frame))["word"]["label"]
    return np.array(field.states_["word"]["label"])[beliefs.argmax(axis=1)]


def _by_propagation(field: RelationalField, frame: pl.DataFrame) -> Array:
    return _by_belief(field.set_params(inference="bp"), frame)


def _by_draws(field: RelationalField, frame: pl.DataFrame) -> Array:
    asked, labels = _without_labels(frame), np.array(field.states_["word"]["label"])
    votes = np.zeros((len(frame), len(labels)))
    for seed in range(DRAWS):
        drawn = _quietly(field.sample, asked, sweeps=SWEEPS, random_state=seed).tables["word"]["label"].to_numpy()
        votes += drawn[:, None] == labels
    return labels[votes.argmax(axis=1)]


def _by_search(field: RelationalField, frame: pl.DataFrame) -> Array:
    labels, (bias, known, steps) = np.array(field.states_["word"]["label"]), read_chain(field)
    nothing = np.zeros(len(labels))
    found = []
    for part in frame.partition_by("sentence", maintain_order=True):
        rows = part.select(FEATURES).iter_rows(named=True)
        logits = [bias + sum((known.get(value, nothing) for value in row.items()), nothing) for row in rows]
        for k in range(len(logits) - 1):
            logits[k] = logits[k] + known.get(NEXT, nothing)
            logits[k + 1] = logits[k + 1] + known.get(BEFORE, nothing)
        found.append(labels[viterbi(np.array(logits), steps)])
    return np.concatenate(found)


def _without_labels(frame: pl.DataFrame) -> Relational:
    return link_words(frame.with_columns(label=pl.lit(None, dtype=pl.String)))


def _quietly(ask: Callable[..., Any], *args: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownStateWarning)  # a new suffix or shape: nobody has a weight for it
        return ask(*args, **options)
