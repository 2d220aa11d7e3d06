"""``plot`` draws the network of a model, and writes its positions and edges."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sparsefield import MarkovField


@pytest.fixture
def weather(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    rain = rng.integers(0, 2, 200)
    wet = np.where(rng.random(200) < 0.9, rain, 1 - rain)
    sun = np.where(rng.random(200) < 0.8, 1 - rain, rain)
    MarkovField(l1=2.0).fit(pl.DataFrame({"rain": rain, "wet": wet, "sun": sun})).save(tmp_path / "w.safetensors")
    return tmp_path / "w.safetensors"


@pytest.mark.parametrize(("name", "start"), [("n.svg", b"<?xml"), ("n.pdf", b"%PDF"), ("n.png", b"\x89PNG")])
def test_the_suffix_selects_the_format(run, weather: Path, tmp_path: Path, name: str, start: bytes) -> None:
    done = run("plot", weather, "-o", tmp_path / name, "--title", "Rain & wind", "--width-mm", 80, "--dpi", 60)
    assert done.code == 0, done.err
    assert done.out == f"Wrote {tmp_path / name}.\n"
    assert (tmp_path / name).read_bytes().startswith(start)


def test_tables_are_written_beside_the_figure(run, weather: Path, tmp_path: Path) -> None:
    outputs = {name: tmp_path / f"{name}.csv" for name in ("positions", "edges")}
    words = [word for name, path in outputs.items() for word in (f"--{name}", path)]
    assert run("plot", weather, "-o", tmp_path / "n.svg", *words).code == 0
    positions, edges = (pl.read_csv(path) for path in outputs.values())
    assert positions.columns == ["column", "x", "y"]
    assert edges.columns == ["column_a", "column_b", "strength", "sign", "weight"]
    again = run("plot", weather, "-o", tmp_path / "again.svg", "--layout", outputs["positions"])
    assert again.code == 0, again.err
    assert (tmp_path / "again.svg").read_bytes() == (tmp_path / "n.svg").read_bytes()


def test_communities_and_rings_are_read_from_tables(run, weather: Path, tmp_path: Path) -> None:
    (tmp_path / "communities.csv").write_text("column,community\nrain,sky\nsun,sky\nwet,ground\n")
    (tmp_path / "rings.csv").write_text("column,value\nrain,0.5\n")
    files = ("--communities", tmp_path / "communities.csv", "--rings", tmp_path / "rings.csv")
    done = run("plot", weather, "-o", tmp_path / "n.svg", *files, "--edge-labels", "--names", "beside")
    assert done.code == 0, done.err
    picture = (tmp_path / "n.svg").read_text(encoding="utf-8")
    assert all(f">{word}</text>" in picture for word in ("sky", "ground", "predictability", "rain"))


def test_rings_of_centrality_leave_out_columns_that_are_not_predicted(run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"rain": rng.integers(0, 2, 80), "day": rng.normal(size=80)})
    table = table.with_columns(wet=pl.col("rain")).head(60)
    MarkovField(l1=2.0, observed=["day"]).fit(table).save(tmp_path / "w.safetensors")
    table.head(50).write_csv(tmp_path / "t.csv")
    rings, picture = tmp_path / "c.csv", tmp_path / "n.svg"
    assert run("analyze", "centrality", tmp_path / "w.safetensors", tmp_path / "t.csv", "-o", rings).code == 0
    assert pl.read_csv(rings).filter(column="day")["predictability"].to_list() == [None]
    done = run("plot", tmp_path / "w.safetensors", "-o", picture, "--rings", rings)
    assert done.code == 0, done.err
    assert ">predictability</text>" in picture.read_text(encoding="utf-8")
    assert ">day: " not in picture.read_text(encoding="utf-8")


def test_communities_are_found_named_or_read_and_those_without_are_noted(run, weather: Path, tmp_path: Path) -> None:
    picture = tmp_path / "n.svg"
    assert run("plot", weather, "-o", picture, "--communities", "auto").code == 0
    found = picture.read_bytes()
    assert run("plot", weather, "-o", picture).code == 0
    assert picture.read_bytes() == found
    (tmp_path / "some.csv").write_text("column,community\nrain,sky\nwet,\n")
    for given in (tmp_path / "some.csv", "rain=sky,wet=ground"):
        done = run("plot", weather, "-o", picture, "--communities", given)
        assert done.code == 0, done.err
        assert "Note: --communities has no community of 'sun', drawn in gray." in done.err
        assert ">none</text>" in picture.read_text(encoding="utf-8")
    run("plot", weather, "-o", picture, "--communities", "none.csv").one_error("no file, no column=community", "'auto'")


def test_a_crowded_figure_is_noted_with_the_number_of_edges_that_fit(run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    trait = rng.normal(size=(400, 1))
    table = (trait + rng.normal(size=(400, 14)) > 0).astype(int)
    field = MarkovField(l1=1.0).fit(pl.DataFrame(table, schema=[f"q{k}" for k in range(14)]))
    field.save(tmp_path / "m.safetensors")
    words = ("plot", tmp_path / "m.safetensors", "-o", tmp_path / "n.svg", "--width-mm", 70, "--edge-labels")
    (line,) = [line for line in run(*words).err.splitlines() if "crowded" in line]
    assert re.match(r"Note: \d+ edges with their weights are crowded at 70 mm: --max-edges ", line)
    fewer = line.split("--max-edges ")[1].split()[0]
    assert "crowded" not in run(*words, "--max-edges", fewer).err


def test_errors_are_one_line(run, weather: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("name,community\nrain,sky\n")
    picture = tmp_path / "n.svg"
    run("plot", weather, "-o", tmp_path / "n.gif").one_error("n.gif", ".svg")
    refused = run("plot", weather, "-o", picture, "--communities", tmp_path / "bad.csv")
    refused.one_error("bad.csv", "columns column and community, with a row for each column", "has no column", "name")
    run("plot", weather, "-o", picture, "--width-mm", 3).one_error("width_mm")
    run("plot", weather, "-o", picture, "--edges", tmp_path / "e.doc").one_error("e.doc", ".csv")
    run("plot", weather, "-o", picture, "--layout", tmp_path / "none.csv").one_error("none.csv")
    assert not picture.exists()
