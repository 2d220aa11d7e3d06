"""Parameters of estimators that are option objects, and the values that abbreviate them."""

from __future__ import annotations

import warnings
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from sparsefield.induction import RULES, InductionRule
from sparsefield.inference import INFERENCE, InferenceMethod
from sparsefield.objectives import EM, OBJECTIVES, Objective
from sparsefield.solver import SELECTIONS, Features, SelectionCriterion, Solver


@cache
def load_plugins() -> None:
    """Add what installed packages announce to `OBJECTIVES`, `RULES` and `INFERENCE`, by the names of entry points.

    The groups are ``sparsefield.objectives``, ``sparsefield.rules`` and ``sparsefield.inference``. A name that is
    already there is kept, and a package that cannot be imported is reported and left out.
    """
    for group, registry in {"objectives": OBJECTIVES, "rules": RULES, "inference": INFERENCE}.items():
        for point in entry_points(group=f"sparsefield.{group}"):
            try:
                registry.setdefault(point.name, point.load())
            except Exception as error:
                package = point.dist.name if point.dist is not None else point.value
                warnings.warn(
                    f"The entry point {point.name!r} of sparsefield.{group} in package {package!r} cannot be loaded "
                    f"({error}): update or remove the package.",
                    stacklevel=2,
                )


@dataclass(frozen=True)
class Abbreviated:
    """Option objects that one parameter takes, and the values that abbreviate some of them."""

    kinds: tuple[type, ...]
    names: Mapping[Any, Callable[[], Any]]
    example: str
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
        known = ", ".join(repr(key) for key in self.names if key != "graph")  # which needs edges
        one_of = "one of " if len(self.names) > 1 else ""
        shown = f"the class {value.__name__}: write {value.__name__}(...)" if isinstance(value, type) else repr(value)
        raise ValueError(f"{name} must be {one_of}{known}, or {self.example}; got {shown}.")


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


def option_objects() -> list[Callable[..., Any]]:
    """Return the classes of option objects that a model file may name."""
    load_plugins()
    registries = OBJECTIVES, RULES, SELECTIONS, INFERENCE
    return [*(kind for registry in registries for kind in registry.values()), Features, EM, Solver]


def as_seed(random_state: Any) -> int | None:
    """Return an integer seed; a random state or generator is drawn from."""
    if random_state is None:
        return None
    if isinstance(random_state, Integral):
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(np.iinfo(np.int32).max))
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
