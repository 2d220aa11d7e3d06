"""PNG and PDF files are drawn from the same shapes as SVG, and texts stay texts."""

from __future__ import annotations

import re
import struct
import sys
import zlib

import pytest

from sparsefield import MarkovField, plot_network
from sparsefield.app.pages.charts import Curve, CurvePoint, LinePanel, draw_panels
from sparsefield.app.pages.matplotlib_figure import make_figure, parse_path, write_figure
from sparsefield.app.pages.svg import Drawing
from sparsefield.errors import DataError

pytest.importorskip("matplotlib")


def pdf_streams(content: bytes) -> bytes:
    found = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", content, re.DOTALL)
    return b"\n".join(_inflate(part) for part in found)


def _inflate(part: bytes) -> bytes:
    try:
        return zlib.decompress(part)
    except zlib.error:
        return part


def test_a_png_has_the_size_in_print_times_the_resolution(field: MarkovField, tmp_path) -> None:
    plot_network(field, width_mm=50.8, height_mm=25.4).save(tmp_path / "net.png", dpi=100)
    content = (tmp_path / "net.png").read_bytes()
    assert struct.unpack(">II", content[16:24]) == (200, 100)


def test_a_pdf_has_embedded_fonts_and_its_names_as_text(field: MarkovField, tmp_path) -> None:
    plot_network(field, width_mm=90).save(tmp_path / "net.pdf")
    content = (tmp_path / "net.pdf").read_bytes()
    assert b"/FontFile2" in content
    assert b"/Subtype /Type3" not in content
    shown = b"".join(re.findall(rb"\(([^()]*)\)", pdf_streams(content)))
    assert b"smokes" in shown.replace(b"\0", b"")  # letters may have two bytes


def test_the_same_figure_gives_the_same_bytes(field: MarkovField) -> None:
    assert plot_network(field).to_pdf() == plot_network(field).to_pdf()
    assert plot_network(field).to_png(dpi=40) == plot_network(field).to_png(dpi=40)


def test_each_shape_is_drawn_once_and_a_halo_below_its_text() -> None:
    drawing = Drawing(60, 40, "shapes")
    drawing.line(0, 0, 9, 9, stroke="#0072b2", stroke_dasharray="4 2")
    drawing.circle(20, 20, 5, fill="#d55e00")
    drawing.path("M1 1h4V9Q3 3 4 4C1 1 2 2 3 3Z", fill="none", stroke="#000000")
    drawing.text(5, 30, "cost in $ and $$", turn=-50.0, stroke="#ffffff", stroke_width=3)
    axes = make_figure(drawing).axes[0]
    assert [text.get_text() for text in axes.texts] == ["cost in $ and $$"] * 2
    assert axes.texts[0].get_zorder() < axes.texts[1].get_zorder()
    assert axes.texts[1].get_rotation() == 50.0
    assert len(axes.patches) == 4


def test_charts_can_be_written_too() -> None:
    drawing = Drawing(40, 30, "rounded")
    drawing.rect(2, 2, 30, 20, rx=4, fill="#ffffff", stroke="#000000")
    assert write_figure(drawing, "pdf").startswith(b"%PDF")
    assert 'class="point"' in draw_panels("t", [LinePanel("p", "x", "y", [Curve("a", [CurvePoint(1, 2)])])])


@pytest.mark.parametrize(
    ("d", "last"),
    [("M1 2L3 4", (3, 4)), ("M1 2l3 4", (4, 6)), ("M1 2h-1v2.5", (0, 4.5)), ("M0 0Q1 1 2 -1e-1", (2, -0.1))],
)
def test_paths_end_where_svg_ends_them(d: str, last: tuple[float, float]) -> None:
    assert parse_path(d)[0][-1].tolist() == pytest.approx(list(last))


def test_without_matplotlib_the_message_names_the_extra(field: MarkovField, monkeypatch, tmp_path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(DataError, match=r"pip install 'sparsefield\[plot\]'"):
        plot_network(field).save(tmp_path / "net.pdf")
    assert not list(tmp_path.iterdir())
    plot_network(field).save(tmp_path / "net.svg")
