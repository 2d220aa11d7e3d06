"""This module labels words of sentences: our linear chain and our field beside CRFsuite and regressions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer
from threadpoolctl import threadpool_limits

from benchmarks import hyphenation
from benchmarks.chain_peers import Array, Model, as_chains, fit_chain, fit_crfsuite
from benchmarks.command_line import Json, Seed, print_rows
from benchmarks.linked_words import fit_ours
from benchmarks.measure import Report, installed
from benchmarks.sentences import FEATURES, GRAMMARS, common_words, draw_sentences, make_frame
from sparsefield.app.cli.console import print_message, show

__all__ = ["METHODS", "describe", "paired_difference", "run_sequences", "score_labels", "summarize"]

Row = dict[str, Any]

HYPHENATION = "hyphenation"
DATA = (*GRAMMARS, HYPHENATION)
RATE_SECONDS = 0.5
"""Labeling is repeated for so long, to measure its speed."""
REFERENCE = "crfsuite"
"""The method that others are compared with."""


@dataclass(frozen=True)
class Method:
    """A method labels words.

    Attributes
    ----------
    title : str
    fit : callable
        ``fit(train, **setting)`` gives a `Model`.
    grid : {name: values}
        What is chosen on validation sentences, among all combinations.
    module : str
        What must be installed.
    """

    title: str
    fit: Callable[..., Model]
    grid: Mapping[str, Sequence[float]]
    module: str = "sparsefield"

    def settings(self) -> Iterator[dict[str, float]]:
        for values in product(*self.grid.values()):
            yield dict(zip(self.grid, values, strict=True))


def fit_regression(train: pl.DataFrame, C: float) -> Model:
    """Fit scikit-learn's logistic regression of a word's label on the word's covariates."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    model: Any = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression(C=C, max_iter=2000))
    model.fit(train.select(FEATURES).to_numpy(), train["label"].to_numpy())
    weights = int(np.count_nonzero(model[-1].coef_))
    return Model(lambda frame: model.predict(frame.select(FEATURES).to_numpy()), weights)


OUR_GRID = {"l1": (0.03, 0.1, 0.3), "l2": (1.0, 3.0, 10.0)}
CHAIN_GRID = {"l1": (0.0, 0.1, 0.3, 1.0), "l2": (0.06, 0.2, 0.6, 2.0)}
CRFSUITE_GRID = {"c1": CHAIN_GRID["l1"], "c2": tuple(l2 / 2 for l2 in CHAIN_GRID["l2"])}
"""The same penalties: CRFsuite's c2 is half of our l2."""
CHAINS = ("chain", "chain-all", "crfsuite", "crfsuite-all")
METHODS: dict[str, Method] = {
    "regression": Method("logistic regression per word", fit_regression, {"C": (0.1, 0.3, 1.0, 3.0, 10.0)}),
    "ours": Method("sparsefield, mean field", partial(fit_ours, decoding="mean field"), OUR_GRID),
    "ours-bp": Method("sparsefield, belief propagation", partial(fit_ours, decoding="bp"), OUR_GRID),
    "ours-gibbs": Method("sparsefield, Gibbs draws", partial(fit_ours, decoding="gibbs"), OUR_GRID),
    "ours-viterbi": Method("sparsefield's weights, Viterbi", partial(fit_ours, decoding="viterbi"), OUR_GRID),
    "chain": Method("ChainCRF", fit_chain, CHAIN_GRID),
    "chain-all": Method("ChainCRF, all pairs", partial(fit_chain, all_states=True), CHAIN_GRID),
    "crfsuite": Method("CRFsuite", fit_crfsuite, CRFSUITE_GRID, "pycrfsuite"),
    "crfsuite-all": Method("CRFsuite, all pairs", partial(fit_crfsuite, all_states=True), CRFSUITE_GRID, "pycrfsuite"),
}


