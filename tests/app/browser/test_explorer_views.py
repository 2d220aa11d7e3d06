"""Views of the explorer in a browser: addresses, pictures, colors, small screens, communities, linked tables."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from browsing import WINDOW, console_errors, wait

pytest.importorskip("dash")
pytest.importorskip("selenium")
sys.path.append(str(Path(__file__).resolve().parents[1] / "pages"))

from explorer_pages import CY, ExplorerPage, served
from surveys import make_linked, make_survey, with_missing

from sparsefield import MarkovField
from sparsefield.app.datasets import make_markov_field
from sparsefield.app.pages.explorer.session import open_session
from sparsefield.app.pages.explorer.table_rows import InputTable, TableRows

PHONE = (390, 844)
LONG = "number of hours per week that a person spends outdoors"


@dataclass(frozen=True)
class Explored:
    address: str
    field: MarkovField
    known: pl.DataFrame


def make_table() -> pl.DataFrame:
    """Return a survey with an ordinal column that has a long name."""
    survey = with_missing(make_survey()).drop("person")
    rng = np.random.default_rng(1)
    level = np.clip((survey["age"] == "old").fill_null(False).to_numpy() * 2 + rng.integers(0, 3, survey.height), 0, 3)
    return survey.with_columns(pl.Series(LONG, level + 1))


@pytest.fixture(scope="module")
def explored() -> Iterator[Explored]:
    known = make_table()
    field = MarkovField(l1=2.0, kinds={LONG: "ordinal"}).fit(known)
    missing = {name: known[name].is_null() for name in known.columns}
    table = InputTable(known.with_columns(pl.all().cast(pl.String)), known, missing, "survey.csv")
    with served(open_session("survey.safetensors", field, TableRows(field, {"": table}))) as address:
        yield Explored(address, field, known)


@pytest.fixture
def page(driver: Any, explored: Explored) -> Iterator[ExplorerPage]:
    page = ExplorerPage(driver, explored.address)
    driver.execute_script("window.localStorage.clear()")
    yield page
    page.resize(*WINDOW)


def test_the_view_is_kept_in_the_address(page: ExplorerPage, explored: Explored) -> None:
    page.click_node("smokes")
    wait(lambda: "column=smokes" in page.fragment(), "the column in the address")
    page.tab("evidence")
    page.set_variable("age", "old")
    page.choose("#method", "belief propagation")
    wait(lambda: "set.age=old" in page.fragment() and "inference=bp" in page.fragment(), "the address")
    wait(lambda: page.one("#beliefs .method-used").text.startswith("Belief propagation"), "the method")
    before = wait(lambda: ("age", "old") not in page.beliefs() and page.beliefs(), "beliefs")
    page.reload()
    wait(lambda: page.all("#evidence-panel")[0].is_displayed(), "the tab")
    wait(lambda: page.beliefs() == before, "the same beliefs")
    assert "belief propagation" in page.one("#method").text
    assert [one.text for one in page.all(".setter .name")] == ["age"]
    page.tab("variable")
    assert page.one("#variable-name").text == "smokes"
    page.tab("rows")
    page.one("#next").click()
    wait(lambda: "row=2" in page.fragment(), "the row in the address")
    page.driver.get("about:blank")
    again = ExplorerPage(page.driver, explored.address + "#tab=rows&row=5&set.age=young&set.gone=1&column=nothing")
    wait(lambda: "row 5" in again.one("#row").text and again.all("#rows-panel")[0].is_displayed(), "the row")
    wait(lambda: "set.age=young" in again.fragment(), "the evidence")
    assert console_errors(page.driver) == []


def test_beliefs_are_shown_beside_the_shares_of_the_data(page: ExplorerPage, explored: Explored) -> None:
    page.tab("evidence")
    page.set_variable("age", "old")
    wait(lambda: page.one("#beliefs-title").text == "Largest changes" and "age" not in str(page.beliefs()), "beliefs")
    line = wait(lambda: page.all(".change[data-name=smokes] .state-change[data-state]"), "a belief")[0]
    state = line.get_attribute("data-state")
    old = explored.known.filter(pl.col("age") == "old")["smokes"].drop_nulls()
    rows = int((old == state).sum())
    assert line.text.split("\n")[-1] == f"{rows} of {len(old)} rows"
    assert float(line.get_attribute("data-share")) == pytest.approx(rows / len(old))
    levels = page.all(f".change[data-name='{LONG}'] .state-change[data-state]")
    assert [one.get_attribute("data-state") for one in levels] == ["1", "2", "3", "4"]


def test_an_edge_shows_the_states_of_its_columns(page: ExplorerPage, explored: Explored) -> None:
    page.click_edge("age", LONG)
    wait(lambda: page.all("#pair-weights"), "the weights")
    cells = page.all("#pair-ratios td")
    assert len(cells) == 2 * 4 or len(cells) == len(explored.field.states_["age"]) * 4
    known = explored.known.drop_nulls(["age", LONG])
    rows = [one.get_attribute("title") for one in cells]
    assert sum(int(text.split()[0].replace(",", "")) for text in rows) == known.height
    wait(lambda: "pair=" in page.fragment(), "the pair in the address")
    page.reload()
    wait(lambda: page.all("#pair-weights"), "the weights again")
    page.one(".pair-head button.small").click()
    wait(lambda: not page.all("#pair-weights"), "an empty panel")
    assert console_errors(page.driver) == []


def test_the_picture_is_saved(page: ExplorerPage, tmp_path: Path) -> None:
    page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    page.one("#save").click()
    path = tmp_path / "survey-network.png"
    wait(lambda: path.is_file() and path.stat().st_size > 5000, "the file")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert console_errors(page.driver) == []


def test_long_names_are_complete(page: ExplorerPage) -> None:
    labels = page.driver.execute_script(f"return {CY}.nodes().map(n => n.data('label'))")
    assert LONG in [label.replace("\n", " ") for label in labels]


def test_colors_follow_the_browser_and_the_button(page: ExplorerPage) -> None:
    back = f"return {CY}.nodes()[0].style('background-color')"
    assert page.theme() == "light"
    light = page.driver.execute_script(back)
    page.one("#theme-toggle").click()
    wait(lambda: page.theme() == "dark" and page.driver.execute_script(back) != light, "dark colors")
    page.reload()
    wait(lambda: page.theme() == "dark", "dark colors again")
    page.driver.execute_script("window.localStorage.clear()")
    page.resize(*WINDOW, scheme="dark")
    page.reload()
    wait(lambda: page.theme() == "dark", "the colors of the browser")
    page.resize(*WINDOW, scheme="light")
    page.reload()
    wait(lambda: page.theme() == "light", "the colors of the browser")
    assert console_errors(page.driver) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_enough_contrast(page: ExplorerPage, scheme: str) -> None:
    page.resize(*WINDOW, scheme=scheme)
    page.reload()
    wait(lambda: page.theme() == scheme, "the colors")
    page.click_edge("age", LONG)
    wait(lambda: page.all("#pair-ratios td"), "a heat map")
    assert page.low_contrasts() == []
    page.click_node("smokes")
    wait(lambda: page.all(".neighbor"), "neighbors")
    assert page.low_contrasts() == []
    page.tab("evidence")
    page.set_variable("age", "old")
    wait(lambda: page.one("#beliefs-title").text == "Largest changes" and page.beliefs(), "beliefs")
    assert page.low_contrasts() == []
    page.tab("rows")
    wait(lambda: page.all("#values > div"), "values")
    assert page.low_contrasts() == []


def test_a_phone_shows_everything_without_scrolling_sideways(page: ExplorerPage) -> None:
    page.resize(*PHONE)
    page.reload()
    widths = "return [document.documentElement.scrollWidth, window.innerWidth]"
    page.tab("evidence")
    page.set_variable("age", "old")
    wait(lambda: page.one("#beliefs-title").text == "Largest changes" and page.beliefs(), "beliefs")
    assert page.driver.execute_script(widths) == [390, 390]
    page.tab("rows")
    wait(lambda: page.all("#values > div"), "values")
    assert page.driver.execute_script(widths) == [390, 390]
    page.choose("#find", LONG, "hours")
    wait(lambda: page.all(".neighbor"), "neighbors")
    assert page.driver.execute_script(widths) == [390, 390]
    page.one(".neighbor button.tiny").click()
    wait(lambda: page.all("#pair-weights"), "a heat map")
    assert page.driver.execute_script(widths) == [390, 390]
    assert console_errors(page.driver) == []


def test_many_columns_are_shown_as_communities_that_open(driver: Any) -> None:
    field = make_markov_field(300, 1, neighbors=4, burn_in=1, thin=1, seed=1).field
    with served(open_session("wide", field)) as address:
        page = ExplorerPage(driver, address)
        names = page.nodes()
        assert all(name.startswith("community") for name in names)
        assert 2 < len(names) <= 36
        page.click_node("community 1")
        wait(lambda: page.all("#community-name"), "the community")
        shown = wait(lambda: [name for name in page.nodes() if name.startswith("x")], "its columns")
        members = {one.text for one in page.all(".members button")}
        assert set(shown) <= members or len(members) == 60
        wait(lambda: "community=1" in page.fragment(), "the community in the address")
        page.reload()
        wait(lambda: set(page.nodes()) == set(shown), "the community again")
        page.one("#overview").click()
        wait(lambda: page.nodes() == names, "the communities")
        assert console_errors(driver) == []


def test_values_of_linked_entities_can_be_set(driver: Any) -> None:
    field, data, rows = make_linked()
    with served(open_session("linked", field, rows)) as address:
        page = ExplorerPage(driver, address)
        page.tab("evidence")
        belief = field.predict_proba(data)["person"]["smokes"][39]
        key = next(iter(wait(page.beliefs, "the belief about the missing cell")))
        k = field.states_["person"]["smokes"].index(key[1])
        assert key[0] == "smokes"
        assert page.beliefs()[key] == pytest.approx((belief[k], belief[k]), abs=1e-9)
        page.set_variable("visit n39 (row 40): fun", "True")
        fun = ["True" if row == 39 else value for row, value in enumerate(data.tables["visit"]["fun"])]
        visit = data.tables["visit"].with_columns(pl.Series("fun", fun))
        after = field.predict_proba(data.with_tables({"visit": visit}))["person"]["smokes"][39, k]
        wait(lambda: page.beliefs()[key][1] == pytest.approx(after, abs=1e-9), "the belief after the change")
        assert abs(after - belief[k]) > 0.05
        wait(lambda: "set.visit%2F40%2Ffun=True" in page.fragment(), "the address")
        page.reload()
        wait(lambda: key in page.beliefs() and page.beliefs()[key][1] == pytest.approx(after, abs=1e-9), "it again")
        page.set_variable("visit n39 (row 80): fun", "unknown")
        wait(lambda: ("fun", "True") in page.beliefs() or ("fun", "False") in page.beliefs(), "an unknown cell")
        assert console_errors(driver) == []
