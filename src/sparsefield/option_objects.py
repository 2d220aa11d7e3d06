"""Small objects that hold options of one part of a fit, such as ``CFI(threshold=0.2)`` or ``Solver(tol=1e-8)``."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, Self

from sparsefield.parameter_checks import option_problems, raise_problems


class OptionObject:
    """Base class of option objects: dataclasses whose fields scikit-learn can read, set and clone.

    An estimator's ``get_params(deep=True)`` then lists ``induction__threshold``, and grid search can vary it.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the options by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # pyright: ignore[reportArgumentType]

    def problems(self) -> list[str]:
        """Return a sentence for each option that makes no sense."""
        return option_problems(self)

    def check(self) -> None:
        """Raise a ValueError with all options that make no sense."""
        raise_problems(self.problems())

    def set_params(self, **params: Any) -> Self:
        """Change some options in place and return the object."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                names = ", ".join(known) or "none"
                raise ValueError(f"{type(self).__name__} has no option {name!r}; its options are: {names}.")
            object.__setattr__(self, name, value)
        return self


def changed_fields(value: Any) -> dict[str, Any]:
    """Return the options of an option object that differ from their defaults."""
    return {
        field.name: getattr(value, field.name) for field in fields(value) if getattr(value, field.name) != field.default
    }


def as_expression(value: Any) -> str:
    """Return a Python expression for a parameter; of an option object only the options that were changed.

    Examples
    --------
    >>> from sparsefield import Solver
    >>> as_expression(Solver(max_iter=50)), as_expression(2.0)
    ('Solver(max_iter=50)', '2.0')
    """
    if not is_dataclass(value) or isinstance(value, type):
        return repr(value)
    options = ", ".join(f"{name}={as_expression(option)}" for name, option in changed_fields(value).items())
    return f"{type(value).__name__}({options})"
