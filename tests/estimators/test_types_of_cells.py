"""Types of columns decide about their kinds, and filled columns keep their types."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sparsefield import MarkovField
from sparsefield.data import as_source, learn_schema
from sparsefield.errors import DataError, UnknownStateWarning

N_ROWS = 60
DAYS = [dt.date(2024, 1, 1), dt.date(2024, 1, 8), dt.date(2024, 3, 1), dt.date(2024, 4, 1)]
PLACES = np.arange(N_ROWS) % 4


def kind_of(X) -> str:
    return learn_schema(as_source(X)).variables[0].kind


def filled(X):
    """Return the table after a fit and transform."""
    return MarkovField(l1=5.0).fit(X).transform(X)


def with_gap(values: list) -> list:
    return [None, *values[1:]]


def test_categories_that_are_numbers_are_nominal_unless_they_are_ordered() -> None:
    numbers = (10 * (np.arange(N_ROWS) % 12)).tolist()
    free = pd.DataFrame({"a": pd.Categorical(with_gap(numbers)), "b": PLACES})
    dictionary = pa.table({"a": pa.array(with_gap(numbers)).dictionary_encode()})
    assert kind_of(free) == kind_of(dictionary) == "nominal"
    assert kind_of(pl.DataFrame({"a": pl.Series(map(str, numbers), dtype=pl.Categorical)})) == "nominal"
    ordered = pd.DataFrame({"a": pd.Categorical(numbers, ordered=True)})
    assert kind_of(ordered) == "ordinal"
    answer = filled(free)
    assert answer["a"].dtype == free["a"].dtype
    assert answer["a"].notna().all()


@pytest.mark.parametrize(("n_days", "unit"), [(1, "dates"), (4, "times"), (2, "durations"), (4, "times of day")])
def test_dates_are_numeric_however_few_there_are(n_days, unit) -> None:
    days = [DAYS[k % n_days] for k in range(N_ROWS)]
    times = [dt.datetime.combine(day, dt.time(12)) for day in days]
    durations = [day - DAYS[0] + dt.timedelta(hours=3) for day in days]
    clock = [dt.time(3 + k % n_days) for k in range(N_ROWS)]
    values = with_gap({"dates": days, "times": times, "durations": durations, "times of day": clock}[unit])
    objects = np.empty((N_ROWS, 2), dtype=object)
    objects[:, 0], objects[:, 1] = values, PLACES
    native = pl.DataFrame({"a": values, "b": PLACES})
    tables = [native, native.to_arrow(), pd.DataFrame({"a": pd.Series(values, dtype=object), "b": PLACES}), objects]
    if unit != "times of day":
        tables.append(pd.DataFrame({"a": values, "b": PLACES}))
    for table in tables:
        assert kind_of(table) == "numeric"
        answer = filled(table)
        source = as_source(answer)
        assert source.column(source.names[0]).present.all()
    assert filled(native).schema == native.schema
    made = filled(objects)[0, 0]
    assert type(made) is type(values[1])
    assert min(values[1:]) <= made <= max(values[1:])


def test_decimals_are_numbers_and_are_filled_to_their_last_digit() -> None:
    values = [None, *(Decimal(f"{k % 17}.{k % 10}0") for k in range(1, N_ROWS))]
    frame = pd.DataFrame({"a": values, "b": PLACES})
    for table in (frame, pl.DataFrame({"a": values, "b": PLACES}), pa.table({"a": values, "b": PLACES})):
        assert kind_of(table) == "numeric"
        found = as_source(filled(table)).native["a"].to_list()
        assert found[1:] == values[1:]
        assert isinstance(found[0], Decimal)
        assert found[0].as_tuple().exponent == -2
    assert kind_of(pd.DataFrame({"a": [Decimal(k % 4) for k in range(N_ROWS)]})) == "ordinal"


def test_intervals_are_states_by_their_text_and_ordered_ones_keep_their_order() -> None:
    cut = pd.Series(pd.cut(np.arange(N_ROWS, dtype=float) % 20, [-1.0, 2.0, 9.0, 12.0, 20.0]))
    cut[0] = None
    schema = learn_schema(as_source(pd.DataFrame({"a": cut})))
    assert schema.variables[0].kind == "ordinal"
    assert schema.variables[0].states == ("(-1.0, 2.0]", "(2.0, 9.0]", "(9.0, 12.0]", "(12.0, 20.0]")
    answer = filled(pd.DataFrame({"a": cut, "b": PLACES}))
    assert answer["a"].dtype == cut.dtype
    assert isinstance(answer["a"][0], pd.Interval)
    free = pd.DataFrame({"a": cut.astype(cut.cat.categories.dtype), "b": PLACES})
    assert kind_of(free) == "nominal"
    assert filled(free)["a"][0] in schema.variables[0].states


def test_categories_that_are_dates_are_filled_with_dates() -> None:
    times = [dt.datetime.combine(DAYS[k], dt.time()) for k in PLACES]
    for ordered, kind in ((True, "ordinal"), (False, "nominal")):
        frame = pd.DataFrame({"a": pd.Categorical(with_gap(times), ordered=ordered), "b": PLACES})
        assert kind_of(frame) == kind
        answer = filled(frame)
        assert answer["a"].dtype == frame["a"].dtype
        assert answer["a"][0] in times


def test_dates_beside_text_are_refused() -> None:
    with pytest.raises(DataError, match="dates or times beside other values"):
        kind_of(pd.DataFrame({"a": [DAYS[0], "tomorrow"] * 5}))


def test_filled_columns_keep_their_type_of_floats() -> None:
    dtype = "float32"
    values = np.linspace(0.1, 7.3, N_ROWS).astype(dtype)
    values[[0, 5]] = np.nan
    array = np.column_stack([values, PLACES.astype(dtype)])
    assert filled(array).dtype == dtype
    frame = pd.DataFrame({"a": values, "b": PLACES})
    assert filled(frame)["a"].dtype == dtype
    arrow = pa.table({"a": pa.array(values, from_pandas=True), "b": PLACES})
    assert filled(arrow).schema == arrow.schema
    nullable = frame.astype({"a": "Float32"})
    assert filled(nullable)["a"].dtype == nullable["a"].dtype
    polars = pl.from_arrow(arrow)
    assert filled(polars).schema == polars.schema
    assert filled(polars)["a"].null_count() == 0


def test_booleans_that_count_as_numbers_are_filled_with_booleans() -> None:
    values = with_gap([k % 2 == 0 for k in range(N_ROWS)])
    objects = np.empty((N_ROWS, 2), dtype=object)
    objects[:, 0], objects[:, 1] = values, PLACES
    for table in (pd.DataFrame({"x0": values, "b": PLACES}), pl.DataFrame({"x0": values, "b": PLACES}), objects):
        answer = MarkovField(l1=5.0, kinds={"x0": "numeric"}).fit(table).transform(table)
        cell = answer[0, 0] if isinstance(answer, np.ndarray) else answer["x0"].to_list()[0]
        assert isinstance(cell, bool)


def test_summaries_of_cells_use_known_values_only() -> None:
    known = pd.DataFrame({"a": PLACES + 1, "b": PLACES % 2})
    field = MarkovField(l1=1.0).fit(known)
    asked = pd.DataFrame({"a": [1, "dk", None], "b": [0, 1, 1]}, dtype=object)
    with pytest.warns(UnknownStateWarning, match="dk"):
        found = field.infer(asked)
    for numbers in (found.mean["a"], found.quantile(0.5)["a"]):
        assert numbers[0] == 1.0
        assert numbers[1] == numbers[2]
    assert found.std["a"][0] == 0.0
    assert found.std["a"][1] > 0.0


def test_states_with_the_same_text_have_probabilities_of_their_own() -> None:
    cells = np.empty((N_ROWS, 2), dtype=object)
    cells[:, 0], cells[:, 1] = [[1, "1", "x"][k % 3] for k in range(N_ROWS)], PLACES % 2
    found = MarkovField(l1=1.0).fit(cells).infer(cells).probabilities["x0"]
    assert found.columns == ["1", "'1'", "x"]
    assert np.allclose(found.to_numpy()[:3], np.eye(3))
