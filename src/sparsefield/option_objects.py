"""Small objects that hold options of one part of a fit, such as ``CFI(threshold=0.2)`` or ``Solver(tol=1e-8)``."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Self

__all__ = ["OptionObject"]


class OptionObject:
    """Base class of option objects: dataclasses whose fields scikit-learn can read, set and clone.

    An estimator's ``get_params(deep=True)`` then lists ``induction__threshold``, and grid search can vary it.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the options by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # pyright: ignore[reportArgumentType]

    def set_params(self, **params: Any) -> Self:
        """Change some options in place and return the object."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                names = ", ".join(known) or "none"
                raise ValueError(f"{type(self).__name__} has no option {name!r}; its options are: {names}.")
            object.__setattr__(self, name, value)
        return self
