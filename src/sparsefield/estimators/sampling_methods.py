"""This module draws rows from the field over one table."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sparsefield.compute import Engine
from sparsefield.data import DenseDataset, Source, compile_table
from sparsefield.data.memory import refuse_beyond_memory
from sparsefield.errors import DataError
from sparsefield.estimators.answer_tables import drawn_columns, known_numbers, labeled_frame
from sparsefield.estimators.validation import as_seed
from sparsefield.frame_protocol import Frame
from sparsefield.inference import draw_often
from sparsefield.model import Field
from sparsefield.parameters import BURN_IN, THIN

BYTES_OF_DRAWN_CELL = 12
"""Least memory of a cell of a sample: its code, and its label or number in the frame."""


class SamplingMethods:
    """The method of `MarkovField` that draws rows."""

    field_: Field
    kind_: str
    random_state: Any
    _engine: Callable[[Any], Engine]
    _read: Callable[..., Source]

    def sample(
        self,
        n: int = 1,
        *,
        given: Any = None,
        burn_in: int = BURN_IN,
        chains: int | None = None,
        thin: int = THIN,
        random_state: int | np.random.RandomState | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Frame:
        """Draw rows by Gibbs sampling, and return them as a frame.

        Columns of dates, times and categories have the types that they had in the table of `fit`; categories that are
        intervals are text.

        Parameters
        ----------
        n : number of rows; with ``given``, for each of its rows
        given : table whose missing cells are drawn; necessary if the field has observed columns
        burn_in : number of sweeps of each chain before its first row
        chains : number of chains that share the ``n`` rows, which come chain after chain; None gives every row its own
        thin : number of sweeps between two rows of a chain
        random_state : seed, or a RandomState to draw one from; None takes the estimator's
        progress : function that is called from time to time with the number of sweeps done and their total number
        """
        check_is_fitted(self)
        for name, value in {"n": n, "chains": chains, "burn_in": burn_in, "thin": thin}.items():
            if value is not None and (isinstance(value, bool) or not isinstance(value, Integral) or value < 1):
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}.")
        source = None if given is None else self._read(given)
        rows = n * (1 if source is None else source.n_rows)
        refuse_beyond_memory(
            float(rows) * len(self.field_.schema.variables) * BYTES_OF_DRAWN_CELL,
            f"A sample of {rows:,} rows",
            lambda: "draw fewer rows at a time, with other seeds.",
        )
        chains = n if chains is None else min(chains, n)
        schema = self.field_.schema
        seed = as_seed(self.random_state if random_state is None else random_state)
        if source is None:
            if schema.observed:
                names = ", ".join(v.name for v in schema.observed[:5])
                raise DataError(f"The field is conditioned on observed columns ({names}): pass them as given=.")
            names = tuple(variable.name for variable in schema.targets)
            table = compile_table(Source(names, chains, "array", np.full((chains, len(names)), np.nan)), schema)
        else:
            table = compile_table(source, schema, repeat=chains)
        sample = DenseDataset.single(table)
        length = -(-n // chains)
        with self._engine(sample) as engine:
            (codes,) = draw_often(
                self.field_,
                sample,
                count=length,
                sweeps=burn_in,
                thin=thin,
                seed=seed,
                engine=engine,
                progress=progress,
            )
        # (draws, targets, rows of given x chains) to (targets, rows of given x n), chain after chain. The first chains
        # contribute one row more if n is no multiple of their number.
        chain, draw = np.divmod(np.arange(chains * length), length)
        kept = draw < n // chains + (chain < n % chains)
        codes = np.moveaxis(codes, 0, 2).reshape(codes.shape[1], -1, chains * length)[:, :, kept]
        columns = drawn_columns(schema, codes.reshape(len(codes), -1), np.random.SeedSequence(seed))
        known: dict[str, np.ndarray] = {}
        if source is not None:
            numbers, known = known_numbers(source, schema, columns, n)
            columns |= numbers
        return labeled_frame(schema, columns, self.kind_, known)
