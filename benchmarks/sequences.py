"""This module labels words of sentences: a field over linked words against a chain CRF and regressions."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer
from threadpoolctl import threadpool_limits

from benchmarks import hyphenation
from benchmarks.command_line import Json, Seed, print_rows
from benchmarks.measure import Report, installed
from benchmarks.sentences import FEATURES, GRAMMARS, common_words, draw_sentences, make_frame
from sparsefield.cli.console import print_message
from sparsefield.data import NEIGHBOR_COUNT, OffsetLink, Relational, Template
from sparsefield.errors import UnknownStateWarning
from sparsefield.estimators import ChainCRF, RelationalField
from sparsefield.inference import MeanField

__all__ = ["METHODS", "describe", "link_words", "read_chain", "run_sequences", "score_labels", "viterbi"]

Array = np.ndarray[Any, np.dtype[Any]]
Row = dict[str, Any]

HYPHENATION = "hyphenation"
DATA = (*GRAMMARS, HYPHENATION)
RATE_SECONDS = 0.5
"""Labeling is repeated for so long, to measure its speed."""
DRAWS, SWEEPS = 15, 40
"""Gibbs chains whose last states vote, and how long each runs."""


@dataclass(frozen=True)
class Model:
    """A fitted model has ``label(frame)``, which returns a label per row."""

    label: Callable[[pl.DataFrame], Array]
    weights: int
    tag: Callable[[list[list[list[str]]]], Any] | None = None
    """Labels sequences of lists of attributes, for methods that take such."""


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


def run_sequences(
    data: Sequence[str] = ("tags", "references"),
    sentences: int = 400,
    seed: int = 0,
    methods: Sequence[str] | None = None,
    report: Report = print,
    *,
    validation_sentences: int = 200,
    test_sentences: int = 400,
    **ours: Any,
) -> list[Row]:
    """Learn from labeled sentences, then label sentences whose labels are all missing.

    Every method has the same features of each word, and may choose its penalties on the same validation sentences,
    by the share of words that it labels rightly there. Test sentences are labeled once, at that choice.

    Parameters
    ----------
    data : names of `GRAMMARS`, or "hyphenation", which needs pyphen and a list of words
    sentences, validation_sentences, test_sentences : int
    seed : of the grammar's words and of the sentences
    methods : keys of `METHODS`; all when left out
    report : callable
        Gets a line of text whenever something is done.
    **ours
        Options of our field, such as ``objective="cd"``.

    Returns
    -------
    list of dict
        One per data set and method: data, method, status ("done", or why not), setting, words_right and
        sentences_right (shares), seconds (of the processor, for one fit and the labeling at the chosen setting, on
        one thread), wall_seconds (the same by the clock), fit_seconds (of the processor, for the fit alone),
        sequences_per_second (labeled, for methods that take lists of attributes), weights (features that have one).
    """
    known = list(METHODS)
    unknown = sorted(set(methods or ()) - set(known)) + sorted(set(data) - set(DATA))
    if unknown:
        raise ValueError(f"no such name: {', '.join(unknown)}; there are {', '.join([*known, *DATA])}")
    table: list[Row] = []
    for name in data:
        if name == HYPHENATION and hyphenation.why_not():
            report(f"{name}: {hyphenation.why_not()}")
            continue
        counts = (sentences, validation_sentences, test_sentences)
        train, validation, test = _draw_parts(name, counts, seed)
        report(f"{name}: {sentences} sentences with {len(train):,} words; {test_sentences} with {len(test):,} to label")
        for key in methods or known:
            table.append(_row(name, METHODS[key], (train, validation, test), ours if key.startswith("ours") else {}))
            report(describe(table[-1]))
    return table


def describe(row: Row) -> str:
    """Return one row of :func:`run_sequences` as a line of text."""
    if row["status"] != "done":
        return f"  {row['method']}: {row['status']}"
    figures = f"{row['words_right']:.4f} of words, {row['sentences_right']:.4f} of sentences right"
    return f"  {row['method']}: {figures}, {row['seconds']:.2f} s, {row['weights']:,} weights, {row['setting']}"


def score_labels(found: Array, frame: pl.DataFrame) -> dict[str, float]:
    """Return the shares of words and of whole sentences that are labeled correctly."""
    right = frame.select("sentence", right=pl.Series(found) == pl.col("label"))
    whole = right.group_by("sentence").agg(pl.col("right").all())
    return {"words_right": _mean(right["right"]), "sentences_right": _mean(whole["right"])}


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
        l1=l1, l2=l2, penalize_biases=penalize_biases, inference=MeanField(tolerance=1e-3), n_jobs=1, **options
    ).fit(link_words(train))
    label = {"mean field": _by_belief, "bp": _by_propagation, "gibbs": _by_draws, "viterbi": _by_search}[decoding]
    return Model(partial(label, field), len(field.features_) + len(field.biases_))


def fit_crfsuite(train: pl.DataFrame, c1: float, c2: float) -> Model:
    """Fit CRFsuite's chain by L-BFGS on the exact likelihood; it is decoded exactly."""
    crfsuite: Any = import_module("pycrfsuite")  # compiled, without types, and not always there
    trainer = crfsuite.Trainer("lbfgs", verbose=False)
    trainer.set_params({"c1": c1, "c2": c2, "max_iterations": 1000, "feature.possible_transitions": True})
    for words, labels in _as_chains(train):
        trainer.append(words, labels)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "chain.crfsuite")
        trainer.train(path)
        tagger = crfsuite.Tagger()
        tagger.open(path)
    found = tagger.info()

    def label(frame: pl.DataFrame) -> Array:
        return np.array([label for words, _ in _as_chains(frame) for label in tagger.tag(words)])

    def tag(sequences: list[list[list[str]]]) -> list[list[str]]:
        return [tagger.tag(words) for words in sequences]

    return Model(label, len(found.state_features) + len(found.transitions), tag)


