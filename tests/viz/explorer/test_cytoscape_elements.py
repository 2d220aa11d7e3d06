"""Pictures are deterministic, and labels do not overlap."""

from __future__ import annotations

import pytest

pytest.importorskip("dash")

from sparsefield.datasets import make_markov_field
from sparsefield.viz.explorer.page_elements import build_elements, build_stylesheet
from sparsefield.viz.network import Network
from sparsefield.viz.palette import BLUE, INK, WHITE


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
            assert dx >= (one["data"]["width"] + other["data"]["width"]) / 2 or dy >= 30
    assert [one["classes"] for one in nodes].count("chosen") == 1


def test_styles_mark_evidence_and_changed_beliefs() -> None:
    styles = {one["selector"]: one["style"] for one in build_stylesheet([4], {5: (1, 1.0), 6: (-1, 0.0)})}
    assert styles['node[id = "4"]']["background-color"] == INK
    assert styles['node[id = "5"]']["background-color"] == BLUE
    assert styles['node[id = "6"]']["background-color"] == WHITE
