"""Tables of tokens: sequences whose tokens have sparse attributes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

MOST_BLOCKS = 32
LEAST_BLOCK = 256
"""Tokens, or entries, that are worth a block."""

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class TokenTable:
    """Sequences of tokens with attributes, as a sparse matrix (CSR) with a row per token.

    Blocks depend on the data only, so that results are the same for any number of threads.
    """

    offsets: np.ndarray
    """(sequences + 1,): sequence s has the tokens from offsets[s] to offsets[s + 1]."""
    tokens: np.ndarray
    """(tokens + 1,): token t has the entries from tokens[t] to tokens[t + 1]."""
    attributes: np.ndarray
    """(entries,): numbers of attributes."""
    values: np.ndarray
    """(entries,), or empty where all values are 1."""
    n_attributes: int

    @property
    def n_sequences(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_tokens(self) -> int:
        return len(self.tokens) - 1

    @property
    def arrays(self) -> Arrays:
        """What the kernels take."""
        return self.offsets, self.tokens, self.attributes, self.values

    @cached_property
    def matrix(self) -> sp.csr_array:
        """The table as a matrix, (tokens, attributes)."""
        values = self.values if len(self.values) else np.ones(len(self.attributes))
        return sp.csr_array((values, self.attributes, self.tokens), shape=(self.n_tokens, self.n_attributes))

    @cached_property
    def by_attribute(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Offsets by attribute, (attributes + 1,), and the tokens and values of the entries (CSC)."""
        found = self.matrix.tocsc()
        values = found.data if len(self.values) else np.empty(0)
        return found.indptr.astype(np.int64), found.indices.astype(np.int32), values

    @cached_property
    def sequence_blocks(self) -> list[tuple[int, int]]:
        """Runs of sequences, of about the same number of tokens."""
        return even_blocks(self.offsets)

    @cached_property
    def attribute_blocks(self) -> list[tuple[int, int]]:
        """Runs of attributes, of about the same number of entries."""
        return even_blocks(self.by_attribute[0])

    def split(self, values: np.ndarray) -> list[np.ndarray]:
        """Return an array with a row per token as one array per sequence."""
        return np.split(values, self.offsets[1:-1]) if self.n_sequences else []

    def select_attributes(self, chosen: np.ndarray) -> TokenTable:
        """Return the table with some attributes only, given ascending, and numbered in that order."""
        number = np.full(self.n_attributes, -1, dtype=np.int32)
        number[chosen] = np.arange(len(chosen), dtype=np.int32)
        found = number[self.attributes]
        kept = found >= 0
        tokens = np.concatenate([[0], np.cumsum(kept)])[self.tokens]
        values = self.values[kept] if len(self.values) else self.values
        return replace(self, tokens=tokens, attributes=found[kept], values=values, n_attributes=len(chosen))

    def select_sequences(self, chosen: np.ndarray) -> tuple[TokenTable, np.ndarray]:
        """Return some sequences, and the numbers of their tokens in this table."""
        rows = _expand(self.offsets[chosen], np.diff(self.offsets)[chosen])
        lengths = np.diff(self.tokens)[rows]
        entries = _expand(self.tokens[rows], lengths)
        table = TokenTable(
            cumulate(np.diff(self.offsets)[chosen]),
            cumulate(lengths),
            self.attributes[entries],
            self.values[entries] if len(self.values) else self.values,
            self.n_attributes,
        )
        return table, rows


def cumulate(lengths: np.ndarray) -> np.ndarray:
    """Return the offsets of runs of given lengths, (runs + 1,)."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _expand(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the numbers start, ..., start + length - 1 of all runs."""
    return np.repeat(starts - cumulate(lengths)[:-1], lengths) + np.arange(lengths.sum())


def even_blocks(offsets: np.ndarray) -> list[tuple[int, int]]:
    """Cut runs into blocks of about equal size, by the offsets of the runs."""
    total, n = int(offsets[-1]), len(offsets) - 1
    count = int(np.clip(total // LEAST_BLOCK, 1, MOST_BLOCKS))
    ends = np.searchsorted(offsets, np.linspace(0, total, count + 1)[1:-1])
    edges = np.unique(np.concatenate([[0], ends, [n]]))
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
