"""This module saves fields as safetensors files; loading runs no code.

The schema and the record of the fit are JSON in an array of bytes, because the header of such a file is limited to
100 MB.
"""

from __future__ import annotations

import json
import os
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np

from sparsefield import config
from sparsefield.data.binary_schema import BinarySchema, BinaryVariables
from sparsefield.data.column_types import is_column_type
from sparsefield.data.covariate_schema import CovariateColumns, CovariateSchema
from sparsefield.data.feature_validity import are_valid_conjunctions, are_valid_pairs
from sparsefield.data.layout import Layout
from sparsefield.data.links import as_template
from sparsefield.data.schema import MOST_DECIMALS, Kind, Role, Schema, Transform, Variable
from sparsefield.errors import ModelFileError
from sparsefield.model.atomic_write import write_atomically
from sparsefield.model.field import Field
from sparsefield.model.fit_record import FitRecord
from sparsefield.model.model_document import FORMAT, VERSION, read_document

MAX_WEIGHT = 1e100
"""The largest weight that is read: sums and squares of weights must be finite."""

BINARY_ARRAYS = ("shares", "has_zero", "has_one")
"""Arrays of a `BinarySchema` besides its column names, stored for each table that has one."""


def save_field(field: Field, path: str | os.PathLike[str], extra: dict[str, Any] | None = None) -> None:
    """Write ``field`` to ``path`` atomically, so that an interrupted write leaves an existing file unchanged.

    ``extra`` holds JSON values of the estimator that `load_field` returns with the field.
    """
    from safetensors.numpy import save

    layout = field.layout
    tables = layout.tables, layout.schemas
    document = {
        "tables": [{"name": name, **_schema_as_json(schema)} for name, schema in zip(*tables, strict=True)],
        "templates": [
            {**template.as_plain(), "ends": list(ends), "has_neighbor_count": list(counts)}
            for template, ends, counts in zip(layout.templates, layout.ends, layout.has_neighbor_count, strict=True)
        ],
        "record": field.record.as_plain(),
        "extra": extra or {},
    }
    metadata = {"format": FORMAT, "version": str(VERSION)}
    tensors: dict[str, np.ndarray] = {
        "document": np.frombuffer(json.dumps(document).encode(), dtype=np.uint8),
        "biases": np.ascontiguousarray(field.biases),
        "pairs": np.ascontiguousarray(field.pairs, dtype=np.int64),
        "weights": np.ascontiguousarray(field.weights),
    }
    if len(field.conjunctions):
        tensors["conjunctions"] = np.ascontiguousarray(field.conjunctions, dtype=np.int64)
        tensors["conjunction_weights"] = np.ascontiguousarray(field.conjunction_weights)
    for k, schema in enumerate(layout.schemas):
        if isinstance(schema, BinarySchema):
            tensors |= _binary_tensors(schema, k)
        if isinstance(schema, CovariateSchema):
            tensors[f"covariates.{k}"] = np.frombuffer(json.dumps(schema.covariates.names).encode(), dtype=np.uint8)
    write_atomically(path, with_sorted_header(save(tensors, metadata)))


def load_field(path: str | os.PathLike[str]) -> tuple[Field, dict[str, Any]]:
    """Read a field that `save_field` wrote, and the estimator's extra values."""
    from safetensors import SafetensorError, safe_open

    path, document = Path(path), read_document(path)
    try:
        with safe_open(path, framework="np") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelFileError(
            f"{path}: not a complete sparsefield model (truncated, or another kind of file)."
        ) from error
    try:
        return _build(document, tensors)
    except RecursionError:
        raise ModelFileError(f"{path}: this sparsefield model has damaged contents (too many nested values).") from None
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise ModelFileError(f"{path}: this sparsefield model has damaged contents ({error}).") from error


def with_sorted_header(content: bytes) -> bytes:
    """Sort the header of a safetensors file, because the library writes metadata in arbitrary order."""
    size = int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8 : 8 + size]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[8 + size :]


def _schema_as_json(schema: Schema) -> dict[str, Any]:
    """Return a schema as JSON values; columns that may number millions are stored as arrays instead."""
    if isinstance(schema, BinarySchema):
        return {"binary": True}
    if isinstance(schema, CovariateSchema):
        return {**_schema_as_json(schema.labels), "covariates": True}
    names = [one.name for one in fields(Variable)]  # asdict copies all values, which takes minutes for many columns
    variables = [{name: getattr(variable, name) for name in names} for variable in schema.variables]
    return {"variables": variables, "order": list(schema.order)}


def _binary_tensors(schema: BinarySchema, table: int) -> dict[str, np.ndarray]:
    names = json.dumps([*(list(part.names) for part in schema.variable_groups), list(schema.order)])
    arrays = {what: np.concatenate([getattr(part, what) for part in schema.variable_groups]) for what in BINARY_ARRAYS}
    arrays["names"] = np.frombuffer(names.encode(), dtype=np.uint8)
    return {f"{what}.{table}": array for what, array in arrays.items()}


