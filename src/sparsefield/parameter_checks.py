"""Rules that parameters of estimators and options of option objects follow, and messages about those that do not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from numbers import Integral, Real
from typing import Any

MOST_COLUMNS_OF_FEATURE = 100
"""Largest ``max_order``: numbers of candidates are powers of the number of columns."""

MOST_COUNT = 10**9
"""Largest number of iterations, sweeps, draws and the like."""

LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Rule:
    """What a parameter accepts: a test, and the words for what passes it."""

    test: Callable[[Any], bool]
    words: str | Callable[[], str]

    @property
    def wanted(self) -> str:
        return self.words if isinstance(self.words, str) else self.words()

    def accepts(self, value: Any) -> bool:
        try:
            return bool(self.test(value))
        except (TypeError, ValueError, OverflowError):  # a value that cannot be compared, such as an array
            return False


def whole(least: int, most: int = MOST_COUNT, words: tuple[str, ...] = ()) -> Rule:
    """Return the rule of a whole number in a range, or one of some words."""
    upper = f"of at least {least:,}" if most >= MOST_COUNT else f"from {least:,} to {most:,}"

    def test(value: Any) -> bool:
        if isinstance(value, str):
            return value in words
        return isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) <= most

    return Rule(test, "".join(f"{word!r} or " for word in words) + f"a whole number {upper}")


def number(
    least: float = 0.0, most: float = math.inf, *, above: bool = False, below: bool = False, words: Sequence[str] = ()
) -> Rule:
    """Return the rule of a finite number in a range, or one of some words; its ends are refused if ``above, below``."""

    def test(value: Any) -> bool:
        if isinstance(value, str):
            return value in words
        if not isinstance(value, Real) or isinstance(value, bool) or not math.isfinite(value):
            return False
        size = float(value)
        return (least < size if above else least <= size) and (size < most if below else size <= most)

    if most < math.inf:
        ends = f"{least:g} {'<' if above else '<='} number {'<' if below else '<='} {most:g}"
        text = f"a number between {least:g} and {most:g} ({ends})"
    elif least > 0.0:
        text = f"a number {'above' if above else 'from'} {least:g}"
    else:
        text = "a positive number" if above else "a number that is not negative"
    return Rule(test, text + "".join(f" or {word!r}" for word in words))


def choice(values: Callable[[], Sequence[Any]]) -> Rule:
    """Return the rule of one of some values; they are asked for when a value is checked."""

    def test(value: Any) -> bool:
        return isinstance(value, (str, Integral)) and not isinstance(value, bool) and value in values()

    return Rule(test, lambda: "one of " + ", ".join(map(repr, values())))


def attributes(wanted: str, types: tuple[type, ...] = (), methods: tuple[str, ...] = ()) -> Rule:
    """Return the rule of None, a value of some types, or an object that has some methods."""

    def test(value: Any) -> bool:
        if value is None or (isinstance(value, types) and not isinstance(value, bool)):
            return True
        return any(callable(getattr(value, name, None)) for name in methods)

    return Rule(test, wanted)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_") or value in (0, 1)


def _one_or_two_numbers(value: Any) -> bool:
    parts = value if isinstance(value, (tuple, list)) else (value, value)
    return len(parts) == 2 and all(NOT_NEGATIVE.accepts(part) for part in parts)


COUNT, SEED, NOT_NEGATIVE, POSITIVE = whole(1), whole(0, LARGEST), number(), number(above=True)
FLAG = Rule(_is_flag, "True or False")
JOBS = Rule(
    lambda value: value is None or (whole(-MOST_COUNT).accepts(value) and value != 0),
    "None for all cores, or a whole number other than 0",
)
RANDOM_STATE = Rule(
    lambda value: value is None or SEED.accepts(value) or callable(getattr(value, "permutation", None)),
    "None, a whole number that is not negative, or a RandomState or Generator of numpy",
)
RULES: dict[str, Rule] = {
    # of estimators
    "l1": number(words=("auto",)),
    "penalty": choice(lambda: ("l1", "group")),
    "l2": NOT_NEGATIVE,
    "refit": Rule(
        lambda value: value == "ml" if isinstance(value, str) else FLAG.accepts(value), "True, False or 'ml'"
    ),
    "penalize_biases": FLAG,
    "coding": choice(lambda: ("symmetric", "reference")),
    "n_jobs": JOBS,
    "random_state": RANDOM_STATE,
    "verbose": whole(0),
    "engine": attributes(
        "None, a distributed.Client, or the address of a Dask scheduler such as 'dask://host:8786'",
        (str,),
        ("scheduler_info",),
    ),
    "callbacks": attributes("None or FitCallbacks(...)", methods=("path_point",)),
    # of induction rules
    "threshold": Rule(_one_or_two_numbers, "a number that is not negative, or two of them"),
    "batch_size": whole(1, words=("auto",)),
    "steps_per_batch": whole(1, words=("auto", "converge")),
    "max_order": whole(2, MOST_COLUMNS_OF_FEATURE),
    "expand": choice(lambda: ("active", "all")),
    "order_penalty": number(1.0),
    # of the solver and of selection criteria
    "tol": NOT_NEGATIVE,
    "kkt_tol": NOT_NEGATIVE,
    "max_iter": COUNT,
    "certify": FLAG,
    "stages": choice(lambda: (1, 2)),
    "checkpoint": attributes("None or the path of a folder", (str,), ("__fspath__",)),
    "folds": whole(1, words=("auto",)),
    "fraction": number(0.0, 1.0, above=True, below=True),
    "gamma": NOT_NEGATIVE,
    # of EM and of inference methods
    "copies": whole(2, 65536),
    "max_copies": whole(8, 65536),
    "max_error": POSITIVE,
    "seed": SEED,
    "tolerance": NOT_NEGATIVE,
    "max_updates": COUNT,
    "max_sweeps": COUNT,
    "damping": number(0.0, 1.0, below=True),
    "max_cells": whole(1, LARGEST),
    "retry": FLAG,
    "chains": whole(2),
    "burn_in": whole(0),
    "sweeps": whole(4),
    "steps": COUNT,
    "max_r_hat": number(1.0, above=True),
}
"""What each parameter accepts, by its name. Names mean the same wherever they occur."""


def problems_of(
    values: Mapping[str, Any], *, rules: Mapping[str, Rule] = RULES, left_out: Iterable[str] = ()
) -> list[str]:
    """Return a sentence for each value that its rule refuses; parameters without a rule are not checked here."""
    wrong = [
        name for name in values if name in rules and name not in left_out and not rules[name].accepts(values[name])
    ]
    return [f"{name} must be {rules[name].wanted}, got {values[name]!r}." for name in wrong]


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
