"""Helpers for tests with a single table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sparsefield.compute import Threads, identity
from sparsefield.data import Block, Dataset, Layout, Schema, Table, learn_schema
from sparsefield.data.column_summaries import ColumnSummary
from sparsefield.inference import InferenceMethod
from sparsefield.inference.method import fill_blocks
from sparsefield.model import Adjacency, compile_adjacency
from sparsefield.objectives import GradientFactors


def graphs_of(schema: Schema, pairs: np.ndarray) -> tuple[Adjacency, ...]:
    """Return the graphs of a single table."""
    layout = Layout.single(schema)
    return compile_adjacency(layout, layout.arcs(pairs))


def fill(schema: Schema, blocks: list[Block], method: InferenceMethod, graphs, theta: np.ndarray) -> int:
    """Infer the missing cells of ``blocks`` in place and return how many rows did not converge."""
    sample = Dataset.single(Table(schema, tuple(blocks), sum(block.n_rows for block in blocks)))
    with Threads(1) as engine:
        return fill_blocks(sample, [blocks], method, graphs, theta, engine).unconverged


def learn_plain_schema(source, *, observed=(), numeric="auto", states=None, sample_weight=None) -> Schema:
    """Return a schema as the paper has it: targets are nominal, with a reference state, and numbers have no bins.

    Observed columns are numeric if they are in ``numeric``; "auto" takes those with fractions or many integers.
    """
    if getattr(source, "kind", "") == "sparse" and not states:
        return learn_schema(source, observed=observed, sample_weight=sample_weight)
    if numeric == "auto":
        unknown = [name for name in observed if name not in (states or {})]
        numeric = [name for name in unknown if ColumnSummary.of(source, name).traits.numeric]
    numbers = {name for name in observed if name in numeric}
    kinds = {name: "numeric" if name in numbers else "nominal" for name in source.names}
    schema = learn_schema(
        source, observed=observed, kinds=kinds, states=states, symmetric=False, sample_weight=sample_weight
    )
    return Schema(tuple(replace(v, bins=()) if v.numeric else v for v in schema.variables), schema.order)


def evaluated(factors: GradientFactors) -> tuple[np.ndarray, np.ndarray]:
    """Return the errors and expectations of all rows of one table, (columns, rows) each."""
    parts = factors.parts.map(identity)
    return np.concatenate([p.errors for p in parts], axis=1), np.concatenate([p.expectations for p in parts], axis=1)
