"""Estimators show themselves as scikit-learn's do, and their network is a plot."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from sparsefield import CRFClassifier, MarkovField, RelationalField, plot_network, write_report

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
        plot_network(estimator)
    with pytest.raises(NotFittedError):
        write_report(estimator, None, "never.html")


def test_the_static_picture_is_valid_svg(model) -> None:
    root = ET.fromstring(plot_network(model)._repr_svg_())
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "rain" in words
    assert ODD in "".join(filter(None, words))  # in two lines
    assert "2 columns and 1 edges" in repr(plot_network(model))
