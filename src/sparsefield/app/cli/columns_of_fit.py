"""Options for reading a table, and roles and kinds of its columns, as those of a fitted model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from sparsefield.app.cli.console import note
from sparsefield.app.cli.input_data import ColumnOptions, NamedColumns
from sparsefield.app.cli.model_input import OpenModel
from sparsefield.app.tables.read_options import ReadOptions
from sparsefield.errors import DataError


@dataclass(frozen=True)
class ColumnsOfFit(ColumnOptions):
    """Options about columns, with those of a fit where none are given."""

    of_fit: NamedColumns = field(default_factory=lambda: NamedColumns([], [], {}))

    def find(self, columns: Sequence[str]) -> NamedColumns:
        """Return the roles and kinds of columns: those that are given, then those of the fit that agree with them."""
        own, fit = super().find(columns), self.of_fit
        named = {*own.not_learned, *own.observed, *own.kinds}
        ids = [name for name in fit.not_learned if name in columns and name not in named]
        named |= {*ids}
        observed = [name for name in fit.observed if name in columns and name not in named]
        kinds = {name: kind for name, kind in fit.kinds.items() if name in columns and name not in named}
        return replace(
            own, identifiers=own.identifiers + ids, observed=own.observed + observed, kinds=own.kinds | kinds
        )


def options_like(model: OpenModel, reading: ReadOptions, columns: ColumnOptions) -> tuple[ReadOptions, ColumnOptions]:
    """Return the options for reading a table as that of a model was read; options that are given stay.

    Columns that the fit left out are left out again, and so are its columns of weights and of groups.
    """
    source = model.source
    if source is None:
        raise DataError(
            f"{model.path}: does not say how its table was read; only models of 'sparsefield fit' do. Leave --like "
            "out, and give the options for the table."
        )
    if source.weight is not None:
        note(f"Rows are not weighted: the weights {source.weight!r} of the fit are left out.")
    given = model.extra["params"].get("kinds", "auto")
    fit = NamedColumns(
        [*source.identifiers, *source.left_out],
        [variable.name for variable in model.field_.schema.observed],
        {} if given == "auto" else dict(given),
        source.weight,
        source.group,
    )
    plain: dict[str, Any] = {one.name: getattr(columns, one.name) for one in fields(columns)}
    plain["top_levels"] = source.top_levels if columns.top_levels is None else columns.top_levels
    return source.options_for(reading), ColumnsOfFit(**plain, of_fit=fit)
