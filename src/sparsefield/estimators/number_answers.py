"""This module summarizes the probabilities of the states of ordinal and numeric cells: means, quantiles, draws."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from sparsefield.data import Label, Variable

Fill = Literal["auto", "mean", "median", "mode"]
"""What stands for a missing cell; "auto" takes the mean of a number, and the most probable state of others."""


def check_fill(fill: Fill) -> Fill:
    if fill not in get_args(Fill):
        raise ValueError(f"fill must be one of {', '.join(get_args(Fill))}, got {fill!r}.")
    return fill


def has_numbers(variable: Variable) -> bool:
    """Return whether the states of a variable are numbers with an order, so that they have a mean."""
    if not variable.ordered:
        return False
    return all(isinstance(state, (int, float)) and not isinstance(state, bool) for state in variable.states)


def mean(variable: Variable, probabilities: np.ndarray) -> np.ndarray:
    """Return the expected value of cells with the given probabilities (cells, states)."""
    return probabilities @ np.array(variable.states, dtype=float)


def deviation(variable: Variable, probabilities: np.ndarray) -> np.ndarray:
    """Return the standard deviation of cells, that within the levels of a number included."""
    values = np.array(variable.states, dtype=float)
    # In standard deviations, since squares of tiny numbers would be 0.
    centered = (values - mean(variable, probabilities)[:, None]) / variable.scale
    within = np.zeros(len(values))
    if variable.limits:
        below, above = (values - variable.edges[:-1]) / variable.scale, (variable.edges[1:] - values) / variable.scale
        lower = _lower_shares(variable)
        within = (lower * np.square(below) + (1.0 - lower) * np.square(above)) / 3.0
    return variable.scale * np.sqrt((probabilities * (np.square(centered) + within)).sum(axis=1))


def quantile_places(probabilities: np.ndarray, q: float) -> np.ndarray:
    """Return the number of the state (cells,) at which the cumulated probability reaches q."""
    reached = np.cumsum(probabilities, axis=1) >= q - 1e-12
    return np.where(reached.any(axis=1), reached.argmax(axis=1), probabilities.shape[1] - 1)


def quantile(variable: Variable, probabilities: np.ndarray, q: float) -> np.ndarray:
    """Return a quantile of the numbers in cells; within a level of a number it is interpolated."""
    place = quantile_places(probabilities, q)
    values = np.array(variable.states, dtype=float)[place]
    if not variable.limits:
        return values
    cells = np.arange(len(place))
    inside = probabilities[cells, place]
    before = np.cumsum(probabilities, axis=1)[cells, place] - inside
    share = np.clip((q - before) / np.maximum(inside, np.finfo(float).tiny), 0.0, 1.0)
    found = _within_levels(variable, place, share)
    return np.round(found) if variable.whole else found


def shares_below(variable: Variable, bound: float, *, included: bool) -> np.ndarray:
    """Return the share of each level of a number, (states,), that is below a bound, or equal to it if ``included``."""
    values, low, high = np.array(variable.states, dtype=float), variable.edges[:-1], variable.edges[1:]
    lower, flat = _lower_shares(variable), variable.is_point
    below, above = (
        np.clip(np.divide(bound - start, end - start, out=1.0 * (bound >= end), where=(end > start) & ~flat), 0.0, 1.0)
        for start, end in ((low, values), (values, high))
    )
    points = values <= bound if included else values < bound
    return np.where(flat, points, lower * below + (1.0 - lower) * above)


def _lower_shares(variable: Variable) -> np.ndarray:
    """Return the share of each level below its mean, (states,): values are spread evenly below, and evenly above it.

    With this share the mean of the spread is that of the level, however skewed the values in it are.
    """
    low, high = variable.edges[:-1], variable.edges[1:]
    return np.clip((high - np.array(variable.states)) / np.maximum(high - low, np.finfo(float).tiny), 0.0, 1.0)


def _within_levels(variable: Variable, place: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return the values at shares, from 0 to 1, of the levels at some places."""
    values, lower = np.array(variable.states, dtype=float)[place], _lower_shares(variable)[place]
    low, high, tiny = variable.edges[place], variable.edges[place + 1], np.finfo(float).tiny
    below = low + np.minimum(share / np.maximum(lower, tiny), 1.0) * (values - low)
    above = values + np.clip((share - lower) / np.maximum(1.0 - lower, tiny), 0.0, 1.0) * (high - values)
    return np.where(share < lower, below, above)


def fill_labels(variable: Variable, probabilities: np.ndarray, fill: Fill) -> list[Label]:
    """Return what stands for missing cells with the given probabilities (cells, states)."""
    if fill == "auto":
        fill = "mean" if variable.numeric else "mode"
    if not variable.ordered or (fill == "mode" and not variable.numeric):
        return [variable.states[place] for place in probabilities.argmax(axis=1)]
    if variable.numeric:
        if fill == "mode":  # of the density: levels differ in width
            found = np.array(variable.states, dtype=float)[(probabilities / variable.widths).argmax(axis=1)]
        else:
            found = mean(variable, probabilities) if fill == "mean" else quantile(variable, probabilities, 0.5)
        found = variable.round(found)
        return [int(number) for number in found] if variable.whole else found.tolist()
    if fill == "mean":
        place = np.round(probabilities @ np.arange(probabilities.shape[1])).astype(np.int64)
    else:
        place = quantile_places(probabilities, 0.5)
    return [variable.states[k] for k in place]


def labels_of_codes(variable: Variable, codes: np.ndarray, rng: np.random.Generator | None = None) -> list[Label]:
    """Return values for codes of states; a number is drawn from its level, or is its mean without ``rng``."""
    place = variable.position_of_code[codes]
    if not variable.numeric:
        return [variable.states[k] for k in place]
    found = np.array(variable.states, dtype=float)[place]
    if variable.limits and rng is not None:
        found = _within_levels(variable, place, rng.random(len(place)))
    found = variable.round(found)
    return [int(number) for number in found] if variable.whole else found.tolist()
