"""Estimators show themselves as scikit-learn's do, and their network is a plot."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from html import unescape

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from sparsefield import CRFClassifier, MarkovField, RelationalField, plot_network, write_report
from sparsefield.errors import DataError

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


def test_the_plot_is_a_page_in_a_frame_of_its_own(model) -> None:
    plot = plot_network(model)
    frame = plot._repr_html_()
    assert frame.startswith("<iframe srcdoc=")
    assert 'sandbox="allow-scripts allow-downloads"' in frame
    assert frame.count("<") == 2
    assert plot.to_html() in unescape(frame)
    assert "2 columns and 1 edges" in repr(plot)


def test_the_static_picture_is_valid_svg(model) -> None:
    root = ET.fromstring(plot_network(model)._repr_svg_())
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "rain" in words
    assert ODD in "".join(filter(None, words))  # in two lines
    assert len(list(root.iter("{http://www.w3.org/2000/svg}circle"))) == 2


def test_plots_are_saved_by_their_suffix(model, tmp_path) -> None:
    plot = plot_network(model)
    plot.save(tmp_path / "net.html")
    plot.save(str(tmp_path / "net.svg"))
    assert (tmp_path / "net.html").read_text() == plot.to_html()
    assert (tmp_path / "net.svg").read_text() == plot.to_svg()
    with pytest.raises(DataError, match=r"net\.gif: the name must end in \.svg"):
        plot.save(tmp_path / "net.gif")
    assert len(list(tmp_path.iterdir())) == 2


def test_an_empty_network_has_a_picture_too() -> None:
    X = np.random.default_rng(0).integers(0, 2, (40, 3))
    plot = plot_network(MarkovField(l1=1000.0).fit(X))
    assert "No two columns share a feature." in plot.to_svg()
    assert "network-data" in plot.to_html()
