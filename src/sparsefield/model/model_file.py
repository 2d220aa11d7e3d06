"""Model files: safetensors arrays and one checked record in JSON; loading runs no code.

The record is an array of bytes, "document", because the header of a safetensors file is limited to 100 MB.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from sparsefield import config
from sparsefield.atomic_write import write_atomically
from sparsefield.data.column_types import is_column_type
from sparsefield.data.layout import Layout, are_valid_conjunctions, are_valid_pairs
from sparsefield.data.links import Template
from sparsefield.data.schema import MOST_DECIMALS, Schema, Variable
from sparsefield.errors import ModelFileError
from sparsefield.model.field import Field
from sparsefield.model.fit_record import FitRecord, Record

FORMAT = "sparsefield"
CHAIN_FORMAT = "sparsefield-chain"
VERSION = 11
DTYPES = {"BOOL", "U8", "I32", "I64", "F64"}
"""Types of arrays in model files; NumPy has no float8 and the like."""
MAX_WEIGHT = 1e100
"""The largest weight that is read: sums and squares of weights must be finite."""
BINARY_ARRAYS = ("shares", "has_zero", "has_one")
"""Arrays of a schema of 0/1 columns besides their names, stored for each table that has one."""

AnyRecord = TypeVar("AnyRecord", bound=Record)
Arrays = Mapping[str, np.ndarray]
Names = tuple[str, ...]


class TableRecord(Record, frozen=True):
    """A table of a field. Names of columns that may number millions are in arrays of their own."""

    name: str
    variables: tuple[Variable, ...] = ()
    order: Names = ()
    covariates: bool = False
    binary: bool = False


class TemplateRecord(Record, frozen=True):
    """A template between two tables, given by their numbers, and whether rows at either end count neighbors."""

    template: Template
    ends: tuple[int, int]
    has_neighbor_count: tuple[bool, bool]


class EstimatorRecord(Record, frozen=True):
    """The estimator that was saved: its class, parameters, and the kind of table that it was fitted to."""

    estimator: str
    kind: str
    params: dict[str, Any]
    named: bool | None = None
    single: bool | None = None


class FieldRecord(Record, frozen=True):
    """All that a model file says about a field besides numbers of columns and weights."""

    tables: tuple[TableRecord, ...]
    templates: tuple[TemplateRecord, ...]
    record: FitRecord
    extra: EstimatorRecord | None = None


def write_model(path: str | os.PathLike[str], record: Record, arrays: Arrays, file_format: str) -> None:
    """Write a record and arrays atomically, the same bytes for the same content."""
    arrays = {"document": _as_bytes(record), **arrays}
    content = save(
        {name: np.ascontiguousarray(array) for name, array in arrays.items()},
        {"format": file_format, "version": str(VERSION)},
    )
    # The library writes metadata in arbitrary order.
    size = 8 + int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8:size]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    write_atomically(path, len(header).to_bytes(8, "little") + header + content[size:])


def read_model(
    path: str | os.PathLike[str], kind: type[AnyRecord], file_format: str
) -> tuple[AnyRecord, dict[str, np.ndarray]]:
    """Return the checked record and the arrays of a model file.

    Raises
    ------
    ModelFileError
        If there is no such file, or it is not a complete model of the format that this version reads.
    """
    metadata = _read_metadata(path)
    if metadata.get("format") != file_format:
        others = {
            FORMAT: "holds a field, not a ChainCRF",
            CHAIN_FORMAT: "holds a ChainCRF, which commands do not use: load it in Python with sparsefield.load",
        }
        what = others.get(metadata.get("format", ""), "this is a safetensors file, but not a sparsefield model")
        raise ModelFileError(f"{path}: {what}.")
    version = metadata.get("version", "")
    if version != str(VERSION):
        older = version.isascii() and version.isdigit() and int(version[:9]) < VERSION
        remedy = "fit the model again" if older else "upgrade it"
        raise ModelFileError(f"{path}: has format {version[:20]!r}, but this sparsefield reads {VERSION}: {remedy}.")
    try:
        with safe_open(path, framework="np") as file:
            arrays = {}
            for name in file.keys():  # noqa: SIM118
                if file.get_slice(name).get_dtype() not in DTYPES:
                    raise ValueError(f"the array {name!r} has a type that no model has")
                arrays[name] = file.get_tensor(name)
        return _decode(arrays.pop("document"), kind), arrays
    except _DAMAGES as error:
        raise damaged(path, error) from error


def is_chain_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is a saved `ChainCRF`, of any version."""
    try:
        return _read_metadata(path).get("format") == CHAIN_FORMAT
    except ModelFileError:
        return False


