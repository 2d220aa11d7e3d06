"""This module replaces columns of dates by parts of the calendar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw

from sparsefield.errors import DataError

MONTHS = ("January", "February", "March", "April", "May", "June")
MONTHS += ("July", "August", "September", "October", "November", "December")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
PARTS = ("year", "month", "day", "weekday", "hour")


def calendar_parts(
    table: Any, columns: Sequence[str] | None = None, parts: Sequence[str] = ("year", "month", "weekday")
) -> Any:
    """Return a data frame in which columns of dates are replaced by parts of the calendar.

    A field treats a date as a number of days, which knows trends but neither seasons nor weekends. A part is a column
    of its own, such as ``"bought.weekday"``: months and weekdays are names, and thus nominal; years, days of the month
    and hours are numbers. Missing dates have missing parts.

    Parameters
    ----------
    table : a pandas, polars or Arrow table
    columns : list of columns; None takes all that hold dates or times
    parts : of "year", "month", "day", "weekday" and "hour"

    Examples
    --------
    >>> import datetime, polars as pl
    >>> table = pl.DataFrame({"bought": [datetime.date(2024, 2, 29), None], "price": [3.0, 4.5]})
    >>> calendar_parts(table, parts=["year", "weekday"]).to_dicts()[0]
    {'bought.year': 2024, 'bought.weekday': 'Thursday', 'price': 3.0}
    """
    frame = nw.from_native(table, eager_only=True)
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise ValueError(f"parts must be of {', '.join(PARTS)}; got {', '.join(map(repr, unknown))}.")
    dated = [name for name, dtype in frame.schema.items() if dtype == nw.Date or isinstance(dtype, nw.Datetime)]
    wrong = [name for name in columns or [] if name not in dated]
    if wrong:
        raise DataError(
            f"{', '.join(map(repr, wrong))} {'is no column' if len(wrong) == 1 else 'are no columns'} of dates; these "
            f"are: {', '.join(map(repr, dated)) or 'none'}. Convert text to dates first."
        )
    hourless = [name for name in columns or dated if "hour" in parts and frame.schema[name] == nw.Date]
    if hourless:
        raise DataError(f"Column {hourless[0]!r} holds dates without hours: leave 'hour' out of parts.")
    found = []
    for name in frame.columns:
        if name in (dated if columns is None else columns):
            found += [_part(frame[name], part).alias(f"{name}.{part}") for part in parts]
        else:
            found.append(frame[name])
    return frame.select(*found).to_native()


def _part(dates: nw.Series, part: str) -> nw.Series:
    values = getattr(dates.dt, part)()
    names = {"month": MONTHS, "weekday": WEEKDAYS}.get(part)
    if names is None:
        return values
    # Missing numbers are NaN in some libraries.
    labels = [None if k is None or k != k else names[int(k) - 1] for k in values.to_list()]
    return nw.new_series(dates.name, labels, nw.String, backend=dates.implementation)
