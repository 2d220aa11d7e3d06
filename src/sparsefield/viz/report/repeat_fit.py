"""This module writes how to repeat a fit: a command, lines of Python, and the versions."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import sparsefield
from sparsefield.model import Field

__all__ = ["Fitted", "as_command", "as_python", "changed_options", "list_versions"]

OPTIONS = {
    "induction": "--induction", "objective": "--objective", "l1": "--l1", "l2": "--l2", "threshold": "--threshold",
    "batch_size": "--batch-size", "inference": "--inference", "max_order": "--max-order", "lift": "--lift",
    "order_penalty": "--order-penalty", "selection": "--selection", "max_iter": "--max-iter", "random_state": "--seed",
}  # fmt: skip
SWITCHES = {"certify": "--certify", "penalize_unary": "--penalize-unary", "refit": "--refit"}
BY_DATA = ("numeric", "templates", "latent")
"""Options that the command line has too, under names of their own."""

NOT_OF_THE_FIT = ("checkpoint", "engine", "n_jobs", "verbose")

LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn")


@dataclass(frozen=True)
class Fitted:
    """What is needed to repeat the fit of an estimator.

    Attributes
    ----------
    kind : str
        Name of its class.
    field : Field
    params, defaults : mappings
        Its parameters, and those of a new one.
    data_name : str
        Name of the data in the lines.
    left_out : sequence of str
        Columns of the data that were not used.
    """

    kind: str
    field: Field
    params: Mapping[str, Any]
    defaults: Mapping[str, Any]
    data_name: str = "data.csv"
    left_out: Sequence[str] = ()

    @property
    def linked(self) -> bool:
        return self.kind == "RelationalField"


def changed_options(fitted: Fitted) -> dict[str, Any]:
    """Options that differ from the defaults, as a new estimator would take them."""
    params = {name: value for name, value in fitted.params.items() if name not in NOT_OF_THE_FIT}
    if params.get("templates") is not None:
        templates = fitted.field.layout.templates
        plain = [t.left is None and t.right is None for t in templates]
        params["templates"] = [
            t.label if simple else t.as_plain() for t, simple in zip(templates, plain, strict=True)
        ]  # fmt: skip
    return {name: value for name, value in params.items() if repr(value) != repr(fitted.defaults.get(name))}


def as_command(fitted: Fitted) -> str | None:
    """The call of ``sparsefield fit``; None where the command line lacks an option that was set."""
    changed = changed_options(fitted)
    known = {*OPTIONS, *SWITCHES, *BY_DATA}
    odd_threshold = isinstance(changed.get("threshold"), (tuple, list))
    words_alone = all(isinstance(template, str) for template in changed.get("templates") or ())
    odd_inference = not isinstance(changed.get("inference", ""), str)
    odd = set(changed) - known or odd_threshold or odd_inference
    if fitted.kind not in ("MarkovField", "RelationalField") or odd:
        return None
    changed["l1"] = fitted.params["l1"]  # of which the command line has another default
    if not words_alone:
        return None
    words = ["sparsefield", "fit", fitted.data_name, "-o", "model.safetensors"]
    for name, option in OPTIONS.items():
        if name in changed and not (name == "random_state" and changed[name] == 0):
            words += [option, str(changed[name])]
    for name, option in SWITCHES.items():
        if name in changed:
            words.append(option if changed[name] else option.replace("--", "--no-", 1))
    for name, states in (changed.get("latent") or {}).items():
        words += ["--latent", f"{name}={states}"]
    for template in changed.get("templates") or ():
        words += ["--template", template]
    if not fitted.linked:
        numbers = [] if isinstance(fitted.params["numeric"], str) else [str(name) for name in fitted.params["numeric"]]
        for option, names in (("--observed", _observed(fitted)), ("--numeric", numbers), ("--id", fitted.left_out)):
            for name in names:
                if not (option == "--observed" and name in numbers):
                    words += [option, name]
    return shlex.join(words)


def as_python(fitted: Fitted) -> str:
    """Return lines of Python that learn the field from a file."""
    options = ", ".join(f"{name}={value!r}" for name, value in changed_options(fitted).items())
    inference = fitted.params.get("inference")
    names = [fitted.kind, *([] if isinstance(inference, str) or inference is None else [type(inference).__name__])]
    if fitted.linked:
        names.append("read_schema")
        return (
            f"from sparsefield import {', '.join(sorted(names))}\n\n"
            f"field = {fitted.kind}({options})\nfield.fit(read_schema({fitted.data_name!r}))\n"
        )
    head = f"import polars as pl\n\nfrom sparsefield import {', '.join(sorted(names))}\n\n"
    reader = "read_parquet" if fitted.data_name.endswith((".parquet", ".pq")) else "read_csv"
    drop = f".drop({list(fitted.left_out)!r})" if fitted.left_out else ""
    read = f"data = pl.{reader}({fitted.data_name!r}){drop}\n"
    observed = _observed(fitted)
    if fitted.kind == "CRFClassifier":
        labels = [variable.name for variable in fitted.field.schema.targets]
        return (
            f"{head}{read}field = {fitted.kind}({options})\nfield.fit(data.drop({labels!r}), data.select({labels!r}))\n"
        )
    given = f", observed={observed!r}" if observed else ""
    return f"{head}{read}field = {fitted.kind}({options})\nfield.fit(data{given})\n"


def list_versions(field: Field) -> dict[str, str]:
    """Return the versions of the library that learned the field, and of the present ones."""
    return {
        "sparsefield that learned the field": field.record.version or "unknown",
        "sparsefield that wrote this page": sparsefield.__version__,
        "Python": platform.python_version(),
        **{name: version(name) for name in LIBRARIES},
    }


def _observed(fitted: Fitted) -> list[str]:
    return [variable.name for variable in fitted.field.schema.observed]
