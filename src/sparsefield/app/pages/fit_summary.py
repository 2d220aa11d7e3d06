"""This module summarizes a fitted field in sentences.

Commands import it before they know what to do, so heavy modules are imported by its functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sparsefield.parameters import automatic_treatment
from sparsefield.text import count

if TYPE_CHECKING:
    import numpy as np

    from sparsefield.app.tables.read_options import Source
    from sparsefield.data.schema import Schema, Variable
    from sparsefield.model import Field

MAX_NAMES = 5
"""Columns of one kind that are named in one line."""


LEAST_SHARE = 1e-5
"""Violations below this share of l1 are printed as "less than"."""

NOT_ABOUT_CHANCE = (
    "This is about the optimizer, not about chance: \u201csparsefield analyze stability\u201d shows which features are "
    "selected again from resampled rows."
)


def describe_size(field: Field) -> str:
    """Return the numbers of features and of candidates as a sentence."""
    biases, pairs = (int((weights != 0).sum()) for weights in (field.biases, field.weights))
    candidates = field.layout.n_candidate_pairs
    what = "candidates" if field.record.is_learned else "possible pairs"
    more = int((field.conjunction_weights != 0).sum())
    also = f"; {count(more, 'conjunction')} of three or more columns" if more else ""
    return f"{count(biases, 'bias', 'biases')}; {pairs:,} pair features out of {candidates:,} {what}{also}"


def describe_source(source: Source) -> str:
    """Return from which file and with which options the table was read, as a sentence."""
    import shlex

    from sparsefield.app.pages.repeat_fit import source_options

    words = source_options(source) + [part for name in source.identifiers for part in ("--id", name)]
    options = f" with {shlex.join(words)}" if words else ""
    left_out = f"; left out: {', '.join(source.left_out)}" if source.left_out else ""
    return f"Read from {source.file}{options}{left_out}."


def are_scores(schema: Schema) -> np.ndarray:
    """Return (columns,) bool: which columns are scores of ordinal or numeric variables."""
    import numpy as np

    from sparsefield.data.coding import ColumnClass

    return np.isin(schema.column_classes, (ColumnClass.SCORE, ColumnClass.OBSERVED_SCORE))


def describe_weights(field: Field) -> str:
    """Return what the weights of a field are relative to; empty where this needs no words."""
    from sparsefield.data.binary_schema import BinarySchema

    parts, schemas = [], [schema for schema in field.layout.schemas if not isinstance(schema, BinarySchema)]
    coded = [variable for schema in schemas for variable in schema.variables if variable.has_reference]
    if any(len(variable.states) > 2 for variable in coded):
        parts.append("weights are relative to the reference states: 0, or the most frequent state")
    elif coded or len(schemas) < len(field.layout.schemas):
        parts.append("weights of columns with two states are for the one that is named, relative to the other")
    if any(are_scores(schema).any() for schema in schemas):
        parts.append("columns without a state have weights per standard deviation")
    return "; ".join(parts)


def describe_kinds(field: Field, most: int = MAX_NAMES) -> str:
    """Return how many columns are of each kind, with the names of those of a kind that has few.

    Examples
    --------
    >>> from sparsefield.app.datasets import make_markov_field
    >>> describe_kinds(make_markov_field(3, 1, burn_in=1).field.field_)
    '3 nominal (x0, x1, x2)'
    """
    from sparsefield.data.binary_schema import BinarySchema

    names: dict[str, list[str]] = {}
    for table, schema in zip(field.layout.tables, field.layout.schemas, strict=True):
        if isinstance(schema, BinarySchema):  # which has no list of its variables
            names.setdefault("nominal", []).extend(f"{table}.{name}" if table else name for name in schema.order)
            continue
        for variable in schema.variables:
            if variable.role != "latent":
                names.setdefault(variable.kind, []).append(f"{table}.{variable.name}" if table else variable.name)
    parts = [
        f"{len(own):,} {kind}" + (f" ({', '.join(own)})" if len(own) <= most else "")
        for kind, own in sorted(names.items(), key=lambda item: -len(item[1]))
    ]
    return ", ".join(parts)


def describe_number(variable: Variable) -> str:
    """Return mean, standard deviation, levels and scores of a numeric column; two levels have no scores."""
    from sparsefield.data.column_types import family_of
    from sparsefield.data.number_text import write_number

    scores = f", {variable.transform.replace('-', ' ')}" if len(variable.states) > 2 else ""
    levels = count(len(variable.states), "level")
    days = " days" if family_of(variable.dtype) else ""
    mean, deviation = write_number(variable.center, dtype=variable.dtype), write_number(variable.scale)
    return f"mean {mean}, standard deviation {deviation}{days}, {levels}{scores}"


def describe_states(variable: Variable, most: int, *, frequencies: bool) -> str:
    """Return the states of a column: ordinal ones in their order with "<", the ``most`` frequent ones of others."""
    pairs = list(zip(variable.frequencies, variable.states, strict=True))
    shown = [f"{state} ({share:.0%})" if frequencies else f"{state}" for share, state in pairs]
    if variable.ordered:
        middle = [*shown[: most - 1], "...", shown[-1]] if len(shown) > most else shown
        return " < ".join(middle)
    order = sorted(range(len(pairs)), key=lambda k: -pairs[k][0])
    more = f", and {len(pairs) - most:,} more" if len(pairs) > most else ""
    return ", ".join(shown[k] for k in order[:most]) + more


def l1_of(field: Field, params: Mapping[str, Any]) -> float:
    """Return the l1 of the fit, whether it was selected or given."""
    return float(params["l1"] if field.record.l1 is None else field.record.l1)


def describe_convergence(field: Field, params: Mapping[str, Any]) -> str:
    """Return sentences on whether the fit converged; ``params`` are the estimator's, those of option objects included.

    The violation is that of the optimality conditions, over all candidates, whether they have a weight or not.
    """
    if not field.record.is_learned:
        return "Given, not learned."
    l1 = l1_of(field, params)
    allowed = params["solver__kkt_tol"] * (l1 if l1 > 0 else 1.0)
    candidates = "pair"
    if params["features__max_order"] > 2 and params["features__expand"] != "all":
        candidates = "pair, and no conjunction that extends an active feature,"
    elif params["features__max_order"] > 2:
        candidates = "pair or conjunction"
    violation = field.record.kkt_violation or 0.0
    if field.record.converged:
        refit = " The weights were then refitted without l1." if field.record.refit else ""
        return (
            f"Converged: {_describe_optimum(field, candidates)} would improve the fit (worst violation "
            f"{format_violation(violation, l1)}).{refit}{_describe_likelihood(field)}"
            f"{_describe_missing(field, params)} {NOT_ABOUT_CHANCE}"
        )
    reason = "the fit stopped early" if params["solver__certify"] else "certify is off"
    return (
        f"Not converged ({reason}): a left-out {candidates.split(',')[0]} or a further step could improve the fit "
        f"(worst violation {format_violation(violation, l1, exact=True)}; the tolerance is "
        f"{format_violation(allowed, l1, exact=True)}).{_describe_missing(field, params)} {NOT_ABOUT_CHANCE}"
    )


def _describe_optimum(field: Field, candidates: str) -> str:
    """Return what would not improve a fit that converged: the likelihood may know the selected features only."""
    likelihood = field.record.likelihood
    if likelihood is None or likelihood.selected_by == "ml" or field.record.refit:
        return f"no left-out {candidates}"
    return "no other weights of the selected features"


def _describe_likelihood(field: Field) -> str:
    """Return sentences on what the exact likelihood was used for, after a space; nothing if it was not."""
    likelihood = field.record.likelihood
    if likelihood is None:
        return ""
    selected = "The"
    if likelihood.selected_by != "ml":
        objective = "pseudo-likelihood" if likelihood.selected_by == "pl" else "contrastive divergence"
        selected = f"Features were selected by {objective}, and their"
    wide = sum(len(component.columns) for component in likelihood.wide)
    if wide == field.layout.n_targets:
        return " The exact likelihood is too expensive for all columns: the weights are those of the pseudo-likelihood."
    except_for = f", except those of {count(wide, 'column')} that depend on each other too widely" if wide else ""
    return f" {selected} weights are those of the exact likelihood{except_for}."


def _describe_missing(field: Field, params: Mapping[str, Any]) -> str:
    """Return a sentence on how missing cells were treated, after a space; nothing if there were none."""
    error, missing = field.record.mc_error, params["missing"]
    if error == 0.0:
        return ""
    if error is not None:
        return (
            f" Missing cells were averaged over; their draws leave a Monte Carlo error of {error:.2g} standard errors."
        )
    treatment = automatic_treatment(params["objective"]) if missing == "auto" else getattr(missing, "name", missing)
    if treatment == "em":
        return " Missing cells were averaged over; the fit ended before the Monte Carlo error was known."
    return " Beliefs were put in the place of missing cells, which makes weights too large where much is missing."


def format_violation(violation: float, l1: float, *, exact: bool = False) -> str:
    """Return a violation of the optimality conditions as a share of l1; as a number where l1 is 0.

    A share below 0.001% is printed as such, unless ``exact``.

    Examples
    --------
    >>> format_violation(0.018, 2.0), format_violation(0.018, 0.0)
    ('0.9% of l1', '0.018')
    >>> format_violation(1e-15, 2.0)
    'less than 0.001% of l1'
    """
    if not exact and 0.0 <= violation < LEAST_SHARE * l1:
        return f"less than {LEAST_SHARE:.3%} of l1"
    return f"{100 * violation / l1:.2g}% of l1" if l1 > 0 else f"{violation:.2g}"
