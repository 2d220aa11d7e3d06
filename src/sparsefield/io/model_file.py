"""Fields on disk: one safetensors file with flat arrays, and the schema as JSON in its header. No code is loaded."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from sparsefield import config
from sparsefield.data.binary_variables import BinarySchema, BinaryVariables
from sparsefield.data.layout import Layout
from sparsefield.data.links import as_template
from sparsefield.data.schema import Schema, Variable
from sparsefield.errors import ModelFileError
from sparsefield.model.field import Field
from sparsefield.model.fit_record import FitRecord

__all__ = ["check_field", "load_field", "save_field"]

FORMAT = "sparsefield"
VERSION = 4

SWITCH_ARRAYS = ("shares", "seen_off", "seen_on")
"""Arrays of a `BinarySchema` beside the names of its columns, one of each for every table that has one; since format
3."""


def save_field(field: Field, path: str | os.PathLike[str], extra: dict[str, Any] | None = None) -> None:
    """Write ``field`` to ``path``: to a temporary name first, so that an interrupted write leaves the old file.

    ``extra`` holds plain values that an estimator wants back with the field.
    """
    from safetensors.numpy import save

    layout = field.layout
    document = {
        "tables": [{"name": name, **_told(schema)} for name, schema in zip(layout.tables, layout.schemas, strict=True)],
        "templates": [
            {**template.as_plain(), "ends": list(ends), "counted": list(counted)}
            for template, ends, counted in zip(layout.templates, layout.ends, layout.counted, strict=True)
        ],
        "record": field.record.as_plain(),
        "extra": extra or {},
    }
    # Conjunctions and latent variables are new in format 4: what has none can be read by those who know format 3.
    version = VERSION if len(field.conjunctions) or field.layout.has_latent else 3
    metadata = {"format": FORMAT, "version": str(version), "document": json.dumps(document)}
    tensors: dict[str, np.ndarray] = {
        "unary": np.ascontiguousarray(field.unary),
        "pairs": np.ascontiguousarray(field.pairs, dtype=np.int64),
        "weights": np.ascontiguousarray(field.weights),
    }
    if len(field.conjunctions):
        tensors["conjunctions"] = np.ascontiguousarray(field.conjunctions, dtype=np.int64)
        tensors["conjunction_weights"] = np.ascontiguousarray(field.conjunction_weights)
    for k, schema in enumerate(layout.schemas):
        if isinstance(schema, BinarySchema):
            tensors |= _switch_tensors(schema, k)
    write_atomically(path, _in_order(save(tensors, metadata)))


def load_field(path: str | os.PathLike[str]) -> tuple[Field, dict[str, Any]]:
    """Read what `save_field` wrote: the field, and the estimator's extra values."""
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise ModelFileError(f"{path}: there is no such file.")
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelFileError(
            f"{path}: not a complete sparsefield model (truncated, or another kind of file)."
        ) from error
    if metadata.get("format") != FORMAT:
        raise ModelFileError(f"{path}: a safetensors file, but not a sparsefield model.")
    version = metadata.get("version", "")
    if not version.isdigit() or int(version) > VERSION:
        raise ModelFileError(
            f"{path}: written in format {version}, and this sparsefield reads up to {VERSION}: install a newer one."
        )
    try:
        return _build(json.loads(metadata["document"]), tensors)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ModelFileError(f"{path}: a sparsefield model with damaged contents ({error}).") from error


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Put ``content`` at ``path``, or leave what was there."""
    path = Path(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _in_order(content: bytes) -> bytes:
    """The same safetensors file with its header in alphabetical order: the library writes metadata in any order."""
    size = int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8 : 8 + size]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[8 + size :]


def _told(schema: Schema) -> dict[str, Any]:
    """A schema as plain values; columns of 0 and 1, of which there may be millions, are arrays."""
    if isinstance(schema, BinarySchema):
        return {"switches": True}
    return {"variables": [asdict(variable) for variable in schema.variables], "order": list(schema.order)}


def _switch_tensors(schema: BinarySchema, table: int) -> dict[str, np.ndarray]:
    names = json.dumps([*(list(part.names) for part in schema.switches), list(schema.order)])
    arrays = {what: np.concatenate([getattr(part, what) for part in schema.switches]) for what in SWITCH_ARRAYS}
    arrays["names"] = np.frombuffer(names.encode(), dtype=np.uint8)
    return {f"{what}.{table}": array for what, array in arrays.items()}


def _build(document: dict[str, Any], tensors: dict[str, np.ndarray]) -> tuple[Field, dict[str, Any]]:
    # Format 1 knew one table alone.
    layout = _layout(document, tensors) if "tables" in document else Layout.single(_schema(document, tensors, 0))
    record, extra = FitRecord.from_plain(document["record"]), document["extra"]
    if not isinstance(extra, dict):
        raise ValueError("the options are not there")
    unary, pairs, weights = tensors["unary"], tensors["pairs"], tensors["weights"]
    field = Field(layout, unary, pairs, weights, record=record)
    if "conjunctions" in tensors:
        names = ("conjunctions", "conjunction_weights")
        field = replace(field, **{name: tensors[name] for name in names})
    check_field(field)
    return field, extra


def _layout(document: dict[str, Any], tensors: dict[str, np.ndarray]) -> Layout:
    templates, ends, counted = [], [], []
    for entry in document["templates"]:
        entry = dict(entry)
        left, right = entry.pop("ends")
        seen_left, seen_right = entry.pop("counted")
        templates.append(as_template(entry))
        ends.append((left, right))
        counted.append((bool(seen_left), bool(seen_right)))
        if templates[-1].kind == "within" and any(counted[-1]):
            raise ValueError("neighbors within a row")
    tables = document["tables"]
    if any(end not in range(len(tables)) for pair in ends for end in pair):
        raise ValueError("templates of tables that are not there")
    for template, (left, right) in zip(templates, ends, strict=True):
        if (template.symmetric or template.kind == "within") and left != right:
            raise ValueError(f"the ends of {template.label!r} make no sense")
    schemas = tuple(_schema(table, tensors, k) for k, table in enumerate(tables))
    if len(schemas) > 1 and any(len(schema.latent) for schema in schemas):
        raise ValueError("latent variables of linked tables")
    names = tuple(str(table["name"]) for table in tables)
    return Layout(names, schemas, tuple(templates), tuple(ends), tuple(counted))


def _schema(document: dict[str, Any], tensors: dict[str, np.ndarray], table: int) -> Schema:
    if "switches" in document:
        arrays = [tensors[f"{what}.{table}"] for what in SWITCH_ARRAYS]
        return _switch_schema(json.loads(tensors[f"names.{table}"].tobytes()), arrays)
    variables = []
    for entry in document["variables"]:
        entry = {**entry, "states": tuple(entry["states"]), "frequencies": tuple(entry["frequencies"])}
        variables.append(Variable(**entry))
        _check_variable(variables[-1])
    schema = Schema(tuple(variables), tuple(document["order"]))
    if (*schema.targets, *schema.observed) != schema.variables or sorted(schema.order) != sorted(schema.index_of_name):
        raise ValueError("columns out of order")
    _check_hidden(schema)
    return schema


def _check_hidden(schema: Schema) -> None:
    """Latent variables are the last targets, and not more than can be summed over."""
    latent = schema.latent
    last = schema.targets[len(schema.targets) - len(latent) :]
    names = tuple(variable.name for variable in latent)
    if tuple(last) != tuple(latent) or schema.order[len(schema.order) - len(names) :] != names:
        raise ValueError("latent variables out of order")
    if np.prod([float(len(variable.states)) for variable in latent]) > config.MAX_LATENT_STATES:
        raise ValueError("latent variables have too many joint states")


def _switch_schema(names: list[list[str]], arrays: list[np.ndarray]) -> BinarySchema:
    targets, observed, order = (tuple(map(str, part)) for part in names)
    count, given = len(targets) + len(observed), set(observed)
    shares, seen_off, seen_on = arrays
    fits = (
        all(array.shape == (count,) for array in arrays)
        and shares.dtype == np.float64
        and seen_off.dtype == seen_on.dtype == np.bool_
        and bool(((shares >= 0.0) & (shares <= 1.0)).all())
        and bool((seen_off | seen_on).all())
        and len(order) == len(set(order)) == count
        and tuple(name for name in order if name not in given) == targets
        and tuple(name for name in order if name in given) == observed
    )
    if not fits:
        raise ValueError("columns of 0 and 1 make no sense")
    first, rest = slice(0, len(targets)), slice(len(targets), None)
    return BinarySchema(
        BinaryVariables(targets, shares[first], seen_off[first], seen_on[first], "target"),
        BinaryVariables(observed, shares[rest], seen_off[rest], seen_on[rest], "observed"),
        order,
    )


def _check_variable(variable: Variable) -> None:
    """ValueError for what no `learn_schema` makes: kernels trust a schema."""
    if variable.numeric:
        fits = variable.role == "observed" and np.isfinite(variable.centre) and 0 < variable.scale < np.inf
    else:
        shares = np.asarray(variable.frequencies, dtype=float)
        fits = (
            len(set(variable.states)) == len(variable.states) == len(shares)
            and variable.base in range(len(shares))
            and np.isfinite(shares).all()
            and (shares >= 0).all()
        )
    if not fits:
        raise ValueError(f"column {variable.name!r} makes no sense")


def check_field(field: Field) -> None:
    """ValueError for a field that no fit makes: kernels trust a field."""
    layout, weights, others = field.layout, field.weights, field.conjunction_weights
    if field.unary.shape != (layout.n_states,) or weights.ndim != 1 or field.pairs.shape != (len(weights), 2):
        raise ValueError("arrays and schema do not fit together")
    if field.conjunctions.shape[:1] != others.shape:
        raise ValueError("conjunctions and their weights do not fit together")
    if field.pairs.dtype.kind != "i" or not layout.is_sound(field.pairs):
        raise ValueError("features of columns that are not there")
    if field.conjunctions.dtype.kind != "i" or not layout.are_sound(field.conjunctions):
        raise ValueError("conjunctions of columns that are not there")
    if any(array.dtype.kind != "f" or not np.isfinite(array).all() for array in (field.unary, weights, others)):
        raise ValueError("weights that are no numbers")
