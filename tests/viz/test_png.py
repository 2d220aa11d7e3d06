"""PNG pictures have the right size, and their words are really drawn."""

from __future__ import annotations

import struct
import sys

import pytest

from sparsefield.errors import DataError
from sparsefield.viz import png
from sparsefield.viz.png import as_png
from sparsefield.viz.svg import Drawing


def picture(words: str) -> str:
    drawing = Drawing(60, 30, "a word")
    drawing.text(5, 20, words)
    return drawing.render()


@pytest.fixture
def drawn() -> None:
    pytest.importorskip("resvg_py")
    if png._find_family() is None:
        pytest.skip("no font is installed")


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0])
def test_a_picture_has_its_size_times_the_scale(scale: float) -> None:
    data = as_png(picture("N"), scale)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", data[16:24]) == (60 * scale, 30 * scale)


@pytest.mark.usefixtures("drawn")
def test_words_leave_a_trace() -> None:
    pictures = {as_png(picture(words)) for words in ("", "N", "−", "±", "⁴")}  # noqa: RUF001
    assert len(pictures) == 5


@pytest.mark.usefixtures("drawn")
def test_what_is_no_picture_is_refused() -> None:
    with pytest.raises(DataError, match="cannot be drawn as PNG"):
        as_png("<p>not a picture")


def test_a_scale_is_above_nothing() -> None:
    with pytest.raises(ValueError, match="scale must be above 0, not 0"):
        as_png(picture("N"), 0.0)


def test_a_machine_without_fonts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("resvg_py")
    monkeypatch.setattr(png, "_find_family", lambda: None)
    with pytest.raises(DataError, match="without its words"):
        as_png(picture("N"))


def test_the_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(DataError, match=r"pip install 'sparsefield\[png\]'"):
        as_png(picture("N"))
