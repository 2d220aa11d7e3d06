"""Inference by pgmpy on the exported network agrees with enumeration of the field."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
from exchanged_fields import linked_tables, one_table
from slow_tables import exponentials, random_field, shares

from sparsefield import MarkovField
from sparsefield.app.tables.field_factors import to_pgmpy
from sparsefield.errors import DataError
from sparsefield.model import Field


@pytest.fixture(scope="module")
def query():
    """A joint table over some variables of a network, by variable elimination."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pgmpy's own, when it is imported
        inference = pytest.importorskip("pgmpy.inference")

    def ask(network, names, evidence=None):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = inference.VariableElimination(network).query(list(names), evidence=evidence, show_progress=False)
        return found.normalize(inplace=False)

    return ask


@pytest.mark.parametrize("seed", range(2))
def test_variable_elimination_agrees_with_enumeration(query, make_problem, seed) -> None:
    problem = make_problem(seed, states=(2, 3, 4), share=0.7)
    schema, n = problem.schema, problem.schema.n_target_columns
    kind, number = schema.observed
    field = Field(problem.layout, problem.theta[:n], problem.pairs, problem.theta[n:])
    network = to_pgmpy(field, given={kind.name: kind.states[-1], number.name: 0.7})
    assert network.check_model()
    one_hot = [float(k == len(kind.states) - 1) for k in kind.position_of_code[1:]]
    observed = [*one_hot, (0.7 - number.center) / number.scale]
    truth = problem.slow.marginals([-1] * 3, observed)
    for v, variable in enumerate(schema.targets):
        found = query(network, [variable.name])
        for code, position in enumerate(variable.position_of_code):
            state = variable.states[position]
            assert found.get_value(**{variable.name: state}) == pytest.approx(truth[v][code], rel=1e-9)
    first, *others = schema.targets
    truth = problem.slow.marginals([1, -1, -1], observed)
    for v, variable in enumerate(others, start=1):
        found = query(network, [variable.name], {first.name: first.states[first.position_of_code[1]]})
        by_code = found.values[variable.position_of_code]
        assert by_code == pytest.approx(truth[v], rel=1e-9)


def test_the_joint_of_names_states_and_triples(query) -> None:
    field = random_field(3, states=(2, 3, 4, 2))
    network = to_pgmpy(MarkovField.from_field(field))
    names = [variable.name for variable in field.schema.variables]
    assert sorted(network.nodes()) == names == [f"col {k}" for k in range(4)]
    assert network.states == {v.name: list(v.states) for v in field.schema.variables}
    found = query(network, names)
    order = [found.variables.index(name) for name in names]
    np.testing.assert_allclose(found.values.transpose(order).ravel(), shares(exponentials(field)), rtol=1e-9)


def test_columns_without_an_edge_and_large_weights(query) -> None:
    field = random_field(0, states=(2, 3), orders=(1,))
    network = to_pgmpy(field)
    assert not network.edges()
    np.testing.assert_allclose(query(network, ["col 0", "col 1"]).values.ravel(), shares(exponentials(field)))
    strong = Field(field.layout, np.array([900.0, 0.0, -900.0]), field.pairs, field.weights)
    assert np.isfinite(query(to_pgmpy(strong), ["col 0", "col 1"]).values).all()


def test_observed_columns_need_values_and_linked_tables_are_refused(query) -> None:
    with pytest.raises(DataError, match=r"2 observed column\(s\) \('age', 'town'\)"):
        to_pgmpy(one_table())
    with pytest.raises(DataError, match="linked tables has variables for each row"):
        to_pgmpy(linked_tables())


def test_without_pgmpy_the_error_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pgmpy", None)
    monkeypatch.setitem(sys.modules, "pgmpy.models", None)
    monkeypatch.setitem(sys.modules, "pgmpy.factors.discrete", None)
    with pytest.raises(DataError, match=r"pgmpy is not installed: pip install 'sparsefield\[pgmpy\]'"):
        to_pgmpy(one_table())
