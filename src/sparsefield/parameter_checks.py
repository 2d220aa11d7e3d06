"""This module checks the parameters of estimators and option objects, all of them in one place and in one style."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from numbers import Integral, Real
from typing import Any, Protocol

MOST_COLUMNS_OF_FEATURE = 100
"""Largest ``max_order``: numbers of candidates are powers of the number of columns."""

MOST_COUNT = 10**9
"""Largest number of iterations, sweeps, draws and the like."""


class Rule(Protocol):
    """What a parameter accepts."""

    @property
    def wanted(self) -> str: ...

    def accepts(self, value: Any) -> bool: ...


@dataclass(frozen=True)
class Whole:
    """A whole number in a range, or one of some words or None."""

    least: int
    most: int = MOST_COUNT
    words: tuple[str | None, ...] = ()

    @property
    def wanted(self) -> str:
        upper = f"of at least {self.least:,}" if self.most >= MOST_COUNT else f"from {self.least:,} to {self.most:,}"
        return f"{_alternatives(self.words)}a whole number {upper}"

    def accepts(self, value: Any) -> bool:
        if value is None or isinstance(value, str):
            return value in self.words
        return isinstance(value, Integral) and not isinstance(value, bool) and self.least <= int(value) <= self.most


@dataclass(frozen=True)
class Number:
    """A finite number in a range, or one of some words."""

    least: float = 0.0
    most: float = math.inf
    above: bool = False
    """Whether ``least`` itself is refused."""
    below: bool = False
    """Whether ``most`` itself is refused."""
    words: tuple[str, ...] = ()

    @property
    def wanted(self) -> str:
        words = "".join(f" or {word!r}" for word in self.words)
        if self.most < math.inf:
            ends = f"{self.least:g} {'<' if self.above else '<='} number {'<' if self.below else '<='} {self.most:g}"
            return f"a number between {self.least:g} and {self.most:g} ({ends}){words}"
        if self.least > 0.0:
            return f"a number {'above' if self.above else 'from'} {self.least:g}{words}"
        return f"{'a positive number' if self.above else 'a number that is not negative'}{words}"

    def accepts(self, value: Any) -> bool:
        if isinstance(value, str):
            return value in self.words
        if not isinstance(value, Real) or isinstance(value, bool) or not math.isfinite(value):
            return False
        number = float(value)
        return (self.least < number if self.above else self.least <= number) and (
            number < self.most if self.below else number <= self.most
        )


@dataclass(frozen=True)
class Choice:
    """One of some values."""

    values: tuple[Any, ...]

    @property
    def wanted(self) -> str:
        return "one of " + ", ".join(map(repr, self.values))

    def accepts(self, value: Any) -> bool:
        return isinstance(value, (str, Integral)) and not isinstance(value, bool) and value in self.values


@dataclass(frozen=True)
class Flag:
    """True or False, also as 0 and 1 or as a bool of numpy."""

    wanted: str = "True or False"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_") or value in (0, 1)


@dataclass(frozen=True)
class Refit:
    """A flag, or the name of the likelihood."""

    wanted: str = "True, False or 'ml'"

    def accepts(self, value: Any) -> bool:
        return value == "ml" if isinstance(value, str) else Flag().accepts(value)


@dataclass(frozen=True)
class OneOrTwoNumbers:
    """A number that is not negative, or a pair of them."""

    wanted: str = "a number that is not negative, or two of them"

    def accepts(self, value: Any) -> bool:
        parts = value if isinstance(value, (tuple, list)) else (value, value)
        return len(parts) == 2 and all(Number().accepts(part) for part in parts)


@dataclass(frozen=True)
class Attributes:
    """None, a value of some types, or an object that has some methods."""

    wanted: str
    types: tuple[type, ...] = ()
    methods: tuple[str, ...] = ()

    def accepts(self, value: Any) -> bool:
        if value is None or (isinstance(value, self.types) and not isinstance(value, bool)):
            return True
        return bool(self.methods) and any(callable(getattr(value, name, None)) for name in self.methods)


@dataclass(frozen=True)
class RandomState:
    """None, a seed, or a generator of numpy."""

    wanted: str = "None, a whole number that is not negative, or a RandomState or Generator of numpy"

    def accepts(self, value: Any) -> bool:
        return value is None or Whole(0, 2**63 - 1).accepts(value) or callable(getattr(value, "permutation", None))


@dataclass(frozen=True)
class Jobs:
    """A number of threads."""

    wanted: str = "None for all cores, or a whole number other than 0"

    def accepts(self, value: Any) -> bool:
        return value is None or (Whole(-MOST_COUNT).accepts(value) and value != 0)


COUNT = Whole(1)
RULES: dict[str, Rule] = {
    # of estimators
    "objective": Choice(("pl", "cd", "ml", "bethe")),
    "l1": Number(words=("auto",)),
    "penalty": Choice(("l1", "group")),
    "l2": Number(),
    "refit": Refit(),
    "penalize_biases": Flag(),
    "coding": Choice(("symmetric", "reference")),
    "n_jobs": Jobs(),
    "random_state": RandomState(),
    "verbose": Whole(0),
    "engine": Attributes(
        "None, a distributed.Client, or the address of a Dask scheduler such as 'dask://host:8786'",
        (str,),
        ("scheduler_info",),
    ),
    "callbacks": Attributes("None or FitCallbacks(...)", methods=("path_point",)),
    # of induction rules
    "threshold": OneOrTwoNumbers(),
    "batch_size": Whole(1, words=("auto",)),
    "steps_per_batch": Whole(1, words=("auto", "converge")),
    "max_order": Whole(2, MOST_COLUMNS_OF_FEATURE),
    "expand": Choice(("active", "all")),
    "order_penalty": Number(1.0),
    # of the solver and of selection criteria
    "tol": Number(),
    "kkt_tol": Number(),
    "max_iter": COUNT,
    "certify": Flag(),
    "stages": Choice((1, 2)),
    "checkpoint": Attributes("None or the path of a folder", (str,), ("__fspath__",)),
    "folds": Whole(1, words=("auto",)),
    "fraction": Number(0.0, 1.0, above=True, below=True),
    "gamma": Number(),
    # of EM and of inference methods
    "copies": Whole(2, 65536),
    "max_copies": Whole(8, 65536),
    "max_error": Number(above=True),
    "seed": Whole(0, 2**63 - 1),
    "tolerance": Number(),
    "max_updates": COUNT,
    "max_sweeps": COUNT,
    "damping": Number(0.0, 1.0, below=True),
    "max_cells": Whole(1, 2**63 - 1),
    "retry": Flag(),
    "chains": Whole(2),
    "burn_in": Whole(0),
    "sweeps": Whole(4),
    "steps": COUNT,
    "max_r_hat": Number(1.0, above=True),
}
"""What each parameter accepts, by its name. Names mean the same wherever they occur."""


def problems_of(values: Mapping[str, Any], *, left_out: Iterable[str] = ()) -> list[str]:
    """Return a sentence for each value that its rule refuses; parameters without a rule are not checked here."""
    names = [name for name in values if name in RULES and name not in left_out]
    return [_describe(name, values[name]) for name in names if not _accepts(RULES[name], values[name])]


def option_problems(option: Any) -> list[str]:
    """Return a sentence for each option of an option object that its rule refuses."""
    if not is_dataclass(option):
        return []
    return problems_of({field.name: getattr(option, field.name) for field in fields(option)})


def raise_problems(problems: Iterable[str]) -> None:
    """Raise one ValueError with all problems, if there are any."""
    found = list(dict.fromkeys(problems))
    if found:
        raise ValueError(" ".join(found))


def _accepts(rule: Rule, value: Any) -> bool:
    try:
        return bool(rule.accepts(value))
    except (TypeError, ValueError, OverflowError):  # a value that cannot be compared, such as an array
        return False


def _describe(name: str, value: Any) -> str:
    return f"{name} must be {RULES[name].wanted}, got {value!r}."


def _alternatives(words: tuple[str | None, ...]) -> str:
    return "".join(f"{word!r} or " for word in words)