def fit_chain(train: pl.DataFrame, l1: float, l2: float, **options: Any) -> Model:
    """Fit our linear chain by its exact likelihood, on the same attributes; it is decoded exactly."""
    words, labels = (list(part) for part in zip(*_as_chains(train), strict=True))
    chain = ChainCRF(l1=l1, l2=l2, all_transitions=True, n_jobs=1, **options).fit(words, labels)

    def label(frame: pl.DataFrame) -> Array:
        return np.concatenate(chain.predict([words for words, _ in _as_chains(frame)]))

    return Model(label, chain.n_features_, chain.predict)


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
CHAIN_GRID = {"l1": (0.0, 0.1, 0.3), "l2": (0.06, 0.2, 0.6)}
"""The grid of CRFsuite: its c2 is half of our l2."""
METHODS: dict[str, Method] = {
    "regression": Method("logistic regression per word", fit_regression, {"C": (0.1, 0.3, 1.0, 3.0, 10.0)}),
    "ours": Method("sparsefield, mean field", partial(fit_ours, decoding="mean field"), OUR_GRID),
    "ours-bp": Method("sparsefield, belief propagation", partial(fit_ours, decoding="bp"), OUR_GRID),
    "ours-gibbs": Method("sparsefield, Gibbs draws", partial(fit_ours, decoding="gibbs"), OUR_GRID),
    "ours-viterbi": Method("sparsefield's weights, Viterbi", partial(fit_ours, decoding="viterbi"), OUR_GRID),
    "chain": Method("sparsefield, ChainCRF", fit_chain, CHAIN_GRID),
    "chain-all": Method("sparsefield, ChainCRF, all pairs", partial(fit_chain, all_states=True), CHAIN_GRID),
    "crfsuite": Method("CRFsuite", fit_crfsuite, {"c1": (0.0, 0.1, 0.3), "c2": (0.03, 0.1, 0.3)}, "pycrfsuite"),
}


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


NEXT, BEFORE = ("(next)", True), ("(before)", True)
"""Whether a word has a next one, and one before it."""


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


def _as_chains(frame: pl.DataFrame) -> Iterator[tuple[list[list[str]], list[str]]]:
    """Return the covariates of the words of each sentence in CRFsuite's format, and their labels."""
    for part in frame.partition_by("sentence", maintain_order=True):
        rows = part.select(FEATURES).iter_rows(named=True)
        yield [[f"{name}={value}" for name, value in row.items()] for row in rows], part["label"].to_list()


def _draw_parts(name: str, counts: Sequence[int], seed: int) -> list[pl.DataFrame]:
    if name == HYPHENATION:
        return hyphenation.hyphenated_parts(counts, seed)
    drawn = draw_sentences(GRAMMARS[name], sum(counts), seed=seed)
    known = common_words(drawn[: counts[0]])
    ends = np.cumsum(counts)
    return [make_frame(drawn[end - count : end], known) for end, count in zip(ends, counts, strict=True)]


def _row(name: str, method: Method, parts: Sequence[pl.DataFrame], options: Mapping[str, Any]) -> Row:
    row: Row = {"data": name, "method": method.title, "status": "", "setting": ""}
    row |= dict.fromkeys(["words_right", "sentences_right", "seconds", "wall_seconds", "fit_seconds"])
    row |= dict.fromkeys(["sequences_per_second", "weights"])
    if not installed(method.module):
        return row | {"status": f"not installed: {method.module}"}
    train, validation, test = parts
    with threadpool_limits(limits=1):
        scores = []
        for setting in method.settings():
            found = method.fit(train, **setting, **options).label(validation)
            scores.append((score_labels(found, validation)["words_right"], setting))
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
    return row | score_labels(found, test) | {"weights": model.weights, "status": "done"}


def _labeling_rate(model: Model, frame: pl.DataFrame) -> float | None:
    """Return how many sequences are labeled in a second of the processor, from lists of attributes to labels."""
    if model.tag is None:
        return None
    sequences, count, start = [words for words, _ in _as_chains(frame)], 0, time.process_time()
    while time.process_time() - start < RATE_SECONDS:
        model.tag(sequences)
        count += len(sequences)
    return count / (time.process_time() - start)


def _mean(column: pl.Series) -> float:
    return float(column.to_numpy().mean())


FIGURES = ("data", "method", "words_right", "sentences_right", "weights", "fit_seconds", "seconds", "wall_seconds")
FIGURES += ("sequences_per_second", "setting")


def command(
    data: Annotated[
        list[str] | None, typer.Option("--data", help="tags, references, hyphenation; by default the first two.")
    ] = None,
    sentences: Annotated[int, typer.Option("--sentences", min=20, help="Sentences to learn from.")] = 400,
    method: Annotated[list[str] | None, typer.Option("--method", help="Only these methods.")] = None,
    objective: Annotated[str, typer.Option("--objective", help="Objective of our field: pl or cd.")] = "pl",
    penalize_biases: Annotated[bool, typer.Option("--penalize-biases", help="Penalize our biases.")] = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Label the words of sentences: a field over linked words beside CRFsuite and a regression per word."""
    ours = {"objective": objective, "penalize_biases": penalize_biases}
    names = tuple(data or ("tags", "references"))
    found = run_sequences(names, sentences, seed, methods=method, report=print_message, **ours)
    print_rows(found, FIGURES, as_json)
