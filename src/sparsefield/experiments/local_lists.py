"""What a search for large sums would send if every shard listed its own large entries, beside what is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparsefield.engines import Question
from sparsefield.engines.large import Search
from sparsefield.engines.shards import round_off
from sparsefield.field import Field

__all__ = ["compare_lists"]

Row = dict[str, Any]

SHARDS = (4, 16, 100)
PIECES = 400
"""A multiple of each of these."""

BYTES_OF_PLACE = 4


def compare_lists(data: np.ndarray, field: Field, l1: float, shards: Sequence[int] = SHARDS) -> list[Row]:
    """For the first look at the candidates and the last one, of rows of 0 and 1, by number of shards.

    An entry whose sum goes beyond l1 goes beyond l1 / shards in one of them at least. So shards could send only such
    entries (as TPUT does, Cao and Wang 2004), and then all of them what the others have of these.
    """
    found = []
    for look, pairs, weights in (
        ("first", np.empty((0, 2), dtype=np.int64), np.empty(0)),
        ("last", field.pairs, field.weights),
    ):
        sums, candidates = _sums(data, field.unary, pairs, weights)
        for n in shards:
            own = sums.reshape(n, PIECES // n, *sums.shape[1:]).sum(axis=1)
            found.append(
                {"look": look, "shards": n, "candidates": int(candidates.sum())} | _compare(own, candidates, l1)
            )
    return found


def _sums(data: np.ndarray, unary: np.ndarray, pairs: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(pieces, columns, columns): gradients of all pairs, run of rows by run of rows; and which count: those not in the
    field, each once. Without pairs, unary weights are at the log-odds."""
    columns = data.shape[1]
    matrix = np.zeros((columns, columns))
    matrix[pairs[:, 0], pairs[:, 1]] = matrix[pairs[:, 1], pairs[:, 0]] = weights
    share = np.clip(data.mean(axis=0), 0.5 / len(data), 1.0 - 0.5 / len(data))
    biases = unary if len(pairs) else np.log(share / (1.0 - share))
    sums = np.empty((PIECES, columns, columns))
    for k, rows in enumerate(np.array_split(np.arange(len(data)), PIECES)):
        cells = data[rows].astype(float)
        errors = 1.0 / (1.0 + np.exp(-(cells @ matrix + biases))) - cells
        product = errors.T @ cells
        sums[k] = product + product.T
    return sums, np.triu(matrix == 0.0, k=1)


def _own(part: np.ndarray, item: int) -> np.ndarray:
    return part


def _compare(own: np.ndarray, candidates: np.ndarray, l1: float) -> Row:
    """(shards, columns, columns): each shard's sums."""
    n = len(own)
    passing = (np.abs(own) > l1 / n) & candidates
    listed, anywhere = int(passing.sum()), int(passing.any(axis=0).sum())

    def excess(item: int, sums: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return np.where(candidates[rows, columns], np.abs(sums[0]) - l1, -np.inf)

    search = Search(Question(_own, (), excess, lambda item, rows, columns: candidates[rows, columns]))
    (places,) = search.narrow([0], [round_off((part[None],)) for part in own])
    return {
        "beyond": int((np.abs(own.sum(axis=0))[candidates] > l1).sum()),
        "listed_by_a_shard": listed / n / candidates.sum(),
        "listed_anywhere": anywhere / candidates.sum(),
        "kb_of_lists": (listed * (8 + BYTES_OF_PLACE) + (anywhere * n - listed) * 8) / 1e3,
        "kb_of_two_rounds": n * (2 * candidates.size + 8 * len(places[0])) / 1e3,
        "kb_in_full": n * 8 * candidates.size / 1e3,
    }
