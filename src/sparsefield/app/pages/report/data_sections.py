"""This module renders the sections that need data: quality, calibration, signals and errors, missing values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sparsefield.analysis import calibration
from sparsefield.analysis.calibration import Calibration
from sparsefield.analysis.scored_rows import ScoredRows
from sparsefield.app.pages.charts import Curve, CurvePoint, HistogramPanel, LinePanel, draw_panels
from sparsefield.app.pages.findings import describe_gains
from sparsefield.app.pages.html_page import TableCell, paragraph, render_figure, render_table, section
from sparsefield.app.pages.palette import BLUE, GREY, INK, PALE, WHITE, blend
from sparsefield.app.pages.report.column_quality import MAX_SCORES, render_columns, variables_by_name
from sparsefield.app.pages.report.repeat_fit import FitDescription
from sparsefield.app.pages.short_names import shorten_all
from sparsefield.app.pages.svg import Drawing
from sparsefield.data import BinarySchema, DenseDataset
from sparsefield.text import count

MAX_MISSING_COLUMNS = 36
NO_DATA = "needs rows: give them with --data at the command line, or as data= in Python."
NO_VALUES = "The data have no value in a column that the field predicts."


def describe_if_no_gain(fitted: FitDescription, scored: ScoredRows) -> str:
    """Return a sentence if features predict the values of the rows no better than frequencies do; else nothing."""
    if not (fitted.field.weights.any() or fitted.field.conjunction_weights.any()):
        return ""
    scores = scored.scores
    if not scores or calibration.shows_dependence(scores):
        return ""
    gain = calibration.pool_gains(scores)
    return (
        f"The values of these {count(scored.n_rows, 'row')} are predicted from each other no better than by column "
        f"frequencies (gain in log-likelihood {gain.value:+.4f} per value, standard error {gain.error:.4f}), so the "
        "features of the field may be chance."
    )


def render_quality(fitted: FitDescription, scored: ScoredRows | None) -> str:
    """Return scores by column, compared with frequencies, and calibration."""
    name, title = "quality", "Prediction quality"
    if scored is None:
        return section(name, title, paragraph(f"This section on scores and calibration {NO_DATA}", "absent"))
    learned = fitted.field.record.is_learned
    scores = scored.scores
    if not scores:
        return section(name, title, paragraph(NO_VALUES, "absent"))
    whole, numbers = calibration.overall(scores), _numeric_names(scored.sample)
    with_states = calibration.overall([score for score in scores if score.name not in numbers])
    links = " and of the rows that it is linked with" if fitted.linked else ""
    base = "in training" if learned else "in these rows (there was no training)"
    lines = [
        ("this field", whole.cll, with_states.error_rate),
        (f"frequencies of each column {base}", whole.marginal_cll, with_states.marginal_error_rate),
    ]
    how = (
        f"Each value is predicted from all other values of its row{links}, as if it were missing. "
        f"{count(whole.cells, 'value')} in total."
    )
    if numbers:
        how += " The state of a number is its level, one of up to 64 groups of values; error rates leave numbers out."
    return section(
        name,
        title,
        _describe_rows(fitted, scored),
        paragraph(how, "note"),
        render_table(
            ["", "mean log-likelihood of a value", "error rate"],
            [
                [
                    TableCell(who, "text"),
                    TableCell.number(cll, ".3f"),
                    TableCell.number(error, ".1%") if with_states.cells else TableCell(),
                ]
                for who, cll, error in lines
            ],
        ),
        paragraph(describe_gains(scores, "Values")),
        render_columns(scores, numbers, variables_by_name(fitted.field)),
        _render_calibration(calibration.calibrate(scored.sample, scored.answers)),
    )


def _describe_rows(fitted: FitDescription, scored: ScoredRows) -> str:
    """Return a statement on whether these may be the rows of training."""
    n_used = scored.sample.n_rows
    part = f" Only {n_used:,} evenly spaced rows were used." if n_used < scored.n_rows else ""
    rows, trained = count(scored.n_rows, "row"), fitted.field.record.n_rows
    if not fitted.field.record.is_learned:
        return paragraph(
            f"The data have {rows}.{part} The weights of the field were given, so these rows were not used in training."
        )
    text = (
        f"The data have {rows}; the field was learned from {trained:,}. The scores show how well it predicts new rows "
        "only if none of these rows was used in training, which a model does not record."
    )
    if scored.n_rows == trained:
        text = (
            f"The data have {rows}, as many as the field was learned from, so they are probably the training rows. The "
            "scores then show how well the field fits these rows, not how well it predicts new ones. For that, give "
            "held-out rows, or run \u201csparsefield evaluate\u201d."
        )
    return paragraph(text + part + _describe_weighting(fitted), "warn")


def _describe_weighting(fitted: FitDescription) -> str:
    """Return a statement on the row weights of the fit, which these scores do not use."""
    weight = fitted.source.weight
    if weight is None:
        return ""
    return (
        f" The field was learned with the row weights of column \u201c{weight}\u201d, but here every row counts "
        "once. \u201csparsefield evaluate --weight\u201d prints weighted scores."
    )


def _numeric_names(sample: DenseDataset) -> set[str]:
    """Return the names of numeric columns as scores have them."""
    tables = zip(sample.layout.tables, sample.layout.schemas, strict=True)
    return {
        f"{table}.{variable.name}" if table else variable.name
        for table, schema in tables
        if not isinstance(schema, BinarySchema)
        for variable in schema.targets
        if variable.numeric
    }


def _render_calibration(found: Calibration) -> str:
    points = [
        CurvePoint(float(b), float(s), float(np.sqrt(s * (1 - s) / n)))
        for b, s, n in zip(found.belief, found.share, found.count, strict=True)
        if n
    ]
    ideal = Curve("perfect calibration", [CurvePoint(0.0, 0.0), CurvePoint(1.0, 1.0)], dashed=True, color=GREY)
    panel = LinePanel("Calibration", "belief", "share that is true", [ideal, Curve("this field", points, color=BLUE)])
    sure = int(found.count[0] + found.count[-1])
    caption = (
        "All statements \u201cthis cell has this state\u201d about observed values, in ten bins by the belief of the "
        "field; the states of a number are here its quarters. With perfect calibration, a belief of 70% is right in "
        "70% of the cases. The mean calibration error is "
        f"{100 * found.error:.1f} percentage points. Of {int(found.count.sum()):,} statements, {sure:,} are in the two "
        "outermost bins. Bars are standard errors, as if values were independent."
    )
    drawn = draw_panels("Calibration of beliefs", [panel], columns=1)
    return f'<div id="calibration"><h3>Calibration</h3>{render_figure(drawn, caption)}</div>'


def render_signals(scored: ScoredRows | None) -> str:
    """Return histograms of errors and signals."""
    name, title = "signals", "Signals and errors"
    if scored is None:
        return section(name, title, paragraph(f"This section on signals and errors {NO_DATA}", "absent"))
    edges, errors, signals = calibration.count_signals_and_errors(scored.sample, scored.answers)
    if not errors.sum():
        return section(name, title, paragraph(NO_VALUES, "absent"))
    panels = [
        HistogramPanel("Errors", "q1 \u2212 q0", edges.tolist(), errors.tolist()),
        HistogramPanel("Signals", "q0 \u2212 its mean", edges.tolist(), signals.tolist()),
    ]
    caption = (
        "An error is the belief in a state given everything else, minus its indicator (Definition 1 of the paper); a "
        "signal is the indicator minus its mean over the rows (Definition 2). A candidate\u2019s gradient is the sum "
        "of the products of the two, so contrastive induction considers only large ones. Observed values, all states "
        "except the reference state; counts are on a logarithmic axis."
    )
    return section(name, title, render_figure(draw_panels("Signals and errors", panels), caption))


@dataclass(frozen=True)
class MissingPattern:
    """The missing values of one table."""

    n_rows: int
    columns: tuple[str, ...]
    """Columns with missing values, most missing first."""
    shares: np.ndarray
    """(columns,): the share of the rows in which each column is missing."""
    patterns: np.ndarray
    """(patterns, columns) bool: the sets of columns that are missing in the same row, most frequent first."""
    counts: np.ndarray
    """(patterns,): the rows of each pattern."""
    n_patterns: int
    """Number of distinct patterns."""


def find_missing_pattern(has_value: Mapping[str, np.ndarray], most: int = 12) -> MissingPattern:
    """Return shares of missing values by column and the ``most`` frequent patterns.

    ``has_value`` is {column: (rows,) bool}: where there are values.

    Examples
    --------
    >>> found = find_missing_pattern({"a": np.array([True, False, False]), "b": np.array([True, True, False])})
    >>> found.columns, found.patterns.astype(int).tolist(), found.counts.tolist()
    (('a', 'b'), [[0, 0], [1, 0], [1, 1]], [1, 1, 1])
    """
    n_rows = len(next(iter(has_value.values()), ()))
    missing = {name: np.count_nonzero(~known) for name, known in has_value.items()}
    columns = sorted((name for name, number in missing.items() if number), key=lambda name: -missing[name])
    if not columns:
        return MissingPattern(n_rows, (), np.empty(0), np.zeros((1, 0), dtype=bool), np.array([n_rows]), 1)
    missing_cells = np.column_stack([~has_value[name] for name in columns])
    packed = np.packbits(missing_cells, axis=1)
    _, first, counts = np.unique(packed, axis=0, return_index=True, return_counts=True)
    order = np.lexsort((first, -counts))[:most]
    shares = np.array([missing[name] / n_rows for name in columns])
    return MissingPattern(n_rows, tuple(columns), shares, missing_cells[first[order]], counts[order], len(counts))


def render_missing_values(scored: ScoredRows | None) -> str:
    """Return a map of the values that are missing, and of those missing together."""
    name, title = "missing-values", "Missing values"
    if scored is None:
        return section(name, title, paragraph(f"The map of missing values {NO_DATA}", "absent"))
    parts = []
    for table, has_value in scored.has_value.items():
        if not has_value:
            continue
        found = find_missing_pattern(has_value)
        if not found.columns:
            parts.append(paragraph(f"Table {table}: no value is missing." if table else "No value is missing."))
            continue
        cells = sum(len(known) for known in has_value.values())
        missing = round(float(found.shares.sum()) * found.n_rows)
        text = (
            f"{f'Table {table}: ' if table else ''}{missing:,} of {cells:,} values are missing "
            f"({missing / cells:.1%}), in {len(found.columns):,} of {len(has_value):,} columns. There "
            f"{'is' if found.n_patterns == 1 else 'are'} {count(found.n_patterns, 'pattern')} of missing columns."
        )
        many = len(found.columns) > MAX_MISSING_COLUMNS
        caption = (
            "Each line of the picture is a set of columns that are missing together (dark squares), with its number of "
            f"rows. Shown are the {len(found.counts):,} most frequent sets"
            f"{f' and the {MAX_MISSING_COLUMNS} columns with the most missing values' if many else ''}."
        )
        shares = zip(found.columns[:MAX_SCORES], found.shares, strict=False)
        rows = [[TableCell(column, "text"), TableCell.number(float(share), ".1%")] for column, share in shares]
        table_of_shares = render_table(["column", "share missing"], rows, sortable=True, name="missing-values")
        parts += [paragraph(text), render_figure(_draw_missing_pattern(found), caption), table_of_shares]
    parts = parts or [paragraph("The data are a sparse matrix, which has no missing values.", "absent")]
    return section(name, title, *parts)


def _draw_missing_pattern(found: MissingPattern) -> str:
    """Return a picture of patterns by columns."""
    columns = found.columns[:MAX_MISSING_COLUMNS]
    step, left, top = 20.0, 150.0, 132.0
    width, height = max(900.0, left + step * len(columns) + 130), top + step * len(found.counts) + 24
    drawing = Drawing(width, height, "Missing values")
    drawing.text(20, 30, "Columns that are missing together", size=14, font_weight=600)
    for k, (name, shown) in enumerate(zip(columns, shorten_all(columns, 16), strict=True)):
        place = left + step * (k + 0.5) + 4, top - 10
        drawing.text(*place, shown, size=11, fill=GREY, turn=-50.0, hint=name)
    for row, (pattern, number) in enumerate(zip(found.patterns, found.counts.tolist(), strict=True)):
        y = top + step * row
        bar = 70.0 * number / float(found.counts.max())
        drawing.rect(left - 12 - bar, y + 5, bar, step - 10, fill=blend([WHITE, BLUE], 0.45))
        drawing.text(14, y + 14, f"{number:,}", size=11.5, room=70)
        for k, missing in enumerate(pattern[: len(columns)].tolist()):
            drawing.rect(left + step * k + 2, y + 2, step - 4, step - 4, rx=3, fill=INK if missing else PALE)
        if not pattern.any():
            drawing.text(left + step * len(columns) + 10, y + 14, "nothing missing", size=11.5, fill=GREY)
    return drawing.render()
