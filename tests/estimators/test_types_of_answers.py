"""Drawn rows, means and quantiles have the types of dates and categories that the training table has."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sparsefield import CRFClassifier, MarkovField, load
from sparsefield.errors import DataError

N_ROWS = 120
START = dt.datetime(2020, 1, 1, 6, 30, 15, 250000)
ANSWERS = ["never", "rarely", "often", "always"]


def make_times() -> list[dt.datetime]:
    steps = np.random.default_rng(0).integers(0, 90, N_ROWS)
    return [START + dt.timedelta(days=int(step), hours=int(step) % 7) for step in steps]


def make_table() -> pl.DataFrame:
    """Return a table of dates and categories in which a column of 0 and 1 follows the date."""
    times = make_times()
    rome = pl.Series(times).dt.replace_time_zone("Europe/Rome")
    return pl.DataFrame(
        {
            "late": [int(time > START + dt.timedelta(days=45)) for time in times],
            "day": [time.date() for time in times],
            "time": pl.Series(times, dtype=pl.Datetime("ms")),
            "rome": rome,
            "wait": pl.Series([time - START for time in times], dtype=pl.Duration("ms")),
            "clock": [time.time() for time in times],
            "answer": pl.Series([ANSWERS[time.day % 3] for time in times], dtype=pl.Enum(ANSWERS)),
            "city": pl.Series([["Rome", "Oslo"][time.day % 2] for time in times], dtype=pl.Categorical),
        }
    )


def make_pandas() -> pd.DataFrame:
    times = make_times()
    return pd.DataFrame(
        {
            "late": [int(time > START + dt.timedelta(days=45)) for time in times],
            "day": [time.date() for time in times],
            "time": np.array(times, dtype="M8[ns]"),
            "rome": pd.Series(times).dt.tz_localize("Europe/Rome"),
            "wait": pd.Series([time - START for time in times]),
            "answer": pd.Categorical([ANSWERS[time.day % 3] for time in times], ANSWERS, ordered=True),
            "size": pd.Categorical([[38, 40, 42][time.day % 3] for time in times], [42, 40, 38], ordered=True),
            "city": pd.Categorical([["Rome", "Oslo"][time.day % 2] for time in times], ["Rome", "Oslo", "Bern"]),
        }
    )


@pytest.fixture(scope="module")
def field() -> MarkovField:
    return MarkovField(l1=5.0, random_state=0).fit(make_table())


def test_drawn_rows_have_the_types_of_the_table(field: MarkovField, tmp_path) -> None:
    drawn = field.sample(20)
    assert drawn.schema == make_table().schema
    assert drawn["day"].is_between(dt.date(2020, 1, 1), dt.date(2020, 4, 1)).all()
    field.save(tmp_path / "m")
    assert load(tmp_path / "m").sample(20).equals(drawn), "types are part of a model file"


def test_drawn_rows_of_pandas_have_its_types(tmp_path) -> None:
    table = make_pandas()
    model = MarkovField(l1=5.0, random_state=0).fit(table)
    model.save(tmp_path / "m")
    for one in (model, load(tmp_path / "m")):
        drawn = one.sample(20)
        assert drawn.dtypes.to_dict() == table.dtypes.to_dict()
        assert drawn["answer"].cat.categories.tolist() == ANSWERS
        assert drawn["size"].cat.categories.tolist() == [42, 40, 38]
        assert all(type(day) is dt.date for day in drawn["day"])
        assert not drawn.isna().any(axis=None)


def test_given_values_are_unchanged_in_drawn_rows(field: MarkovField) -> None:
    given = make_table()[:6].with_columns(
        day=pl.Series([None] * 6, dtype=pl.Date), answer=pl.lit(None, pl.Enum(ANSWERS))
    )
    drawn = field.sample(2, given=given)
    assert drawn.schema == given.schema
    repeated = given[np.repeat(np.arange(6), 2)]
    for name in ("late", "time", "rome", "wait", "clock", "city"):
        assert drawn[name].equals(repeated[name]), name
    assert drawn["day"].null_count() == drawn["answer"].null_count() == 0


def test_means_and_quantiles_of_dates_are_dates(field: MarkovField) -> None:
    table = make_table()[:4]
    cut = table.with_columns(day=pl.Series([None, *table["day"][1:]], dtype=pl.Date)).with_columns(
        pl.when(pl.int_range(4) != 2).then(pl.col("time", "rome", "wait", "clock", "answer"))
    )
    posterior = field.infer(cut)
    for frame in (posterior.mean, posterior.quantile(0.5)):
        dated = ["day", "time", "rome", "wait", "clock"]
        assert frame.select(dated).schema == table.select(dated).schema
        for name in dated:
            known = cut[name].is_not_null()
            assert frame[name].filter(known).equals(cut[name].filter(known)), name
            assert frame[name].null_count() == 0
    assert posterior.quantile(0.5)["answer"].dtype == pl.Enum(ANSWERS)
    assert posterior.std["day"].dtype == pl.Float64
    assert posterior.std["day"][1] == 0.0
    assert 0.0 < posterior.std["day"][0] < 90.0, "in days"
    low, high = posterior.quantile(0.1)["day"][0], posterior.quantile(0.9)["day"][0]
    assert low <= posterior.mean["day"][0] <= high
    assert field.transform(cut)["day"][0] == posterior.mean["day"][0]


def test_probabilities_of_ranges_of_dates() -> None:
    table = make_table().select("late", "day", "clock")
    field = MarkovField(l1=5.0).fit(table)
    late = dt.date(2020, 2, 15)
    after = float(field.probability({"day": (late, None)}))
    assert after == float(field.probability({"day": ("2020-02-15", None)}))
    assert after == pytest.approx(float((table["day"] >= late).mean()), abs=0.1)
    assert after + float(field.probability({"day": (None, "2020-02-14")})) == pytest.approx(1.0)
    days = (late - dt.date(1970, 1, 1)).days
    assert after == float(field.probability({"day": (days, None)})), "a number is a number of days"
    month = float(field.probability({"day": ("2020-02-01", "2020-02-29")}))
    before = float(field.probability({"day": (None, "2020-01-31")}))
    assert month + before + float(field.probability({"day": ("2020-03-01", None)})) == pytest.approx(1.0)
    assert 0.0 < float(field.probability({"clock": ("08:30", None)})) < 1.0


def test_evidence_may_be_a_date_in_several_spellings(field: MarkovField) -> None:
    late = [
        float(field.probability({"late": 1}, given={"day": day}))
        for day in (dt.date(2020, 3, 20), "2020-03-20", pd.Timestamp("2020-03-20"), np.datetime64("2020-03-20"), 18341)
    ]
    assert late == [late[0]] * 5
    assert late[0] > float(field.probability({"late": 1}, given={"day": dt.date(2020, 1, 3)}))
    assert float(field.probability({"day": ("2020-03-01", None)}, given={"day": dt.date(2020, 3, 20)})) == 1.0
    rome = dt.datetime(2020, 2, 1, 12, tzinfo=ZoneInfo("Europe/Rome"))
    instants = [rome, rome.astimezone(dt.UTC), "2020-02-01 12:00", "2020-02-01T11:00:00+00:00"]
    found = [field.probability({"rome": ("2020-02-01 12:00", None)}, given={"rome": one}).value for one in instants]
    assert found == [1.0] * 4, "a time without a zone is one of the column's zone"


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"day": dt.date(2020, 2, 1)}, r"write a range \(low, high\)"),
        ({"day": ("2020-03-01", "2020-02-01")}, "write the lower end first"),
        ({"day": ("yesterday", None)}, "Column 'day' holds dates such as 2020-01-31; event= has 'yesterday'"),
    ],
)
def test_ranges_without_dates_are_refused(field: MarkovField, event, message) -> None:
    with pytest.raises(DataError, match=message):
        field.probability(event)


def test_dates_are_refused_where_training_had_numbers_or_durations() -> None:
    numbers = pl.DataFrame({"a": np.arange(40.0), "b": np.arange(40) % 2})
    dates = numbers.with_columns(a=pl.col("a").cast(pl.Int32).cast(pl.Date))
    waits = numbers.with_columns(a=pl.duration(days=pl.col("a")))
    plain = MarkovField(l1=5.0).fit(numbers)
    message = "Column 'a' holds dates, but plain numbers in training: convert it to numbers, or fit the field to dates"
    with pytest.raises(DataError, match=message):
        plain.transform(dates)
    with pytest.raises(DataError, match="Column 'a' holds durations, but dates in training"):
        MarkovField(l1=5.0).fit(dates).infer(waits)
    with pytest.raises(DataError, match="Column 'a' holds dates, but plain numbers in training"):
        MarkovField(l1=5.0).fit(numbers, observed=["a"]).score(dates)
    with pytest.raises(DataError, match=message):  # a column of dates could not hold the numbers that are filled in
        plain.transform(numbers.with_columns(a=pl.lit(None, pl.Date)))


def test_answers_about_a_pandas_table_have_its_index() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=120)
    table = pd.DataFrame({"x": x, "y": x + rng.normal(size=120), "c": np.where(x > 0, "u", "v")})
    table.loc[::7, "y"] = np.nan
    table = table.sample(frac=1.0, random_state=0)
    found = MarkovField(l1=10.0).fit(table).infer(table)
    for frame in (found.mean, found.std, found.quantile(0.9), found.probabilities["c"]):
        assert frame.index.equals(table.index)
    known = table["y"].notna()
    assert (found.mean["y"][known] == table["y"][known]).all()
    assert repr(found) == "Posterior(120 rows; x, y, c)"
    with pytest.raises(ValueError, match="number between 0 and 1"):
        found.quantile([0.1, 0.9])  # pyright: ignore[reportArgumentType]


def test_numbers_written_as_text_are_filled_as_text_with_their_decimals() -> None:
    rng = np.random.default_rng(0)
    ages = [f"{age:.1f}" for age in rng.normal(50, 10, 100)]
    table = pd.DataFrame({"age": [None if k % 5 == 0 else age for k, age in enumerate(ages)], "c": ["u", "v"] * 50})
    for given in (table, pl.from_pandas(table)):
        filled = MarkovField(l1=5.0, kinds={"age": "numeric"}).fit(given).transform(given)
        assert type(filled["age"]) is type(given["age"])
        assert filled["age"].dtype == given["age"].dtype
        assert all(isinstance(age, str) and len(age.partition(".")[2]) == 1 for age in filled["age"].to_list())


def test_labels_that_are_numbers_have_a_posterior() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=400)})
    y = pd.Series(2 * X["x"] + rng.normal(size=400), name="y")
    model = CRFClassifier(l1=1.0, kinds={"y": "numeric"}).fit(X, y)
    found = model.infer(X)
    np.testing.assert_allclose(found.mean["y"], model.predict(X))
    inside = (y > found.quantile(0.1)["y"]) & (y < found.quantile(0.9)["y"])
    assert 0.72 < inside.mean() < 0.88
