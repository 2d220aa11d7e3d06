"""A field in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparsefield.model import Field

__all__ = ["WEIGHTS", "certificate", "count", "is_learned", "l1_of", "size"]

WEIGHTS = "a weight counts against the columns' base states: 0, or else the most frequent"


def is_learned(field: Field) -> bool:
    """Whether a field came from a fit; one that was given has no objective."""
    return field.record.is_learned


def size(field: Field) -> str:
    """How many features there are, of how many there might be."""
    unary, pairs = (int((weights != 0).sum()) for weights in (field.unary, field.weights))
    candidates = field.layout.n_candidate_pairs
    what = "candidates" if is_learned(field) else "possible ones"
    more = int((field.conjunction_weights != 0).sum())
    also = f"; {more:,} of three and more" if more else ""
    return f"{unary:,} features of one state; {pairs:,} of pairs, out of {candidates:,} {what}{also}"


def l1_of(field: Field, params: Mapping[str, Any]) -> float:
    """The l1 that a field was learned with, be it chosen or given."""
    return float(params["l1"] if field.record.l1 is None else field.record.l1)


def certificate(field: Field, params: Mapping[str, Any]) -> str:
    """What the exact pass over all candidates found, in one sentence; ``params`` are the estimator's."""
    if not is_learned(field):
        return "Given, not learned."
    l1 = l1_of(field, params)
    allowed = params["kkt_tol"] * (l1 if l1 > 0 else 1.0)
    whose = "all candidates"
    if params["max_order"] > 2 and params["lift"] != "all":
        whose = "all pairs, and all conjunctions that a feature with a weight leads to"
    found = f"misses the optimality conditions by {field.record.kkt_violation:.2g}"
    if field.record.converged:
        before = " This is the field before its weights were estimated anew." if field.record.refit else ""
        return f"Certified: of {whose}, used or not, the worst {found} ({allowed:.2g} is allowed).{before}"
    reason = "the fit stopped early" if params["certify"] else "no certificate was asked for"
    return f"Not certified ({reason}): the worst of {whose} {found}; a certificate allows {allowed:.2g}."


def count(number: int, what: str, many: str | None = None) -> str:
    """A number with its noun.

    Examples
    --------
    >>> count(1, "row"), count(1200, "row"), count(0, "community", "communities")
    ('1 row', '1,200 rows', '0 communities')
    """
    return f"{number:,} {what if number == 1 else many or what + 's'}"
