"""This module prints what ``fit`` found: sentences about the data, features, convergence, and errors by column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sparsefield.app.cli.console import new_table, show, show_json
from sparsefield.app.cli.info import describe_estimator, model_content, show_features
from sparsefield.app.pages.fit_summary import describe_convergence, describe_kinds, describe_size
from sparsefield.text import count

if TYPE_CHECKING:
    from sparsefield.analysis.hold_out import Evaluation
    from sparsefield.analysis.metrics import ColumnEvaluation
    from sparsefield.app.cli.input_data import InputData
    from sparsefield.app.cli.options import AnyField

SHOWN_FEATURES = 10
SHOWN_COLUMNS = 12
"""Number of columns up to which all are shown; of more, half of it from each end."""

CHECKED_MEASURES = {
    "error_rate": ("error", "{:.1%}"),
    "cll": ("CLL", "{:.3f}"),
    "ap": ("AP", "{:.3f}"),
    "rmse": ("RMSE / SD", "{:.3f}"),
}
"""Heading and format of the scores of held-out cells: those of states, and that of numbers."""

READING_HINT = (
    "l1 was selected for predictions, which keeps many weak edges: for a network to read, add "
    "--selection ebic --refit yes."
)
"""What `show_fit` prints below a field that was selected by held-out cells."""

KIND_OPTIONS = "--numeric, --ordinal and --nominal"


def has_features(field: AnyField) -> bool:
    """Return whether a fitted field has a feature of two or more columns."""
    return bool(field.field_.weights.any() or field.field_.conjunction_weights.any())


def show_fit(field: AnyField, given: InputData, seconds: float, checked: Evaluation | None = None) -> None:
    """Show what was learned: findings, features, how it was learned, and how well held-out cells are predicted."""
    if checked is None or not show_if_nothing_learned(checked, given):
        show("\n".join(_findings(field, given)))
    show_features(field.field_, SHOWN_FEATURES)
    show()
    _show_options(field)
    show(f"Learned {describe_size(field.field_)}; {count(field.n_iter_, 'iteration')}, {seconds:.1f} s.")
    sent = [row.traffic or 0 for row in field.field_.record.iterations]
    if len(sent) > 1 and sent[-1] > sent[0]:
        each = (sent[-1] - sent[0]) / (len(sent) - 1) / 1e6
        show(f"Sent to and from the cluster, beside the rows: {each:.3g} MB an iteration.")
    show(describe_convergence(field.field_, field.get_params()))
    record, learned = field.field_.record, checked is None or checked.shows_dependence
    if record.criterion == "heldout" and not record.refit and learned and has_features(field):
        show(READING_HINT)
    if checked is not None:
        _show_check(checked, given.names, auto=field.l1 == "auto")


def show_fit_as_json(
    output: Path, field: AnyField, given: InputData, seconds: float, checked: Evaluation | None
) -> None:
    """Print as JSON what was learned: the content of the model, findings, and the scores of held-out cells or null."""
    show_json(
        {
            "model": str(output),
            "seconds": seconds,
            "findings": _findings(field, given),
            "held_out": None if checked is None else checked.as_dict(),
            **model_content(describe_estimator(field)),
        }
    )


def _findings(field: AnyField, given: InputData) -> list[str]:
    """Return sentences about the data."""
    from sparsefield.app.pages.findings import findings

    return findings(field, given.X if has_features(field) else None)


def _show_options(field: AnyField) -> None:
    """Show the kinds of the columns, and how l1 was selected."""
    from sparsefield.data import BinarySchema

    record, layout = field.field_.record, field.field_.layout
    if not all(isinstance(schema, BinarySchema) for schema in layout.schemas):
        where = "numeric, ordinal and nominal in the schema file" if layout.tables != ("",) else KIND_OPTIONS
        show(f"Kinds: {describe_kinds(field.field_)}. Change them with {where}.")
    if record.criterion is not None:
        from sparsefield.solver import SELECTIONS
        from sparsefield.solver.folds import PATH_LENGTH

        tried, by = len(record.path), SELECTIONS[record.criterion].description
        extended = " (the path was extended, since the score still rose at its end)" if tried > PATH_LENGTH else ""
        whose = ", of a field without latent variables" if getattr(field, "latent", None) else ""
        show(f"Selected l1 = {field.l1_:.3g} among {count(tried, 'value')}{extended}, by {by}{whose}.")


def _show_check(checked: Evaluation, names: Sequence[str], *, auto: bool) -> None:
    """Show how well held-out cells are predicted, overall and by column."""
    from sparsefield.app.pages.findings import describe_gains

    (fold,) = checked.folds
    chosen = " (its l1 is that of the fit above)" if auto else ""
    show(
        f"\nOn {count(fold.cells, 'held-out cell')}, predicted from all others by a field fitted without them{chosen}:"
    )
    forms = {name: form for name, form in CHECKED_MEASURES.items() if not math.isnan(getattr(fold, name))}
    table = new_table("", *(heading for heading, _ in forms.values()))
    baseline = name_baseline(numbers="rmse" in forms)
    for row, prefix in (("this field", ""), (baseline, "frequency_")):
        table.add_row(row, *(form.format(getattr(fold, prefix + name)) for name, (_, form) in forms.items()))
    show(table)
    show()
    named = {f"x{k}": name for k, name in enumerate(names)}  # a matrix is held out as an array, without names
    _show_columns([replace(column, name=named.get(column.name, column.name)) for column in checked.columns])
    show(f"\n{describe_gains(checked.columns, than=baseline.replace(',', ' and'))}")


def show_if_nothing_learned(checked: Evaluation, given: InputData) -> bool:
    """Show a sentence if held-out cells are predicted no better than by column frequencies, and return whether so."""
    from sparsefield.app.pages.findings import describe_no_gain

    if checked.shows_dependence:
        return False
    show(describe_no_gain(checked.gain, given.rows, len(given.X.tables) if given.linked else 1))
    return True


def name_baseline(*, numbers: bool) -> str:
    """Return the name of the baseline: frequencies of states, and means of numbers."""
    return "column frequencies, means" if numbers else "column frequencies"


def _show_columns(columns: Sequence[ColumnEvaluation]) -> None:
    """Show the errors of each column, largest gain first; of many columns the best and the worst."""
    ranked = sorted(columns, key=lambda column: -column.gain.value)
    left_out = len(ranked) - SHOWN_COLUMNS if len(ranked) > SHOWN_COLUMNS else 0
    table = new_table("column", "cells", "error", "baseline", "gain in log-likelihood")
    for place, column in enumerate(ranked):
        if left_out and place == SHOWN_COLUMNS // 2:
            table.add_row(f"... {left_out:,} more ...")
        if not left_out or not SHOWN_COLUMNS // 2 <= place < len(ranked) - SHOWN_COLUMNS // 2:
            errors = (_describe_error(column, error) for error in (column.error, column.baseline_error))
            gain = f"{column.gain.value:+.3f} ± {column.gain.error:.3f}"
            table.add_row(column.name, f"{column.cells:,}", *errors, gain)
    show(table)


def _describe_error(column: ColumnEvaluation, error: float) -> str:
    """Return an error rate, a distance in levels, or a root mean squared error in standard deviations."""
    if column.kind == "numeric":
        return f"{error / column.scale:.2f} SD"
    return f"{error:.1%}" if column.kind == "nominal" else f"{error:.2f} levels"
