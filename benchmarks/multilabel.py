"""This module labels texts with several labels each: a field against a classifier chain and single regressions."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, cast

import numpy as np
import scipy.sparse as sp
import typer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, hamming_loss
from sklearn.multioutput import ClassifierChain
from threadpoolctl import threadpool_limits

from benchmarks.command_line import Json, Row, Seed, print_rows
from benchmarks.labeled_texts import LabeledTexts, make_topics
from benchmarks.measure import Report
from sparsefield.app.cli.console import print_message
from sparsefield.errors import EstimateWarning
from sparsefield.estimators import CRFClassifier

__all__ = ["METHODS", "joint_log_likelihood", "run_multilabel"]

Array = np.ndarray[Any, np.dtype[Any]]
Matrix = Any
"""A sparse matrix of scipy, which has no precise types."""

SMALLEST = 1e-12
"""Probabilities below this count as this in log-likelihoods: those of regressions may be 0."""


L1 = (0.025, 0.05, 0.1, 0.2, 0.4)
"""Strengths of the L1 penalty that every method tries."""

MORE_L1 = tuple(0.7 * l1 for l1 in L1)
"""Further ones for the method without a second option, so that all methods choose among equally many settings."""


@dataclass(frozen=True)
class Model:
    """A fitted model."""

    predict: Mapping[str, Callable[[Matrix], Array]]
    """{how labels are decoded: function that returns (texts, labels)}"""
    log_likelihood: Callable[[LabeledTexts], float]
    """Returns the mean over texts of ln p(all labels | text)."""
    weights: int


@dataclass(frozen=True)
class Method:
    """A way to learn labels, and the settings among which validation texts choose."""

    title: str
    fit: Callable[..., Model]
    grid: Mapping[str, Sequence[float]]


def fit_field(train: LabeledTexts, *, l1: float, label_penalty: float) -> Model:
    """Return a conditional random field over all labels."""
    model = CRFClassifier(l1=l1, l2=0.0, label_penalty=label_penalty, n_jobs=1).fit(train.X, train.Y)
    return Model(
        {
            "jointly": lambda X: model.predict(X, decode="joint"),
            "one by one": model.predict,
        },
        lambda texts: joint_log_likelihood(model, texts),
        len(model.field_.weights),
    )


def fit_regressions(train: LabeledTexts, *, l1: float) -> Model:
    """Return one logistic regression per label."""
    models: list[Any] = [_regression(l1).fit(train.X, y) for y in train.Y.T]

    def probabilities(X: Matrix) -> Array:
        return np.column_stack([model.predict_proba(X)[:, 1] for model in models])

    def log_likelihood(texts: LabeledTexts) -> float:
        return _log_likelihood(probabilities(texts.X), texts.Y)

    weights = sum(int(np.count_nonzero(model.coef_)) for model in models)
    return Model({"one by one": lambda X: (probabilities(X) > 0.5).astype(int)}, log_likelihood, weights)


def fit_chain(train: LabeledTexts, *, l1: float, order: float) -> Model:
    """Return a chain of logistic regressions, each of which has the labels before it as inputs, in a random order."""
    chain: Any = ClassifierChain(_regression(l1), order="random", random_state=int(order)).fit(train.X, train.Y)

    def log_likelihood(texts: LabeledTexts) -> float:
        """By the chain rule, each label given the true ones before it."""
        found, order = np.empty(texts.Y.shape), list(chain.order_)
        for k, (label, model) in enumerate(zip(order, chain.estimators_, strict=True)):
            found[:, label] = model.predict_proba(sp.hstack([texts.X, texts.Y[:, order[:k]]]).tocsr())[:, 1]
        return _log_likelihood(found, texts.Y)

    weights = sum(int(np.count_nonzero(model.coef_)) for model in chain.estimators_)
    return Model({"greedily": lambda X: chain.predict(X).astype(int)}, log_likelihood, weights)


def _regression(l1: float) -> LogisticRegression:
    return LogisticRegression(l1_ratio=1.0, C=1.0 / l1, solver="liblinear", intercept_scaling=10, random_state=0)


def _log_likelihood(probabilities: Array, truth: Array) -> float:
    picked = np.where(truth == 1, probabilities, 1.0 - probabilities)
    return float(np.log(np.maximum(picked, SMALLEST)).sum(axis=1).mean())


METHODS = {
    "ours": Method("sparsefield", fit_field, {"l1": L1, "label_penalty": (20.0, 60.0)}),
    "regressions": Method("one regression per label", fit_regressions, {"l1": sorted({*L1, *MORE_L1})}),
    "chain": Method("ClassifierChain", fit_chain, {"l1": L1, "order": (0, 1)}),
}


def joint_log_likelihood(model: CRFClassifier, texts: LabeledTexts) -> float:
    """Return the mean over texts of ln p(all labels | text), exact by variable elimination."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", EstimateWarning)
        return float(model.log_likelihood(texts.X, texts.Y).mean())


