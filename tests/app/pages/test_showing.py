"""Estimators show themselves as scikit-learn's do, and refuse pictures before a fit."""

from __future__ import annotations

import pytest
from sklearn.exceptions import NotFittedError

from sparsefield import CRFClassifier, MarkovField, RelationalField, plot_network, write_report


@pytest.mark.parametrize("estimator", [MarkovField(l1=2.0), CRFClassifier(l1=2.0), RelationalField(l1=2.0)])
def test_before_a_fit_the_picture_is_that_of_scikit_learn(estimator) -> None:
    made = estimator._repr_mimebundle_()
    assert "sk-top-container" in made["text/html"]
    assert "sk-top-container" in estimator._repr_html_()
    with pytest.raises(NotFittedError):
        plot_network(estimator)
    with pytest.raises(NotFittedError):
        write_report(estimator, None, "never.html")
