"""Inference by pgmpy on the exported network agrees with enumeration of the field."""

from __future__ import annotations

import sys
import warnings

import pytest
from exchanged_fields import one_table
from slow_tables import exponentials, random_field

from sparsefield.app.tables.export import to_pgmpy
from sparsefield.errors import DataError


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


def test_variable_elimination_agrees_with_enumeration(query) -> None:
    field = random_field(1)
    network = to_pgmpy(field)
    assert network.check_model()
    truth = exponentials(field)
    for k, variable in enumerate(field.schema.targets):
        found = query(network, [variable.name])
        for code, state in enumerate(variable.states):
            share = sum(value for way, value in truth.items() if way[k] == code) / sum(truth.values())
            assert found.get_value(**{variable.name: state}) == pytest.approx(share, rel=1e-9)


def test_without_pgmpy_the_error_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pgmpy", None)
    monkeypatch.setitem(sys.modules, "pgmpy.models", None)
    monkeypatch.setitem(sys.modules, "pgmpy.factors.discrete", None)
    with pytest.raises(DataError, match=r"pgmpy is not installed: pip install 'sparsefield\[pgmpy\]'"):
        to_pgmpy(one_table())
