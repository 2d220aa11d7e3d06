"""How to repeat a fit: a command, lines of Python, and the versions."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from importlib.metadata import version
from typing import Any

import sparsefield
from sparsefield.app.tables.read_options import ReadOptions, Source, source_of
from sparsefield.data.binary_schema import BinarySchema
from sparsefield.estimators import FieldEstimator, RelationalField
from sparsefield.estimators.field_estimator import solver_without_checkpoint
from sparsefield.model import Field
from sparsefield.option_objects import as_expression, changed_fields
from sparsefield.parameters import EVERYDAY

FLAGS = {name: f"--{name}" for name in EVERYDAY} | {"random_state": "--seed"}
"""Options of the command line by the names of parameters; ``--set`` has all others."""

BY_DATA = ("kinds", "templates", "latent", "observed")
"""Parameters that the command line has under other names, or takes from the data."""

NOT_OF_THE_FIT = ("n_jobs", "verbose")

LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn")


@dataclass(frozen=True)
class FitDescription:
    """What is needed to repeat the fit of an estimator."""

    kind: str
    """Name of its class."""
    field: Field
    params: Mapping[str, Any]
    defaults: Mapping[str, Any]
    """Parameters of a new estimator of this class."""
    data_name: str = "data.csv"
    """Name of the data in the lines."""
    left_out: Sequence[str] = ()
    """Columns of the data that were not used."""

    @property
    def linked(self) -> bool:
        return self.kind == "RelationalField"

    @property
    def source(self) -> Source:
        """How the table was read: as recorded, or else by default from ``data_name``."""
        return source_of(self.field.record.source) or Source(self.data_name, identifiers=tuple(self.left_out))


def describe_fit(
    estimator: FieldEstimator, data_name: str | None = None, left_out: Sequence[str] = ()
) -> FitDescription:
    """Return what is needed to repeat the fit of a fitted estimator."""
    return FitDescription(
        type(estimator).__name__,
        estimator.field_,
        estimator.get_params() | {"solver": solver_without_checkpoint(estimator)},
        type(estimator)().get_params(),
        data_name or ("schema.toml" if isinstance(estimator, RelationalField) else "data.csv"),
        left_out,
    )


def changed_options(fitted: FitDescription) -> dict[str, Any]:
    """Return the options that differ from the defaults, as a new estimator would take them."""
    params = {name: value for name, value in fitted.params.items() if name not in NOT_OF_THE_FIT and "__" not in name}
    if params.get("templates") is not None:
        params["templates"] = [
            template.label if template.left is None and template.right is None else template.as_plain()
            for template in fitted.field.layout.templates
        ]
    return {name: value for name, value in params.items() if repr(value) != repr(fitted.defaults.get(name))}


def as_command(fitted: FitDescription) -> str | None:
    """Return the call of ``sparsefield fit``; None where the command line lacks an option that was set."""
    changed = changed_options(fitted)
    texts_only = all(isinstance(template, str) for template in changed.get("templates") or ())
    if fitted.kind not in ("MarkovField", "RelationalField") or not texts_only:
        return None
    data_name = fitted.data_name if fitted.linked else fitted.source.file
    words = ["sparsefield", "fit", data_name, "-o", "model.safetensors"]
    for name, value in changed.items():
        for option, setting in _command_line_values(name, value).items():
            parts = setting if isinstance(setting, (tuple, list)) else [setting]
            text = ",".join({True: "yes", False: "no"}[p] if isinstance(p, bool) else str(p) for p in parts)
            name_of = option.replace("__", ".")
            words += [FLAGS[option], text] if option in FLAGS else ["--set", f"{name_of}={text}"]
    for name, states in (changed.get("latent") or {}).items():
        words += ["--latent", f"{name}={states}"]
    for template in changed.get("templates") or ():
        words += ["--template", template]
    if not fitted.linked:
        kinds = _kind_words(fitted)
        if kinds is None:
            return None
        words += kinds
        for option, names in (("--observed", _observed(fitted)), ("--id", fitted.source.identifiers)):
            for name in names:
                words += [option, name]
        words += source_options(fitted.source)
    return shlex.join(words)


def source_options(source: Source) -> list[str]:
    """Return the options for reading the table."""
    words = shlex.split(source.reading.as_words())
    for option in ("weight", "group", "top_levels", "columns"):
        value = getattr(source, option)
        words += [] if value is None else [f"--{option.replace('_', '-')}", str(value)]
    return words


def _kind_words(fitted: FitDescription) -> list[str] | None:
    """Return the options of the given kinds; None where the command line cannot express an order of labels."""
    words: list[str] = []
    for column, kind in _kinds(fitted).items():
        name = column if isinstance(column, str) else fitted.field.schema.input_names[column]
        if isinstance(kind, str) and "<" not in kind:
            words += [f"--{kind}", name]
            continue
        labels = kind.split("<") if isinstance(kind, str) else [str(label) for label in kind]
        if any(mark in label for label in labels for mark in "<,") or "," in name:
            return None
        words += ["--ordinal", f"{name}={'<'.join(labels)}"]
    return words


def _kinds(fitted: FitDescription) -> dict[Any, Any]:
    """Return the given kinds, and the orders of text labels that a frame had, since files do not keep them."""
    given = fitted.params["kinds"]
    kinds: dict[Any, Any] = {} if isinstance(given, str) else dict(given)
    schema = fitted.field.schema
    if isinstance(schema, BinarySchema):
        return kinds
    known = {column if isinstance(column, str) else schema.input_names[column] for column in kinds}
    for variable in schema.variables:
        if variable.kind == "ordinal" and variable.name not in known and isinstance(variable.states[0], str):
            kinds[variable.name] = list(variable.states)
    return kinds


def _command_line_values(name: str, value: Any) -> dict[str, Any]:
    """Return {parameter: value} of a changed parameter, with the options of an option object as separate entries."""
    if name in BY_DATA or (name == "random_state" and value == 0):
        return {}
    if not is_dataclass(value):
        return {name: value}
    kind = {name: value.name} if hasattr(value, "name") else {}  # pyright: ignore[reportAttributeAccessIssue]
    return kind | {f"{name}__{option}": setting for option, setting in changed_fields(value).items()}


def as_python(fitted: FitDescription) -> str:
    """Return lines of Python that learn the field from a file."""
    changed = {name: value for name, value in changed_options(fitted).items() if name != "observed"}
    if not fitted.linked and _kinds(fitted):
        changed["kinds"] = _kinds(fitted)
    options = ", ".join(f"{name}={as_expression(value)}" for name, value in changed.items())
    names = [fitted.kind, *(type(value).__name__ for value in changed.values() if is_dataclass(value))]
    names += ["read_schema"] if fitted.linked else []
    head = f"from sparsefield import {', '.join(sorted(names))}\n"
    model = f"field = {fitted.kind}({options})\n"
    if fitted.linked:
        return f"{head}\n{model}field.fit(read_schema({fitted.data_name!r}))\n"
    head += _reading_lines(fitted.source)
    if fitted.kind == "CRFClassifier":
        labels = [variable.name for variable in fitted.field.schema.targets]
        return f"{head}{model}field.fit(data.drop({labels!r}), data.select({labels!r}))\n"
    given = f", observed={_observed(fitted)!r}" if _observed(fitted) else ""
    weight, group = fitted.source.weight, fitted.source.group
    given += f", sample_weight=table[{weight!r}].to_numpy()" if weight is not None else ""
    given += f", groups=table[{group!r}]" if group is not None else ""
    if fitted.source.columns is not None:
        given += f", columns=open({fitted.source.columns!r}, encoding='utf-8-sig').read().splitlines()"
    return f"{head}{model}field.fit(data{given})\n"


def _reading_lines(source: Source) -> str:
    """Return lines of Python that read ``table`` from its file, and ``data``, its columns that are learned."""
    if source.file.lower().endswith(".npz"):
        return f"import scipy.sparse as sp\n\ndata = sp.load_npz({source.file!r})\n"
    lines = []
    others = [name for name in (source.weight, source.group) if name is not None]
    dropped = list(dict.fromkeys([*source.identifiers, *source.left_out, *others]))
    lines.append(f"data = table.drop({dropped!r})" if dropped else "data = table")
    head = _table_lines(source)
    if source.top_levels is not None:
        head = f"from sparsefield.app.cli.table_checks import group_levels\n{head}"
        lines.append(f"data = group_levels(data, data.columns, {source.top_levels})")
    return head + "\n".join(lines) + "\n"


def _table_lines(source: Source) -> str:
    """Return lines of Python that read ``table`` from its file."""
    options = source.reading
    if options == ReadOptions():
        return f"from sparsefield.app.tables.read import read_table\n\ntable = read_table({source.file!r})\n"
    call = f"read_table({source.file!r}, {as_expression(options)})"
    return f"from sparsefield.app.tables.read import ReadOptions, read_table\n\ntable = {call}\n"


def list_versions(field: Field) -> dict[str, str]:
    """Return the versions of the library that learned the field, and of the present ones."""
    return {
        "sparsefield that learned the field": field.record.version or "unknown",
        "sparsefield that wrote this page": sparsefield.__version__,
        "Python": platform.python_version(),
        **{name: version(name) for name in LIBRARIES},
    }


def _observed(fitted: FitDescription) -> list[str]:
    return [variable.name for variable in fitted.field.schema.observed]
