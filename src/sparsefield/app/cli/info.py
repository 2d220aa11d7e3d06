"""``sparsefield info`` summarizes a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import show, show_json
from sparsefield.app.pages.fit_summary import (
    describe_convergence,
    describe_kinds,
    describe_number,
    describe_size,
    describe_source,
    describe_states,
    describe_weights,
)
from sparsefield.app.tables.read_options import source_of
from sparsefield.option_objects import as_expression
from sparsefield.parameters import FieldParameters
from sparsefield.text import count

if TYPE_CHECKING:
    from sparsefield.data.schema import Variable
    from sparsefield.model import Field

SHOWN_STATES = 6
ESTIMATOR_NAMES = ("MarkovField", "CRFClassifier", "RelationalField")
OWN_PARAMETERS = ("latent", "observed", "templates")
"""Parameters that only some estimators have."""

ALWAYS_SHOWN = ("induction", "objective", "l1", "l2")

Features = Annotated[int, typer.Option("--features", min=0, help="Show this many features.")]
Variables = Annotated[int, typer.Option("--variables", min=0, help="Show this many variables.")]
Json = Annotated[
    bool, typer.Option("--json", help="Print JSON with all variables, features, options and the record of the fit.")
]


def info(model: opt.Model, features: Features = 10, variables: Variables = 10, as_json: Json = False) -> None:
    """Summarize a model: its variables, states, features and options, and whether the optimizer converged.

    An imported model was not learned, and has no options and no frequencies of states.
    """
    saved = _open(model)
    if as_json:
        show_json({"model": str(model), **model_content(saved)})
        return
    from sparsefield.app.pages.findings import describe_edges

    field = saved.field
    record, layout = field.record, field.layout
    learned, sentence = record.is_learned, describe_convergence(field, saved.all_params)
    states = sum(len(variable.states) for schema in layout.schemas for variable in schema.targets)
    show(f"{model}: {saved.estimator}, written by sparsefield {record.version}")
    show(f"Learned from {count(record.n_rows, 'row')} in {count(record.n_iter, 'iteration')}." if learned else sentence)
    targets, observed = layout.n_targets, sum(len(schema.observed) for schema in layout.schemas)
    if layout.tables != ("",):
        show(f"Tables: {', '.join(layout.tables)}. Templates: {', '.join(t.label for t in layout.templates)}.")
    show(f"Variables: {targets:,} predicted, with {count(states, 'state')}; {observed:,} observed.")
    show(f"Kinds: {describe_kinds(field)}.")
    show(f"Features: {describe_size(field)}.")
    show(describe_edges(field))
    source = source_of(record.source)
    if source is not None:
        show(describe_source(source))
    if learned:
        show(sentence)
        show(f"Options: {_options(saved)}.")
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
    show_features(field, features)


@dataclass(frozen=True)
class SavedModel:
    """The content of a model file."""

    estimator: str
    field: Field
    params: Mapping[str, Any]
    defaults: Mapping[str, Any]
    all_params: Mapping[str, Any]
    """The parameters, with those of option objects."""


def _open(model: Path) -> SavedModel:
    """Read a model, without the modules that learn and infer if all its option objects are the default ones."""
    from sparsefield import config
    from sparsefield.model.model_file import load_field

    field, extra = load_field(model)
    defaults = {option.name: option.default for option in fields(FieldParameters)} | dict.fromkeys(OWN_PARAMETERS)
    saved: Any = extra.get("params")
    if extra.get("estimator") not in ESTIMATOR_NAMES or not _is_plain(saved, set(defaults)):
        return _open_estimator(model)
    params = {name: value for name, value in (defaults | saved).items() if name in saved or name not in OWN_PARAMETERS}
    solver = {"solver__kkt_tol": config.KKT_TOLERANCE, "solver__certify": True, "features__max_order": 2}
    return SavedModel(str(extra["estimator"]), field, params, defaults, params | solver)


def _is_plain(params: Any, known: set[str]) -> bool:
    """Return whether saved parameters are known, without option objects and features of more than two columns."""
    if not isinstance(params, dict) or not set(params) <= known:
        return False
    return not any(isinstance(value, dict) for value in params.values())


def _open_estimator(model: Path) -> SavedModel:
    from sparsefield import load

    return describe_estimator(load(model))


def describe_estimator(estimator: Any) -> SavedModel:
    """Return the content that the model file of a fitted estimator has."""
    defaults, params = type(estimator)().get_params(deep=False), estimator.get_params(deep=False)
    return SavedModel(type(estimator).__name__, estimator.field_, params, defaults, estimator.get_params())


def show_features(field: Field, count: int) -> None:
    """Show the ``count`` strongest features of two and more columns, one line each."""
    from sparsefield.analysis.feature_sentences import list_features

    lines = [f"{feature.weight:+7.2f}  {feature.sentence}" for feature in list_features(field, count)]
    if lines:
        how = describe_weights(field)
        show(f"\nStrongest features{f' ({how})' if how else ''}:")
        show("\n".join(lines))


def model_content(saved: SavedModel) -> dict[str, Any]:
    """Return the content of a model as values that JSON can express."""
    from sparsefield.analysis.feature_sentences import list_features

    layout, record = saved.field.layout, saved.field.record
    variables = [
        {"table": table, **{name: getattr(variable, name) for name in ("name", "kind", "role", "states")}}
        for table, schema in zip(layout.tables, layout.schemas, strict=True)
        for variable in schema.variables
    ]
    return {
        "estimator": saved.estimator,
        "l1": record.l1,
        "options": {name: _plain(value) for name, value in saved.params.items()},
        "variables": variables,
        "features": [feature.as_dict() for feature in list_features(saved.field)],
        "record": msgspec.to_builtins(record),
    }


def _plain(value: Any) -> Any:
    """Return an option as JSON has it, or as an expression of Python."""
    return value if value is None or isinstance(value, (bool, int, float, str)) else as_expression(value)


def _options(saved: SavedModel) -> str:
    params, field = dict(saved.params), saved.field
    if params.get("templates") is not None:
        params["templates"] = [template.label for template in field.layout.templates]
    if params["l1"] == "auto":
        params["l1"] = f"auto ({field.record.l1:.4g}, by {field.record.criterion})"
    shown = [name for name in params if name in ALWAYS_SHOWN or params[name] != saved.defaults[name]]
    texts = {name: params[name] if isinstance(params[name], str) else as_expression(params[name]) for name in shown}
    return ", ".join(f"{name}={text}" for name, text in texts.items())


def _describe(variable: Variable, table: str, *, shares: bool) -> str:
    role = "" if variable.role == "target" else f"{variable.role}; "
    if variable.numeric:
        what = describe_number(variable)
    else:
        what = describe_states(variable, SHOWN_STATES, frequencies=shares)
    return f"{table}{variable.name}: {role}{variable.kind}; {what}"
