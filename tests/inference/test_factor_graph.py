"""The factor graph of missing cells has the energies of the field, with one table for each set of cells."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_fields import small_field

from sparsefield.data import memory
from sparsefield.errors import DataError
from sparsefield.inference.factor_graph import build_factors, cells_of_components, normalize
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


def sets_of(graph) -> list[tuple[int, ...]]:
    return [
        tuple(graph.edge_cell[first:last].tolist()) for first, last in itertools.pairwise(graph.factor_offsets.tolist())
    ]


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


@given(seed=SEEDS, structure=STRUCTURES, triples=st.integers(0, 8))
def test_no_factor_is_a_subset_of_another(seed, structure, triples) -> None:
    small = small_field(seed, structure=structure, triples=triples, rows=3, missing=0.9)
    graph, _ = graph_of(small)
    sets = sets_of(graph)
    assert all(list(one) == sorted(set(one)) for one in sets)
    for one, other in itertools.permutations(sets, 2):
        assert not set(one) <= set(other)


@given(seed=SEEDS, triples=st.integers(0, 3))
def test_components_are_the_connected_components_of_the_factors(seed, triples) -> None:
    small = small_field(seed, triples=triples, rows=4, missing=0.6)
    graph, _ = graph_of(small)
    together = {g: {g} for g in range(graph.n_missing)}
    for one in sets_of(graph):
        joined = set().union(*(together[g] for g in one))
        together.update(dict.fromkeys(joined, joined))
    components = [graph.component_cells[a:b].tolist() for a, b in itertools.pairwise(graph.component_offsets.tolist())]
    assert sorted(tuple(sorted(component)) for component in components) == sorted(
        {tuple(sorted(s)) for s in together.values()}
    )
    for k, (first, last) in enumerate(itertools.pairwise(graph.component_factor_offsets.tolist())):
        for f in graph.component_factors[first:last]:
            assert set(sets_of(graph)[f]) <= set(components[k])
    assert graph.component_factor_offsets[-1] == len(sets_of(graph))
    selected = np.zeros(graph.n_components, dtype=bool)
    selected[-1:] = True
    assert sorted(cells_of_components(graph, selected)) == sorted(components[-1] if components else [])


def test_weights_of_zero_make_no_factor() -> None:
    small = small_field(0, structure="all", missing=1.0)
    without_weights = replace(small.field, weights=np.zeros_like(small.field.weights))
    graph, _ = graph_of(small, without_weights)
    assert sets_of(graph) == []
    assert graph.n_components == graph.n_missing


def test_keys_depend_on_cells_and_observed_values_but_not_on_weights() -> None:
    small = small_field(0, structure="tree", rows=40, missing=0.5)
    graph, _ = graph_of(small)
    heavier, _ = graph_of(small, replace(small.field, weights=small.field.weights * 2))
    assert np.array_equal(graph.component_keys, heavier.component_keys)
    assert len(np.unique(graph.component_keys)) > 0.9 * graph.n_components


def test_tables_beyond_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    small = small_field(0, structure="all", missing=1.0)
    monkeypatch.setattr(memory, "machine_memory", lambda: 100.0)
    with pytest.raises(DataError, match="tables of all missing cells"):
        graph_of(small)


def test_probabilities_of_large_logits_are_finite() -> None:
    small = small_field(0, structure="none", missing=1.0)
    graph, _ = graph_of(small)
    beliefs = normalize(graph, np.linspace(-1e4, 1e4, graph.offsets[-1]))
    assert np.isfinite(beliefs).all()
    np.testing.assert_allclose(np.add.reduceat(beliefs, graph.offsets[:-1]), 1.0)
