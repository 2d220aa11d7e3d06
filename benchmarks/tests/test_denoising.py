"""Cleaning pictures: what the comparison rests on."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import denoising


def test_the_wanted_share_of_pixels_is_flipped() -> None:
    pictures = denoising.draw_pictures(0.2, seed=1)
    assert (pictures.clean != pictures.noisy).mean() == pytest.approx(0.2, abs=0.005)
    assert denoising.draw_pictures(0.2, scale=2).clean.shape[1:] == (16, 16)


def test_neighbors_stand_where_their_names_say() -> None:
    pictures = denoising.draw_pictures(0.2).part(0, 3)
    frame = denoising.make_frame(pictures)
    around = {name: frame[name].to_numpy().reshape(3, 8, 8) for name in denoising.NEIGHBORS}
    assert np.array_equal(around["noisy-1+0"][:, 1:], pictures.noisy[:, :-1])
    assert np.array_equal(around["noisy+0+1"][:, :, :-1], pictures.noisy[:, :, 1:])
    assert not around["noisy-1+0"][:, 0].any()


def test_pixels_are_linked_to_the_right_and_downwards_within_a_picture() -> None:
    pictures = denoising.draw_pictures(0.2).part(0, 2)
    data = denoising.link_pixels(denoising.make_frame(pictures), ("noisy",))
    for name, step in (("right", 1), ("down", 8)):
        first, second = data.linked_rows(name)
        assert len(first) == 2 * 7 * 8
        assert (second - first == step).all()


def test_clean_pixels_are_gaps_when_they_are_asked_for() -> None:
    frame = denoising.make_frame(denoising.draw_pictures(0.2).part(0, 2), known=False)
    assert frame["clean"].null_count() == len(frame) == 128


def test_rows_of_the_comparison_are_filled(monkeypatch) -> None:
    monkeypatch.setattr(denoising, "L1_GRID", (1.0,))
    monkeypatch.setattr(denoising, "L2_GRID", (1.0,))
    monkeypatch.setattr(denoising, "DRAWS", 2)
    sizes = {"rows": 40, "validation_rows": 5, "test_rows": 20}
    rows = denoising.run_denoising([1], report=lambda _: None, **sizes)
    assert [row["data"] for row in rows] == ["8 x 8"] * len(denoising.METHODS)
    for row in rows:
        assert 0.0 < row["error"] < 0.5
        assert "of pixels wrong" in denoising.describe(row)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="no such method: nobody"):
        denoising.run_denoising(methods=["nobody"])
