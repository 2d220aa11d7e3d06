"""Numbers are written for people."""

from __future__ import annotations

import pytest

from sparsefield.data.column_types import write_distinct, write_number


@pytest.mark.parametrize(
    ("number", "dtype", "text"),
    [
        (1234567.0, "", "1234567"), (0.00001234, "", "0.00001234"), (2.5, "", "2.5"), (0.0, "", "0"),
        (-18262.4, "", "-18262"), (1e20, "", "1e+20"), (18262.2, "date", "2020-01-01"),
        (18262.5, "datetime[us]", "2020-01-01 12:00"), (18262.0, "datetime[us]", "2020-01-01"),
        (18262.5, "datetime[us, Europe/Rome]", "2020-01-01 13:00"), (0.75, "time", "18:00"),
        (1.5, "duration[us]", "1.5 days"), (1e9, "date", "1e+09 days after 1970-01-01"),
    ],
)  # fmt: skip
def test_numbers_have_no_exponents_and_dates_are_dates(number: float, dtype: str, text: str) -> None:
    assert write_number(number, dtype=dtype) == text


def test_close_numbers_have_as_many_digits_as_distinguish_them() -> None:
    assert write_distinct([1.0001, 1.0002]) == ["1.0001", "1.0002"]
    assert write_distinct([1.0, 25000.0]) == ["1", "25000"]