def _build(document: dict[str, Any], tensors: dict[str, np.ndarray]) -> tuple[Field, dict[str, Any]]:
    layout = _layout(document, tensors)
    record, extra = FitRecord.from_plain(document["record"]), document["extra"]
    if not isinstance(extra, dict):
        raise ValueError("the options are missing")
    names = ["biases", "pairs", "weights"]
    names += ["conjunctions", "conjunction_weights"] if "conjunctions" in tensors else []
    field = Field(layout, **{name: tensors[name] for name in names}, record=record)
    check_field(field)
    _check_stability(field)
    return field, extra


def _check_stability(field: Field) -> None:
    """Raise ValueError unless the stability record is about the features and the columns of the field."""
    found = field.record.stability
    if found is None:
        return
    columns = [column for one in found.left_out for column in one.columns]
    if len(found.frequencies) != len(field.features) or max(columns, default=-1) >= field.layout.n_columns:
        raise ValueError("the stability record does not match the features")


def _layout(document: dict[str, Any], tensors: dict[str, np.ndarray]) -> Layout:
    templates, ends, has_neighbor_count = [], [], []
    for entry in document["templates"]:
        entry = dict(entry)
        left, right = entry.pop("ends")
        count_left, count_right = entry.pop("has_neighbor_count")
        templates.append(as_template(entry))
        ends.append((left, right))
        has_neighbor_count.append((bool(count_left), bool(count_right)))
        if templates[-1].kind == "within" and any(has_neighbor_count[-1]):
            raise ValueError("a template within a row counts neighbors")
    tables = document["tables"]
    if any(end not in range(len(tables)) for pair in ends for end in pair):
        raise ValueError("a template refers to a table that does not exist")
    for template, (left, right) in zip(templates, ends, strict=True):
        if (template.symmetric or template.kind == "within") and left != right:
            raise ValueError(f"the ends of {template.label!r} are inconsistent")
    schemas = tuple(_schema(table, tensors, k) for k, table in enumerate(tables))
    if len(schemas) > 1 and any(len(schema.latent) for schema in schemas):
        raise ValueError("linked tables have latent variables")
    names = tuple(str(table["name"]) for table in tables)
    return Layout(names, schemas, tuple(templates), tuple(ends), tuple(has_neighbor_count))


def _schema(document: dict[str, Any], tensors: dict[str, np.ndarray], table: int) -> Schema:
    if "binary" in document:
        arrays = [tensors[f"{what}.{table}"] for what in BINARY_ARRAYS]
        return _binary_schema(json.loads(tensors[f"names.{table}"].tobytes()), arrays)
    variables = []
    for entry in document["variables"]:
        entry: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()
        }
        variables.append(Variable(**entry))
        _check_variable(variables[-1])
    schema = Schema(tuple(variables), tuple(document["order"]))
    if (*schema.targets, *schema.observed) != schema.variables or sorted(schema.order) != sorted(schema.index_of_name):
        raise ValueError("the columns are not in order")
    _check_latent(schema)
    if "covariates" in document:
        return _covariate_schema(schema, json.loads(tensors[f"covariates.{table}"].tobytes()))
    return schema


def _covariate_schema(labels: Schema, names: Any) -> CovariateSchema:
    """Return the schema of labels with covariates of the given names."""
    fits = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not fits or len(labels.observed) or len({*names, *labels.order}) != len(names) + len(labels.order):
        raise ValueError("the covariates are inconsistent")
    return CovariateSchema(labels.targets, CovariateColumns(tuple(names)))


def _check_latent(schema: Schema) -> None:
    """Require that latent variables are the last targets and have a limited number of joint states."""
    latent = schema.latent
    last = schema.targets[len(schema.targets) - len(latent) :]
    names = tuple(variable.name for variable in latent)
    if tuple(last) != tuple(latent) or schema.order[len(schema.order) - len(names) :] != names:
        raise ValueError("the latent variables are not in order")
    if np.prod([float(len(variable.states)) for variable in latent]) > config.MAX_LATENT_STATES:
        raise ValueError("latent variables have too many joint states")


def _binary_schema(names: list[list[str]], arrays: list[np.ndarray]) -> BinarySchema:
    targets, observed, order = (tuple(map(str, part)) for part in names)
    count, given = len(targets) + len(observed), set(observed)
    shares, has_zero, has_one = arrays
    fits = (
        all(array.shape == (count,) for array in arrays)
        and shares.dtype == np.float64
        and has_zero.dtype == has_one.dtype == np.bool_
        and bool(((shares >= 0.0) & (shares <= 1.0)).all())
        and bool((has_zero | has_one).all())
        and len(order) == len(set(order)) == count
        and tuple(name for name in order if name not in given) == targets
        and tuple(name for name in order if name in given) == observed
    )
    if not fits:
        raise ValueError("the 0/1 columns are inconsistent")
    first, rest = slice(0, len(targets)), slice(len(targets), None)
    return BinarySchema(
        BinaryVariables(targets, shares[first], has_zero[first], has_one[first], "target"),
        BinaryVariables(observed, shares[rest], has_zero[rest], has_one[rest], "observed"),
        order,
    )


