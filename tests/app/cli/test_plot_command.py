"""``plot`` draws the network of a model."""

from __future__ import annotations

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
    done = run("plot", weather, "-o", tmp_path / name, "--width-mm", 80, "--dpi", 60).ok()
    assert done.out == f"Wrote {tmp_path / name}.\n"
    assert (tmp_path / name).read_bytes().startswith(start)


def test_texts_stay_texts_and_the_same_command_writes_the_same_bytes(run, weather: Path, tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        run("plot", weather, "-o", tmp_path / name, "--edge-labels", "--min-weight", 0.01).ok()
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert ">rain</text>" in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_communities_are_found_or_read(run, weather: Path, tmp_path: Path) -> None:
    picture = tmp_path / "n.svg"
    run("plot", weather, "-o", picture, "--communities", "auto").ok()
    automatic = picture.read_bytes()
    run("plot", weather, "-o", picture).ok()
    assert picture.read_bytes() == automatic
    (tmp_path / "some.csv").write_text("column,community\nrain,sky\nwet,\n")
    run("plot", weather, "-o", picture, "--communities", tmp_path / "some.csv").ok()
    assert all(f">{word}</text>" in picture.read_text(encoding="utf-8") for word in ("sky", "none"))
    run("plot", weather, "-o", picture, "--communities", "none.csv").one_error("none.csv: there is no such file")


def test_errors_are_one_line(run, weather: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("name,community\nrain,sky\n")
    picture = tmp_path / "n.svg"
    run("plot", weather, "-o", tmp_path / "n.gif").one_error("n.gif", ".svg")
    refused = run("plot", weather, "-o", picture, "--communities", tmp_path / "bad.csv")
    refused.one_error("bad.csv", "columns column and community", "name, community")
    run("plot", weather, "-o", picture, "--width-mm", 3).one_error("width_mm")
    assert not picture.exists()
