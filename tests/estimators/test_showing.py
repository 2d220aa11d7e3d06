"""Estimators show themselves: a card when fitted, scikit-learn's picture before, and the network as a plot."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from html import unescape

import numpy as np
import pytest
import sklearn
from sklearn.exceptions import NotFittedError

from sparsefield import CRFClassifier, MarkovField, RelationalField

ODD = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def model() -> MarkovField:
    import polars as pl

    rng = np.random.default_rng(0)
    rain = rng.integers(0, 2, 300)
    wet = np.where(rng.random(300) < 0.9, rain, 1 - rain)
    return MarkovField(l1=1.5).fit(pl.DataFrame({"rain": rain, ODD: wet}))


@pytest.mark.parametrize("estimator", [MarkovField(l1=2.0), CRFClassifier(l1=2.0), RelationalField(l1=2.0)])
def test_before_a_fit_the_picture_is_that_of_scikit_learn(estimator) -> None:
    made = estimator._repr_mimebundle_()
    assert "sk-top-container" in made["text/html"]
    assert "sk-top-container" in estimator._repr_html_()
    with pytest.raises(NotFittedError):
        estimator.plot()
    with pytest.raises(NotFittedError):
        estimator.write_report("never.html")


def test_after_a_fit_a_card_tells_what_was_learned(model) -> None:
    made = model._repr_mimebundle_()
    assert made["text/html"] == model._repr_html_()
    assert made["text/plain"] == repr(model)
    card = made["text/html"]
    assert "MarkovField(l1=1.5)" in card
    assert "300 rows, 2 columns" in card
    assert "Converged" in card
    assert ODD not in card
    assert f"rain=1 and {ODD}=1 go together" in unescape(card)


def test_whoever_wants_text_gets_text(model) -> None:
    with sklearn.config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()
        assert not hasattr(model, "_repr_html_")


def test_the_static_picture_is_valid_svg(model) -> None:
    root = ET.fromstring(model.plot()._repr_svg_())
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "rain" in words
    assert ODD in "".join(filter(None, words))  # in two lines
    assert "2 columns and 1 edges" in repr(model.plot())