def _check_variable(variable: Variable) -> None:
    """Raise ValueError for a variable that `learn_schema` cannot produce, because kernels trust a schema."""
    n, shares = len(variable.states), _numbers(variable.frequencies)
    fits = (
        isinstance(variable.name, str)
        and (variable.role in get_args(Role) and variable.kind in get_args(Kind))
        and (isinstance(variable.symmetric, bool) and _are_decimals(variable.decimals))
        and all(isinstance(state, (str, int, float)) for state in variable.states)
        and (len(shares) == n and bool((shares >= 0.0).all()))
        and _is_in(variable.reference, n or 1)
        and is_column_type(variable.dtype, variable.categories)
        and _KIND_CHECKS[variable.kind](variable)
        and (variable.role != "latent" or (variable.kind == "nominal" and not variable.symmetric))
    )
    if not fits:
        raise ValueError(f"column {variable.name!r} is inconsistent")


def _are_decimals(number: Any) -> bool:
    return number is None or _is_in(number, MOST_DECIMALS + 1)


def _is_nominal(variable: Variable) -> bool:
    no_scores = not (variable.scores or variable.cuts or variable.bins or variable.limits)
    return no_scores and 0 < len(variable.states) == len(set(variable.states))


def _is_ordinal(variable: Variable) -> bool:
    scores = _numbers(variable.scores)
    return _is_nominal(replace(variable, scores=())) and not variable.symmetric and len(scores) == len(variable.states)


def _is_numeric(variable: Variable) -> bool:
    """Return whether levels, cuts and bins match; an observed number with its mean and deviation needs no levels."""
    n, transform = len(variable.states), variable.transform
    levels, scores, cuts = (_numbers(part) for part in (variable.states, variable.scores, variable.cuts))
    moments = _numbers((variable.center, variable.scale))
    if n == 0 and not (variable.role == "observed" and transform == "linear-scores"):
        return False
    return (
        (transform in get_args(Transform) and moments[1] > 0.0 and not variable.symmetric)
        and (len(scores) == n and len(cuts) == max(n - 1, 0))
        and (_ascends(levels) and _ascends(cuts))
        and all(share > 0.0 for share in variable.frequencies)
        and (not variable.bins or _are_bins(variable.bins, n))
        and (not variable.limits or (len(variable.limits) == 2 and _ascends(_numbers(variable.limits))))
    )


def _are_bins(bins: tuple[Any, ...], n_levels: int) -> bool:
    """Return whether bins are 0, 1, ..., each of consecutive levels, and at least two."""
    if len(bins) != n_levels or any(type(number) is not int for number in bins):
        return False
    return bins[0] == 0 and bins[-1] > 0 and all(b - a in (0, 1) for a, b in pairwise(bins))


_KIND_CHECKS = {"nominal": _is_nominal, "ordinal": _is_ordinal, "numeric": _is_numeric}


def _numbers(values: Any) -> np.ndarray:
    """Return values as an array; raise ValueError unless they are a tuple of finite numbers."""
    if not isinstance(values, tuple) or any(isinstance(v, bool) or not isinstance(v, (int, float)) for v in values):
        raise ValueError(f"{str(values)[:40]} are not numbers")
    found = np.asarray(values, dtype=float)
    if not np.isfinite(found).all():
        raise ValueError("a number of a column is not finite")
    return found


def _ascends(values: np.ndarray) -> bool:
    return bool((np.diff(values) >= 0.0).all())


def _is_in(number: Any, stop: int) -> bool:
    return type(number) is int and 0 <= number < stop


def check_field(field: Field) -> None:
    """Raise ValueError for a field that no fit can produce, because kernels trust a field."""
    layout, weights, others = field.layout, field.weights, field.conjunction_weights
    if field.biases.shape != (layout.n_target_columns,) or weights.ndim != 1 or field.pairs.shape != (len(weights), 2):
        raise ValueError("the arrays do not match the schema")
    if field.conjunctions.shape[:1] != others.shape:
        raise ValueError("the conjunctions do not match their weights")
    if field.pairs.dtype.kind != "i" or not are_valid_pairs(layout, field.pairs):
        raise ValueError("a feature refers to a column that does not exist")
    if field.conjunctions.dtype.kind != "i" or not are_valid_conjunctions(layout, field.conjunctions):
        raise ValueError("a conjunction refers to a column that does not exist")
    for array in (field.biases, weights, others):
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            raise ValueError("a weight is not a finite number")
        if np.abs(array).max(initial=0.0) > MAX_WEIGHT:
            raise ValueError(f"a weight is {np.abs(array).max():.3g}, more than {MAX_WEIGHT:g}")
