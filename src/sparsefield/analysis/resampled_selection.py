"""This module counts how often features are selected again from resampled rows, at the same l1."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from sparsefield.analysis.bootstrap import Progress, Weighting
from sparsefield.compute import Engine, Threads
from sparsefield.data import DenseDataset, LocalDataset, weigh_rows
from sparsefield.model import Field, pad_features
from sparsefield.solver import Path
from sparsefield.solver.checkpoint import CheckpointFile

FITS_BETWEEN_SAVES = 10

MakePath = Callable[[LocalDataset, Engine], Path]


def learn_again(
    sample: DenseDataset, make: MakePath, weighting: Weighting, numbers: range, n_jobs: int | None
) -> Iterator[Field]:
    """Yield the fields that are learned from resamples with some numbers; results do not depend on threads.

    ``make`` returns a path for resampled rows.
    """

    def learn(number: int) -> Field:
        factors = weighting(number)
        rows = np.flatnonzero(factors)
        with Threads(1) as engine:
            return make(weigh_rows(sample.subset(rows), factors[rows]), engine).run().field

    with Threads(n_jobs) as engine:
        yield from engine.stream(learn, numbers)


def select_again(
    sample: DenseDataset,
    field: Field,
    make: MakePath,
    weighting: Weighting,
    count: int,
    n_jobs: int | None,
    progress: Progress | None = None,
    saved: CheckpointFile | None = None,
) -> np.ndarray:
    """Return which features of a field resamples 0, 1, ... select, bool, (count, features).

    Parameters
    ----------
    sample : the rows, of one table
    make : returns a path for resampled rows, which starts from the field
    saved : keeps the finished resamples, so that an interrupted run can be continued
    """
    done = None if saved is None else saved.load()
    selected = [] if done is None else list(done[0]["selected"].astype(bool))
    for found in learn_again(sample, make, weighting, range(len(selected), count), n_jobs):
        width = max(field.features.shape[1], found.features.shape[1])
        mine, other = (field.layout.keys(pad_features(one.features, width)) for one in (field, found))
        selected.append(np.isin(mine, other))
        if progress is not None:
            progress(len(selected), count)
        if saved is not None and (len(selected) % FITS_BETWEEN_SAVES == 0 or len(selected) == count):
            saved.save({"selected": np.array(selected, dtype=np.uint8)}, {})
    return np.array(selected, dtype=bool).reshape(len(selected), len(field.features))
