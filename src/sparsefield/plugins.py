"""Objectives, induction rules and inference methods of other packages, which these announce by entry points."""

from __future__ import annotations

import warnings
from functools import cache
from importlib.metadata import entry_points


@cache
def load_plugins() -> None:
    """Add what installed packages announce to `OBJECTIVES`, `RULES` and `INFERENCE`, by the names of entry points.

    The groups are ``sparsefield.objectives``, ``sparsefield.rules`` and ``sparsefield.inference``. A name that is
    already there is kept, and a package that cannot be imported is reported and left out.
    """
    from sparsefield.induction import RULES
    from sparsefield.inference import INFERENCE
    from sparsefield.objectives import OBJECTIVES

    registries = {"objectives": OBJECTIVES, "rules": RULES, "inference": INFERENCE}
    for group, registry in registries.items():
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
