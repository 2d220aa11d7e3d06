"""One plain table under the library's numbering of many: what tests of the parts say over and over."""

from __future__ import annotations

import numpy as np

from sparsefield.compute import Threads
from sparsefield.data import Block, DenseDataset, Layout, Schema, Table
from sparsefield.inference import InferenceMethod
from sparsefield.inference.missing_problem import fill_blocks
from sparsefield.model import Adjacency, compile_adjacency


def graphs_of(schema: Schema, pairs: np.ndarray) -> tuple[Adjacency, ...]:
    """The one graph of a plain table, as the library takes it."""
    layout = Layout.single(schema)
    return compile_adjacency(layout, layout.arcs(pairs))


def fill(schema: Schema, blocks: list[Block], method: InferenceMethod, graphs, theta: np.ndarray) -> int:
    """Fill the gaps of ``blocks`` where they lie; returns how many rows did not settle."""
    sample = DenseDataset.single(Table(schema, tuple(blocks), sum(block.n_rows for block in blocks)))
    with Threads(1) as engine:
        return fill_blocks(sample, [blocks], method, graphs, theta, engine)
