"""This module regroups and deduplicates pieces of rows on the workers of a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sparsefield.data.deduplication import CHUNK, DuplicateRows, RowChunks, find_duplicates, merge_duplicates
from sparsefield.data.shards import Piece, concatenate, overlaps, runs_of_rows
from sparsefield.data.sparse_table import SparseBlock

if TYPE_CHECKING:
    from distributed import Future


class DaskChunks(RowChunks):
    """Consecutive pieces of rows on the workers of a cluster."""

    def __init__(self, client: Any, pieces: Sequence[Future], counts: Sequence[int]) -> None:
        self.client, self.pieces, self.counts = client, pieces, counts
        self.n_rows, self.n_chunks = sum(counts), len(pieces)
        self._duplicates: Sequence[Future] = []

    def chunked(self) -> DaskChunks:
        runs = runs_of_rows(self.n_rows, CHUNK)
        return DaskChunks(self.client, self.regroup(runs, concatenate), [stop - start for start, stop in runs])

    def count_distinct(self) -> int:
        self._duplicates = self.client.map(find_duplicates, self.pieces, pure=False)
        distinct: Any = self.client.gather(self.client.map(_count_distinct, self._duplicates, pure=False))
        return sum(distinct)

    def merge(self) -> DaskChunks:
        pieces = self.client.map(merge_duplicates, self.pieces, self._duplicates, pure=False)
        counts: Any = self.client.gather(self.client.map(_count_rows, pieces, pure=False))
        return DaskChunks(self.client, pieces, counts).chunked()

    def regroup(
        self, runs: Sequence[tuple[int, int]], make: Callable[..., Any], arguments: Sequence[tuple] = ()
    ) -> list[Future]:
        """Return ``make(pieces, *arguments[k])`` for the k-th run of rows, with the pieces of that run.

        Only the rows of a run are sent to the worker that makes it.
        """
        found = overlaps(self.counts, runs)
        workers = _assign_workers(self.client, self.pieces, found)
        made = []
        for k, (run, worker) in enumerate(zip(found, workers, strict=True)):
            slices = [self._slice(*part) for part in run]
            more = arguments[k] if arguments else ()
            made.append(self.client.submit(make, slices, *more, pure=False, workers=[worker], allow_other_workers=True))
        return made

    def _slice(self, k: int, start: int, stop: int) -> Future:
        if stop - start == self.counts[k]:
            return self.pieces[k]
        return self.client.submit(_slice, self.pieces[k], start, stop, pure=False)


def _assign_workers(
    client: Any, futures: Sequence[Future], runs: Sequence[Sequence[tuple[int, int, int]]]
) -> list[str]:
    """Return a worker for each run.

    Neighboring runs go to the same worker, so that their sums can be added up there: rows move once, sums in every
    iteration. They go to the worker, among those without runs, that has most of their rows.
    """
    holders: Any = client.who_has(list(futures))
    threads: Any = client.nthreads()
    if not threads:
        raise ConnectionError("All workers have left.")
    assigned: list[str] = []
    while len(assigned) < len(runs):
        left, rows = len(runs) - len(assigned), Counter(dict.fromkeys(threads, 0))
        for run in runs[len(assigned) : len(assigned) + -(-left // len(threads))]:
            for k, start, stop in run:
                for worker in set(holders.get(futures[k].key, ())) & set(threads):
                    rows[worker] += stop - start
        best, _ = rows.most_common(1)[0]
        share = -(-left * threads[best] // sum(threads.values()))
        assigned += [best] * min(share, left)
        del threads[best]
    return assigned


# -- tasks ----------------------------------------------------------------------------------------------------------


def _count_rows(piece: Piece) -> int:
    return piece.n_rows


def _count_distinct(duplicates: DuplicateRows) -> int:
    return len(duplicates.first)


def _slice(piece: Any, start: int, stop: int) -> Any:
    return piece.slice(start, stop) if isinstance(piece, (Piece, SparseBlock)) else piece[start:stop]
