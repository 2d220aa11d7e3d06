"""Arguments of wrong types are refused in one sentence of sparsefield, not by an error from inside."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sparsefield import EBIC, CRFClassifier, Features, MarkovField
from sparsefield.errors import DataError, DateTextWarning, NumberTextWarning

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"a": RNG.integers(0, 2, 40), "b": RNG.choice(list("xyz"), 40), "c": RNG.normal(size=40)})
UNICODE = pd.Index(["\ud800", "b", "c"], dtype=object)
ODD = {"number": 3, "nan": float("nan"), "frame": FRAME, "array": np.arange(3), "set": {"a"}, "text": "a"}


@pytest.fixture(scope="module")
def field() -> MarkovField:
    return MarkovField(l1=1.0).fit(FRAME)


@pytest.mark.parametrize("kind", ODD)
def test_events_evidence_and_states_are_dicts(field, kind) -> None:
    with pytest.raises(DataError, match=r"event is a .*; it must be"):
        field.probability(ODD[kind])
    with pytest.raises(DataError, match=r"given is a .*; it must be"):
        field.probability({"a": 1}, given=ODD[kind])
    with pytest.raises(DataError, match=r"states is a .*; it must be"):
        MarkovField(l1=1.0).fit(FRAME, states=ODD[kind])


@pytest.mark.parametrize("labels", [3, None, float("nan"), "xyz", FRAME, {"x": 1}], ids=str)
def test_states_of_a_column_are_a_list(labels) -> None:
    with pytest.raises(DataError, match="for column 'b': give a list of labels"):
        MarkovField(l1=1.0).fit(FRAME, states={"b": labels})


def test_states_may_be_an_array_or_a_series() -> None:
    for labels in (np.array(["x", "w"]), pd.Series(["x", "w"]), ("x", "w"), {"w"}):
        assert MarkovField(l1=1.0).fit(FRAME, states={"b": labels}).states_["b"] == ["w", "x", "y", "z"]


@pytest.mark.parametrize("observed", [3, float("nan"), object()], ids=["number", "nan", "object"])
def test_observed_columns_are_a_list(observed) -> None:
    with pytest.raises(DataError, match=r"observed is .*; it must be a list of columns"):
        MarkovField(l1=1.0).fit(FRAME, observed=observed)


@pytest.mark.parametrize(
    "weight", ["x", ["x"], 10**400, [{}], object()], ids=["text", "list", "huge", "dict", "object"]
)
def test_weights_are_numbers(weight) -> None:
    with pytest.raises(DataError, match="sample_weight has cells that are no numbers"):
        MarkovField(l1=1.0).fit(FRAME, sample_weight=weight)


@pytest.mark.parametrize("cells", [[10**400, 1], [10**400, "u"], [-(10**400), 0.5]])
def test_integers_beyond_floats_are_no_labels(cells) -> None:
    frame = FRAME.assign(q=pd.Series(cells * 20, dtype=object))
    with pytest.raises(DataError, match="Column 'q' holds integers that are too large for floats"):
        MarkovField(l1=1.0, kinds={"q": "nominal"}).fit(frame)


def test_huge_parameters_and_no_penalty_compute_no_undefined_numbers() -> None:
    with pytest.raises(ValueError, match=r"gamma must be a number between 0 and 1e\+06"):
        MarkovField(selection=EBIC(gamma=1e308)).fit(FRAME)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        field = MarkovField(l1=0.0, features=Features(max_order=3)).fit(FRAME)
    assert np.isfinite(field.field_.theta).all()


@pytest.mark.parametrize("estimator", [MarkovField(l1=1.0), CRFClassifier(l1=1.0)])
def test_one_row_is_refused(estimator) -> None:
    y = (FRAME["b"],) if isinstance(estimator, CRFClassifier) else ()
    with pytest.raises(DataError, match=r"X has 1 row: 1 sample\(s\), while a minimum of 2 is required"):
        estimator.fit(FRAME[["a", "c"]][:1], *(labels[:1] for labels in y))


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda field: field.transform(FRAME, fill=FRAME), "fill must be one of"),
        (lambda field: MarkovField().fit(FRAME.set_axis(UNICODE, axis=1)), "name is no valid Unicode"),
        (lambda field: field.infer(FRAME).quantile(10**400), "q must be a number between 0 and 1"),
        (lambda field: field.probability({"a": 1}, gibbs=FRAME), "gibbs must be None or a Gibbs"),
        (lambda field: field.complete(FRAME, max_cells=FRAME), "max_cells must be"),
        (lambda field: MarkovField(l1=Fraction(3, 2)).fit(FRAME), "l1 must be a number"),
        (lambda field: MarkovField(kinds=pl.DataFrame({"a": [1]})).fit(FRAME), "kinds must be 'auto'"),
        (lambda field: MarkovField(l1=1.0, latent=FRAME).fit(FRAME), "latent must be None or a dict"),
        (lambda field: MarkovField(l1=1.0, latent={"\ud83d": 2}).fit(FRAME), "names are text"),
        (lambda field: MarkovField(l1=1.0).fit(FRAME[["a"]].to_numpy(), columns=3), "must be a list of names"),
        (lambda field: MarkovField(l1=1.0).fit(FRAME[["a"]].to_numpy(), columns=["\ud83d"]), "no valid Unicode"),
        (lambda field: MarkovField().fit(FRAME, groups=pd.Series([[1]] * 40)), "'groups' holds a list"),
        (
            lambda field: CRFClassifier(l1=1.0).fit(FRAME[["c"]], FRAME["a"]).predict(FRAME[["c"]], decode=FRAME),
            "decode",
        ),
    ],
)
def test_other_arguments_of_odd_types_are_refused_in_a_sentence(field, ask, words) -> None:
    with pytest.raises(ValueError, match=words):
        ask(field)


@pytest.mark.parametrize("text", ["2020-01-{:02d}", "2020-01-{:02d} 12:30", "2020-01-{:02d}T12:30:00Z"])
def test_dates_as_text_are_told(text) -> None:
    frame = FRAME.assign(day=[text.format(k % 20 + 1) for k in range(40)])
    with pytest.warns(DateTextWarning, match="Column 'day' holds dates as text, such as '2020-01-01"):
        MarkovField(l1=1.0).fit(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DateTextWarning)
        MarkovField(l1=1.0, kinds={"day": "nominal"}).fit(frame)
        MarkovField(l1=1.0).fit(frame.assign(day="on " + frame["day"]))
        MarkovField(l1=1.0).fit(frame.assign(day=pd.to_datetime(frame["day"])))


def test_many_numbers_as_text_are_told() -> None:
    frame = FRAME.assign(size=[f"{k % 20},5" for k in range(40)])
    with pytest.warns(NumberTextWarning, match="Column 'size' holds numbers as text, such as '0,5'"):
        MarkovField(l1=1.0).fit(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NumberTextWarning)
        MarkovField(l1=1.0, kinds={"size": "nominal"}).fit(frame)
        MarkovField(l1=1.0).fit(frame.assign(size=[f"0{k % 20}" for k in range(40)]))
        MarkovField(l1=1.0).fit(frame.assign(size=[str(k % 5) for k in range(40)]))
