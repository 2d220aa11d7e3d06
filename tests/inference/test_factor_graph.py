"""The factor graph of missing cells has the energies of the field, with one table for each set of cells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_fields import small_field

from sparsefield.data import memory
from sparsefield.errors import DataError
from sparsefield.inference.factor_graph import build_factors
from sparsefield.inference.missing_problem import compile_problem

SEEDS = st.integers(0, 2**32 - 1)
STRUCTURES = st.sampled_from(["tree", "loop", "all"])


def graph_of(small, field=None):
    field = field or small.field
    compiled = compile_problem(small.sample, field.graphs, [(0, small.block)])
    return build_factors(compiled.problem, field.theta), compiled


def energy(graph, codes) -> float:
    total = sum(graph.unary_logits[graph.offsets[g] + codes[g]] for g in range(graph.n_missing))
    for f in range(len(graph.table_offsets) - 1):
        edges = range(graph.factor_offsets[f], graph.factor_offsets[f + 1])
        shape = [graph.offsets[g + 1] - graph.offsets[g] for g in graph.edge_cell[edges]]
        table = graph.tables[graph.table_offsets[f] : graph.table_offsets[f + 1]].reshape(shape)
        total += table[tuple(codes[g] for g in graph.edge_cell[edges])]
        strides = [int(np.prod(shape[k + 1 :])) for k in range(len(shape))]
        assert graph.edge_stride[edges].tolist() == strides
    return float(total)


@given(seed=SEEDS, structure=STRUCTURES, triples=st.integers(0, 8), missing=st.sampled_from([0.3, 0.7, 1.0]))
def test_every_assignment_has_the_energy_that_the_field_gives_it(seed, structure, triples, missing) -> None:
    small = small_field(seed, states=(2, 3, 2, 3), structure=structure, triples=triples, rows=2, missing=missing)
    graph, compiled = graph_of(small)
    _, variable, row = compiled.missing_cells
    rng = np.random.default_rng(seed)
    for _ in range(12):
        codes = [int(rng.integers(graph.offsets[g + 1] - graph.offsets[g])) for g in range(graph.n_missing)]
        found, wanted = energy(graph, codes) - energy(graph, [0] * graph.n_missing), 0.0
        for i in range(small.table.n_rows):
            assignment, reference = list(small.codes(i)), [max(code, 0) for code in small.codes(i)]
            for g in np.flatnonzero(row == i):
                assignment[variable[g]] = codes[g]
            wanted += small.slow.energy(small.slow.one_hot(assignment, small.observed(i)))
            wanted -= small.slow.energy(small.slow.one_hot(reference, small.observed(i)))
        assert found == pytest.approx(wanted, abs=1e-9)


def test_tables_beyond_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    small = small_field(0, structure="all", missing=1.0)
    monkeypatch.setattr(memory, "machine_memory", lambda: 100.0)
    with pytest.raises(DataError, match="tables of all missing cells"):
        graph_of(small)
