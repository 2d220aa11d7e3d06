"""A page of figures holds its data, its script and still pictures, and nothing in a name can break out."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from html.parser import HTMLParser
from importlib.resources import as_file, files

import pytest

from reproduction.interactive import InteractiveFigure, make_figures_page
from reproduction.panels import Curve, Histogram, HistogramPanel, Level, Panel, Spot, draw_histograms, draw_panels
from sparsefield.viz.axes import fit_scale, tell

ODD = """</script><script>alert("1")</script><!-- & 'x' <b>"""
VOID = {"meta"}

CURVES = [
    Panel(
        "CLL",
        "nodes",
        "mean per cell",
        [
            Curve("CFI, pl", [Spot(50, -0.4, 0.01), Spot(25, -0.5), Spot(75, math.nan), Spot(0, -0.1)]),
            Curve(ODD, [Spot(25, -0.3, math.inf)], dashed=True),
        ],
        [Level("base", -0.6, 0.1), Level("gone", math.nan)],
        log_x=True,
    )
]
COUNTS = [HistogramPanel(ODD, "signal", [Histogram("pl", [-1, 0, 1], [3, math.nan])])]


class Reader(HTMLParser):
    """All elements with their attributes, and the text inside each kind of element."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts[self.open[-1]][-1] += data

    def having(self, attribute: str) -> list[dict[str, str | None]]:
        return [attributes for _, attributes in self.found if attribute in attributes]


@pytest.fixture(scope="module")
def page() -> str:
    shown = [InteractiveFigure("Curves", ODD, CURVES, words=ODD), InteractiveFigure(ODD, "Counts.", COUNTS)]
    return make_figures_page(ODD, [ODD], shown, note=ODD)


@pytest.fixture(scope="module")
def reader(page: str) -> Reader:
    return Reader(page)


def test_every_element_is_closed_and_there_are_two_scripts(reader: Reader) -> None:
    assert reader.open == []
    assert len(reader.texts["script"]) == 2
    assert "b" not in reader.texts
    assert reader.texts["title"][0] == reader.texts["h1"][0] == ODD


def test_nothing_comes_from_the_network(reader: Reader) -> None:
    assert reader.having("src") == reader.having("href") == []
    assert "@import" not in reader.texts["style"][0]
    assert "url(" not in reader.texts["style"][0]


def test_the_data_are_those_of_the_figures(reader: Reader) -> None:
    curves, counts = json.loads(reader.texts["script"][0])
    (panel,) = curves["panels"]
    assert [look["name"] for look in curves["looks"]] == ["CFI, pl", ODD, "base", "gone"]
    assert [look["dashed"] for look in curves["looks"]] == [False, True, False, False]
    assert panel["curves"] == [
        {"look": 0, "spots": [{"x": 25, "mean": -0.5, "error": None}, {"x": 50, "mean": -0.4, "error": 0.01}]},
        {"look": 1, "spots": [{"x": 25, "mean": -0.3, "error": None}]},
    ]
    assert panel["levels"] == [{"look": 2, "mean": -0.6, "error": 0.1}]
    assert (panel["title"], panel["xLabel"], panel["yLabel"]) == ("CLL", "nodes", "mean per cell")
    assert (panel["logX"], panel["logY"]) == (True, False)
    (panel,) = counts["panels"]
    assert panel["title"] == ODD
    assert panel["histograms"] == [{"look": 0, "edges": [-1, 0, 1], "counts": [3, 0]}]
    assert panel["logY"]


def test_the_still_pictures_are_shown_until_the_script_runs(page: str, reader: Reader) -> None:
    assert draw_panels("Curves", CURVES, words=ODD) in page
    assert draw_histograms(ODD, COUNTS) in page
    live = [attributes for attributes in reader.having("class") if "live" in (attributes["class"] or "").split()]
    assert [("hidden" in attributes) for attributes in live] == [True, True]
    assert [attributes["class"] for attributes in reader.having("class")].count("static") == 2


def test_what_can_be_clicked_is_a_button_that_tells_its_state(reader: Reader) -> None:
    buttons = [attributes for tag, attributes in reader.found if tag == "button"]
    assert all(button["type"] == "button" for button in buttons)
    assert [button["aria-pressed"] for button in buttons if "data-look" in button] == ["true"] * 5
    scales = [(button["data-scale"], button["aria-pressed"]) for button in buttons if "data-scale" in button]
    assert scales == 2 * [("own", "true"), ("linear", "false"), ("log", "false")]
    assert reader.texts["button"][:2] == ["CFI, pl", ODD]


def test_a_page_may_have_no_figures() -> None:
    assert json.loads(Reader(make_figures_page("t", [], [])).texts["script"][0]) == []


def test_the_script_is_whole(reader: Reader) -> None:
    script = (files("sparsefield.viz") / "interactive.js").read_text(encoding="utf-8")
    assert reader.texts["script"][1] == script
    assert "</" not in script


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_script_has_the_axes_of_the_still_pictures() -> None:
    cases = [
        ([-0.42, -0.36], False), ([0.02, 0.2], False), ([-5, -1], False), ([3], False), ([0], False), ([], False),
        ([0, 499500], False), ([1e6, 5e7], False), ([-3e-9, 2e-9], False), ([-1e308, 1e308], False),
        ([0.002, 40], True), ([1, 130000], True), ([250, 300], True), ([1], True), ([1e6, 1.5e6], True), ([], True),
        ([1e-308, 1e308], True),
    ]  # fmt: skip
    told = [-0.123456, 499500.0, 2.0, 0.5]
    with as_file(files("sparsefield.viz") / "interactive.js") as path:
        program = (
            f"const {{ fit, labels, tell }} = require({json.dumps(str(path))});"
            f"const scales = {json.dumps(cases)}.map(([values, log]) => fit(values, 0, 100, log));"
            "const told = scales.map((one) => [one.low, one.high, labels(one), one.ticks.map(one.place)]);"
            f"console.log(JSON.stringify([told, {json.dumps(told)}.map(tell)]))"
        )
        done = subprocess.run(["node", "-e", program], capture_output=True, check=True, encoding="utf-8", timeout=60)
    scales, words = json.loads(done.stdout)
    for (values, log), (low, high, labels, places) in zip(cases, scales, strict=True):
        scale = fit_scale(values, 0, 100, logarithmic=log)
        assert labels == scale.labels()
        assert [low, high] == pytest.approx([scale.low, scale.high])
        assert places == pytest.approx([scale.place(tick) for tick in scale.ticks])
    assert words == [tell(value) for value in told]
