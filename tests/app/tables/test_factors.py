"""Factors, also those of pgmpy, have the distribution of a field; fields without such factors are refused."""

from __future__ import annotations

import itertools
import math
import sys
import warnings

import numpy as np
import pytest
from exchanged_fields import linked_tables, one_table
from hypothesis import given
from hypothesis import strategies as st
from mixed_kinds import exponentials, mixed_field
from slow_tables import random_field

from sparsefield.app.tables.export import to_factors, to_pgmpy
from sparsefield.data import Layout, Schema, Variable
from sparsefield.errors import DataError
from sparsefield.model import Field


def products(field: Field) -> dict[tuple[int, ...], float]:
    """{assignment: product of the entries of all factors}."""
    variables, factors = to_factors(field)
    ways = itertools.product(*(range(len(variable.states)) for variable in variables))
    return {way: math.exp(sum(logs[tuple(way[k] for k in scope)] for scope, logs in factors.items())) for way in ways}


@pytest.mark.parametrize("orders", [(1, 2, 3), (1, 3, 4)], ids=str)
def test_factors_have_the_distribution_and_the_partition_function(orders) -> None:
    @given(seed=st.integers(0, 2**32 - 1))
    def holds(seed: int) -> None:
        field = random_field(seed, orders=orders)
        assert {way: pytest.approx(value) for way, value in exponentials(field).items()} == products(field)

    holds()


def test_factors_have_the_distribution_of_all_kinds() -> None:
    field = mixed_field()
    assert {way: pytest.approx(value) for way, value in exponentials(field).items()} == products(field)


def test_fields_without_one_distribution_and_large_factors_are_refused() -> None:
    for field in (one_table(), linked_tables()):
        with pytest.raises(DataError, match="linked tables or with observed columns has a distribution for each"):
            to_factors(field)
    binary = tuple(Variable(f"x{k}", "target", (0, 1), 0, (0.5, 0.5)) for k in range(30))
    layout = Layout.single(Schema(binary, tuple(v.name for v in binary)))
    none, wide = np.empty((0, 2), dtype=np.int64), np.arange(30)[None, :]
    with pytest.raises(DataError, match=r"full table over x0, .* has 1,073,741,824 numbers"):
        to_factors(Field(layout, np.zeros(30), none, np.empty(0), wide, np.ones(1)))


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
