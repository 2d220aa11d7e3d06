"""How to repeat a fit: a command, and the estimator as an expression of Python."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import is_dataclass
from typing import Any

from sparsefield.app.pages.fit_summary import source_words
from sparsefield.app.tables.file_format import Source, source_of
from sparsefield.estimators import FieldEstimator, MarkovField, RelationalField
from sparsefield.estimators.field_estimator import solver_without_checkpoint
from sparsefield.options import as_expression, changed_fields
from sparsefield.parameters import EVERYDAY

FLAGS = {name: f"--{name}" for name in EVERYDAY} | {"random_state": "--seed"}
"""Options of the command line by the names of parameters; all others are set by ``--set``."""

BY_DATA = ("kinds", "templates", "latent", "observed")
"""Parameters that the command line has under other names, or takes from the data."""

NOT_OF_THE_FIT = ("n_jobs", "verbose")


def training_source(estimator: FieldEstimator, data_name: str | None = None, left_out: Sequence[str] = ()) -> Source:
    """Return how the table was read: as recorded, or else by default from ``data_name``, without some columns."""
    default = "schema.toml" if isinstance(estimator, RelationalField) else "data.csv"
    known = source_of(estimator.field_.record.source)
    if known is not None and not isinstance(estimator, RelationalField):
        return known
    return Source(data_name or default, identifiers=tuple(left_out))


def changed_options(estimator: FieldEstimator) -> dict[str, Any]:
    """Return the parameters that differ from the defaults, as a new estimator would take them."""
    params = estimator.get_params(deep=False) | {"solver": solver_without_checkpoint(estimator)}
    if params.get("templates") is not None:
        params["templates"] = [
            template.label if template.left is None and template.right is None else template.as_plain()
            for template in estimator.field_.layout.templates
        ]
    defaults = type(estimator)().get_params(deep=False)
    return {
        name: value
        for name, value in params.items()
        if name not in NOT_OF_THE_FIT and repr(value) != repr(defaults.get(name))
    }


def as_command(estimator: FieldEstimator, source: Source) -> str | None:
    """Return the call of ``sparsefield fit``; None where the command line cannot express what was set."""
    changed = changed_options(estimator)
    templates = changed.get("templates") or ()
    if not isinstance(estimator, (MarkovField, RelationalField)) or not all(isinstance(t, str) for t in templates):
        return None
    words = ["sparsefield", "fit", source.file, "-o", "model.safetensors"]
    for name, value in changed.items():
        if name not in BY_DATA and not (name == "random_state" and value == 0):
            words += _option_words(name, value)
    words += [
        word for name, states in (changed.get("latent") or {}).items() for word in ("--latent", f"{name}={states}")
    ]
    words += [word for template in templates for word in ("--template", template)]
    if isinstance(estimator, RelationalField):
        return shlex.join(words)
    for column, kind in _kinds(estimator).items():
        name = column if isinstance(column, str) else estimator.field_.schema.input_names[column]
        if isinstance(kind, str) and "<" not in kind:
            words += [f"--{kind}", name]
            continue
        labels = kind.split("<") if isinstance(kind, str) else [str(label) for label in kind]
        if any(mark in label for label in labels for mark in "<,") or "," in name:
            return None
        words += ["--ordinal", f"{name}={'<'.join(labels)}"]
    words += [word for variable in estimator.field_.schema.observed for word in ("--observed", variable.name)]
    return shlex.join([*words, *source_words(source)])


def _option_words(name: str, value: Any) -> list[str]:
    """Return the words that set a parameter, and the changed options of an option object."""
    if is_dataclass(value):
        kind = getattr(value, "name", None)
        words = [] if kind is None else _option_words(name, kind)
        return words + [w for k, v in changed_fields(value).items() for w in _option_words(f"{name}.{k}", v)]
    parts = value if isinstance(value, (tuple, list)) else [value]
    text = ",".join(("no", "yes")[part] if isinstance(part, bool) else str(part) for part in parts)
    return [FLAGS[name], text] if name in FLAGS else ["--set", f"{name}={text}"]


def estimator_expression(estimator: FieldEstimator) -> str:
    """Return the estimator as an expression of Python, with the parameters that differ from the defaults."""
    changed = changed_options(estimator)
    if not isinstance(estimator, RelationalField) and _kinds(estimator):
        changed["kinds"] = _kinds(estimator)
    options = ", ".join(f"{name}={as_expression(value)}" for name, value in changed.items())
    return f"{type(estimator).__name__}({options})"


def _kinds(estimator: FieldEstimator) -> dict[Any, Any]:
    """Return the kinds that were set, and the orders of text labels that a frame had, since files do not keep them."""
    kinds: dict[Any, Any] = {} if isinstance(estimator.kinds, str) else dict(estimator.kinds)
    schema = estimator.field_.schema
    if schema.is_binary:
        return kinds
    known = {column if isinstance(column, str) else schema.input_names[column] for column in kinds}
    for variable in schema.variables:
        if variable.kind == "ordinal" and variable.name not in known and isinstance(variable.states[0], str):
            kinds[variable.name] = list(variable.states)
    return kinds
