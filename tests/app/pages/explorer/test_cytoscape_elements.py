"""Pictures are deterministic, and labels do not overlap."""

from __future__ import annotations

import pytest

pytest.importorskip("dash")

from sparsefield.analysis.network import Network
from sparsefield.app.datasets import make_markov_field
from sparsefield.app.pages.explorer.network_picture import MAX_FILL, THEMES, build_elements, build_stylesheet, wrap_name
from sparsefield.app.pages.palette import BLUE, INK, WHITE, blend


@pytest.fixture(scope="module")
def wide() -> Network:
    return Network(make_markov_field(400, 1, neighbors=6, burn_in=1, thin=1, seed=1).field.field_)


def test_pictures_are_the_same_each_time_and_labels_do_not_overlap(wide: Network) -> None:
    shown = build_elements(wide.neighborhood([3], 40), [3])
    assert shown == build_elements(wide.neighborhood([3], 40), [3])
    nodes = [one for one in shown if "position" in one]
    assert len(nodes) == 40
    for k, one in enumerate(nodes):
        for other in nodes[:k]:
            dx = abs(one["position"]["x"] - other["position"]["x"])
            dy = abs(one["position"]["y"] - other["position"]["y"])
            wide, tall = ((one["data"][size] + other["data"][size]) / 2 for size in ("width", "height"))
            assert dx >= wide or dy >= tall
    assert [one["classes"] for one in nodes].count("chosen") == 1


def test_styles_mark_evidence_and_changed_beliefs() -> None:
    styles = {one["selector"]: one["style"] for one in build_stylesheet([4], {5: (1, 1.0), 6: (-1, 0.0)})}
    assert styles["edge.negative"]["line-style"] == "dashed"  # as in reports and figures
    assert styles['node[id = "4"]']["background-color"] == INK
    assert styles['node[id = "5"]']["background-color"] == blend([WHITE, BLUE], MAX_FILL["light"])
    assert styles['node[id = "6"]']["background-color"] == WHITE


@pytest.mark.parametrize("name", ["hours_per_week_at_work", "x", "aVeryLongNameInCamelCase", "ab " * 30, "q" * 50])
def test_long_names_are_wrapped_and_nothing_is_cut(name: str) -> None:
    lines = wrap_name(name, 18).split("\n")
    assert max(map(len, lines)) <= 18
    assert "".join(lines).replace(" ", "") == name.replace(" ", "")


def luminance(color: str) -> float:
    parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, two: str) -> float:
    low, high = sorted([luminance(one), luminance(two)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", list(THEMES))
def test_names_are_legible_on_every_color_of_a_node(theme: str) -> None:
    for direction in (1, -1, 0):
        moved = {k: (direction, k / 10) for k in range(11)}
        for style in build_stylesheet([99], moved, theme):
            if style["selector"].startswith("node[id"):
                ink = style["style"].get("color", THEMES[theme].ink)
                assert contrast(style["style"]["background-color"], ink) >= 4.5
