"""Axes show all values, with ticks in order and readable labels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsefield.app.pages.axes import fit_scale, format_number


def test_axes_are_tight_where_zero_is_far_and_start_at_zero_where_it_is_near() -> None:
    assert fit_scale([-0.42, -0.36], 0, 1).labels() == ["−0.42", "−0.40", "−0.38", "−0.36"]  # noqa: RUF001
    near = fit_scale([0.02, 0.2], 0, 1)
    assert near.low == 0.0
    assert near.labels() == ["0", "0.05", "0.10", "0.15", "0.20"]
    assert fit_scale([-5.0, -1.0], 0, 1).high == 0.0


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([0.002, 40.0], ["0.01", "0.1", "1", "10"]),
        ([1.0, 130_000.0], ["10⁰", "10¹", "10²", "10³", "10⁴", "10⁵"]),
        ([250.0, 300.0], ["260", "280", "300"]),
        ([1.0], ["0.5", "1", "2"]),
        ([1.0e6, 1.5e6], ["10⁶", "1.2×10⁶", "1.4×10⁶"]),  # noqa: RUF001
        ([], ["1", "10"]),
    ],
)
def test_ticks_of_logarithmic_axes(values: list[float], labels: list[str]) -> None:
    assert fit_scale(values, 0, 1, logarithmic=True).labels() == labels


@pytest.mark.parametrize(
    ("value", "shown"),
    [(-0.123456, "−0.1235"), (499500.0, "499,500"), (2.0, "2"), (1e12, "1e+12")],  # noqa: RUF001
)
def test_numbers_have_few_digits(value: float, shown: str) -> None:
    assert format_number(value) == shown


@given(
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6),
    logarithmic=st.booleans(),
)
def test_any_axis_has_ticks_in_order_between_its_ends(values: list[float], logarithmic: bool) -> None:
    scale = fit_scale([v for v in values if v > 0 or not logarithmic], 10.0, 110.0, logarithmic=logarithmic)
    assert 1 <= len(scale.ticks) <= 12
    assert len(scale.labels()) == len(scale.ticks)
    assert list(scale.ticks) == sorted(scale.ticks)
    assert all(10.0 <= scale.position(tick) <= 110.0 for tick in [*scale.ticks, *scale.minor])
