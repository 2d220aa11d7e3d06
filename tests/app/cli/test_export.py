"""``export`` and ``import`` convert models to and from other formats."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from sparsefield import MarkovField, load, write_uai
from sparsefield.app.tables.uai import read_uai
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


def test_a_distribution_by_the_suffix_and_back(run, weather: Path, tmp_path: Path) -> None:
    net, names, back = tmp_path / "net.UAI", tmp_path / "names.json", tmp_path / "back.safetensors"
    done = run("export", weather, "-o", net, "--given", "heat=30", "--given", "season=x=2", "--names", names)
    assert done.code == 0, done.err
    assert done.out == f"Wrote {net}: 2 variables; the names are in {names}.\n"
    assert json.loads(names.read_text()) == {"mood": ["bad", "fair", "good"], "wet": [0, 1]}
    truth = read_uai(net, names=json.loads(names.read_text()))
    direct = tmp_path / "direct.uai"
    write_uai(load(weather), direct, given={"heat": 30.0, "season=x": 2})
    assert direct.read_bytes() == net.read_bytes()
    done = run("import", net, "-o", back, "--names", names)
    assert done.code == 0, done.err
    assert done.out == f"Wrote {back}: 2 variables, 1 edge.\n"
    field = load(back)
    assert isinstance(field, MarkovField)
    assert field.states_ == {"mood": ["bad", "fair", "good"], "wet": [0, 1]}
    assert np.array_equal(field.field_.theta, truth.theta)
    assert "Given, not learned." in run("info", back).out


def test_zeros_in_tables_are_noted(run, tmp_path: Path) -> None:
    (tmp_path / "net.uai").write_text("MARKOV 2 2 2 1 2 0 1 4 1 0 0 1")
    done = run("import", tmp_path / "net.uai", "-o", tmp_path / "m.safetensors")
    assert done.code == 0
    assert "Note: " in done.err
    assert "2 table entries are 0" in done.err


def test_errors_are_one_line_and_nothing_is_written(run, weather: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.uai").write_text("MARKOV 1 2 1 1 0 2 1")
    there = sorted(tmp_path.iterdir())
    net = tmp_path / "net.uai"
    run("export", weather, "-o", tmp_path / "net.txt").one_error("net.txt", ".graphml, .uai")
    run("export", weather, "-o", tmp_path / "no" / "net.uai").one_error("does not exist")
    run("export", tmp_path / "nope", "-o", net).one_error("there is no such file")
    run("export", weather, "-o", net).one_error("2 observed column(s)", "'heat', 'season=x'")
    run("export", weather, "-o", net, "--given", "heat").one_error("COLUMN=VALUE")
    run("export", weather, "-o", net, "--given", "cold=1").one_error("'cold'")
    run("export", weather, "-o", net, "--given", "heat=1", "--given", "season=x=7").one_error("no state '7'")
    run("export", weather, "-o", net, "--given", "heat=x").one_error("holds numbers")
    run("export", weather, "-o", tmp_path / "g.graphml", "--given", "heat=1").one_error("UAI files")
    run("import", tmp_path / "bad.uai", "-o", tmp_path / "m").one_error("bad.uai", "ends too early")
    run("import", tmp_path / "bad.uai", "-o", tmp_path / "bad.uai").one_error("files that are read")
    run("import", tmp_path / "nope.uai", "-o", tmp_path / "m").one_error("there is no such file")
    assert sorted(tmp_path.iterdir()) == there


def test_linked_tables_can_be_exported_as_a_graph_but_not_as_uai(run, model: Path, tmp_path: Path) -> None:
    done = run("export", model, "-o", tmp_path / "net.graphml")
    assert done.code == 0, done.err
    assert 'key="edge_template">across who<' in (tmp_path / "net.graphml").read_text()
    run("export", model, "-o", tmp_path / "net.uai").one_error("linked tables")
