"""``sparsefield info`` summarizes a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import deliver
from sparsefield.app.pages.fit_summary import (
    describe_convergence,
    describe_kinds,
    describe_number,
    describe_size,
    describe_source,
    describe_states,
    describe_weights,
)
from sparsefield.app.tables.file_format import source_of
from sparsefield.errors import count
from sparsefield.options import as_expression
from sparsefield.parameters import FieldParameters

if TYPE_CHECKING:
    from sparsefield.data.schema import Variable
    from sparsefield.model import Field

SHOWN_STATES = 6
ESTIMATOR_NAMES = ("MarkovField", "CRFClassifier", "RelationalField")
OWN_PARAMETERS = ("latent", "observed", "templates")
"""Parameters that only some estimators have."""

ALWAYS_SHOWN = ("induction", "objective", "l1", "l2")


def info(
    model: opt.Model,
    features: Annotated[int, typer.Option("--features", min=0, help="Show this many features.")] = 10,
    variables: Annotated[int, typer.Option("--variables", min=0, help="Show this many variables.")] = 10,
    as_json: opt.Json = False,
) -> None:
    """Summarize a model: its variables, states, features and options, and whether the optimizer converged.

    A model that was given, not learned, has no options and no frequencies of states.
    """
    saved = _open(model)
    deliver(
        _describe_model(model, saved, features, variables),
        lambda: {"model": str(model), **model_content(saved)},
        as_json=as_json,
    )


def _describe_model(model: Path, saved: SavedModel, features: int, variables: int) -> Iterator[str]:
    from sparsefield.app.pages.findings import describe_edges

    field = saved.field
    record, layout = field.record, field.layout
    learned, sentence = record.is_learned, describe_convergence(field, saved.all_params)
    states = sum(len(variable.states) for schema in layout.schemas for variable in schema.targets)
    yield f"{model}: {saved.estimator}, written by sparsefield {record.version}"
    yield f"Learned from {count(record.n_rows, 'row')} in {count(record.n_iter, 'iteration')}." if learned else sentence
    targets, observed = layout.n_targets, sum(len(schema.observed) for schema in layout.schemas)
    if layout.tables != ("",):
        yield f"Tables: {', '.join(layout.tables)}. Templates: {', '.join(t.label for t in layout.templates)}."
    yield f"Variables: {targets:,} predicted, with {count(states, 'state')}; {observed:,} observed."
    yield f"Kinds: {describe_kinds(field)}."
    yield f"Features: {describe_size(field)}."
    yield describe_edges(field)
    source = source_of(record.source)
    if source is not None:
        yield describe_source(source)
    if learned:
        yield sentence
        yield f"Options: {_options(saved)}."
    if variables:
        yield "\nVariables:"
        named = [
            (f"{table}." if table else "", variable)
            for table, schema in zip(layout.tables, layout.schemas, strict=True)
            for variable in schema.variables
        ]
        for table, variable in named[:variables]:
            yield f"  {_describe(variable, table, shares=learned)}"
        if len(named) > variables:
            yield f"  ... and {len(named) - variables:,} more (--variables {len(named)} shows all)"
    yield from describe_features(field, features)


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
        from sparsefield import load

        return describe_estimator(load(model))
    params = {name: value for name, value in (defaults | saved).items() if name in saved or name not in OWN_PARAMETERS}
    solver = {"solver__kkt_tol": config.KKT_TOLERANCE, "solver__certify": True, "features__max_order": 2}
    return SavedModel(str(extra["estimator"]), field, params, defaults, params | solver)


def _is_plain(params: Any, known: set[str]) -> bool:
    """Return whether saved parameters are known, and none is an option object."""
    if not isinstance(params, dict) or not set(params) <= known:
        return False
    return not any(isinstance(value, dict) for value in params.values())


def describe_estimator(estimator: Any) -> SavedModel:
    """Return the content that the model file of a fitted estimator has."""
    defaults, params = type(estimator)().get_params(deep=False), estimator.get_params(deep=False)
    return SavedModel(type(estimator).__name__, estimator.field_, params, defaults, estimator.get_params())


def describe_features(field: Field, number: int) -> Iterator[str]:
    """Yield the strongest features of two and more columns, one line each."""
    from sparsefield.analysis.feature_sentences import list_features

    features = list_features(field, number)
    if features:
        how = describe_weights(field)
        yield f"\nStrongest features{f' ({how})' if how else ''}:"
    for feature in features:
        yield f"{feature.weight:+7.2f}  {feature.sentence}"


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
        "options": {name: plain_option(value) for name, value in saved.params.items()},
        "variables": variables,
        "features": [feature.as_dict() for feature in list_features(saved.field)],
        "record": msgspec.to_builtins(record),
    }


def plain_option(value: Any) -> Any:
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
