"""This module uses saved chains at the command line: labels of sequences, their scores, and what a chain holds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.app.cli.chain_data import TokenFile, describe_tokens, read_known_labels, read_tokens_of_model
from sparsefield.app.cli.chain_fit import LabeledSequences, attributes_of_model
from sparsefield.app.cli.chain_results import (
    LabelingScores,
    chain_content,
    describe_chain_convergence,
    describe_chain_size,
    describe_names,
    score_labelings,
    show_chain_features,
    show_scores,
)
from sparsefield.app.cli.console import StatusLine, note, show, show_json
from sparsefield.app.cli.model_input import check_inputs
from sparsefield.app.cli.table_files import check_output, check_table_output, show_written
from sparsefield.app.pages.fit_summary import count
from sparsefield.app.tables.output_paths import refuse_overwriting_inputs
from sparsefield.app.tables.read_options import ReadOptions
from sparsefield.app.tables.write import STANDARD_OUTPUT, write_table
from sparsefield.errors import DataError, ModelFileError

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

    from sparsefield import ChainCRF
    from sparsefield.chain.source import ChainSource


def label_file(model: Path, data: Path, output: Path, reading: ReadOptions, *, proba: bool, jobs: int | None) -> None:
    """Write a file of sequences with the labels of a chain, or a table of the probabilities of all labels."""
    source = _source_of(model)
    if proba or source.sequence is not None or output == STANDARD_OUTPUT:
        check_table_output(output)
    else:
        check_output(output)
    refuse_overwriting_inputs([output], [data, model])
    check_inputs((data,))
    tokens = read_tokens_of_model(data, reading, source)
    X = attributes_of_model(tokens, source)
    fitted = _load(model, jobs)
    with StatusLine(f"Labeling {describe_tokens(tokens)}"):
        if proba:
            write_table(_probability_table(fitted, X), output)
        else:
            _write_labels(fitted.predict(X), tokens, source, output)
    show_written(f"Labels of {describe_tokens(tokens)}", output)


def _write_labels(labels: Any, tokens: TokenFile, source: ChainSource, output: Path) -> None:
    if source.label in tokens.columns:
        pairs = zip(chain.from_iterable(tokens.cells(source.label)), chain.from_iterable(labels), strict=True)
        same = [before == label for before, label in pairs if before is not None]
        if same:
            note(
                f"The labels of the column {source.label!r} are replaced; {sum(same):,} of "
                f"{count(len(same), 'token')} have the same label as before."
            )
    tokens.write_labels(labels, source.label, output)


def _probability_table(fitted: ChainCRF, X: Any) -> pl.DataFrame:
    """Return a row per token and label: sequence and token, counted from 1, label and probability."""
    import numpy as np
    import polars as pl

    marginals, classes = fitted.predict_marginals(X), fitted.classes_.tolist()
    lengths = [len(one) for one in marginals]
    places = np.concatenate([np.arange(1, n + 1) for n in lengths])
    return pl.DataFrame(
        {
            "sequence": np.repeat(np.repeat(np.arange(1, len(lengths) + 1), lengths), len(classes)),
            "token": np.repeat(places, len(classes)),
            "label": classes * sum(lengths),
            "probability": np.concatenate(marginals).ravel(),
        }
    )


def evaluate_saved_chain(model: Path, data: Path, reading: ReadOptions, *, jobs: int | None, as_json: bool) -> None:
    """Print how well a saved chain labels the sequences of a file."""
    source = _source_of(model)
    check_inputs((data,))
    tokens = read_tokens_of_model(data, reading, source)
    truth = read_known_labels(tokens, source.label, "are compared")
    with StatusLine(f"Labeling {describe_tokens(tokens)}"):
        scores = score_labelings(truth, _load(model, jobs).predict(attributes_of_model(tokens, source)))
    if as_json:
        show_json({"model": str(model), "data": str(data), **scores.as_dict()})
    else:
        show_scores(scores)


def cross_validate_chain(
    make: Callable[[], ChainCRF], data: LabeledSequences, folds: int, seed: int
) -> tuple[LabelingScores, list[LabelingScores]]:
    """Return the scores of all sequences, each labeled by a chain fitted without it, and those of each fold."""
    import numpy as np

    n = len(data.X)
    fold_of = _divide_into_folds(data.labeled, folds, seed)
    found: list[Any] = [None] * n
    parts: list[LabelingScores] = []
    with StatusLine(f"{folds} folds of {count(n, 'sequence')}") as watch:
        for fold in range(folds):
            held = np.flatnonzero(fold_of == fold).tolist()
            X, y = data.select(np.flatnonzero(fold_of != fold).tolist())
            answers = make().fit(X, y).predict([data.X[s] for s in held])
            for s, answer in zip(held, answers, strict=True):
                found[s] = answer
            parts.append(score_labelings([data.y[s] for s in held], answers))
            watch.update(f"{fold + 1} done")
    return score_labelings(data.y, found), parts


def _divide_into_folds(labeled: list[bool], folds: int, seed: int) -> np.ndarray:
    """Return the fold of each sequence; each fold has sequences with a known label, and so have the others together."""
    import numpy as np

    n_labeled = sum(labeled)
    if folds > n_labeled:
        found = f"is {n_labeled}" if n_labeled == 1 else f"are {n_labeled}"
        remedy = "label more" if n_labeled < 2 else "give fewer folds"
        raise DataError(
            f"--folds {folds} needs as many sequences with a known label, and there {found} among "
            f"{count(len(labeled), 'sequence')}: {remedy}."
        )
    shuffled = np.random.default_rng(seed).permutation(len(labeled))
    order = np.lexsort((shuffled, ~np.array(labeled)))
    fold_of = np.empty(len(labeled), dtype=np.int64)
    fold_of[order] = np.arange(len(labeled)) % folds
    return fold_of


def show_chain_info(path: Path, features: int, *, as_json: bool) -> None:
    """Summarize a saved chain."""
    from sparsefield.chain.model_file import load_chain

    model, extra = load_chain(path)
    options = dict(extra.get("params", {}))
    if as_json:
        show_json({"model": str(path), **chain_content(model, options)})
        return
    record, source = model.record, model.record.source
    show(f"{path}: ChainCRF, a linear chain")
    where = f" of {source.file}" if source is not None else ""
    show(
        f"Learned from {count(record.n_sequences, 'sequence')} with {count(record.n_tokens, 'token')}{where}, in "
        f"{count(record.n_iter, 'iteration')}."
    )
    show(f"Labels: {describe_names(model.classes.tolist())}.")
    show(f"Features: {describe_chain_size(model)}.")
    if source is not None:
        show(_describe_source(source))
    show(f"Penalties: l1 = {record.l1:g}, l2 = {record.l2:g}.")
    show(describe_chain_convergence(model, float(options.get("kkt_tol", 0.01))))
    if features:
        show()
    show_chain_features(model, features)


def _describe_source(source: ChainSource) -> str:
    what = f"a table, with sequences by {source.sequence}" if source.sequence else "a CoNLL file"
    names = f"; columns: {', '.join(source.columns)}" if source.columns else ""
    return f"Read as {what}{names}; labels: {source.label}; attributes: {describe_names(source.templates)}."


def _source_of(model: Path) -> ChainSource:
    from sparsefield.chain.model_file import load_chain

    source = load_chain(model)[0].record.source
    if source is None:
        raise ModelFileError(
            f"{model}: this chain was fitted in Python, and does not say how to read files: use ChainCRF.predict there."
        )
    return source


def _load(model: Path, jobs: int | None) -> ChainCRF:
    from sparsefield import load

    return load(model).set_params(n_jobs=jobs)
