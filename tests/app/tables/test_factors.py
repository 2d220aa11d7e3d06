"""Factors have the distribution of a field, and fields that have no such factors are refused in one sentence."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from exchanged_fields import linked_tables, one_table
from hypothesis import given
from hypothesis import strategies as st
from mixed_kinds import exponentials as mixed_exponentials
from mixed_kinds import mixed_field
from slow_tables import exponentials, random_field

from sparsefield.app.tables.export import to_factors
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
    assert {way: pytest.approx(value) for way, value in mixed_exponentials(field).items()} == products(field)


def test_fields_without_one_distribution_and_large_factors_are_refused() -> None:
    for field in (one_table(), linked_tables()):
        with pytest.raises(DataError, match="linked tables or with observed columns has a distribution for each"):
            to_factors(field)
    binary = tuple(Variable(f"x{k}", "target", (0, 1), 0, (0.5, 0.5)) for k in range(30))
    layout = Layout.single(Schema(binary, tuple(v.name for v in binary)))
    none, wide = np.empty((0, 2), dtype=np.int64), np.arange(30)[None, :]
    with pytest.raises(DataError, match=r"full table over x0, .* has 1,073,741,824 numbers"):
        to_factors(Field(layout, np.zeros(30), none, np.empty(0), wide, np.ones(1)))
