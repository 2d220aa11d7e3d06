"""``export`` writes models in the formats of other programs."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from sparsefield import MarkovField
from sparsefield.data import Layout, Schema, Variable
from sparsefield.model import Field


@pytest.fixture
def weather(tmp_path: Path) -> Path:
    """A given field: mood and wet follow heat, a number, and the season=x, both observed."""
    variables = (
        Variable("mood", "target", ("bad", "fair", "good"), 1, (1 / 3,) * 3),
        Variable("wet", "target", (0, 1), 0, (0.5, 0.5)),
        Variable("heat", "observed", center=20.0, scale=5.0, kind="numeric"),
        Variable("season=x", "observed", (1, 2), 0, (0.5, 0.5)),
    )
    schema = Schema(variables, tuple(v.name for v in variables))
    pairs = np.array([[0, 2], [1, 3], [2, 4]])
    field = Field(Layout.single(schema), np.array([0.5, -0.5, 1.0]), pairs, np.array([2.0, 0.5, -1.0]))
    MarkovField.from_field(field).save(tmp_path / "weather.safetensors")
    return tmp_path / "weather.safetensors"


def test_a_graph_by_the_suffix(run, weather: Path, tmp_path: Path) -> None:
    done = run("export", weather, "-o", tmp_path / "net.graphml").ok()
    assert done.out == f"4 variables, 3 edges.\nWrote {tmp_path / 'net.graphml'}.\n"
    assert len(ET.parse(tmp_path / "net.graphml").getroot()[-1]) == 4 + 3


def test_errors_are_one_line_and_nothing_is_written(run, weather: Path, tmp_path: Path) -> None:
    there = sorted(tmp_path.iterdir())
    run("export", weather, "-o", tmp_path / "net.txt").one_error("net.txt", ".graphml, .json")
    run("export", weather, "-o", tmp_path / "no" / "net.json").one_error("does not exist")
    run("export", tmp_path / "nope", "-o", tmp_path / "net.json").one_error("there is no such file")
    assert sorted(tmp_path.iterdir()) == there


def test_linked_tables_can_be_exported(run, model: Path, tmp_path: Path) -> None:
    run("export", model, "-o", tmp_path / "net.graphml").ok()
    assert ">across who<" in (tmp_path / "net.graphml").read_text()
