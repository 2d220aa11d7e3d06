"""Statements about ordered pairs become rows: what both triples and ground atoms come down to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from sparsefield.errors import DataError

__all__ = [
    "MAX_PAIRS",
    "ClosedWorld",
    "PairRows",
    "Statements",
    "build_pair_rows",
    "check_closed_world",
    "require_negatives",
]

ClosedWorld = bool | Literal["mentioned"]
"""What a relation that is not stated of a pair means; see `build_pair_rows`."""

MAX_PAIRS = 1_000_000
"""Rows that a closed world may have: a thousand entities, beyond which most rows would hold nothing but zeros."""

SHOWN = 3


class Statements(NamedTuple):
    """Relation ``relation[k]`` holds (``value[k]`` 1) or does not (0) of ``subject[k]`` and ``object[k]``."""

    subject: np.ndarray
    object: np.ndarray
    relation: np.ndarray
    value: np.ndarray


class PairRows(NamedTuple):
    """Rows of a pair table: who stands in them, and (relations, rows) 1, 0 or -1 for a gap."""

    subject: np.ndarray
    object: np.ndarray
    cells: np.ndarray


def check_closed_world(closed_world: ClosedWorld) -> None:
    """Refuse what is neither True, False nor ``"mentioned"``."""
    if not isinstance(closed_world, bool) and closed_world != "mentioned":
        raise DataError(f"closed_world is {closed_world!r}; it must be True, False or 'mentioned'.")


def build_pair_rows(
    statements: Statements, sizes: tuple[int, int], n_relations: int, closed_world: ClosedWorld, what: str
) -> PairRows:
    """Lay statements out as rows.

    Parameters
    ----------
    statements : numbers of subjects, objects and relations, from 0, free of contradictions
    sizes : how many subjects and objects there are
    n_relations : how many relations there are
    closed_world : {True, "mentioned", False}
        True makes a row for each ordered pair, and what is not stated is 0; ``"mentioned"`` does so for the pairs
        that occur in a statement; False does too, but what is not stated is a gap.
    what : what to call the pairs in an error

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
                f"A closed world has a row for each of {total:,} {what}; {MAX_PAIRS:,} are the most. Pass "
                "closed_world='mentioned' to take only pairs that are mentioned; what is not stated of them is false."
            )
        codes, row = np.arange(total), code
    else:
        codes, row = np.unique(code, return_inverse=True)
    cells = np.full((n_relations, len(codes)), -1 if closed_world is False else 0, dtype=np.int8)
    cells[statements.relation, row] = statements.value
    return PairRows(codes // sizes[1], codes % sizes[1], cells)


def require_negatives(names: Sequence[str], cells: Sequence[np.ndarray], remedy: str) -> None:
    """In an open world, refuse relations that are never stated to be false: nothing could be learned of them."""
    never = [name for name, column in zip(names, cells, strict=True) if not (column == 0).any()]
    if never:
        shown = ", ".join(repr(name) for name in never[:SHOWN]) + (", ..." if len(never) > SHOWN else "")
        raise DataError(
            f"In an open world (closed_world=False) what is not stated is unknown, and nothing says where {shown} "
            f"{'is' if len(never) == 1 else 'are'} false, so a column would only ever be 1. {remedy}, or pass "
            "closed_world='mentioned' or True, so that what is not stated is false."
        )
