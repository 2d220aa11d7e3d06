"""Levels of text that have an order are recognized, and the advice has this order."""

from __future__ import annotations

import shlex

import numpy as np
import polars as pl
import pytest

from sparsefield.app.tables.codebook import inspect
from sparsefield.app.tables.column_findings import find_order


@pytest.mark.parametrize(
    ("levels", "order"),
    [
        (["often", "never", "always"], ("never", "often", "always")),
        (["Stimme  zu", "teils/teils", "stimme nicht zu"], ("stimme nicht zu", "teils/teils", "Stimme  zu")),
        (["high", "low", "medium"], ("low", "medium", "high")),
        (["often", "frequently", "never"], ()),  # two words for one place
        (["yes", "no", "always"], ()),
        (["high", "low"], ()),
    ],
)  # fmt: skip
def test_known_scales_have_an_order(levels: list[str], order: tuple[str, ...]) -> None:
    assert find_order(levels) == order


def test_advice_has_the_levels_in_order_without_missing_codes() -> None:
    rng = np.random.default_rng(0)
    answers = np.array(["disagree", "agree", "neutral", "strongly agree", "k.A."])
    table = pl.DataFrame({name: answers[rng.integers(0, 5, 200)] for name in ("q1", "q2")})
    table = table.with_columns(pl.Series("color", np.array(["red", "green", "blue"])[rng.integers(0, 3, 200)]))
    (advice,) = [one for one in inspect(table).advice if "ordered" in one.text]
    assert advice.columns == ("q1", "q2")
    order = "disagree<neutral<agree<strongly agree"
    assert shlex.split(advice.option) == ["--ordinal", f"q1=q2={order}"]


def test_a_text_among_numbers_is_not_their_example() -> None:
    ages = ["k.A."] * 20 + [str(20 + k % 50) for k in range(100)]
    book = inspect(pl.DataFrame({"age": ages}))
    (found,) = [finding for finding in book.columns[0].findings if finding.type == "numbers as text"]
    assert found.text.startswith("such as '2")
    assert "except 'k.A.'" in found.text
    assert any("makes 'age' numbers or dates" in one.text for one in book.advice)