def run_multilabel(
    texts: int = 2000,
    seed: int = 0,
    methods: Sequence[str] | None = None,
    report: Report = print,
    *,
    labels: int = 20,
    vocabulary: int = 5000,
) -> list[Row]:
    """Learn labels of texts, and predict those of others.

    Every method has the same texts, and chooses among ten settings on the same validation texts (half as many), by the
    log-likelihood of all labels of a text: five values of l1 with two penalties of label pairs (ours) or two random
    orders (the chain), and ten values of l1 (one regression per label). Test texts, as many as those of training, are
    labeled once.

    Parameters
    ----------
    texts : int
        Number of texts to learn from.
    seed : of the topics and of the texts
    methods : keys of `METHODS`; all when left out
    report : callable
        Gets a line of text whenever something is done.
    labels, vocabulary : numbers of labels and of words

    Returns
    -------
    list of dict
        One per method and way to decode: data, method, decoded, setting, subset_accuracy, hamming_loss, micro_f1,
        macro_f1, log_likelihood (per text), weights, fit_seconds and predict_seconds (by the clock, on one thread).
    """
    unknown = sorted(set(methods or ()) - set(METHODS))
    if unknown:
        raise ValueError(f"no such method: {', '.join(unknown)}; there are {', '.join(METHODS)}")
    parts = make_topics(labels, vocabulary, seed=seed).draw((texts, texts // 2, texts), seed + 1)
    name = f"{texts:,} texts, {labels} labels"
    report(f"{name}: {parts[0].Y.sum(axis=1).mean():.2f} labels per text, {parts[0].X.shape[1]:,} words")
    table: list[Row] = []
    for key in methods or METHODS:
        found = _rows(name, METHODS[key], parts)
        for row in found:
            decoded = f"{row['method']}, labels decoded {row['decoded']}"
            report(f"  {decoded}: subset accuracy {row['subset_accuracy']:.4f}, {row['setting']}")
        table += found
    return table


def _rows(name: str, method: Method, parts: Sequence[LabeledTexts]) -> list[Row]:
    train, validation, test = parts
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        method.fit(LabeledTexts(train.X[:200], train.Y[:200]), **{key: max(v) for key, v in method.grid.items()})
        tried = []
        for values in product(*method.grid.values()):
            setting = dict(zip(method.grid, values, strict=True))
            started = time.perf_counter()
            model = method.fit(train, **setting)
            seconds = time.perf_counter() - started
            tried.append((model.log_likelihood(validation), setting, model, seconds))
        _, setting, model, seconds = max(tried, key=lambda one: one[0])
        shared = {"data": name, "method": method.title, "setting": _describe(setting), "weights": model.weights}
        shared |= {"log_likelihood": model.log_likelihood(test), "fit_seconds": seconds}
        return [shared | {"decoded": how} | _score(predict, test) for how, predict in model.predict.items()]


def _describe(setting: Mapping[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in setting.items())


def _score(predict: Callable[[Matrix], Array], test: LabeledTexts) -> Row:
    started = time.perf_counter()
    found = predict(test.X)
    seconds = time.perf_counter() - started
    return {
        "subset_accuracy": float(accuracy_score(test.Y, found)),
        "hamming_loss": float(hamming_loss(test.Y, found)),
        "micro_f1": float(f1_score(test.Y, found, average="micro", zero_division=cast(Any, 0))),
        "macro_f1": float(f1_score(test.Y, found, average="macro", zero_division=cast(Any, 0))),
        "predict_seconds": seconds,
    }


SHOWN = (
    "method", "decoded", "subset_accuracy", "hamming_loss", "micro_f1", "macro_f1", "log_likelihood", "weights",
    "fit_seconds", "predict_seconds", "setting",
)  # fmt: skip

Texts = Annotated[int, typer.Option("--texts", min=200, help="Number of texts to learn from.")]
Labels = Annotated[int, typer.Option("--labels", min=2, help="Number of labels.")]
Methods = Annotated[
    list[str] | None, typer.Option("--method", help=f"One of {', '.join(METHODS)}; repeat for several.")
]
Short = Annotated[bool, typer.Option("--short", help="600 texts.")]


def command(
    texts: Texts = 2000,
    labels: Labels = 20,
    method: Methods = None,
    seed: Seed = 0,
    short: Short = False,
    as_json: Json = False,
) -> None:
    """Texts with several labels that depend on each other: a field, a classifier chain, and single regressions."""
    rows = run_multilabel(600 if short else texts, seed, method, print_message, labels=labels)
    print_rows(rows, SHOWN, as_json)
