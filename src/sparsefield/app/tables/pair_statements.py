"""This module turns statements about ordered pairs, from triples or ground atoms, into rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from sparsefield.errors import DataError

if TYPE_CHECKING:
    import polars as pl

ENDS = ("subject", "object")
"""Columns of a table of pairs that are links to the entities."""

ClosedWorld = bool | Literal["mentioned"]
"""The meaning of a relation that is not stated for a pair: true makes it false, and a row for each ordered pair;
``"mentioned"`` too, but only pairs that occur in a statement are rows; False makes it missing for these pairs."""

MAX_PAIRS = 1_000_000
"""The largest number of rows in a closed world, that of a thousand entities; most rows of more would be all zeros."""

SHOWN = 3


class Statements(NamedTuple):
    """Statement k: ``relation[k]`` is true (``value[k]`` 1) or false (0) for ``subject[k]`` and ``object[k]``."""

    subject: np.ndarray
    object: np.ndarray
    relation: np.ndarray
    value: np.ndarray


def check_closed_world(closed_world: ClosedWorld) -> None:
    """Refuse values other than True, False and ``"mentioned"``."""
    if not isinstance(closed_world, bool) and closed_world != "mentioned":
        raise DataError(f"closed_world is {closed_world!r}; it must be True, False or 'mentioned'.")


def build_pair_table(
    statements: Statements,
    entities: Sequence[pl.Series],
    relations: Sequence[str],
    closed_world: ClosedWorld,
    what: str,
    remedy: str,
) -> pl.DataFrame:
    """Return one row per pair with the columns ``subject``, ``object`` and a 0/1 column for each relation.

    ``entities`` are the names of subjects and of objects, ``what`` is the name of the pairs in error messages, and
    ``remedy`` the advice for relations that are never false.
    """
    import polars as pl

    n_subjects, n_objects = map(len, entities)
    code = statements.subject * n_objects + statements.object
    if closed_world is True:
        total = n_subjects * n_objects
        if total > MAX_PAIRS:
            raise DataError(
                f"A closed world would have {total:,} rows for {what}, more than {MAX_PAIRS:,}. Pass "
                "closed_world='mentioned' to use only pairs that are mentioned; unstated relations are then false."
            )
        codes, row = np.arange(total), code
    else:
        codes, row = np.unique(code, return_inverse=True)
    cells = np.full((len(relations), len(codes)), -1 if closed_world is False else 0, dtype=np.int8)
    cells[statements.relation, row] = statements.value
    if closed_world is False:
        require_negatives(relations, list(cells), remedy)
    ends = {"subject": entities[0].gather(codes // n_objects), "object": entities[1].gather(codes % n_objects)}
    return pl.DataFrame({**ends, **{name: flags(name, column) for name, column in zip(relations, cells, strict=True)}})


def flags(name: str, cells: np.ndarray) -> pl.Series:
    """Return a 0/1 column from 0, 1 and -1 for missing values."""
    import polars as pl

    return pl.Series(name, cells).replace(-1, None)


def require_negatives(names: Sequence[str], cells: Sequence[np.ndarray], remedy: str) -> None:
    """Refuse relations that are never false in an open world, because nothing can be learned about them."""
    never = [name for name, column in zip(names, cells, strict=True) if not (column == 0).any()]
    if never:
        shown = ", ".join(repr(name) for name in never[:SHOWN]) + (", ..." if len(never) > SHOWN else "")
        raise DataError(
            f"In an open world (closed_world=False) unstated relations are missing, and no statement says that {shown} "
            f"{'is' if len(never) == 1 else 'are'} false, so the column would be 1 everywhere. {remedy}, or pass "
            "closed_world='mentioned' or True, which makes unstated relations false."
        )