def run_sequences(
    data: Sequence[str] = ("tags", "references"),
    sentences: int = 400,
    seed: int = 0,
    methods: Sequence[str] | None = None,
    report: Report = print,
    *,
    seeds: int = 1,
    by_accuracy: bool = False,
    validation_sentences: int = 200,
    test_sentences: int = 400,
    **ours: Any,
) -> list[Row]:
    """Learn from labeled sentences, then label sentences whose labels are all missing.

    Every method has the same features of each word, and may choose its penalties on the same validation sentences:
    linear chains by the log-likelihood of the labels there, others by the share of words that they label rightly. Test
    sentences are labeled once, at that choice.

    Parameters
    ----------
    data : names of `GRAMMARS`, or "hyphenation", which needs pyphen and a list of words
    sentences, validation_sentences, test_sentences : int
    seed : of the grammar's words and of the sentences
    methods : keys of `METHODS`; all when left out
    report : callable
        Gets a line of text whenever something is done.
    seeds : int
        Number of seeds, from ``seed`` on.
    by_accuracy : bool
        Whether linear chains, too, choose their penalties by the share of words.
    **ours
        Options of our field, such as ``objective="cd"``.

    Returns
    -------
    list of dict
        One per data set, seed and method: data, seed, method, status ("done", or why not), setting, words_right and
        sentences_right (shares), difference (in words_right from CRFsuite) and its standard_error, seconds (of the
        processor, for one fit and the labeling at the chosen setting, on one thread), wall_seconds (the same by the
        clock), fit_seconds (of the processor, for the fit alone), sequences_per_second (labeled in a second of the
        processor, for methods that take lists of attributes), weights (features that have one), and right (of each
        test sentence, the number of words that are labeled right, and the number of words).
    """
    known = list(METHODS)
    unknown = sorted(set(methods or ()) - set(known)) + sorted(set(data) - set(DATA))
    if unknown:
        raise ValueError(f"no such name: {', '.join(unknown)}; there are {', '.join([*known, *DATA])}")
    table: list[Row] = []
    for name, one_seed in product(data, range(seed, seed + seeds)):
        if name == HYPHENATION and hyphenation.why_not():
            report(f"{name}: {hyphenation.why_not()}")
            break
        counts = (sentences, validation_sentences, test_sentences)
        train, validation, test = _draw_parts(name, counts, one_seed)
        report(f"{name}: {sentences} sentences with {len(train):,} words; {test_sentences} with {len(test):,} to label")
        found = {}
        for key in methods or known:
            options = ours if key.startswith("ours") else {}
            row: Row = {"data": name, "seed": one_seed, "method": METHODS[key].title}
            found[key] = row | _run_method(METHODS[key], (train, validation, test), options, by_accuracy)
            report(describe(found[key]))
        table += _with_differences(found)
    return table


def describe(row: Row) -> str:
    """Return one row of :func:`run_sequences` as a line of text."""
    if row["status"] != "done":
        return f"  {row['method']}: {row['status']}"
    figures = f"{row['words_right']:.4f} of words, {row['sentences_right']:.4f} of sentences right"
    return f"  {row['method']}: {figures}, {row['seconds']:.2f} s, {row['weights']:,} weights, {row['setting']}"


def score_labels(found: Array, frame: pl.DataFrame) -> dict[str, float]:
    """Return the shares of words and of whole sentences that are labeled correctly."""
    right = np.array(_right_words(found, frame))
    return {
        "words_right": float(right[:, 0].sum() / right[:, 1].sum()),
        "sentences_right": float((right[:, 0] == right[:, 1]).mean()),
    }


def _right_words(found: Array, frame: pl.DataFrame) -> list[tuple[int, int]]:
    """Return the number of words that are labeled right, and of words, for each sentence."""
    right = frame.select("sentence", right=pl.Series(found) == pl.col("label"))
    return (
        right.group_by("sentence", maintain_order=True)
        .agg(pl.col("right").sum(), n=pl.len())
        .select("right", "n")
        .rows()
    )


