"""Inference by pgmpy on the exported network agrees with enumeration of the field."""

from __future__ import annotations

import sys
import warnings

import pytest
from exchanged_fields import linked_tables, one_table

from sparsefield.app.tables.export import to_pgmpy
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
