"""This module checks the record of a fit that comes from a file, because reports and commands trust it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any], bool]


def check_entries(what: str, plain: Any, checks: Mapping[str, Check], optional: frozenset[str] = frozenset()) -> None:
    """Raise ValueError unless a mapping has these entries, and each is of the right type and range."""
    if not isinstance(plain, dict):
        raise ValueError(f"{what} is {str(plain)[:40]!r}, not a mapping")
    wrong = (set(checks) - optional - set(plain)) | (set(plain) - set(checks))
    if wrong:
        raise ValueError(f"entries of {what} that are missing or unknown: {', '.join(sorted(map(str, wrong)))}")
    for name, value in plain.items():
        if not checks[name](value):
            raise ValueError(f"{what} has {name} = {str(value)[:40]!r}")


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_truth(value: Any) -> bool:
    return isinstance(value, bool)


def is_list(value: Any) -> bool:
    return isinstance(value, list)


def is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def is_not_negative(value: Any) -> bool:
    return is_number(value) and value >= 0


def is_error(value: Any) -> bool:
    """Return whether a value is a size of an error; NaN if it is not known."""
    return is_not_negative(value) or (isinstance(value, float) and math.isnan(value))


def is_share(value: Any) -> bool:
    return is_number(value) and 0 <= value <= 1


def or_none(check: Check) -> Check:
    """Return a check that accepts None too."""
    return lambda value: value is None or check(value)


def list_of(check: Check) -> Check:
    """Return a check of lists."""
    return lambda value: is_list(value) and all(map(check, value))


ITERATION = {
    "iteration": is_count,
    "objective": is_number,
    "loss": is_number,
    "l1_norm": is_not_negative,
    "features": is_count,
    "active": is_count,
    "phase": is_text,
    "seconds": is_not_negative,
    "scoring_seconds": is_not_negative,
    "traffic": is_count,
}
TIMING = frozenset({"seconds", "scoring_seconds", "traffic"})
PATH_ROW = {
    "l1": is_not_negative,
    "features": is_count,
    "score": is_number,
    "error": is_error,
    "selected": is_truth,
}
LEFT_OUT_FEATURE = {"columns": list_of(is_count), "weight": is_number, "frequency": is_share}
STABILITY = {
    "frequencies": list_of(is_share),
    "resamples": is_count,
    "seed": is_count,
    "l1": is_not_negative,
    "halved": lambda value: value in ("rows", "components", "linked rows"),
    "given_graph": is_truth,
    "mean_pairs": is_not_negative,
    "left_out": is_list,
}
WIDE_COLUMNS = {"columns": list_of(is_text), "table_size": is_count}
LIKELIHOOD = {
    "max_cells": is_count,
    "selected_by": lambda value: value in ("ml", "pl", "cd"),
    "wide": is_list,
}
FIT_RECORD = {
    "version": is_text,
    "n_rows": is_count,
    "l1": or_none(is_not_negative),
    "objective": or_none(is_number),
    "kkt_violation": or_none(is_error),
    "converged": is_truth,
    "mc_error": or_none(is_not_negative),
    "refit": is_truth,
    "iterations": is_list,
    "path": is_list,
    "criterion": or_none(is_text),
    "stability": or_none(lambda value: isinstance(value, dict)),
    "likelihood": or_none(lambda value: isinstance(value, dict)),
    "source": lambda value: isinstance(value, str),
}


def check_record(plain: Any) -> None:
    """Raise ValueError unless a fit record, as plain values, could be that of a fit."""
    check_entries("the fit record", plain, FIT_RECORD)
    for row in plain["iterations"]:
        check_entries("an iteration of the fit record", row, ITERATION, TIMING)
    for row in plain["path"]:
        check_entries("a row of the path", row, PATH_ROW)
    if plain["stability"] is not None:
        check_entries("the stability record", plain["stability"], STABILITY)
        for one in plain["stability"]["left_out"]:
            check_entries("a left-out feature", one, LEFT_OUT_FEATURE)
    if plain["likelihood"] is not None:
        check_entries("the likelihood record", plain["likelihood"], LIKELIHOOD)
        for one in plain["likelihood"]["wide"]:
            check_entries("a wide component", one, WIDE_COLUMNS)
