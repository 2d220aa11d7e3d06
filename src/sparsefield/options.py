"""Option objects such as ``CFI(threshold=0.2)``, and rules for their options and for parameters of estimators."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, Self

MAX_ORDER = 100
"""Largest number of columns of a feature: numbers of candidates are powers of the number of columns."""

MAX_COUNT = 10**9
"""Largest number of iterations, sweeps, draws and the like."""

MAX_INTEGER = 2**63 - 1

LOCAL = ("engine", "callbacks", "checkpoint")
"""Options that belong to one process, and are not saved."""


@dataclass(frozen=True)
class Rule:
    """What a parameter accepts: a test, and the words for what passes it."""

    test: Callable[[Any], bool]
    wanted: str

    def accepts(self, value: Any) -> bool:
        try:
            return bool(self.test(value))
        except Exception:  # a value that cannot be compared, such as an array or a frame
            return False


def whole(least: int, most: int = MAX_COUNT, words: Sequence[str] = ()) -> Rule:
    """Return the rule of a whole number in a range, or one of some words."""
    upper = f"of at least {least:,}" if most >= MAX_COUNT else f"from {least:,} to {most:,}"

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
        if not isinstance(value, Real) or isinstance(value, (bool, Fraction)) or not math.isfinite(value):
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


def choice(*values: str | int) -> Rule:
    """Return the rule of one of some values."""
    return Rule(
        lambda value: isinstance(value, (str, Integral)) and not isinstance(value, bool) and value in values,
        "one of " + ", ".join(map(repr, values)),
    )


def attributes(wanted: str, types: tuple[type, ...] = (), methods: tuple[str, ...] = ()) -> Rule:
    """Return the rule of None, a value of some types, or an object that has some methods."""

    def test(value: Any) -> bool:
        if value is None or (isinstance(value, types) and not isinstance(value, bool)):
            return True
        return any(callable(getattr(value, name, None)) for name in methods)

    return Rule(test, wanted)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ == "bool" or value in (0, 1)


def _are_numbers(values: Iterable[Any]) -> bool:
    return all(map(NOT_NEGATIVE.accepts, values))


COUNT, SEED, NOT_NEGATIVE, POSITIVE = whole(1), whole(0, MAX_INTEGER), number(), number(above=True)
FLAG = Rule(_is_flag, "True or False")
RULES: dict[str, Rule] = {
    # of estimators
    "l1": number(words=("auto",)),
    "penalty": choice("l1", "group"),
    "l2": NOT_NEGATIVE,
    "kinds": Rule(lambda value: isinstance(value, Mapping) or value == "auto", "'auto' or {column: kind}"),
    "observed": attributes("None or a list such as ['age', 'sex']", methods=("__iter__",)),
    "templates": attributes("None, 'auto', 'base', or a list such as ['within person']", methods=("__iter__",)),
    "label_penalty": POSITIVE,
    "class_weight": Rule(
        lambda v: v in (None, "balanced") or (isinstance(v, Mapping) and len(v) > 0 and _are_numbers(v.values())),
        "None, 'balanced', or a dict of classes with weights that are not negative",
    ),
    "refit": Rule(lambda value: value == "ml" if isinstance(value, str) else _is_flag(value), "True, False or 'ml'"),
    "n_jobs": Rule(
        lambda value: value is None or (whole(-MAX_COUNT).accepts(value) and value != 0),
        "None for all cores, or a whole number other than 0",
    ),
    "random_state": Rule(
        lambda value: value is None or SEED.accepts(value) or callable(getattr(value, "permutation", None)),
        "None, a whole number that is not negative, or a RandomState or Generator of numpy",
    ),
    # of features and induction rules
    "max_order": whole(2, MAX_ORDER),
    "expand": choice("active", "all"),
    "order_penalty": number(1.0),
    "coding": choice("symmetric", "reference"),
    "penalize_biases": FLAG,
    "threshold": Rule(
        lambda v: len(v) == 2 and _are_numbers(v) if isinstance(v, (tuple, list)) else NOT_NEGATIVE.accepts(v),
        "a number that is not negative, or two of them",
    ),
    "batch_size": whole(1, words=("auto",)),
    "steps_per_batch": whole(1, words=("auto", "converge")),
    # of the solver and of selection criteria
    "tol": NOT_NEGATIVE,
    "kkt_tol": NOT_NEGATIVE,
    "max_iter": COUNT,
    "certify": FLAG,
    "test_edges": FLAG,
    "stages": choice(1, 2),
    "checkpoint": attributes("None or the path of a folder", (str,), ("__fspath__",)),
    "engine": attributes(
        "None, 'cuda' or another name of a device, a distributed.Client, or the address of a Dask scheduler such as "
        "'dask://host:8786'",
        (str,),
        ("scheduler_info",),
    ),
    "callbacks": attributes("None or FitCallbacks(...)", methods=("path_point",)),
    "folds": whole(1, words=("auto",)),
    "fraction": number(0.0, 1.0, above=True, below=True),
    "gamma": number(0.0, 1e6),
    # of EM and of inference methods
    "copies": whole(2, 65536),
    "max_copies": whole(8, 65536),
    "max_error": POSITIVE,
    "seed": SEED,
    "tolerance": NOT_NEGATIVE,
    "max_updates": COUNT,
    "max_sweeps": COUNT,
    "damping": number(0.0, 1.0, below=True),
    "max_cells": whole(1, MAX_INTEGER),
    "chains": whole(2),
    "burn_in": whole(0),
    "sweeps": whole(4),
    "steps": COUNT,
    "max_r_hat": number(1.0, above=True),
}
"""What each parameter accepts, by its name. Names mean the same wherever they occur."""


def problems_of(values: Mapping[str, Any], rules: Mapping[str, Rule] = RULES) -> list[str]:
    """Return a sentence for each value that its rule refuses; parameters without a rule are not checked here."""
    refused = [name for name in values if name in rules and not rules[name].accepts(values[name])]
    return [f"{name} must be {rules[name].wanted}, got {values[name]!r}." for name in refused]


def raise_problems(problems: Iterable[str]) -> None:
    """Raise one ValueError with all problems, if there are any."""
    if problems := list(dict.fromkeys(problems)):
        raise ValueError(" ".join(problems))


class OptionObject:
    """Base class of option objects: dataclasses whose fields scikit-learn can read, set and clone.

    An estimator's ``get_params(deep=True)`` then lists ``induction__threshold``, and grid search can vary it.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the options by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # pyright: ignore[reportArgumentType]

    def set_params(self, **params: Any) -> Self:
        """Change some options in place and return the object."""
        self.refuse_unknown(params)
        for name, value in params.items():
            object.__setattr__(self, name, value)
        return self

    def refuse_unknown(self, names: Iterable[str]) -> None:
        """Raise a ValueError about a name that is no option."""
        known = self.get_params()
        for name in names:
            if name not in known:
                listed = ", ".join(known) or "none"
                raise ValueError(f"{type(self).__name__} has no option {name!r}; its options are: {listed}.")

    def problems(self) -> list[str]:
        """Return a sentence for each option that makes no sense."""
        return problems_of(self.get_params()) if is_dataclass(self) else []

    def check(self) -> None:
        """Raise a ValueError with all options that make no sense."""
        raise_problems(self.problems())


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
        if (value is None or isinstance(value, str)) and value in self.names:
            return self.names[value]()
        known = ", ".join(repr(key) for key in self.names if key != "graph")  # which needs edges
        one_of = "one of " if len(self.names) > 1 else ""
        shown = f"the class {value.__name__}: write {value.__name__}(...)" if isinstance(value, type) else repr(value)
        raise ValueError(f"{name} must be {one_of}{known}, or {self.example}; got {shown}.")


