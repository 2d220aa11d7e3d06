"""Sentences on a fitted field: its size, columns and weights, its convergence, and how stable its features are.

Commands import this file before they know what to do, so heavy modules are imported by its functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from sparsefield.errors import count
from sparsefield.parameters import automatic_treatment

if TYPE_CHECKING:
    from sparsefield.data.schema import Variable
    from sparsefield.estimators import FieldEstimator
    from sparsefield.model import Field, StabilityRecord
    from sparsefield.model.feature_tables import Feature

MAX_NAMES = 5
"""Columns of one kind, and features, that are named in one line."""

STABLE = 0.9
"""Selection frequency from which a feature is called stable."""

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


def estimator_expression(estimator: FieldEstimator) -> str:
    """Return the estimator as an expression of Python, with the parameters that differ from the defaults.

    The orders of text labels that a frame had are among them, since files do not keep these.
    """
    from sparsefield.estimators.field_estimator import solver_without_checkpoint
    from sparsefield.options import as_expression

    field = estimator.field_
    params = estimator.get_params(deep=False) | {"solver": solver_without_checkpoint(estimator)}
    if params.get("templates") is not None:
        params["templates"] = [
            template.label if template.left is None and template.right is None else template.as_plain()
            for template in field.layout.templates
        ]
    if "templates" not in params and not field.schema.is_binary:
        kinds = {} if isinstance(estimator.kinds, str) else dict(estimator.kinds)
        known = {column if isinstance(column, str) else field.schema.input_names[column] for column in kinds}
        for variable in field.schema.variables:
            if variable.kind == "ordinal" and variable.name not in known and isinstance(variable.states[0], str):
                kinds[variable.name] = list(variable.states)
        params["kinds"] = kinds or params["kinds"]
    defaults = type(estimator)().get_params(deep=False)
    changed = {name: value for name, value in params.items() if repr(value) != repr(defaults.get(name))}
    options = ", ".join(f"{name}={as_expression(value)}" for name, value in changed.items() if name != "n_jobs")
    return f"{type(estimator).__name__}({options})"


def describe_weights(field: Field) -> str:
    """Return what the weights of a field are relative to; empty where this needs no words."""
    import numpy as np

    from sparsefield.data.coding import ColumnClass

    parts, schemas = [], [schema for schema in field.layout.schemas if not schema.is_binary]
    coded = [variable for schema in schemas for variable in schema.variables if variable.has_reference]
    if any(len(variable.states) > 2 for variable in coded):
        parts.append("weights are relative to the reference states: 0, or the most frequent state")
    elif coded or len(schemas) < len(field.layout.schemas):
        parts.append("weights of columns with two states are for the one that is named, relative to the other")
    scores = (ColumnClass.SCORE, ColumnClass.OBSERVED_SCORE)
    if any(np.isin(schema.column_classes, scores).any() for schema in schemas):
        parts.append("columns without a state have weights per standard deviation")
    return "; ".join(parts)


def describe_kinds(field: Field, most: int = MAX_NAMES) -> str:
    """Return how many columns are of each kind, with the names of those of a kind that has few."""
    names: dict[str, list[str]] = {}
    for table, schema in zip(field.layout.tables, field.layout.schemas, strict=True):
        if schema.is_binary:  # which has no list of its variables
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


def describe_variable(variable: Variable, most: int, *, frequencies: bool) -> str:
    """Return role and kind of a column; mean, levels and scores of a number, else its ``most`` frequent states."""
    from sparsefield.data.column_types import family_of, write_number

    role = {"target": "", "observed": "observed; ", "latent": "latent; "}.get(variable.role, "")
    if not variable.numeric:
        return f"{role}{variable.kind}; {describe_states(variable, most, frequencies=frequencies)}"
    scores = f", {variable.transform.replace('-', ' ')}" if len(variable.states) > 2 else ""  # two levels have none
    days = " days" if family_of(variable.dtype) else ""
    mean, deviation = write_number(variable.center, dtype=variable.dtype), write_number(variable.scale)
    levels = count(len(variable.states), "level")
    return f"{role}{variable.kind}; mean {mean}, standard deviation {deviation}{days}, {levels}{scores}"


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


def describe_convergence(field: Field, params: Mapping[str, Any]) -> str:
    """Return sentences on whether the fit converged; ``params`` are the estimator's, those of option objects included.

    The violation is that of the optimality conditions, over all candidates, whether they have a weight or not.
    """
    record = field.record
    if not record.is_learned:
        return "Given, not learned."
    l1 = float(params["l1"] if record.l1 is None else record.l1)
    worst = f"worst violation {format_violation(record.kkt_violation or 0.0, l1)}"
    if not record.converged:
        allowed = format_violation(params["solver__kkt_tol"] * (l1 if l1 > 0 else 1.0), l1)
        reason = "the fit stopped early" if params["solver__certify"] else "certify is off"
        sentences = [f"Not converged ({reason}): the {worst}; the tolerance is {allowed}."]
    else:
        # The likelihood may know the selected features only.
        every = record.likelihood is None or record.likelihood.selected_by == "ml" or record.refit
        left_out = "pair" if params["features__max_order"] == 2 else "candidate"
        optimum = f"no left-out {left_out}" if every else "no other weights of the selected features"
        sentences = [f"Converged: {optimum} would improve the fit ({worst})."]
        sentences += ["The weights were then refitted without l1."] if record.refit else []
    if (likelihood := record.likelihood) is not None:
        wide = sum(len(component.columns) for component in likelihood.wide)
        but = f", except those of {count(wide, 'column')} that depend on each other too widely" if wide else ""
        sentences.append(f"The weights are those of the exact likelihood{but}.")
    if record.mc_error:
        error = f"their draws leave a Monte Carlo error of {record.mc_error:.2g} standard errors"
        sentences.append(f"Missing cells were averaged over; {error}.")
    elif record.mc_error is None:
        treatment = automatic_treatment(params["objective"]) if params["missing"] == "auto" else params["missing"]
        if "em" not in (treatment, getattr(treatment, "name", "")):
            sentences.append("Beliefs replace missing cells, which makes weights too large where much is missing.")
    return " ".join([*sentences, NOT_ABOUT_CHANCE])


def format_violation(violation: float, l1: float) -> str:
    """Return a violation of the optimality conditions as a share of l1; as a number where l1 is 0."""
    if 0.0 <= violation < LEAST_SHARE * l1:
        return f"less than {LEAST_SHARE:.3%} of l1"
    return f"{100 * violation / l1:.2g}% of l1" if l1 > 0 else f"{violation:.2g}"


def stability_column(field: Field, features: Sequence[Feature]) -> dict[str, float]:
    """Return {name of a feature: share of resamples that selected it}; empty where the field has no such record."""
    stability = field.record.stability
    if stability is None or len(stability.frequencies) != len(field.features):
        return {}
    return {feature.name: stability.frequencies[feature.number] for feature in features}


def describe_stability(field: Field, features: Sequence[Feature]) -> list[str]:
    """Return sentences: how many features are stable, and how many of these may be chance."""
    shares, stability = stability_column(field, features), field.record.stability
    if stability is None:
        return []
    edges: dict[tuple, float] = {}
    for feature in features:
        for first, second in combinations(feature.terms, 2):
            key = feature.template, *sorted([first.column, second.column])
            edges[key] = max(edges.get(key, 0.0), shares.get(feature.name, 0.0))
    stable_edges, stable = (sum(value >= STABLE for value in part.values()) for part in (edges, shares))
    rare = sum(value < 0.5 for value in shares.values())
    halves = {"components": "sets of linked rows", "linked rows": "rows, with their neighbors"}
    return [
        f"Selected in at least {STABLE:.0%} of {stability.resamples:,} halves of the "
        f"{halves.get(stability.halved, 'rows')}: {stable_edges:,} of {count(len(edges), 'edge')}, by one of their "
        f"features, and {stable:,} of {count(len(shares), 'feature')}; in less than half: {rare:,}.",
        _describe_bound(field, stability),
    ]


def _describe_bound(field: Field, stability: StabilityRecord) -> str:
    """Return a bound on the expected number of falsely stable pairs, q^2 / ((2 share - 1) p), as a sentence.

    It bounds pairs that are no better than the average candidate, among those that at least a ``share`` of the
    resamples select, when each selects q of p pairs on average: Theorem 1 of Shah and Samworth (2013) for pairs that a
    half selects with probability at most q / p, and the bound of Meinshausen and Bühlmann (2010).
    """
    if stability.halved == "linked rows":
        return "False selections cannot be bounded: nearly all rows are linked, so the halves are not independent."
    if stability.given_graph:
        return "The number of false selections is not bounded, since the candidate pairs were given as a graph."
    stable = sum(value >= STABLE for value in stability.frequencies[: len(field.weights)])
    if not stable:
        return "No pair is stable, so no bound on false selections is needed."
    selected, candidates = stability.mean_pairs, field.layout.n_candidate_pairs
    bound = selected**2 / ((2.0 * STABLE - 1.0) * max(candidates, 1))
    at_most = f"{bound:,.0f}" if bound >= 10 else f"{bound:.2g}"
    nothing = "" if bound < stable else ": no less than there are, so this says nothing; try a larger l1"
    return (
        f"Of pairs that are no better than the average candidate, at most {at_most} are expected among the stable ones "
        f"(a half selects {selected:,.1f} of {candidates:,} on average; Shah and Samworth 2013){nothing}."
    )
