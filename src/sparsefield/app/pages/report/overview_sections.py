"""This module renders the head of a report: tiles with the main numbers, and findings as sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from sparsefield.analysis import calibration
from sparsefield.analysis.calibration import ColumnScore
from sparsefield.app.pages.findings import tell_findings
from sparsefield.app.pages.fit_summary import describe_kinds
from sparsefield.app.pages.html_page import bullets, paragraph, section
from sparsefield.app.pages.network_view import NetworkView
from sparsefield.app.pages.report.data_sections import ScoredRows, describe_if_no_gain
from sparsefield.app.pages.report.repeat_fit import FitDescription
from sparsefield.text import count

UNKNOWN = "\u2013"
_FIGURE = re.compile(r"\d[\d.,]*%|-?\d[\d.,]*(?= on average| overall)|(?<=rank correlation )\S+(?=\))")
"""Shares, means and correlations of a sentence."""


@dataclass(frozen=True)
class NumberTile:
    """A main number of a report."""

    name: str
    value: str
    about: str

    def render(self) -> str:
        """Return the tile as an entry of a description list."""
        parts = f'<dd class="value">{escape(self.value)}</dd><dd class="about">{escape(self.about)}</dd>'
        return f'<div class="tile card"><dt>{escape(self.name)}</dt>{parts}</div>'


def render_tiles(
    fitted: FitDescription, view: NetworkView, scored: ScoredRows | None, scores: Sequence[ColumnScore]
) -> str:
    """Return four tiles: rows and columns, links, the share of missing values, and the gain over frequencies."""
    gain = _gain(scores, is_training=_are_training_rows(fitted, scored))
    tiles = [_size(fitted), _links(view), _missing(scored), gain]
    return f'<dl class="tiles" id="tiles">{"".join(tile.render() for tile in tiles)}</dl>\n'


def _size(fitted: FitDescription) -> NumberTile:
    field = fitted.field
    latent = sum(len(schema.latent) for schema in field.layout.schemas) if field.layout.has_latent else 0
    columns = field.layout.n_targets - latent + sum(len(schema.observed) for schema in field.layout.schemas)
    kinds = describe_kinds(field, 0)
    if not field.record.is_learned:
        return NumberTile("columns", f"{columns:,}", kinds)
    return NumberTile("rows \u00d7 columns", f"{field.record.n_rows:,} \u00d7 {columns:,}", kinds)


def _links(view: NetworkView) -> NumberTile:
    network = view.whole.network
    pairs = len(np.unique(np.sort(network.ends, axis=1), axis=0))
    if network.linked:
        return NumberTile("links", f"{pairs:,}", "pairs of columns, within rows or across links")
    schema = network.field.schema
    targets, observed = len(schema.targets), len(schema.observed)
    possible = targets * (targets - 1) // 2 + targets * observed
    share = f" ({pairs / possible:.0%})" if possible else ""
    return NumberTile("links", f"{pairs:,}", f"of {count(possible, 'pair')} of columns{share}")


def _missing(scored: ScoredRows | None) -> NumberTile:
    if scored is None:
        return NumberTile("missing", UNKNOWN, "needs rows (--data)")
    known = [values for table in scored.has_value.values() for values in table.values()]
    cells = sum(len(values) for values in known)
    missing = sum(int(np.count_nonzero(~values)) for values in known)
    if not cells:
        return NumberTile("missing", "0%", "a sparse matrix has no missing values")
    return NumberTile("missing", f"{missing / cells:.1%}", f"{missing:,} of {count(cells, 'value')}")


def _are_training_rows(fitted: FitDescription, scored: ScoredRows | None) -> bool:
    record = fitted.field.record
    return scored is not None and record.is_learned and scored.n_rows == record.n_rows


def _gain(scores: Sequence[ColumnScore], *, is_training: bool) -> NumberTile:
    name = "gain in the training rows" if is_training else "gain over frequencies"
    if not scores:
        return NumberTile(name, UNKNOWN, "needs rows (--data)")
    gain, better = calibration.pool_gains(scores), calibration.count_clear_gains(scores)[0]
    value = f"{gain.value:+.3f}".replace("-", "\u2212")
    over = " over frequencies" if is_training else ""
    columns = f"{better:,} of {count(len(scores), 'column')} better"
    about = f"log-likelihood per value{over} (\u00b1 {gain.error:.3f}); {columns}"
    return NumberTile(name, value, about)


def render_findings(fitted: FitDescription, scored: ScoredRows | None) -> str:
    """Return sentences about the data; first of all, whether anything could be learned from them."""
    warning = "" if scored is None else describe_if_no_gain(fitted, scored)
    sentences = tell_findings(fitted.field, None if scored is None or warning else scored.sample)
    shown = bullets([_stress_numbers(line) for line in sentences])
    return section("findings", "Findings", *([paragraph(warning, "warn")] if warning else []), shown)


def _stress_numbers(sentence: str) -> str:
    """Return a sentence as markup in which shares, means and correlations are strong."""
    parts = _FIGURE.split(sentence)
    marked = [f"<strong>{escape(found)}</strong>" for found in _FIGURE.findall(sentence)]
    return "".join(escape(part) + mark for part, mark in zip(parts, [*marked, ""], strict=True))
