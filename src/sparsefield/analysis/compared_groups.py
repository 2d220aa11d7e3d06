"""This module reads the groups of rows whose networks are compared, and refuses what cannot be compared."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp

from sparsefield.data import Label, as_array, as_source
from sparsefield.data.column_summaries import read_categories
from sparsefield.data.labels import unify_labels
from sparsefield.errors import DataError, LeftOutWarning
from sparsefield.estimators.row_groups import split_groups
from sparsefield.parameter_checks import raise_problems

FEWEST_ROWS = 10
"""Rows of a group, at least."""

MOST_GROUPS = 20

MIDNIGHT = " 00:00:00"
"""How the text of a time ends that is a date."""


@dataclass(frozen=True)
class ComparedGroups:
    """A table without its group column, and the group of each row."""

    X: Any
    labels: tuple[Label, ...]
    numbers: np.ndarray
    """(rows,): positions in ``labels``."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of rows of each group."""
        return tuple(np.bincount(self.numbers, minlength=len(self.labels)).tolist())


def read_compared_groups(X: Any, group: Any, *, drop_missing: bool = False) -> ComparedGroups:
    """Return a table and its groups; ``group`` is the name of a column, or an array with the group of each row.

    With ``drop_missing``, rows without a group are left out, with a warning.
    """
    if sp.issparse(X):
        raise DataError("Groups are compared in a dense table, not in a sparse matrix: pass X.toarray().")
    if isinstance(group, str):
        names = as_source(X).names
        if group not in names:
            raise DataError(
                f"The group column {group!r} is not there: name one of {', '.join(map(repr, names[:8]))}"
                f"{', ...' if len(names) > 8 else ''}, or pass an array with the group of each row."
            )
    X, values = split_groups(X, group)
    cells = as_array(values, "group")
    n_rows = as_source(X).n_rows
    if cells.shape != (n_rows,):
        raise DataError(f"group.shape == {cells.shape}, expected ({n_rows},): one group per row.")
    source = as_source(cells.reshape(-1, 1), what="group")
    found = read_categories(source, "x0")
    own_name = group if isinstance(group, str) else getattr(group, "name", None)
    name = f"Column {own_name!r}" if own_name else "group"
    in_days = source.column("x0").in_days
    labels = _date_texts(cells, found.codes) if in_days else unify_labels([*found.labels], found.are_objects)
    groups = ComparedGroups(X, tuple(labels), found.codes)
    if drop_missing and (found.codes < 0).any():
        groups = _without_missing(groups, name)
    problems = list(_problems(groups, name))
    if problems:
        raise DataError(" ".join(problems))
    return groups


def _without_missing(groups: ComparedGroups, name: str) -> ComparedGroups:
    """Return the rows that have a group."""
    kept = np.flatnonzero(groups.numbers >= 0)
    left_out = len(groups.numbers) - len(kept)
    warnings.warn(
        f"{name} has {left_out:,} missing value(s): these rows are left out, and {len(kept):,} remain.",
        LeftOutWarning,
        stacklevel=4,
    )
    source = as_source(groups.X)
    X = source.native[kept] if source.kind == "array" else nw.to_native(source.native[kept.tolist()])
    return ComparedGroups(X, groups.labels, groups.numbers[kept])


def _date_texts(cells: np.ndarray, codes: np.ndarray) -> list[Label]:
    """Return the dates, times or durations of the labels with the codes 0, 1, ... as text."""
    places = [int(np.argmax(codes == code)) for code in range(int(codes.max(initial=-1)) + 1)]
    if cells.dtype.kind in "mM":
        # Python has no dates or durations of nanoseconds, and NumPy would return integers.
        cells = cells.astype(f"{cells.dtype.kind}8[us]")
    texts = [str(cell) for cell in cells[places].tolist()]
    at_midnight = all(text.endswith(MIDNIGHT) for text in texts)
    return [text.removesuffix(MIDNIGHT) if at_midnight else text for text in texts]


def _problems(groups: ComparedGroups, name: str) -> Iterator[str]:
    """Yield a sentence for each reason why groups cannot be compared."""
    missing = np.flatnonzero(groups.numbers < 0)
    if len(missing):
        yield (
            f"{name} has {len(missing):,} missing value(s), the first in row {missing[0] + 1:,} (counted from 1): give "
            "every row a group, or leave these rows out with drop_missing_groups=True."
        )
        return
    if len(groups.labels) < 2:
        only = f" the only group {groups.labels[0]!r}" if groups.labels else " no group"
        yield f"{name} has{only}: a comparison needs two groups or more."
    if len(groups.labels) > MOST_GROUPS:
        yield (
            f"{name} has {len(groups.labels):,} different values, more than {MOST_GROUPS} groups: name a column of "
            "fewer values, or merge groups."
        )
        return
    parts = zip(groups.labels, groups.sizes, strict=True)
    small = [f"{label!r} has {size}" for label, size in parts if size < FEWEST_ROWS]
    if small:
        yield (
            f"{name}: a group needs at least {FEWEST_ROWS} rows, but {', '.join(small)}: leave such rows out, or merge "
            "groups."
        )
    yield from _empty_columns(groups)


def _empty_columns(groups: ComparedGroups) -> Iterator[str]:
    """Yield a sentence for each column that has values in some groups only."""
    source = as_source(groups.X)
    for name in source.names:
        known = np.bincount(groups.numbers[source.column(name).present], minlength=len(groups.labels)) > 0
        if known.any() and not known.all():
            empty = [repr(label) for label, is_known in zip(groups.labels, known, strict=True) if not is_known]
            yield f"Column {name!r} has no values in group {', '.join(empty)}: drop it."


def refuse_unsupported(parameters: Mapping[str, Any]) -> None:
    """Refuse parameters of `MarkovField` for which groups cannot be compared."""
    allowed = {
        "objective": ("pl", "the pseudo-likelihood"),
        "penalty": ("l1", "single weights"),
        "refit": (False, "weights with their L1 penalty"),
        "penalize_biases": (False, "free biases"),
        "latent": (None, "no latent variables"),
        "engine": (None, "this machine"),
    }
    problems = [
        f"{name}={parameters[name]!r} is not possible in a comparison of groups, which has {what}: leave it out."
        for name, (value, what) in allowed.items()
        if parameters[name] != value
    ]
    if getattr(parameters["max_order"], "max_order", parameters["max_order"]) != 2:
        problems.append("max_order above 2 is not possible in a comparison of groups: leave it out.")
    raise_problems(problems)
