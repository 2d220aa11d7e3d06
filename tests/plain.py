"""Helpers for tests with a single table."""

from __future__ import annotations

import numpy as np

from sparsefield.compute import Threads
from sparsefield.data import Block, DenseDataset, Layout, Schema, Table
from sparsefield.inference import InferenceMethod
from sparsefield.inference.method import fill_blocks
from sparsefield.model import Adjacency, compile_adjacency


def graphs_of(schema: Schema, pairs: np.ndarray) -> tuple[Adjacency, ...]:
    """Return the graphs of a single table."""
    layout = Layout.single(schema)
    return compile_adjacency(layout, layout.arcs(pairs))


def fill(schema: Schema, blocks: list[Block], method: InferenceMethod, graphs, theta: np.ndarray) -> int:
    """Infer the missing cells of ``blocks`` in place and return how many rows did not converge."""
    sample = DenseDataset.single(Table(schema, tuple(blocks), sum(block.n_rows for block in blocks)))
    with Threads(1) as engine:
        return fill_blocks(sample, [blocks], method, graphs, theta, engine)