_DAMAGES = (
    KeyError, TypeError, ValueError, IndexError, OverflowError, RecursionError, OSError, SafetensorError,
    msgspec.MsgspecError,
)  # fmt: skip
"""Errors that the content of a file can lead to."""


def damaged(path: str | os.PathLike[str], error: Exception) -> ModelFileError:
    """Return the error of a model file whose content makes no model, in one line."""
    why = "too many nested values" if isinstance(error, RecursionError) else " ".join(str(error).split())[:200]
    return ModelFileError(f"{path}: this sparsefield model has damaged contents ({why}).")


def _read_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    path = Path(path)
    if not path.is_file():
        what = "this is a folder: give a model file" if path.is_dir() else "there is no such file"
        raise ModelFileError(f"{path}: {what}.")
    try:
        with safe_open(path, framework="np") as file:
            return file.metadata() or {}
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelFileError(
            f"{path}: not a complete sparsefield model (truncated, or another kind of file). Give a model that 'fit' "
            "wrote; where a command takes both, MODEL comes before DATA."
        ) from error


def _as_bytes(content: Any) -> np.ndarray:
    return np.frombuffer(msgspec.json.encode(content, enc_hook=lambda value: value.tolist()), dtype=np.uint8)


def _decode(array: np.ndarray, kind: Any) -> Any:
    if array.dtype != np.uint8 or array.ndim != 1:
        raise ValueError("the record is no text")
    return msgspec.json.decode(array.tobytes(), type=kind)


def save_field(field: Field, path: str | os.PathLike[str], extra: Mapping[str, Any] | None = None) -> None:
    """Write ``field`` to ``path`` atomically, so that an interrupted write leaves an existing file unchanged.

    ``extra`` has the entries of `EstimatorRecord` that `load_field` returns with the field.
    """
    layout = field.layout
    record = FieldRecord(
        tables=tuple(
            TableRecord(name, binary=True)
            if schema.is_binary
            else TableRecord(name, tuple(schema.labels.variables), schema.labels.order, schema.has_sparse_covariates)
            for name, schema in zip(layout.tables, layout.schemas, strict=True)
        ),
        templates=tuple(map(TemplateRecord, layout.templates, layout.ends, layout.has_neighbor_count)),
        record=field.record,
        extra=None if extra is None else EstimatorRecord(**extra),
    )
    arrays = {
        "biases": np.asarray(field.biases, dtype=np.float64),
        "pairs": np.asarray(field.pairs, dtype=np.int64),
        "weights": np.asarray(field.weights, dtype=np.float64),
    }
    if len(field.conjunctions):
        arrays["conjunctions"] = np.asarray(field.conjunctions, dtype=np.int64)
        arrays["conjunction_weights"] = np.asarray(field.conjunction_weights, dtype=np.float64)
    for k, schema in enumerate(layout.schemas):
        if schema.is_binary:
            names, n_targets = schema.plain_names, schema.n_targets
            arrays[f"names.{k}"] = _as_bytes([names[:n_targets], names[n_targets:], schema.order])
            arrays |= {f"{what}.{k}": getattr(schema, what) for what in BINARY_ARRAYS}
        elif schema.has_sparse_covariates:
            arrays[f"covariates.{k}"] = _as_bytes(schema.plain_names)
    write_model(path, record, arrays, FORMAT)


def load_field(path: str | os.PathLike[str]) -> tuple[Field, dict[str, Any]]:
    """Read a field that `save_field` wrote, and the entries of its `EstimatorRecord`."""
    record, arrays = read_model(path, FieldRecord, FORMAT)
    try:
        layout = _layout(record, arrays)
        names = ("biases", "pairs", "weights") + ("conjunctions", "conjunction_weights") * ("conjunctions" in arrays)
        field = Field(layout, **{name: arrays[name] for name in names}, record=record.record)
        check_field(field)
        stability, evidence = field.record.stability, field.record.evidence
        if stability is not None and len(stability.frequencies) != len(field.features):
            raise ValueError("the stability record does not match the features")
        if evidence is not None:
            last = max((max(ends) for ends in evidence.edges), default=-1)
            sizes = {len(evidence.edges), len(evidence.p_values), len(evidence.q_values)}
            if len(sizes) > 1 or last >= field.schema.n_variables:
                raise ValueError("the tests of edges do not match the columns")
    except _DAMAGES as error:
        raise damaged(path, error) from error
    extra = {} if record.extra is None else msgspec.structs.asdict(record.extra)
    return field, {name: value for name, value in extra.items() if value is not None}


