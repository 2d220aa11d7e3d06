"""``sparsefield info`` summarizes a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.cli import options as opt
from sparsefield.cli.console import show, show_json
from sparsefield.option_objects import as_expression
from sparsefield.viz.fit_summary import (
    describe_convergence,
    describe_kinds,
    describe_number,
    describe_size,
    describe_source,
    describe_states,
    describe_weights,
)

if TYPE_CHECKING:
    from sparsefield.data.schema import Variable
    from sparsefield.model import Field

SHOWN_STATES = 6
ALWAYS_SHOWN = ("induction", "objective", "l1", "l2", "penalize_biases")

Features = Annotated[int, typer.Option("--features", min=0, help="Show this many features.")]
Variables = Annotated[int, typer.Option("--variables", min=0, help="Show this many variables.")]
Json = Annotated[
    bool, typer.Option("--json", help="Print JSON with all variables, features, options and the record of the fit.")
]


def info(model: opt.Model, features: Features = 10, variables: Variables = 10, as_json: Json = False) -> None:
    """Summarize a model: its variables, states, features and options, and whether the optimizer converged.

    An imported model was not learned, and has no options and no frequencies of states.
    """
    from sparsefield import load
    from sparsefield.viz.findings import describe_edges

    field: Any = load(model)
    if as_json:
        show_json({"model": str(model), **_content(field)})
        return
    record, layout = field.field_.record, field.field_.layout
    learned, sentence = record.is_learned, describe_convergence(field.field_, field.get_params())
    states = sum(len(variable.states) for schema in layout.schemas for variable in schema.targets)
    show(f"{model}: {type(field).__name__}, written by sparsefield {record.version}")
    show(f"Learned from {record.n_rows:,} rows in {field.n_iter_:,} iterations." if learned else sentence)
    targets, observed = layout.n_targets, sum(len(schema.observed) for schema in layout.schemas)
    if layout.tables != ("",):
        show(f"Tables: {', '.join(layout.tables)}. Templates: {', '.join(t.label for t in layout.templates)}.")
    show(f"Variables: {targets:,} predicted, with {states:,} states; {observed:,} observed.")
    show(f"Kinds: {describe_kinds(field.field_)}.")
    show(f"Features: {describe_size(field.field_)}.")
    show(describe_edges(field.field_))
    if record.source is not None:
        show(describe_source(record.source))
    if learned:
        show(sentence)
        show(f"Options: {_options(field)}.")
    lines = [
        _describe(variable, f"{table}." if table else "", shares=learned)
        for table, schema in zip(layout.tables, layout.schemas, strict=True)
        for variable in schema.variables
    ]
    if variables:
        show("\nVariables:")
        show("\n".join(f"  {line}" for line in lines[:variables]))
        if len(lines) > variables:
            show(f"  ... and {len(lines) - variables:,} more (--variables {len(lines)} shows all)")
    show_features(field.field_, features)


def show_features(field: Field, count: int) -> None:
    """Show the ``count`` strongest features of two and more columns, one line each."""
    from sparsefield.viz.feature_sentences import list_features

    lines = [f"{feature.weight:+7.2f}  {feature.sentence}" for feature in list_features(field, count)]
    if lines:
        how = describe_weights(field)
        show(f"\nStrongest features{f' ({how})' if how else ''}:")
        show("\n".join(lines))


def _content(field: Any) -> dict[str, Any]:
    """Return the content of a model as values that JSON can express."""
    from dataclasses import asdict

    from sparsefield.viz.feature_sentences import list_features

    layout, record = field.field_.layout, field.field_.record
    variables = [
        {"table": table, **{name: getattr(variable, name) for name in ("name", "kind", "role", "states")}}
        for table, schema in zip(layout.tables, layout.schemas, strict=True)
        for variable in schema.variables
    ]
    features = [
        {"template": one.template, "terms": [term._asdict() for term in one.terms], "weight": one.weight}
        for one in list_features(field.field_)
    ]
    return {
        "estimator": type(field).__name__,
        "l1": record.l1,
        "options": {name: _plain(value) for name, value in field.get_params(deep=False).items()},
        "variables": variables,
        "features": features,
        "record": asdict(record),
    }


def _plain(value: Any) -> Any:
    """Return an option as JSON has it, or as an expression of Python."""
    return value if value is None or isinstance(value, (bool, int, float, str)) else as_expression(value)


def _options(field: Any) -> str:
    defaults = type(field)().get_params(deep=False)
    params = field.get_params(deep=False)
    if params.get("templates") is not None:
        params["templates"] = [template.label for template in field.field_.layout.templates]
    if params["l1"] == "auto":
        params["l1"] = f"auto ({field.l1_:.4g}, by {field.field_.record.criterion})"
    shown = [name for name in params if name in ALWAYS_SHOWN or params[name] != defaults[name]]
    texts = {name: params[name] if isinstance(params[name], str) else as_expression(params[name]) for name in shown}
    return ", ".join(f"{name}={text}" for name, text in texts.items())


def _describe(variable: Variable, table: str, *, shares: bool) -> str:
    role = "" if variable.role == "target" else f"{variable.role}; "
    if variable.numeric:
        what = describe_number(variable)
    else:
        what = describe_states(variable, SHOWN_STATES, frequencies=shares)
    return f"{table}{variable.name}: {role}{variable.kind}; {what}"
