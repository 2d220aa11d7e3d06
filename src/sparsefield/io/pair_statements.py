"""This module turns statements about ordered pairs, from triples or ground atoms, into rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from sparsefield.errors import DataError

ClosedWorld = bool | Literal["mentioned"]
"""The meaning of a relation that is not stated for a pair; see `build_pair_rows`."""

MAX_PAIRS = 1_000_000
"""The largest number of rows in a closed world, that of a thousand entities; most rows of more would be all zeros."""

SHOWN = 3


class Statements(NamedTuple):
    """Statement k: ``relation[k]`` is true (``value[k]`` 1) or false (0) for ``subject[k]`` and ``object[k]``."""

    subject: np.ndarray
    object: np.ndarray
    relation: np.ndarray
    value: np.ndarray


class PairRows(NamedTuple):
    """Rows of a pair table: subjects, objects, and (relations, rows) cells with 1, 0 or -1 for a missing value."""

    subject: np.ndarray
    object: np.ndarray
    cells: np.ndarray


def check_closed_world(closed_world: ClosedWorld) -> None:
    """Refuse values other than True, False and ``"mentioned"``."""
    if not isinstance(closed_world, bool) and closed_world != "mentioned":
        raise DataError(f"closed_world is {closed_world!r}; it must be True, False or 'mentioned'.")


def build_pair_rows(
    statements: Statements, sizes: tuple[int, int], n_relations: int, closed_world: ClosedWorld, what: str
) -> PairRows:
    """Return one row per pair with the values of all relations.

    Parameters
    ----------
    statements : statements without contradictions, with indices from 0
    sizes : number of subjects and of objects
    n_relations : number of relations
    closed_world : {True, "mentioned", False}
        True makes a row for each ordered pair, and unstated relations are 0; ``"mentioned"`` makes rows only for pairs
        that occur in a statement; False does too, but unstated relations are missing.
    what : name of the pairs in error messages

    Examples
    --------
    >>> import numpy as np
    >>> one = Statements(*(np.array([k]) for k in (0, 1, 0, 1)))
    >>> build_pair_rows(one, (2, 2), 1, True, "pairs").cells.tolist()
    [[0, 1, 0, 0]]
    """
    code = statements.subject * sizes[1] + statements.object
    if closed_world is True:
        total = sizes[0] * sizes[1]
        if total > MAX_PAIRS:
            raise DataError(
                f"A closed world would have {total:,} rows for {what}, more than {MAX_PAIRS:,}. Pass "
                "closed_world='mentioned' to use only pairs that are mentioned; unstated relations are then false."
            )
        codes, row = np.arange(total), code
    else:
        codes, row = np.unique(code, return_inverse=True)
    cells = np.full((n_relations, len(codes)), -1 if closed_world is False else 0, dtype=np.int8)
    cells[statements.relation, row] = statements.value
    return PairRows(codes // sizes[1], codes % sizes[1], cells)


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