def _layout(record: FieldRecord, arrays: Arrays) -> Layout:
    for entry in record.templates:
        template, (left, right) = entry.template, entry.ends
        within = template.kind == "within"
        if not (0 <= left < len(record.tables) and 0 <= right < len(record.tables)):
            raise ValueError("a template refers to a table that does not exist")
        if ((template.symmetric or within) and left != right) or (within and any(entry.has_neighbor_count)):
            raise ValueError(f"the ends of {template.label!r} are inconsistent")
    schemas = tuple(_schema(table, arrays, k) for k, table in enumerate(record.tables))
    if len(schemas) > 1 and any(len(schema.latent) for schema in schemas):
        raise ValueError("linked tables have latent variables")
    return Layout(
        tuple(table.name for table in record.tables),
        schemas,
        tuple(entry.template for entry in record.templates),
        tuple(entry.ends for entry in record.templates),
        tuple(entry.has_neighbor_count for entry in record.templates),
    )


def _schema(record: TableRecord, arrays: Arrays, table: int) -> Schema:
    if record.binary:
        targets, observed, order = _decode(arrays[f"names.{table}"], tuple[Names, Names, Names])
        return _binary_schema(targets, observed, order, [arrays[f"{what}.{table}"] for what in BINARY_ARRAYS])
    for variable in record.variables:
        _check_variable(variable)
    schema = Schema(record.variables, record.order)
    roles = [("target", "latent", "observed").index(variable.role) for variable in record.variables]
    if roles != sorted(roles) or sorted(schema.order) != sorted(schema.index_of_name):
        raise ValueError("the columns are not in order")
    if schema.order[len(schema.order) - schema.n_latent :] != tuple(variable.name for variable in schema.latent):
        raise ValueError("the latent variables are not in order")
    if np.prod([float(len(variable.states)) for variable in schema.latent]) > config.MAX_LATENT_STATES:
        raise ValueError("latent variables have too many joint states")
    if not record.covariates:
        return schema
    names = _decode(arrays[f"covariates.{table}"], Names)
    if len(schema.observed) or len({*names, *schema.order}) != len(names) + len(schema.order):
        raise ValueError("the covariates are inconsistent")
    return schema.with_covariates(names)


def _binary_schema(targets: Names, observed: Names, order: Names, arrays: Sequence[np.ndarray]) -> Schema:
    count, covariates = len(targets) + len(observed), set(observed)
    shares, has_zero, has_one = arrays
    fits = (
        all(array.shape == (count,) for array in arrays)
        and shares.dtype == np.float64
        and has_zero.dtype == has_one.dtype == np.bool_
        and bool(((shares >= 0.0) & (shares <= 1.0)).all())
        and bool((has_zero | has_one).all())
        and len(order) == len(set(order)) == count
        and tuple(name for name in order if name not in covariates) == targets
        and tuple(name for name in order if name in covariates) == observed
    )
    if not fits:
        raise ValueError("the 0/1 columns are inconsistent")
    return Schema((), order, (*targets, *observed), len(targets), shares, has_zero, has_one)


def _check_variable(variable: Variable) -> None:
    """Raise ValueError for a variable that `learn_schema` cannot produce, because kernels trust a schema.

    An observed number with its mean and deviation needs no levels.
    """
    v, n = variable, len(variable.states)
    nominal, numeric = v.kind == "nominal", v.kind == "numeric"
    no_levels = numeric and v.role == "observed" and v.transform == "linear-scores"
    numbers = all(isinstance(state, (int, float)) and not isinstance(state, bool) for state in v.states)
    steps = set(np.diff(v.bins).tolist())
    rules = {
        "states": (n > 0 or no_levels) and (numbers and _ascends(v.states) if numeric else len(set(v.states)) == n),
        "reference": 0 <= v.reference < max(n, 1),
        "frequencies": len(v.frequencies) == n and all(f > 0.0 if numeric else f >= 0.0 for f in v.frequencies),
        "scores": len(v.scores) == (0 if nominal else n),
        "cuts": len(v.cuts) == (max(n - 1, 0) if numeric else 0) and _ascends(v.cuts),
        "bins": not v.bins or (numeric and len(v.bins) == n and v.bins[0] == 0 < v.bins[-1] and steps <= {0, 1}),
        "limits": not v.limits or (numeric and len(v.limits) == 2 and _ascends(v.limits)),
        "scale": v.scale > 0.0 or not numeric,
        "symmetric": nominal or not v.symmetric,
        "role": v.role != "latent" or (nominal and not v.symmetric),
        "decimals": v.decimals is None or 0 <= v.decimals <= MOST_DECIMALS,
        "dtype": is_column_type(v.dtype, v.categories),
    }
    wrong = [name for name, fits in rules.items() if not fits]
    if wrong:
        raise ValueError(f"column {v.name!r} has inconsistent {', '.join(wrong)}")


def _ascends(values: Sequence[Any]) -> bool:
    return bool((np.diff(np.asarray(values, dtype=float)) >= 0.0).all())


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
