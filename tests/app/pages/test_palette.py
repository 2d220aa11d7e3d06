"""Colors can be read on light and dark pages, and are written in one place."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from sparsefield.app.pages.html_page import base_style
from sparsefield.app.pages.palette import DARK, GROUPS, LIGHT, NEUTRAL, Theme, contrast, group_color, text_on

TEXT, GRAPHICS = 4.5, 3.0
"""Smallest contrasts of WCAG 2, level AA."""

TEXT_AREAS = {
    "ink": ("back", "card", "sunken", "positive_tint"),
    "soft": ("back", "card", "sunken"),
    "accent": ("back", "card", "positive_tint"),
    "positive_text": ("back", "card", "sunken"),
    "negative_text": ("back", "card", "sunken"),
    "warn_text": ("warn_back",),
    "code_text": ("code_back",),
}


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "area"), [(text, area) for text, areas in TEXT_AREAS.items() for area in areas])
def test_text_can_be_read_on_each_area(theme: Theme, text: str, area: str) -> None:
    assert contrast(getattr(theme, text), getattr(theme, area)) >= TEXT


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("sign", ["positive", "negative", "neutral"])
def test_edges_stand_out_from_the_card(theme: Theme, sign: str) -> None:
    assert contrast(getattr(theme, sign), theme.card) >= GRAPHICS


def test_names_can_be_read_within_nodes_of_every_group() -> None:
    assert all(contrast(text_on(color), color) >= TEXT for color in (*GROUPS, NEUTRAL))


def test_further_groups_are_gray() -> None:
    assert group_color(len(GROUPS)) == group_color(-1) == NEUTRAL
    assert len({*GROUPS, NEUTRAL}) == len(GROUPS) + 1


def test_style_sheets_use_only_colors_of_the_palette() -> None:
    for name in ("base.css", "page.css"):
        text = (files("sparsefield.app.pages") / name).read_text()
        assert not re.search(r"#[0-9a-fA-F]{3,8}\b", text)
        used = set(re.findall(r"var\((--[\w-]+)", text))
        assert used <= set(re.findall(r"(--[\w-]+):", base_style()))
