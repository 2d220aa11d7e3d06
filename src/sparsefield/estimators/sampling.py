"""Rows drawn from a field over one table by Gibbs sampling."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sparsefield.data import DenseDataset, Source, compile_table
from sparsefield.data.frame_building import Frame
from sparsefield.data.memory import refuse_beyond_memory
from sparsefield.errors import DataError
from sparsefield.estimators.answer_tables import drawn_columns, known_numbers, labeled_frame
from sparsefield.estimators.compiled_rows import threads_for
from sparsefield.estimators.field_estimator import FieldEstimator
from sparsefield.inference import draw_often

BYTES_OF_DRAWN_CELL = 12
"""Least memory of a cell of a sample: its code, and its label or number in the frame."""


def draw_rows(
    estimator: FieldEstimator,
    n: int,
    source: Source | None,
    *,
    burn_in: int,
    chains: int | None,
    thin: int,
    seed: int | None,
    progress: Callable[[int, int], None] | None = None,
) -> Frame:
    """Return ``n`` rows, or ``n`` for each row of the source with its missing cells drawn: see `MarkovField.sample`."""
    field, schema = estimator.field_, estimator.field_.schema
    rows = n * (1 if source is None else source.n_rows)
    refuse_beyond_memory(
        float(rows) * len(schema.variables) * BYTES_OF_DRAWN_CELL,
        f"A sample of {rows:,} rows",
        lambda: "draw fewer rows at a time, with other seeds.",
    )
    chains = n if chains is None else min(chains, n)
    if source is None:
        if schema.observed:
            names = ", ".join(v.name for v in schema.observed[:5])
            raise DataError(f"The field is conditioned on observed columns ({names}): pass them as given=.")
        names = tuple(variable.name for variable in schema.targets)
        table = compile_table(Source(names, chains, "array", np.full((chains, len(names)), np.nan)), schema)
    else:
        table = compile_table(source, schema, repeat=chains)
    dataset = DenseDataset.single(table)
    length = -(-n // chains)
    with threads_for(estimator, dataset) as engine:
        (codes,) = draw_often(
            field, dataset, count=length, sweeps=burn_in, thin=thin, seed=seed, engine=engine, progress=progress
        )
    # (draws, targets, rows of given x chains) to (targets, rows of given x n), chain after chain. The first chains
    # contribute one row more if n is no multiple of their number.
    chain, draw = np.divmod(np.arange(chains * length), length)
    contributed = draw < n // chains + (chain < n % chains)
    codes = np.moveaxis(codes, 0, 2).reshape(codes.shape[1], -1, chains * length)[:, :, contributed]
    columns = drawn_columns(schema, codes.reshape(len(codes), -1), np.random.SeedSequence(seed))
    known: dict[str, np.ndarray] = {}
    if source is not None:
        numbers, known = known_numbers(source, schema, columns, n)
        columns |= numbers
    return labeled_frame(schema, columns, estimator.kind_, known)
