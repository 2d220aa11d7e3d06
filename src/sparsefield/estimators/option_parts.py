"""Parameters of estimators that are option objects, the values that abbreviate them, and their form in model files."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from sparsefield.induction import RULES, InductionRule
from sparsefield.inference import INFERENCE, InferenceMethod
from sparsefield.objectives import EM, OBJECTIVES, Objective
from sparsefield.plugins import load_plugins
from sparsefield.solver import SELECTIONS, Features, SelectionCriterion, Solver


@dataclass(frozen=True)
class Abbreviated:
    """Option objects that one parameter takes, and the values that abbreviate some of them."""

    kinds: tuple[type, ...]
    names: Mapping[Any, Callable[[], Any]]
    example: str = ""
    """Objects that the parameter takes, for messages."""

    def resolve(self, name: str, value: Any) -> Any:
        """Return the option object that ``value`` is or abbreviates; ``name`` is the parameter."""
        if isinstance(value, self.kinds):
            return value
        if value is None or isinstance(value, str):
            if value not in self.names:
                load_plugins()
            if value in self.names:
                return self.names[value]()
        known = ", ".join(repr(key) for key in self.names if key not in INCOMPLETE)
        one_of = "one of " if len(self.names) > 1 else ""
        raise ValueError(f"{name} must be {one_of}{known}, or {self.example}; got {_describe(value)}.")


def _describe(value: Any) -> str:
    """Return a refused value for a message, with the remedy where a class was passed in place of an object."""
    return f"the class {value.__name__}: write {value.__name__}(...)" if isinstance(value, type) else repr(value)


INCOMPLETE = ("graph",)
"""Names of objects that need further options, which messages do not offer."""

PARTS = {
    "objective": Abbreviated((Objective,), OBJECTIVES, "in Python an object of a subclass of Objective"),
    "induction": Abbreviated(
        (InductionRule,), RULES, "in Python an object such as CFI(threshold=0.2) or FixedGraph(edges=[('a', 'b')])"
    ),
    "selection": Abbreviated((SelectionCriterion,), SELECTIONS, "in Python an object such as EBIC(gamma=0.5)"),
    "features": Abbreviated((Features,), {None: Features}, "a Features such as Features(max_order=3)"),
    "missing": Abbreviated(
        (EM, InferenceMethod),
        ChainMap[Any, Any]({EM.name: EM}, INFERENCE),
        "in Python an object such as EM(max_error=0.05)",
    ),
    "inference": Abbreviated((InferenceMethod,), INFERENCE, "in Python an object such as Gibbs(sweeps=1000)"),
    "solver": Abbreviated((Solver,), {None: Solver}, "a Solver such as Solver(max_iter=5000)"),
}
"""Parameters that are option objects."""


def option_objects() -> dict[str, Callable[..., Any]]:
    """Return the option objects that a model file may name, by the names of their classes."""
    load_plugins()
    registries = OBJECTIVES, RULES, SELECTIONS, INFERENCE
    kinds = [kind for registry in registries for kind in registry.values()]
    return {kind.__name__: kind for kind in (*kinds, Features, EM, Solver)}


LOCAL = ("engine", "callbacks")
"""Options that belong to one process, and are not saved."""


def to_plain(value: Any) -> Any:
    """Return a parameter as values that JSON can express."""
    if is_dataclass(value) and not isinstance(value, type):
        options = {option.name: getattr(value, option.name) for option in fields(value) if option.name not in LOCAL}
        return {"object": type(value).__name__, **to_plain(options)}
    if isinstance(value, Mapping):
        return {key: to_plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(inner) for inner in value]
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value


def from_plain(value: Any) -> Any:
    """Return the parameter that `to_plain` described."""
    if not isinstance(value, dict) or "object" not in value:
        return value
    options = {name: tuple(option) if isinstance(option, list) else option for name, option in value.items()}
    name, kinds = str(options.pop("object")), option_objects()
    if name not in kinds:
        raise ValueError(f"there is no {name} here: install the package that has it")
    kind = kinds[name]
    if not options.keys().isdisjoint(LOCAL):
        raise ValueError(f"{kind.__name__} in a model file has none of the options {', '.join(LOCAL)}.")
    return kind(**options)