def resolve_parts(names: Iterable[str], resolve: Callable[[str], Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the option objects of parameters, by name, and a sentence for each value that makes no sense."""
    parts, problems = {}, []
    for name in names:
        try:
            parts[name] = resolve(name)
            problems += parts[name].problems()
        except ValueError as error:
            problems.append(str(error))
    return parts, problems


def changed_fields(value: Any) -> dict[str, Any]:
    """Return the options of an option object that differ from their defaults."""
    return {part.name: getattr(value, part.name) for part in fields(value) if getattr(value, part.name) != part.default}


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


def to_plain(value: Any) -> Any:
    """Return a parameter as values that JSON can express; an option object has the name of its class as ``object``."""
    if is_dataclass(value) and not isinstance(value, type):
        options = {field.name: getattr(value, field.name) for field in fields(value) if field.name not in LOCAL}
        return {"object": type(value).__name__, **to_plain(options)}
    if isinstance(value, Mapping):
        return {key: to_plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(inner) for inner in value]
    as_python = getattr(value, "tolist", None)  # of numbers and arrays of numpy
    return value if as_python is None else as_python()


def from_plain(value: Any, kinds: Iterable[Callable[..., Any]]) -> Any:
    """Return the parameter that `to_plain` described; option objects are of one of some classes."""
    if not isinstance(value, dict) or "object" not in value:
        return value
    options = {name: tuple(option) if isinstance(option, list) else option for name, option in value.items()}
    name = str(options.pop("object"))
    kind = {kind.__name__: kind for kind in kinds}.get(name)
    if kind is None:
        raise ValueError(f"there is no {name} here: install the package that has it")
    if not options.keys().isdisjoint(LOCAL):
        raise ValueError(f"{name} in a model file has none of the options {', '.join(LOCAL)}")
    return kind(**options)
