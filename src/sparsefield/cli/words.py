"""A field in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparsefield.estimators import FieldEstimator

__all__ = ["STRONGEST", "certificate", "is_learned", "size", "strongest"]

STRONGEST = "Strongest features (a weight counts against the columns' base states: 0, or else the most frequent):"


def is_learned(field: FieldEstimator) -> bool:
    """Whether a field came from a fit; one that was given has no objective."""
    return field.field_.about["objective"] is not None


def strongest(field: FieldEstimator, count: int) -> list[str]:
    """The ``count`` strongest features of two columns and more, one line each."""
    from sparsefield.field import feature_table

    table = feature_table(field.field_, "polars")
    pairs = table.filter(table["variable_b"].is_not_null()).head(count)
    return [f"{row['weight']:+7.2f}  {_sentence(row)}" for row in pairs.iter_rows(named=True)]


def size(field: FieldEstimator) -> str:
    """How many features there are, of how many there might be."""
    unary, pairs = (int((weights != 0).sum()) for weights in (field.field_.unary, field.field_.weights))
    candidates = field.field_.about["n_candidates"]
    what = "candidates" if is_learned(field) else "possible ones"
    more = int((field.field_.conjunction_weights != 0).sum())
    also = f"; {more:,} of three and more" if more else ""
    return f"{unary:,} features of one state; {pairs:,} of pairs, out of {candidates:,} {what}{also}"


def certificate(field: FieldEstimator) -> str:
    """What the exact pass over all candidates found, in one sentence."""
    if not is_learned(field):
        return "Given, not learned."
    params = field.get_params(deep=False)
    allowed = params["kkt_tol"] * (params["l1"] if params["l1"] > 0 else 1.0)
    found = f"misses the optimality conditions by {field.kkt_violation_:.2g}"
    whose = "all candidates"
    if params["max_order"] > 2 and params["lift"] != "all":
        whose = "all pairs, and all conjunctions that a feature with a weight leads to"
    if field.converged_:
        return f"Certified: of {whose}, used or not, the worst {found} ({allowed:.2g} is allowed)."
    reason = "the fit stopped early" if params["certify"] else "no certificate was asked for"
    return f"Not certified ({reason}): the worst of {whose} {found}; a certificate allows {allowed:.2g}."


def _sentence(row: dict[str, Any]) -> str:
    """A row of the table of features: its columns that are categories, and the numbers that these go by."""
    categories, numbers = [], []
    for letter in (name[-1] for name, value in row.items() if name.startswith("variable_") and value is not None):
        table, variable, state = (row.get(f"{part}_{letter}") for part in ("table", "variable", "state"))
        name = f"{table}.{variable}" if table else variable
        if state is None:
            numbers.append(name)
        else:
            categories.append(f"{name}={state}")
    template, weight = row.get("template", ""), row["weight"]
    over = f", {template}" if template and not template.startswith("within") else ""
    what = " and ".join(filter(None, [", ".join(categories[:-1]), categories[-1]]))
    if not numbers:
        return f"{what} {'go together' if weight > 0 else 'seldom go together'}{over}"
    does = "is likelier" if len(categories) == 1 else "go together"
    return f"{what} {does} where {' x '.join(numbers)} is {'high' if weight > 0 else 'low'}{over}"
