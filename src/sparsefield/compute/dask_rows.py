"""Pieces of rows on the workers of a cluster: put together anew, shared out, merged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sparsefield.data.deduplication import CHUNK, Chunks, DuplicateRows, find_twins, merge_twins
from sparsefield.data.shards import Piece, concatenate, overlaps, runs_of_rows, slice_piece
from sparsefield.data.sparse_shards import SparsePiece, slice_sparse

if TYPE_CHECKING:
    from distributed import Future

__all__ = ["OnWorkers"]


class OnWorkers(Chunks):
    """Pieces of rows in order, one behind the other."""

    def __init__(self, client: Any, pieces: Sequence[Future], counts: Sequence[int]) -> None:
        self.client, self.pieces, self.counts = client, pieces, counts
        self.n_rows, self.n_chunks = sum(counts), len(pieces)
        self._twins: Sequence[Future] = []

    def chunked(self) -> OnWorkers:
        runs = runs_of_rows(self.n_rows, CHUNK)
        return OnWorkers(self.client, self.regroup(runs, concatenate), [stop - start for start, stop in runs])

    def count_different(self) -> int:
        self._twins = self.client.map(find_twins, self.pieces, pure=False)
        different: Any = self.client.gather(self.client.map(_count_different, self._twins, pure=False))
        return sum(different)

    def merge(self) -> OnWorkers:
        pieces = self.client.map(merge_twins, self.pieces, self._twins, pure=False)
        counts: Any = self.client.gather(self.client.map(_count_rows, pieces, pure=False))
        return OnWorkers(self.client, pieces, counts).chunked()

    def regroup(
        self, runs: Sequence[tuple[int, int]], make: Callable[..., Any], told: Sequence[tuple] = ()
    ) -> list[Future]:
        """``make(pieces, *told)`` of each run of rows, with the pieces that it is made of.

        Only the rows that belong to a run go to the worker that makes it.
        """
        found = overlaps(self.counts, runs)
        homes = _find_homes(self.client, self.pieces, found)
        made = []
        for k, (run, home) in enumerate(zip(found, homes, strict=True)):
            slices = [self._slice(*part) for part in run]
            more = told[k] if told else ()
            made.append(self.client.submit(make, slices, *more, pure=False, workers=[home], allow_other_workers=True))
        return made

    def _slice(self, k: int, start: int, stop: int) -> Future:
        if stop - start == self.counts[k]:
            return self.pieces[k]
        return self.client.submit(_slice, self.pieces[k], start, stop, pure=False)


def _find_homes(client: Any, futures: Sequence[Future], runs: Sequence[Sequence[tuple[int, int, int]]]) -> list[str]:
    """A worker for each run. Neighbors lie together, so that what is found in them can be added up there: rows move
    once, sums all the time. They go to the worker, of those that have none, with most of their rows."""
    holders: Any = client.who_has(list(futures))
    threads: Any = client.nthreads()
    if not threads:
        raise ConnectionError("All workers have left.")
    homes: list[str] = []
    while len(homes) < len(runs):
        left, rows = len(runs) - len(homes), Counter(dict.fromkeys(threads, 0))
        for run in runs[len(homes) : len(homes) + -(-left // len(threads))]:
            for k, start, stop in run:
                for worker in set(holders.get(futures[k].key, ())) & set(threads):
                    rows[worker] += stop - start
        home, _ = rows.most_common(1)[0]
        share = -(-left * threads[home] // sum(threads.values()))
        homes += [home] * min(share, left)
        del threads[home]
    return homes


# -- tasks ----------------------------------------------------------------------------------------------------------


def _count_rows(piece: Piece) -> int:
    return piece.n_rows


def _count_different(twins: DuplicateRows) -> int:
    return len(twins.first)


def _slice(piece: Any, start: int, stop: int) -> Any:
    if isinstance(piece, Piece):
        return slice_piece(piece, start, stop)
    return slice_sparse(piece, start, stop) if isinstance(piece, SparsePiece) else piece[start:stop]
