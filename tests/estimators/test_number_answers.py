"""Answers about numbers, and the names of columns that answers have."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from small_tables import N, X

from sparsefield import MarkovField, RelationalField
from sparsefield.data import Relational
from sparsefield.estimators.answers import deviation, labels_of_codes, quantile, shares_below


@pytest.fixture(scope="module")
def skewed() -> tuple[np.ndarray, MarkovField]:
    values = np.random.default_rng(0).lognormal(0.0, 1.5, 5000)
    return values, MarkovField(l1=1e6).fit(pl.DataFrame({"x": values, "y": np.arange(5000) % 2}))


def test_ranges_have_the_shares_of_the_data(skewed) -> None:
    values, field = skewed
    for q in (0.01, 0.2, 0.5, 0.9, 0.99, 0.999):
        bound = float(np.quantile(values, q))
        assert field.probability({"x": (None, bound)}).value == pytest.approx(q, abs=0.01)
        assert field.probability({"x": (bound, None)}).value == pytest.approx(1 - q, rel=0.25, abs=5e-4)
    low, high = np.quantile(values, [0.3, 0.31])
    assert field.probability({"x": (low, high)}).value == pytest.approx(0.01, abs=3e-3)
    assert field.probability({"x": (1e9, None)}).value == 0.0
    inside = 0.5 * np.mean((values >= 1) & (values <= 2))
    assert field.probability({"x": (1, 2), "y": 0}).value == pytest.approx(inside, abs=0.01)
    assert field.probability({"x": (2, None)}, given={"x": 3.0}).value == 1.0
    assert field.probability({"x": (2, None)}, given={"x": 1.99}).value == 0.0


@pytest.mark.slow
def test_quantiles_draws_and_moments_agree(skewed) -> None:
    values, field = skewed
    (x, _) = field.field_.schema.targets
    frequencies = np.array(x.frequencies)[None]
    for q in (0.05, 0.5, 0.95, 0.999):
        found = float(quantile(x, frequencies, q)[0])
        assert (frequencies @ shares_below(x, found, included=True))[0] == pytest.approx(q, abs=1e-9)
        assert found == pytest.approx(np.quantile(values, q), rel=0.35 if q > 0.99 else 0.05)
    steps = (np.arange(4000) + 0.5) / 4000
    drawn = np.array([float(quantile(x, frequencies, q)[0]) for q in steps])
    assert drawn.mean() == pytest.approx(values.mean(), rel=0.01)
    assert drawn.std() == pytest.approx(float(deviation(x, frequencies)[0]), rel=0.05)
    sample = np.sort(field.sample(2000, random_state=0)["x"].to_numpy())
    below = np.array([float((frequencies @ shares_below(x, value, included=True))[0]) for value in sample[::100]])
    np.testing.assert_allclose(below, np.arange(0, 2000, 100) / 2000, atol=0.04)


def test_values_that_are_levels_are_kept_exactly() -> None:
    rng = np.random.default_rng(1)
    table = pl.DataFrame({"i": rng.integers(0, 40, 300), "t": rng.integers(0, 30, 300) / 10})
    field = MarkovField(l1=1e6).fit(table)
    assert set(field.states_["i"]) == set(table["i"].to_list())
    assert set(field.states_["t"]) == set(table["t"].to_list())
    assert field.probability({"i": (None, 3)}).value == pytest.approx(float((table["i"] <= 3).mean()))
    hidden = table.with_columns(pl.when(pl.int_range(300) < 5).then(None).otherwise(pl.col("i")).alias("i"))
    for fill in ("mode", "mean", "median"):
        assert field.transform(hidden, fill=fill)["i"].dtype == pl.Int64


def test_whole_numbers_are_drawn_as_often_as_they_occur_at_the_ends() -> None:
    numbers = np.random.default_rng(2).integers(0, 125, 20000)
    field = MarkovField(l1=1e6).fit(pl.DataFrame({"n": numbers, "y": numbers % 2}))
    (n, _) = field.field_.schema.targets
    codes = np.random.default_rng(0).choice(len(n.states), 40000, p=n.code_frequencies)
    drawn = np.array(labels_of_codes(n, codes, np.random.default_rng(1)))
    for end in (0, 124):
        assert np.mean(drawn == end) == pytest.approx(np.mean(numbers == end), rel=0.25)
    assert drawn.min() == 0
    assert drawn.max() == 124


def test_the_order_of_two_states_decides_the_sign() -> None:
    rng = np.random.default_rng(4)
    z = rng.normal(size=500)
    for cut in (-1.0, 1.0):
        table = pl.DataFrame({"z": z, "b": np.where(z + 0.3 * rng.normal(size=500) > cut, "yes", "no")})
        for order, sign in ((["no", "yes"], 1), (["yes", "no"], -1)):
            features = MarkovField(l1=10.0, kinds={"b": order}).fit(table).features_
            assert np.sign(features["weight"][0]) == sign


def test_draws_of_linked_tables_have_positions_of_their_own() -> None:
    values = np.random.default_rng(5).normal(size=600)
    tables = {"a": pl.DataFrame({"v": values}), "b": pl.DataFrame({"w": np.random.default_rng(6).permutation(values)})}
    field = RelationalField(l1=1e6).fit(Relational(tables))
    empty = {"a": pl.DataFrame({"v": np.full(600, np.nan)}), "b": pl.DataFrame({"w": np.full(600, np.nan)})}
    drawn = field.sample(Relational(empty), random_state=0)
    a, b = drawn.tables["a"]["v"].to_numpy(), drawn.tables["b"]["w"].to_numpy()
    edges = field.field_.layout.schemas[0].targets[0].edges
    parts = []
    for column in (a, b):
        place = np.clip(np.searchsorted(edges, column) - 1, 0, len(edges) - 2)
        parts.append((column - edges[place]) / np.diff(edges)[place])
    assert abs(np.corrcoef(parts)[0, 1]) < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
def test_a_value_that_occurs_often_is_a_point_in_a_continuum(whole: bool) -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(1000.0, 300.0, 3000)
    values = np.where(rng.random(3000) < 0.3, 1000.0, np.minimum(values.round() if whole else values, 1500.0))
    field = MarkovField(l1=1e6).fit(pl.DataFrame({"x": values, "y": np.arange(3000) % 2}))
    sample = field.sample(3000, random_state=0)["x"].to_numpy()
    for bound in (900.0, 1000.0, 1500.0):
        for ends, holds in (((None, bound), np.less_equal), ((bound, None), np.greater_equal)):
            share = float(holds(values, bound).mean())
            assert field.probability({"x": ends}).value == pytest.approx(share, abs=0.005)
            assert float(holds(sample, bound).mean()) == pytest.approx(share, abs=0.03)
    assert field.probability({"x": (1000, 1000)}).value == pytest.approx(float((values == 1000).mean()), abs=0.005)


def test_zeros_of_a_skewed_column_keep_the_density_finite() -> None:
    rng = np.random.default_rng(3)
    values = np.where(rng.random(2000) < 0.6, 0.0, rng.lognormal(5.0, 1.0, 2000))
    table = pl.DataFrame({"x": values, "y": np.arange(2000) % 2})
    field = MarkovField(l1=1e6).fit(table)
    continuous = values[values > 0] / values.std()
    spread = np.log(continuous)
    density = -np.log(spread.std() * np.sqrt(2 * np.pi)) - 0.5 - spread.mean()  # of the lognormal part, on average
    share = float((values > 0).mean())
    expected = share * (np.log(share) + density) + (1 - share) * np.log(1 - share) - np.log(2)
    assert field.score(table) == pytest.approx(expected, abs=0.1)


def test_tiny_numbers_have_answers_in_their_unit() -> None:
    unit = 1e-300
    rng = np.random.default_rng(0)
    b = np.arange(300) % 2
    a = b + rng.normal(size=300)
    small, large = (pl.DataFrame({"a": a * scale, "b": b}) for scale in (unit, 1.0))
    fields = [MarkovField(l1=2.0, random_state=0).fit(table) for table in (small, large)]
    weights = [field.features_["weight"].to_numpy() for field in fields]
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-3)
    rows = [table.with_columns(a=pl.lit(None, pl.Float64)) for table in (small, large)]
    found = [field.infer(table) for field, table in zip(fields, rows, strict=True)]
    for summary in ("mean", "std"):
        values = [getattr(one, summary)["a"].to_numpy() for one in found]
        np.testing.assert_allclose(values[0] / unit, values[1], rtol=1e-3)
    assert np.isfinite(fields[0].score(small))
    assert np.isfinite(fields[0].sample(50)["a"].to_numpy()).all()


def test_filled_and_drawn_numbers_have_the_decimals_of_their_column() -> None:
    rng = np.random.default_rng(0)
    height = np.round(rng.normal(170, 9, 200), 1)
    table = pd.DataFrame({"height": height, "weight": np.round(height - 100 + rng.normal(size=200), 2)}).astype(
        "float32"
    )
    field = MarkovField(l1=5.0).fit(table)
    assert [variable.decimals for variable in field.field_.schema.variables] == [1, 2]
    for fill in ("mean", "median", "mode"):
        filled = field.transform(table.mask(rng.random(table.shape) < 0.3), fill=fill)
        assert (filled.round({"height": 1, "weight": 2}) == filled).all(axis=None)
    drawn = field.sample(50, burn_in=5, random_state=0)
    assert (drawn.round({"height": 1, "weight": 2}) == drawn).all(axis=None)
    assert drawn["height"].nunique() > 20


# Some tables have observed columns with missing cells; what the warning says is tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::sparsefield.errors.CovariateWarning")


def test_columns_with_numbers_for_names_keep_them() -> None:
    frame = pd.DataFrame(X, columns=[10, 20, 30])
    field = MarkovField(l1=2.0, n_jobs=1).fit(frame)
    filled = field.transform(frame)
    assert list(filled.columns) == [10, 20, 30]
    assert not filled.isna().any().any()
    assert set(field.states_) == {"10", "20", "30"}


def test_a_number_that_is_a_column_name_means_that_column() -> None:
    frame = pd.DataFrame(X, columns=[2, 0, 1])
    assert set(MarkovField(l1=2.0, n_jobs=1).fit(frame, observed=[2]).states_) == {"0", "1"}


def test_observed_columns_by_name_and_position_are_the_same() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    fits = [
        MarkovField(l1=2.0, n_jobs=1).fit(frame, observed=observed)
        for observed in (["a", "c"], [0, 2], [-3, -1], ("c", "a"), np.array([0, 2]))
    ]
    assert all(np.array_equal(fit.field_.theta, fits[0].field_.theta) for fit in fits)
    assert set(fits[0].states_) == {"b"}
    alone = MarkovField(l1=2.0, n_jobs=1).fit(frame, observed="a")
    assert set(alone.states_) == {"b", "c"}


@pytest.mark.parametrize("index", ["repeated", "multi"])
def test_any_index_comes_back(index) -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    if index == "repeated":
        frame.index = [0] * N
    else:
        frame.index = pd.MultiIndex.from_product([range(8), range(10)])
    filled = MarkovField(l1=2.0, n_jobs=1).fit(frame).transform(frame)
    assert filled.index.equals(frame.index)
    assert np.array_equal(filled.to_numpy(), MarkovField(l1=2.0, n_jobs=1).fit(X).transform(X))


def test_other_columns_than_in_training_are_refused() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    field = MarkovField(l1=2.0, n_jobs=1).fit(frame)
    with pytest.raises(ValueError, match=r"(?s)unseen.*- z.*missing.*- c"):
        field.transform(frame.rename(columns={"c": "z"}))
    with pytest.raises(ValueError, match="order"):
        field.score(frame[["b", "a", "c"]])
    with pytest.raises(ValueError, match="missing"):
        field.predict_proba(frame[["a", "b"]])
    with pytest.raises(ValueError, match=r"2 features.*3 features"):
        MarkovField(l1=2.0, n_jobs=1).fit(X).transform(X[:, :2])


def test_a_field_learned_from_one_kind_answers_another() -> None:
    field = MarkovField(l1=2.0, n_jobs=1).fit(pd.DataFrame(X, columns=["a", "b", "c"]))
    frame = pl.DataFrame(X, schema=["a", "b", "c"])
    filled = field.transform(frame)
    assert isinstance(filled, pl.DataFrame)
    assert np.array_equal(filled.to_numpy(), MarkovField(l1=2.0, n_jobs=1).fit(X).transform(X))


@pytest.mark.parametrize("mask", [[True, False, True], np.array([True, False, True])])
def test_a_mask_names_no_columns(mask) -> None:
    with pytest.raises(ValueError, match="'True'"):
        MarkovField(l1=2.0, n_jobs=1).fit(X, observed=mask)
