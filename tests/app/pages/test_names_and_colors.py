"""Names are shortened so that different ones stay different, letters are visible, and colors differ for every eye."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from sparsefield import CRFClassifier, MarkovField, RelationalField, plot_network, write_report
from sparsefield.app.pages.layout import BLUE, DARK_COLORS, GROUP_COLORS, INK, NEUTRAL, ORANGE, WHITE
from sparsefield.app.pages.names import shorten, shorten_all, wrap_name

AGREE = ["stimme eher zu", "stimme eher nicht zu", "stimme voll und ganz zu", "stimme ganz und gar nicht zu"]


def test_names_that_begin_alike_are_told_apart() -> None:
    for longest in (8, 10, 12, 16):
        shown = shorten_all(AGREE, longest)
        assert len(set(shown)) == len(AGREE)
        assert all(len(name) <= longest for name in shown)


def test_short_names_are_left_alone() -> None:
    assert shorten_all(["age", "sex", "age"], 8) == ["age", "sex", "age"]


def test_a_cut_keeps_the_beginning_and_the_end() -> None:
    assert shorten("trust in the national parliament", 20) == "trust in the…liament"


@given(st.lists(st.text("ab_ ", min_size=1, max_size=40), min_size=1, max_size=12), st.integers(8, 20))
def test_different_names_are_never_shown_alike(names: list[str], longest: int) -> None:
    shown = shorten_all(names, longest)
    assert len(set(shown)) == len(set(names))


@given(st.text(min_size=1, max_size=80), st.integers(4, 20))
def test_lines_fit(name: str, width: int) -> None:
    lines = wrap_name(name, width)
    assert 0 <= len(lines) <= 2
    assert all(len(line) <= width for line in lines)


def test_names_are_broken_between_words() -> None:
    assert wrap_name("satisfied with the government", 16) == ["satisfied with", "the government"]


@pytest.mark.parametrize("estimator", [MarkovField(l1=2.0), CRFClassifier(l1=2.0), RelationalField(l1=2.0)])
def test_before_a_fit_the_picture_is_that_of_scikit_learn(estimator) -> None:
    made = estimator._repr_mimebundle_()
    assert "sk-top-container" in made["text/html"]
    assert "sk-top-container" in estimator._repr_html_()
    with pytest.raises(NotFittedError):
        plot_network(estimator)
    with pytest.raises(NotFittedError):
        write_report(estimator, None, "never.html")


TEXT, GRAPHICS = 4.5, 3.0
"""Smallest contrasts of WCAG 2, level AA."""

TEXT_AREAS = {
    "ink": ("back", "card", "sunken", "positive-tint"),
    "soft": ("back", "card", "sunken"),
    "accent": ("back", "card", "positive-tint"),
    "positive-text": ("back", "card", "sunken"),
    "negative-text": ("back", "card", "sunken"),
    "warn-text": ("warn-back",),
    "code-text": ("code-back",),
}
STYLE = (files("sparsefield.app.pages") / "static" / "page.css").read_text()
LIGHT, DARK = (
    dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part.split("}")[0]))
    for part in re.split("(?<!-)color-scheme:", STYLE)[1:3]
)


def luminance(color: str) -> float:
    """The relative luminance of a color as WCAG 2 defines it, from 0 to 1."""
    shares = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [(value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4) for value in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    """The contrast of two colors as WCAG 2 defines it, from 1 to 21."""
    dark, light = sorted(map(luminance, (first, second)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "area"), [(text, area) for text, areas in TEXT_AREAS.items() for area in areas])
def test_text_can_be_read_on_each_area(theme: dict[str, str], text: str, area: str) -> None:
    assert contrast(theme[text], theme[area]) >= TEXT


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("sign", ["positive", "negative", "neutral"])
def test_edges_stand_out_from_the_card(theme: dict[str, str], sign: str) -> None:
    assert contrast(theme[sign], theme["card"]) >= GRAPHICS


def test_the_style_sheet_has_the_colors_of_figures_and_dark_ones_for_each() -> None:
    assert (LIGHT["positive"], LIGHT["negative"], LIGHT["neutral"]) == (BLUE, ORANGE, NEUTRAL)
    assert set(LIGHT) == set(DARK)
    assert set(re.findall(r"var\(--([\w-]+)", STYLE)) <= {*LIGHT, "font"}


def test_names_can_be_read_within_nodes_of_every_group() -> None:
    for color in (*GROUP_COLORS, NEUTRAL):
        assert contrast(WHITE if color in DARK_COLORS else INK, color) >= TEXT
