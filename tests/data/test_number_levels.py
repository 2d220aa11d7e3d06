"""Levels of numbers have little variance within them, and numbers are written with the digits that count."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy.special import ndtri

from sparsefield import MarkovField
from sparsefield.data import Variable, as_source, compile_table, learn_schema
from sparsefield.data.column_types import write_distinct, write_number
from sparsefield.data.number_levels import MAX_BINS, MAX_LEVELS, Levels, count_levels, find_decimals, find_levels
from sparsefield.errors import DataError

NUMBERS = npst.arrays(
    float, st.integers(2, 300), elements=st.floats(-1e6, 1e6, allow_subnormal=False).map(lambda x: round(x, 6))
)


def levels_of(numbers: np.ndarray, weight: np.ndarray | None = None, **options) -> Levels:
    values, codes = np.unique(numbers, return_inverse=True)
    return find_levels(values, np.bincount(codes, weight).astype(float), **options)


def variable_of(numbers, weight: np.ndarray | None = None, *, observed: bool = False) -> Variable:
    source = as_source(np.asarray(numbers, dtype=float).reshape(-1, 1))
    chosen = ["x0"] if observed else []
    return learn_schema(source, kinds={"x0": "numeric"}, observed=chosen, sample_weight=weight).variables[0]


@given(numbers=NUMBERS, many=st.booleans())
def test_levels_are_runs_of_values_with_their_means_and_frequencies(numbers, many) -> None:
    if many:
        numbers = np.concatenate([numbers, np.random.default_rng(0).normal(size=500)])
    levels = levels_of(numbers)
    n = len(levels.values)
    assert 1 <= n <= MAX_LEVELS
    assert (np.diff(levels.values) > 0).all()
    assert len(levels.cuts) == n - 1
    assert (levels.values[:-1] <= levels.cuts).all()
    assert (levels.cuts < levels.values[1:]).all()
    level = np.searchsorted(levels.cuts, numbers)
    counts = np.bincount(level, minlength=n)
    np.testing.assert_allclose(levels.frequencies, counts / len(numbers), rtol=0, atol=1e-12)
    means = np.bincount(level, numbers, n) / counts
    np.testing.assert_allclose(levels.values, means, rtol=1e-9, atol=1e-6)


@given(numbers=NUMBERS)
def test_scores_have_mean_0_and_variance_1_and_ascend(numbers) -> None:
    levels = levels_of(numbers)
    if len(levels.values) == 1:
        assert levels.scores.tolist() == [0.0]
        return
    assert levels.frequencies @ levels.scores == pytest.approx(0.0, abs=1e-9)
    assert levels.frequencies @ levels.scores**2 == pytest.approx(1.0, abs=1e-9)
    assert (np.diff(levels.scores) > 0).all()


def test_few_values_are_levels_of_their_own() -> None:
    levels = levels_of(np.array([3.0, 1.0, 1.0, 7.5]))
    assert levels.values.tolist() == [1.0, 3.0, 7.5]
    assert levels.cuts.tolist() == [2.0, 5.25]
    assert levels.frequencies.tolist() == [0.5, 0.25, 0.25]
    assert levels.bins.tolist() == [0, 1, 2]
    assert len(levels_of(np.arange(MAX_LEVELS)).values) == MAX_LEVELS
    assert len(levels_of(np.arange(MAX_LEVELS + 1)).values) <= MAX_LEVELS


def test_a_value_at_a_cut_belongs_to_the_level_below() -> None:
    variable = variable_of([1.0, 2.0, 4.0, 4.0])
    assert variable.cuts == (1.5, 3.0)
    asked = np.array([-1e300, 1.5, np.nextafter(1.5, 2.0), 3.0, np.nextafter(3.0, 4.0), 1e300])
    assert variable.codes_of(asked).tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("n", [17, 1000])
def test_bins_are_contiguous_and_about_equally_frequent(n) -> None:
    levels = levels_of(np.random.default_rng(n).normal(size=n))
    assert levels.bins[0] == 0
    assert set(np.diff(levels.bins)) <= {0, 1}
    assert levels.bins[-1] + 1 <= MAX_BINS
    shares = np.bincount(levels.bins, levels.frequencies)
    assert shares.max() < 3.0 / MAX_BINS


def test_bins_have_labels_that_tell_them_apart() -> None:
    variable = variable_of(np.random.default_rng(0).normal(loc=1e6, size=500))
    labels = variable.bin_labels
    assert len(labels) == max(variable.bins) + 1 == MAX_BINS
    assert len(set(labels)) == len(labels)
    assert labels[0].startswith("up to ")
    assert labels[-1].startswith("over ")
    assert all(" to " in label for label in labels[1:-1])
    assert variable_of([0.0, 1.25, 8.0]).bin_labels == ("up to 0.625", "0.625 to 4.62", "over 4.62")


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_skewed_columns_get_normal_scores(sign) -> None:
    rng = np.random.default_rng(0)
    skewed, even = sign * rng.lognormal(sigma=2.0, size=3000), rng.normal(size=3000)
    assert levels_of(even).transform == "linear-scores"
    levels = levels_of(skewed)
    assert levels.transform == "normal-scores"
    centered = levels.scores
    assert abs(levels.frequencies @ centered**3) < 0.2, "normal scores are not skewed"
    # The scores depend on ranks alone.
    again = levels_of(np.sign(skewed) * np.sqrt(np.abs(skewed)), transform="normal-scores")
    np.testing.assert_allclose(again.scores, levels.scores, rtol=0, atol=1e-12)
    np.testing.assert_allclose(again.frequencies, levels.frequencies, rtol=0, atol=1e-12)


def test_scores_of_new_numbers_follow_the_transform() -> None:
    rng = np.random.default_rng(1)
    plain = variable_of(rng.normal(3.0, 2.0, 2000), observed=True)
    assert plain.transform == "linear-scores"
    assert plain.scores_of(np.array([plain.center, plain.center + plain.scale])) == pytest.approx([0.0, 1.0])
    skewed = variable_of(rng.lognormal(sigma=2.0, size=2000), observed=True)
    assert skewed.transform == "normal-scores"
    assert skewed.scores_of(np.array(skewed.states)) == pytest.approx(skewed.scores)
    far = skewed.scores_of(np.array([-1e9, 1e9]))
    assert far == pytest.approx([skewed.scores[0], skewed.scores[-1]])


def test_outliers_neither_take_all_levels_nor_have_huge_scores() -> None:
    numbers = np.concatenate([np.random.default_rng(0).normal(size=2000), [1e6, -1e6, 1e9]])
    levels = levels_of(numbers)
    assert levels.transform == "normal-scores"
    assert np.abs(levels.scores).max() < 5.0
    inside = levels.values[np.abs(levels.values) < 10.0]
    assert len(inside) > MAX_LEVELS / 2


def test_weights_count_as_repeated_rows() -> None:
    rng = np.random.default_rng(2)
    numbers, weight = rng.normal(size=300).round(2), rng.integers(0, 4, 300)
    weighted, repeated = variable_of(numbers, weight.astype(float)), variable_of(np.repeat(numbers, weight))
    for name in ("states", "frequencies", "scores", "cuts", "center", "scale"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-9, atol=1e-12)
    assert weighted.bins == repeated.bins


def test_values_without_weight_make_no_level() -> None:
    variable = variable_of([1.0, 2.0, 3.0, 50.0], np.array([1.0, 1.0, 1.0, 0.0]))
    assert variable.states == (1.0, 2.0, 3.0)
    assert min(variable.frequencies) > 0.0
    assert np.isfinite(variable.log_base).all()
    assert variable.codes_of(np.array([50.0])).tolist() == [2]


@pytest.mark.parametrize("observed", [False, True], ids=["target", "observed"])
def test_a_constant_number_has_no_columns(observed) -> None:
    variable = variable_of([4.5] * 10, observed=observed)
    assert variable.states == (4.5,)
    assert variable.width == 0
    assert (variable.center, variable.scale) == (4.5, 1.0)
    assert variable.has_reference
    schema = learn_schema(as_source(np.array([[4.5, 0], [4.5, 1]])), observed=["x0"] if observed else [])
    table = compile_table(as_source(np.array([[4.5, 1], [9.0, 0]])), schema)
    assert table.schema.n_columns == 1


def test_columns_of_a_number_are_its_score_its_square_and_its_bins() -> None:
    variable = variable_of([1.0, 2.0, 2.0, 4.0, 8.0])
    scores = np.array(variable.scores)
    assert (variable.n_scores, variable.width) == (2, 2 + 4)
    np.testing.assert_allclose(variable.coded[:, 0], scores)
    np.testing.assert_allclose(variable.coded[:, 1], scores**2 - 1.0)
    assert np.array_equal(variable.coded[:, 2:], np.eye(4))
    np.testing.assert_allclose(variable.column_means[:2], 0.0, atol=1e-12)
    np.testing.assert_allclose(np.exp(variable.log_base), variable.frequencies)
    observed = variable_of([1.0, 2.0, 2.0, 4.0, 8.0], observed=True)
    assert (observed.n_scores, observed.width) == (1, 1 + 4)


@pytest.mark.parametrize(("unit", "transform"), [(1e-162, "linear-scores"), (1e-290, "normal-scores")])
def test_numbers_whose_squares_are_too_small_have_the_scores_of_larger_ones(unit, transform) -> None:
    numbers = np.random.default_rng(0).normal(size=300)
    small, large = (levels_of(numbers * scale, transform=transform) for scale in (unit, 1.0))
    np.testing.assert_allclose(small.scores, large.scores, rtol=1e-6)
    assert levels_of(numbers * unit).transform == levels_of(numbers).transform
    variable = variable_of(numbers * unit, observed=True)
    assert variable.scale == pytest.approx(numbers.std() * unit, rel=1e-6, abs=0.0)
    np.testing.assert_allclose(
        variable.values_of(numbers * unit), variable_of(numbers, observed=True).values_of(numbers), rtol=1e-6
    )


@pytest.mark.parametrize("dtype", [np.int64, object])
def test_integers_that_floats_confuse_are_refused_with_column_and_remedy(dtype) -> None:
    large = np.array([[2**53 + k] for k in range(20)], dtype=dtype)
    message = (
        r"Column 'x0' is numeric and holds integers beyond 2\^53 such as 9007199254740993.*kinds=\{'x0': 'nominal'\}"
    )
    with pytest.raises(DataError, match=message):
        learn_schema(as_source(large), kinds={"x0": "numeric"})
    assert learn_schema(as_source(large), kinds={"x0": "nominal"}).variables[0].states[1] == 2**53 + 1
    assert learn_schema(as_source(large.astype(float)), kinds={"x0": "numeric"}).variables[0].numeric
    assert learn_schema(as_source(large - dtype(2**52) if dtype is not object else large - 2**52)).variables[0].numeric


def test_decimals_are_those_of_the_longest_number() -> None:
    assert find_decimals(np.array([3.0, 1e300, -7.0])) == 0
    assert find_decimals(np.array([168.8, 0.1, 12.0])) == 1
    assert find_decimals(np.array([1e-5, 0.25, 123_456.7])) == 5
    assert find_decimals(np.array([168.8, 0.1], dtype=np.float32).astype(float)) == 1
    assert find_decimals(np.random.default_rng(0).normal(size=20)) is None
    assert find_decimals(np.array([1e16 / 3, 1e-13])) is None


# -- numbers that others nearly determine ------------------------------------------------------------------------------


def collinear(n: int, spread: float) -> np.ndarray:
    """Four columns of two common factors, with a little noise each."""
    rng = np.random.default_rng(0)
    loadings = np.array([[1.0, 0.2], [0.9, -0.3], [0.8, 0.5], [1.0, -0.1]])
    return rng.normal(size=(n, 2)) @ loadings.T + spread * rng.normal(size=(n, 4))


def test_numbers_that_others_nearly_determine_have_more_levels() -> None:
    coarse, fine, finest = (count_levels(collinear(1000, spread)) for spread in (1.0, 0.1, 0.02))
    assert (coarse == 64).all()
    assert ((fine > 64) & (fine <= 256)).all()
    assert (finest > 240).all()
    assert (count_levels(collinear(10, 0.1)) == 64).all()  # too few rows to know
    assert (count_levels(np.exp(2.0 * collinear(1000, 0.1))) == fine).all()  # whatever bends the scale
    holes = collinear(1000, 0.1)
    holes[np.random.default_rng(1).random(holes.shape) < 0.3] = np.nan
    assert (count_levels(holes) > 0.8 * fine).all()


@pytest.mark.parametrize(("spread", "l1"), [(0.1, 0.6), (0.3, 1.5)])
def test_narrow_predictions_cover_what_they_say(spread, l1) -> None:
    """Half of the hidden numbers are in 50% intervals, and the quantile loss is near that of the true regression."""
    X = np.round(10.0 * collinear(800, spread), 2)
    train, test, levels = X[:500], X[500:], (0.1, 0.25, 0.5, 0.75, 0.9)
    field = MarkovField(l1=l1, n_jobs=1).fit(train)
    mean, covariance = train.mean(axis=0), np.cov(train.T)
    inside, lost, least = [], 0.0, 0.0
    for j in range(4):
        others = np.delete(np.arange(4), j)
        hidden = test.copy()
        hidden[:, j] = np.nan
        answer = field.infer(hidden)
        quantiles = {q: np.asarray(answer.quantile(q)[f"x{j}"]) for q in levels}
        inside.append((test[:, j] >= quantiles[0.25]) & (test[:, j] <= quantiles[0.75]))
        slope = np.linalg.solve(covariance[np.ix_(others, others)], covariance[others, j])
        deviation = np.sqrt(covariance[j, j] - covariance[j, others] @ slope)
        center = mean[j] + (test[:, others] - mean[others]) @ slope
        for q in levels:
            for guess, is_field in ((quantiles[q], True), (center + deviation * ndtri(q), False)):
                loss = np.maximum(q * (test[:, j] - guess), (q - 1.0) * (test[:, j] - guess)).mean()
                lost, least = lost + loss * is_field, least + loss * (not is_field)
    assert 0.42 < np.mean(inside) < 0.6
    assert lost < 1.15 * least


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
