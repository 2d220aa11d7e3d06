"""This module fits linear chains for ``sparsefield fit --chain``."""

from __future__ import annotations

import time
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.app.cli.chain_data import (
    Labels,
    TokenFile,
    describe_tokens,
    find_inputs,
    find_label,
    read_known_labels,
    read_tokens,
)
from sparsefield.app.cli.chain_results import LabelingScores, score_labelings, show_chain_fit, show_chain_fit_as_json
from sparsefield.app.cli.console import StatusLine, inform, note, show
from sparsefield.app.tables.read_options import ReadOptions
from sparsefield.parameters import CHECKED_SHARE
from sparsefield.text import count

if TYPE_CHECKING:
    from sparsefield import ChainCRF
    from sparsefield.app.cli.chain_options import SequenceOptions
    from sparsefield.app.cli.input_data import ColumnOptions
    from sparsefield.chain.source import ChainSource
    from sparsefield.chain.training import ChainProgress

Attributes = list[list[dict[str, Any]]]


@dataclass(frozen=True)
class LabeledSequences:
    """Sequences as `ChainCRF` takes them, and how they were read."""

    X: Attributes
    y: Labels
    source: ChainSource

    @property
    def labeled(self) -> list[bool]:
        """Whether each sequence has a known label."""
        return [any(label is not None for label in one) for one in self.y]

    def select(self, chosen: Any) -> tuple[Attributes, Labels]:
        """Return some sequences and their labels."""
        return [self.X[s] for s in chosen], [self.y[s] for s in chosen]


def read_sequences_to_learn(
    data: Path, reading: ReadOptions, options: SequenceOptions, columns: ColumnOptions
) -> LabeledSequences:
    """Read sequences and their labels, with the attributes that the options ask for."""
    from sparsefield.app.cli.table_files import find_columns
    from sparsefield.chain.source import ChainSource

    tokens = read_tokens(data, reading, options)
    label = find_label(tokens, options)
    inputs = find_inputs(tokens, label, columns)
    text_columns = find_columns(columns.nominal, tokens.columns, "--nominal")
    templates = _templates(options, inputs)
    labels = read_known_labels(tokens, label, "a chain learns")
    numeric = tuple(name for name in tokens.numeric(inputs) if name not in text_columns)
    inform(f"{data.name}: {describe_tokens(tokens)}; inputs: {', '.join(inputs)}; labels: {label}.")
    source = ChainSource(
        str(data),
        label,
        columns=() if options.sequence is not None else tokens.columns,
        sequence=options.sequence,
        templates=templates,
        numeric=numeric,
        missing=(*reading.missing_only, *reading.missing),
        separator=reading.separator,
        encoding=reading.encoding,
    )
    return LabeledSequences(attributes_of_model(tokens, source), labels, source)


def _templates(options: SequenceOptions, inputs: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the templates that the options ask for, and refuse mistakes in them."""
    from sparsefield.app.cli.table_files import find_columns
    from sparsefield.chain.templates import parse_template, spelling_templates, window_templates

    found = window_templates(options.windows(inputs))
    found += spelling_templates(find_columns(options.spelling, inputs, "--spelling"))
    found += [parse_template(text, inputs) for text in options.attribute]
    return tuple(dict.fromkeys(template.name for template in found))


def attributes_of_model(tokens: TokenFile, source: ChainSource) -> Attributes:
    """Return the attributes that a chain was learned from, for the tokens of a file."""
    from sparsefield.chain.templates import make_attributes, parse_template

    templates = [parse_template(text, _inputs_of(source, tokens)) for text in source.templates]
    used = dict.fromkeys(cell.column for template in templates for cell in template.cells)
    return make_attributes({name: tokens.cells(name, numeric=name in source.numeric) for name in used}, templates)


def _inputs_of(source: ChainSource, tokens: TokenFile) -> list[str]:
    return [name for name in tokens.columns if name != source.label]


def make_chain(options: SequenceOptions, learning: Mapping[str, Any], given: Collection[str], **more: Any) -> ChainCRF:
    """Return an unfitted chain; penalties that are not given are selected by held-out sequences."""
    from sparsefield import ChainCRF

    chain = ChainCRF(
        l1=learning["l1"] if "l1" in given else "auto",
        l2=learning["l2"] if "l2" in given else "auto",
        max_iter=learning["solver__max_iter"],
        all_states=options.all_states,
        all_transitions=options.all_transitions,
        **more,
    )
    chain._check_parameters()
    return chain


def fit_and_save_chain(chain: ChainCRF, data: LabeledSequences, output: Path, *, check: bool, as_json: bool) -> None:
    """Fit a chain to all sequences, save it, and print what it is, and how well it labels held-out sequences."""
    started = time.perf_counter()
    with StatusLine(f"Learning from {count(len(data.X), 'sequence')}") as watch:
        chain.set_params(callback=lambda progress: watch.update(_describe(progress))).fit(data.X, data.y)
    seconds = time.perf_counter() - started
    record = replace(chain.model_.record, source=data.source)
    chain.set_params(callback=None)
    chain.model_ = replace(chain.model_, record=record)
    chain.save(output)
    scores = _check(chain, data) if check else None
    if as_json:
        show_chain_fit_as_json(output, chain, seconds, scores)
        return
    show_chain_fit(chain, seconds, scores)
    show(f"\nWrote {output}.")


def _describe(progress: ChainProgress) -> str:
    return f"objective {progress.objective:,.2f}, {progress.n_features:,} features"


def _check(chain: ChainCRF, data: LabeledSequences) -> LabelingScores | None:
    """Return the scores of a second fit, with the penalties of the first, on held-out sequences with known labels."""
    import numpy as np
    from sklearn.base import clone

    from sparsefield.chain.selection import split_sequences

    labeled = np.flatnonzero(data.labeled)
    if len(labeled) < 2:
        note("No check: it needs two sequences with a known label.")
        return None
    _, held = split_sequences(len(labeled), CHECKED_SHARE, np.random.default_rng(chain.random_state))
    X, y = data.select(np.setdiff1d(np.arange(len(data.X)), labeled[held]))
    X_test, y_test = data.select(labeled[held])
    with StatusLine(f"Checking with {CHECKED_SHARE:.0%} of the sequences held out"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit to all sequences has already given the warnings
        again: Any = clone(chain)
        again.set_params(l1=chain.l1_, l2=chain.l2_)
        return score_labelings(y_test, again.fit(X, y).predict(X_test))
