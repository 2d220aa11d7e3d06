"""This module makes 0/1 data whose columns depend strongly on each other: factors, near-duplicates, texts, public data.

Such data are hard for solvers: columns that are nearly the same make the Hessian nearly singular, and a factor that
many columns share makes most pairs look useful before any of them is in the working set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit

from benchmarks.ising import draw_ising
from reproduction.public_data import data_folder, load_dataset

__all__ = ["CASES", "SHORT_CASES", "Case", "MissingDataError", "SplitRows", "draw_factors", "draw_texts", "find_cases"]

Array = np.ndarray[Any, np.dtype[Any]]
Split = tuple[int, int, int]

COLUMNS_PER_FACTOR = 40
FLIPPED = (0.01, 0.05)
"""Bounds of the share of cells in which a near-duplicate differs from its original."""

SHORT_ROWS, SHORT_COLUMNS = (300, 100, 200), 40


class MissingDataError(RuntimeError):
    """This error says that the files of a public dataset are not on this machine."""


@dataclass(frozen=True)
class SplitRows:
    """0/1 rows (rows, columns) of int8, to learn from, to choose penalties on, and to score."""

    train: Array
    validation: Array
    held_out: Array


@dataclass(frozen=True)
class Case:
    """A case is a dataset, with the penalty at which its fits are timed.

    Attributes
    ----------
    name : str
    l1 : float
        Near the value that is best on validation rows.
    draw : callable
        ``draw(seed)`` gives the rows; public data ignore the seed.
    words : str
        What the data are.
    """

    name: str
    l1: float
    draw: Callable[[int], SplitRows]
    words: str


def draw_factors(
    columns: int,
    rows: int,
    *,
    on: float = 1.0 / 3.0,
    duplicates: float = 0.2,
    strength: float = 2.0,
    seed: int = 0,
) -> Array:
    """Draw 0/1 rows (rows, columns) of int8 from latent factors, with near-duplicate columns.

    There is a normal factor for each 40 columns. A column has loadings on one to four of them, normal with standard
    deviation ``strength``, and is 1 with the probability that the logistic function gives. Its bias is such that it is
    1 in a share of the rows that differs between columns and is ``on`` in the mean. Some columns are copies of others
    in which 1% to 5% of the cells are flipped; then columns are shuffled.

    Parameters
    ----------
    columns, rows : int
    on : float
        Expected share of cells that are 1, between 0.05 and 0.95.
    duplicates : float
        Share of the columns that are near-duplicates of another one.
    strength : float
        Standard deviation of a loading.
    seed : int
        The same seed gives the same rows.

    Examples
    --------
    >>> cells = draw_factors(50, 400, seed=1)
    >>> cells.shape, bool(0.28 < cells.mean() < 0.38)
    ((400, 50), True)
    """
    rng = np.random.default_rng(seed)
    copies = int(duplicates * columns)
    originals = columns - copies
    factors = max(2, columns // COLUMNS_PER_FACTOR)
    loadings = np.zeros((factors, originals))
    for column in range(originals):
        chosen = rng.choice(factors, min(int(rng.integers(1, 5)), factors), replace=False)
        loadings[chosen, column] = rng.normal(0.0, strength, len(chosen))
    scores = rng.normal(size=(rows, factors)) @ loadings
    shares = np.clip(rng.beta(4.0 * on, 4.0 * (1.0 - on), originals), 0.02, 0.98)
    shares *= on / shares.mean()
    chances = expit(scores + _shifts(scores, np.minimum(shares, 0.98)))
    cells = (rng.random((rows, originals)) < chances).astype(np.int8)
    source = rng.choice(originals, copies, replace=copies > originals)
    flipped = rng.random((rows, copies)) < rng.uniform(*FLIPPED, copies)
    everything = np.hstack([cells, cells[:, source] ^ flipped])
    return np.ascontiguousarray(everything[:, rng.permutation(columns)], dtype=np.int8)


def draw_texts(
    words: int, texts: int, *, on: float = 0.083, topics: int = 12, skew: float = 0.8, pairs: float = 0.2, seed: int = 0
) -> Array:
    """Draw which words occur in which texts, (texts, words) of int8.

    The k-th word has a frequency in proportion to k^-skew, and each topic multiplies it by a factor of its own,
    log-normal with standard deviation 2.2. A text is a mixture of few topics, and its length is log-normal. A word
    occurs if its Poisson count is not 0; lengths are such that a share ``on`` of all cells is 1 before pairs are made.
    A share ``pairs`` of the words are second parts of fixed expressions: they occur where the first part does, in half
    of these texts. Each word occurs in at least one text.

    Examples
    --------
    >>> cells = draw_texts(200, 300, seed=1)
    >>> cells.shape, bool(0.06 < cells.mean() < 0.09)
    ((300, 200), True)
    """
    rng = np.random.default_rng(seed)
    frequency = (3.0 + rng.permutation(words)) ** -skew
    by_topic = frequency * np.exp(rng.normal(0.0, 2.2, (topics, words)))
    by_topic /= by_topic.sum(axis=1, keepdims=True)
    mixtures = rng.dirichlet(np.full(topics, 0.05), texts)
    rates = rng.lognormal(0.0, 0.4, (texts, 1)) * (mixtures @ by_topic)
    low, high = 0.0, 1e6
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if -np.expm1(-middle * rates).mean() < on else (low, middle)
    cells = (rng.random((texts, words)) < -np.expm1(-high * rates)).astype(np.int8)
    first, second = rng.permutation(words)[: 2 * int(pairs * words)].reshape(2, -1)
    cells[:, second] &= rng.random((texts, second.size)) < 0.3
    cells[:, second] |= cells[:, first] & (rng.random((texts, second.size)) < 0.5)
    never = np.flatnonzero(~cells.any(axis=0))
    cells[rng.integers(0, texts, len(never)), never] = 1
    return cells


def _shifts(scores: Array, shares: Array) -> Array:
    """Return the bias of each column with which its mean probability is the given share, by bisection."""
    low, high = np.full(shares.size, -30.0), np.full(shares.size, 30.0)
    for _ in range(50):
        middle = 0.5 * (low + high)
        below = expit(scores + middle).mean(axis=0) < shares
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)


def _split(cells: Array, split: Split) -> SplitRows:
    return SplitRows(*np.split(cells, np.cumsum(split)[:2]))


def _factor_rows(seed: int, columns: int, split: Split) -> SplitRows:
    return _split(draw_factors(columns, sum(split), seed=seed), split)


def _text_rows(seed: int, words: int, split: Split) -> SplitRows:
    return _split(draw_texts(words, sum(split), seed=seed), split)


def _ising_rows(seed: int, nodes: int, split: Split) -> SplitRows:
    return _split(draw_ising(nodes, sum(split), seed=seed).samples, split)


def _public_rows(seed: int, name: str, most: int | None = None) -> SplitRows:
    folder = data_folder()
    if folder is None or not (folder / "debd" / name / "train.csv").is_file():
        raise MissingDataError(f"{name} is skipped: there is no debd/{name} in the folder that SPARSEFIELD_DATA names")
    splits: Any = load_dataset(name)
    return SplitRows(*(np.asarray(part)[:most] for part in (splits.train, splits.valid, splits.test)))


def _factor_case(columns: int, rows: int, l1: float) -> Case:
    draw = partial(_factor_rows, columns=columns, split=(rows, 600, 1000))
    words = f"{columns:,} columns, {rows:,} rows, factors and near-duplicates"
    return Case(f"factors-{columns}", l1, draw, words)


def _ising_case(nodes: int, rows: int, l1: float) -> Case:
    draw = partial(_ising_rows, nodes=nodes, split=(rows, 600, 1000))
    return Case(f"ising-{nodes}", l1, draw, f"{nodes:,} columns, {rows:,} rows, Ising")


CASES: tuple[Case, ...] = (
    _factor_case(300, 1000, 9.0),
    _factor_case(700, 1200, 12.0),
    _factor_case(1300, 1200, 16.0),
    Case(
        "texts",
        11.0,
        partial(_text_rows, words=1058, split=(1670, 300, 600)),
        "1,058 words, 1,670 texts, 8% of cells on",
    ),
    Case("plants", 7.0, partial(_public_rows, name="plants"), "plants, public data"),
    Case("dna", 8.0, partial(_public_rows, name="dna"), "dna, public data"),
    _ising_case(400, 2000, 32.0),
    _ising_case(1000, 2000, 32.0),
)

SHORT_CASES: tuple[Case, ...] = (
    Case(
        "factors", 6.0, partial(_factor_rows, columns=SHORT_COLUMNS, split=SHORT_ROWS), "40 columns, 300 rows, factors"
    ),
    Case("texts", 4.0, partial(_text_rows, words=SHORT_COLUMNS, split=SHORT_ROWS), "40 words"),
    Case("plants", 4.0, partial(_public_rows, name="plants", most=300), "plants, 300 rows"),
    Case("ising", 8.0, partial(_ising_rows, nodes=SHORT_COLUMNS, split=SHORT_ROWS), "40 columns, Ising"),
)


def find_cases(names: list[str] | None = None, *, short: bool = False) -> list[Case]:
    """Return the cases of these names, or all; an unknown name is a ValueError that lists those there are."""
    known = {case.name: case for case in (SHORT_CASES if short else CASES)}
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise ValueError(f"no case called {', '.join(unknown)}; there are {', '.join(known)}.")
    return [known[name] for name in names or known]