def paired_difference(right: Sequence[Sequence[int]], reference: Sequence[Sequence[int]]) -> tuple[float, float]:
    """Return the difference of two shares of words labeled right, and its standard error over sentences.

    Both have a row per sentence: words labeled right, and words. The difference is a ratio of sums over sentences, and
    its standard error that of a ratio estimator.

    Examples
    --------
    >>> paired_difference([(3, 4), (2, 2)], [(2, 4), (2, 2)])
    (0.16666666666666666, 0.11111111111111112)
    """
    ours, theirs = np.array(right, dtype=float), np.array(reference, dtype=float)
    gains, words = ours[:, 0] - theirs[:, 0], ours[:, 1]
    difference = gains.sum() / words.sum()
    n = len(words)
    spread = np.sqrt(n / max(n - 1, 1) * np.square(gains - difference * words).sum())
    return float(difference), float(spread / words.sum())


def summarize(rows: Sequence[Row]) -> list[Row]:
    """Return the means of all seeds for each data set and method, with differences over the sentences of all seeds."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row["status"] == "done":
            found.setdefault((row["data"], row["method"]), []).append(row)
    table = []
    for (data, method), own in found.items():
        means = {name: float(np.mean([row[name] for row in own])) for name in MEANS if own[0][name] is not None}
        row = {"data": data, "method": method, "seeds": len(own), **means}
        reference = found.get((data, METHODS[REFERENCE].title), [])
        if len(reference) == len(own) and reference[0] is not own[0]:
            pooled = ([one for row in part for one in row["right"]] for part in (own, reference))
            row["difference"], row["standard_error"] = paired_difference(*pooled)
        table.append(row)
    return table


def _with_differences(found: Mapping[str, Row]) -> list[Row]:
    """Return rows of one data set with their differences from CRFsuite."""
    reference = found.get(REFERENCE, {"status": ""})
    for key, row in found.items():
        if key != REFERENCE and row["status"] == reference["status"] == "done":
            row["difference"], row["standard_error"] = paired_difference(row["right"], reference["right"])
    return list(found.values())


def _draw_parts(name: str, counts: Sequence[int], seed: int) -> list[pl.DataFrame]:
    if name == HYPHENATION:
        return hyphenation.hyphenated_parts(counts, seed)
    drawn = draw_sentences(GRAMMARS[name], sum(counts), seed=seed)
    known = common_words(drawn[: counts[0]])
    ends = np.cumsum(counts)
    return [make_frame(drawn[end - count : end], known) for end, count in zip(ends, counts, strict=True)]


def _run_method(method: Method, parts: Sequence[pl.DataFrame], options: Mapping[str, Any], by_accuracy: bool) -> Row:
    row: Row = {"status": "", "setting": "", "difference": None, "standard_error": None, "right": None}
    row |= dict.fromkeys([*MEANS, "wall_seconds"])
    if not installed(method.module):
        return row | {"status": f"not installed: {method.module}"}
    train, validation, test = parts
    with threadpool_limits(limits=1):
        scores = [
            (_validate(method.fit(train, **setting, **options), validation, by_accuracy), setting)
            for setting in method.settings()
        ]
        best = max(scores, key=lambda score: score[0])[1]  # the first of equals
        wall = time.perf_counter()
        start = time.process_time()  # on one thread, so that other work on the machine does not count
        model = method.fit(train, **best, **options)
        row["fit_seconds"] = time.process_time() - start
        found = model.label(test)
        row["seconds"] = time.process_time() - start
        row["wall_seconds"] = time.perf_counter() - wall
        row["sequences_per_second"] = _labeling_rate(model, test)
    row["setting"] = ", ".join(f"{key} {value:g}" for key, value in best.items())
    row["right"] = _right_words(found, test)
    return row | score_labels(found, test) | {"weights": model.weights, "status": "done"}


def _validate(model: Model, validation: pl.DataFrame, by_accuracy: bool) -> float:
    if model.log_likelihood is None or by_accuracy:
        return score_labels(model.label(validation), validation)["words_right"]
    return model.log_likelihood(validation)


def _labeling_rate(model: Model, frame: pl.DataFrame) -> float | None:
    """Return how many sequences are labeled in a second of the processor, from lists of attributes to labels."""
    if model.tag is None:
        return None
    sequences, count, start = [words for words, _ in as_chains(frame)], 0, time.process_time()
    while time.process_time() - start < RATE_SECONDS:
        model.tag(sequences)
        count += len(sequences)
    return count / (time.process_time() - start)


MEANS = ("words_right", "sentences_right", "weights", "fit_seconds", "seconds", "sequences_per_second")
FIGURES = ("data", "seed", "method", "words_right", "difference", "standard_error", "sentences_right", "weights")
FIGURES += ("fit_seconds", "sequences_per_second")
SUMMARY = tuple(name for name in FIGURES if name != "seed")

Sentences = Annotated[int, typer.Option("--sentences", min=20, help="Sentences to learn from.")]
Methods = Annotated[list[str] | None, typer.Option("--method", help="Only these methods.")]
Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Number of seeds, from --seed on.")]
ByAccuracy = Annotated[
    bool, typer.Option("--by-accuracy", help="Choose penalties of chains by words labeled right, not by likelihood.")
]


def print_comparison(rows: list[Row], as_json: bool) -> None:
    """Print the rows of all seeds, and their means if there are several."""
    print_rows([{name: row[name] for name in row if name != "right"} for row in rows], FIGURES, as_json)
    if not as_json and len({row["seed"] for row in rows}) > 1:
        show("\nMeans of the seeds; differences and standard errors are over the sentences of all seeds:")
        print_rows(summarize(rows), SUMMARY)


def command(
    data: Annotated[
        list[str] | None, typer.Option("--data", help="tags, references, hyphenation; by default the first two.")
    ] = None,
    sentences: Sentences = 400,
    method: Methods = None,
    objective: Annotated[str, typer.Option("--objective", help="Objective of our field: pl or cd.")] = "pl",
    penalize_biases: Annotated[bool, typer.Option("--penalize-biases", help="Penalize our biases.")] = False,
    by_accuracy: ByAccuracy = False,
    seed: Seed = 0,
    seeds: Seeds = 1,
    as_json: Json = False,
) -> None:
    """Label the words of sentences: a linear chain and a field beside CRFsuite and a regression per word.

    Differences in words labeled right are from CRFsuite, with standard errors over the same test sentences. Seconds are
    of the processor, on one thread; --json also has those of the clock, and the chosen penalties.
    """
    ours = {"objective": objective, "penalize_biases": penalize_biases}
    names = tuple(data or ("tags", "references"))
    found = run_sequences(names, sentences, seed, method, print_message, seeds=seeds, by_accuracy=by_accuracy, **ours)
    print_comparison(found, as_json)


def hyphenation_command(
    sentences: Annotated[int, typer.Option("--words", min=20, help="Words to learn from.")] = 2000,
    method: Methods = None,
    by_accuracy: ByAccuracy = False,
    seed: Seed = 0,
    seeds: Seeds = 1,
    as_json: Json = False,
) -> None:
    """Hyphenate words of a dictionary: the letters are labeled by linear chains, ours and CRFsuite's.

    Words and sentences of the columns are letters and words here. Labels are those of the package pyphen, and words
    those of /usr/share/dict (Debian: wamerican); without them, nothing is done.
    """
    found = run_sequences(
        (HYPHENATION,), sentences, seed, method or CHAINS, print_message, seeds=seeds, by_accuracy=by_accuracy
    )
    if found:
        print_comparison(found, as_json)
