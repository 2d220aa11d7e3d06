"""``export`` writes models in the formats of other programs."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from sparsefield import MarkovField, load, write_uai
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
    done = run("export", weather, "-o", tmp_path / "net.graphml")
    assert done.code == 0, done.err
    assert done.out == f"Wrote {tmp_path / 'net.graphml'}: 4 variables, 3 edges.\n"
    assert len(ET.parse(tmp_path / "net.graphml").getroot()[-1]) == 4 + 3


def test_a_distribution_by_the_suffix(run, weather: Path, tmp_path: Path) -> None:
    net, names = tmp_path / "net.UAI", tmp_path / "names.json"
    done = run("export", weather, "-o", net, "--given", "heat=30", "--given", "season=x=2", "--names", names)
    assert done.code == 0, done.err
    assert done.out == f"Wrote {net}: 2 variables; the names are in {names}.\n"
    assert json.loads(names.read_text()) == {"mood": ["bad", "fair", "good"], "wet": [0, 1]}
    direct = tmp_path / "direct.uai"
    write_uai(load(weather), direct, given={"heat": 30.0, "season=x": 2})
    assert direct.read_bytes() == net.read_bytes()


def test_errors_are_one_line_and_nothing_is_written(run, weather: Path, tmp_path: Path) -> None:
    there = sorted(tmp_path.iterdir())
    net = tmp_path / "net.uai"
    run("export", weather, "-o", tmp_path / "net.txt").one_error("net.txt", ".graphml, .json, .uai")
    run("export", weather, "-o", tmp_path / "no" / "net.uai").one_error("does not exist")
    run("export", tmp_path / "nope", "-o", net).one_error("there is no such file")
    run("export", weather, "-o", net).one_error("2 observed column(s)", "'heat', 'season=x'")
    run("export", weather, "-o", net, "--given", "heat").one_error("COLUMN=VALUE")
    run("export", weather, "-o", net, "--given", "cold=1").one_error("'cold'")
    run("export", weather, "-o", net, "--given", "heat=1", "--given", "season=x=7").one_error("no state '7'")
    run("export", weather, "-o", net, "--given", "heat=x").one_error("holds numbers")
    run("export", weather, "-o", tmp_path / "g.graphml", "--given", "heat=1").one_error("UAI files")
    assert sorted(tmp_path.iterdir()) == there


def test_linked_tables_can_be_exported_as_a_graph_but_not_as_uai(run, model: Path, tmp_path: Path) -> None:
    done = run("export", model, "-o", tmp_path / "net.graphml")
    assert done.code == 0, done.err
    assert ">across who<" in (tmp_path / "net.graphml").read_text()
    run("export", model, "-o", tmp_path / "net.uai").one_error("linked tables")
