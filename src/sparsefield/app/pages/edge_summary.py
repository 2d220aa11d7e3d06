"""This module says in a sentence how many pairs of columns of a field go together."""

from __future__ import annotations

import numpy as np

from sparsefield.analysis.network import Network
from sparsefield.model import Field
from sparsefield.text import count


def describe_edges(field: Field) -> str:
    """Return how many pairs of columns go together as a sentence; without any, that there are none."""
    network = Network(field)
    return describe_no_features(field) if not len(network.strengths) else count_edges(network)


def count_edges(network: Network) -> str:
    weights = network.field.weights, network.field.conjunction_weights
    features = count(sum(int(np.count_nonzero(part)) for part in weights), "feature")
    pairs = len(np.unique(np.sort(network.ends, axis=1), axis=0))
    verb = "goes" if pairs == 1 else "go"
    if network.linked:
        return (
            f"{count(pairs, 'pair')} of columns {verb} together, within rows or across links, given all other columns "
            f"({features})."
        )
    schema = network.field.schema
    targets, observed = len(schema.targets), len(schema.observed)
    possible = count(targets * (targets - 1) // 2 + targets * observed, "pair")
    latent = ", latent variables included," if network.field.layout.has_latent else ""
    return f"{pairs:,} of {possible} of columns{latent} {verb} together given all other columns ({features})."


def describe_no_features(field: Field) -> str:
    """Return a sentence on a field that has no features of two columns."""
    record = field.record
    if not record.is_learned:
        return "No two columns share a feature: each column is independent of the others."
    lower = "" if record.criterion is not None else ", and a lower l1 would keep them"
    return (
        f"{nothing_found(record.n_rows, len(field.layout.tables))}: each column is predicted by its frequencies "
        f"alone. Weak dependences need more rows to be seen{lower}."
    )


def nothing_found(n_rows: int, n_tables: int) -> str:
    where = f"these {count(n_rows, 'row')}" + (f" of {n_tables} linked tables" if n_tables > 1 else "")
    pairs = "columns, within rows or across links," if n_tables > 1 else "columns"
    return f"No dependence between {pairs} could be found in {where}"
