"""The page in a real browser, in both of its modes: every interaction once, no errors, nothing from outside."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import polars as pl
import pytest
from browsing import console_errors, requests, wait

from sparsefield import MarkovField
from sparsefield.app.datasets import make_markov_field
from sparsefield.app.pages.cells import TableRows
from sparsefield.app.pages.page import write_report
from sparsefield.app.pages.server import open_server
from sparsefield.app.pages.session import Session
from sparsefield.app.tables.file_format import PLAIN
from sparsefield.app.tables.fill import prepare_table

pytestmark = pytest.mark.browser


def make_habits(n_rows: int = 300) -> pl.DataFrame:
    from numpy.random import default_rng

    rng = default_rng(0)
    smokes = rng.random(n_rows) < 0.4
    coughs = rng.random(n_rows) < smokes * 0.7 + 0.1
    sport = rng.random(n_rows) < 0.7 - 0.4 * smokes
    age = rng.integers(18, 80, n_rows)
    columns = {"smokes": smokes, "coughs": coughs, "sport": sport}
    words = {name: ["yes" if value else "no" for value in values] for name, values in columns.items()}
    return pl.DataFrame({"person": [f"p{k}" for k in range(n_rows)], **words, "age": age}).with_columns(
        coughs=pl.when(pl.int_range(n_rows) == 3).then(None).otherwise("coughs")
    )


@pytest.fixture(scope="module")
def habits() -> pl.DataFrame:
    return make_habits()


@pytest.fixture(scope="module")
def model(habits: pl.DataFrame) -> MarkovField:
    return MarkovField(l1=2.0).fit(habits.drop("person"))


@pytest.fixture(scope="module")
def report(model: MarkovField, habits: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "habits.html"
    write_report(model, habits, path, title="Habits")
    return path


@pytest.fixture(scope="module")
def served(model: MarkovField, habits: pl.DataFrame) -> Iterator[str]:
    table = prepare_table(habits.with_columns(pl.all().cast(pl.String)), model.field_.schema, PLAIN)
    server, bound, address = open_server(Session("Habits", model, TableRows(model, {"": table})))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    yield address
    server.should_exit = True
    thread.join(30)
    bound.close()


def wait_for(driver: Any, condition: Callable[[], Any]) -> None:
    wait(condition, f"the panel has {panel(driver)!r} and the address is {driver.current_url}")


def panel(driver: Any) -> str:
    return driver.execute_script("return document.getElementById('view').innerText")


def click(driver: Any, selector: str, words: str = "") -> None:
    """Click the first element that a selector finds and that has these words, and no others if there is one."""
    script = """const parts = [...document.querySelectorAll(arguments[0])];
    const found = parts.find((part) => part.textContent.trim() === arguments[1])
      ?? parts.find((part) => part.textContent.includes(arguments[1]));
    if (!found) return false; found.click(); return true;"""
    assert driver.execute_script(script, selector, words), f"no {selector} with {words!r}"


def fill(driver: Any, selector: str, text: str, event: str = "input") -> None:
    script = """const part = document.querySelector(arguments[0]); part.value = arguments[1];
    part.dispatchEvent(new Event(arguments[2], { bubbles: true }));"""
    driver.execute_script(script, selector, text, event)


def canvas(driver: Any, key: str) -> str:
    return driver.execute_script("return document.getElementById('network').dataset[arguments[0]]", key)


def catch_downloads(driver: Any) -> None:
    """Keep what would be downloaded."""
    driver.execute_script(
        "window.saved = []; window.download = (name, parts, type) => { window.saved.push([name, parts[0], type]); };"
    )


def test_the_file_works_without_a_network(driver: Any, report: Path, offline: Callable[[Path], list[str]]) -> None:
    assert offline(report) == []
    wait_for(driver, lambda: canvas(driver, "drawn") is not None)
    assert int(canvas(driver, "nodes")) == 4
    assert "strongest edges" in panel(driver)


def test_a_column_a_pair_and_the_start_are_shown(driver: Any, report: Path) -> None:
    driver.get(report.as_uri())
    click(driver, "#view button", "smokes (yes)")
    wait_for(driver, lambda: "Neighbors" in panel(driver))
    assert "column=smokes" in driver.current_url
    assert "nominal; " in panel(driver)
    click(driver, "#view button", "pair")
    wait_for(driver, lambda: "given all other columns" in panel(driver))
    assert "Rows of the data" in panel(driver)
    assert driver.current_url.count("pair=") == 2
    click(driver, "#all")
    wait_for(driver, lambda: "strongest edges" in panel(driver))
    assert "#" not in driver.current_url
    assert console_errors(driver) == []


def test_search_slider_signs_groups_and_zoom(driver: Any, report: Path) -> None:
    driver.get(report.as_uri())
    wait_for(driver, lambda: canvas(driver, "drawn") is not None)
    drawn = int(canvas(driver, "drawn"))
    fill(driver, "#strength", "0")
    wait_for(driver, lambda: canvas(driver, "drawn") == "1")
    assert "edges=1" in driver.current_url
    fill(driver, "#strength", "1000")
    wait_for(driver, lambda: int(canvas(driver, "drawn")) >= drawn > 1)
    drawn = int(canvas(driver, "drawn"))
    click(driver, "[data-sign='1']")
    wait_for(driver, lambda: int(canvas(driver, "drawn")) < drawn)
    assert "hide=1" in driver.current_url
    click(driver, "[data-sign='1']")
    fill(driver, "#search", "sport")
    wait_for(driver, lambda: "column=sport" in driver.current_url)
    for button in ("#in", "#out", "#all"):
        click(driver, button)
    assert console_errors(driver) == []


def test_the_canvas_answers_pointer_and_keyboard(driver: Any, report: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    driver.get(report.as_uri())
    wait_for(driver, lambda: canvas(driver, "drawn") is not None)
    picture = driver.find_element(By.ID, "network")
    driver.execute_script("arguments[0].scrollIntoView({ block: 'center' })", picture)
    ActionChains(driver).move_to_element(picture).click_and_hold().move_by_offset(40, 25).release().perform()
    assert "#" not in driver.current_url  # it moved the picture
    driver.execute_script("arguments[0].focus()", picture)
    ActionChains(driver).send_keys(Keys.ARROW_RIGHT).perform()
    wait_for(driver, lambda: "column=" in driver.current_url)
    first = driver.current_url
    ActionChains(driver).send_keys(Keys.ARROW_RIGHT).send_keys("+").perform()
    wait_for(driver, lambda: driver.current_url != first)
    ActionChains(driver).send_keys(Keys.ESCAPE).perform()
    wait_for(driver, lambda: "#" not in driver.current_url)
    click(driver, "#all")  # as it was before it was moved and zoomed
    wait_for(driver, lambda: driver.execute_script("return net.picture().length > 0"))
    spot = driver.execute_script("const pen = new DOMParser().parseFromString(net.picture(), 'image/svg+xml'); "
        "const part = pen.querySelector('circle[stroke-width=\"1.2\"]'); "
        "return [Number(part.getAttribute('cx')), Number(part.getAttribute('cy'))]")  # fmt: skip
    size = picture.size
    away = round(spot[0] - size["width"] / 2), round(spot[1] - size["height"] / 2)
    ActionChains(driver).move_to_element_with_offset(picture, *away).click().perform()
    wait_for(driver, lambda: "column=" in driver.current_url)
    assert console_errors(driver) == []


def test_pictures_and_tables_are_exported(driver: Any, report: Path) -> None:
    driver.get(report.as_uri())
    wait_for(driver, lambda: canvas(driver, "drawn") is not None)
    catch_downloads(driver)
    for kind in ("svg", "csv", "png"):
        click(driver, f"[data-export='{kind}']")
    click(driver, ".csv")
    wait_for(driver, lambda: driver.execute_script("return window.saved.length") == 4)
    names = driver.execute_script("return window.saved.map((entry) => entry[0])")
    assert sorted(names) == ["columns.csv", "edges.csv", "network.png", "network.svg"]
    texts = dict(driver.execute_script("return window.saved.filter((entry) => typeof entry[1] === 'string')"
                                       ".map((entry) => [entry[0], entry[1]])"))  # fmt: skip
    assert texts["network.svg"].startswith("<svg")
    assert ">smokes (yes)</text>" in texts["network.svg"]
    assert texts["edges.csv"].splitlines()[0].endswith("variable_a,variable_b,strength,sign,holds,template")
    assert "smokes" in texts["columns.csv"]
    assert console_errors(driver) == []


def test_tables_are_sorted_and_link_to_the_network(driver: Any, report: Path) -> None:
    driver.get(report.as_uri())
    cells = (
        "return [...document.querySelectorAll('#columns tbody tr')].map((row) => Number(row.cells[5].dataset.value))"
    )
    click(driver, "#columns th button", "gain")
    falling = driver.execute_script(cells)
    click(driver, "#columns th button", "gain")
    assert driver.execute_script(cells) == falling[::-1] == sorted(falling)
    click(driver, "#columns .node", "coughs")
    wait_for(driver, lambda: "column=coughs" in driver.current_url)


def test_dark_colors_are_chosen_and_remembered(driver: Any, report: Path) -> None:
    driver.get(report.as_uri())
    color = "return getComputedStyle(document.body).backgroundColor"
    light = driver.execute_script(color)
    click(driver, ".theme")
    dark = driver.execute_script(color)
    assert dark != light
    driver.refresh()
    assert driver.execute_script(color) == dark
    click(driver, ".theme")
    assert driver.execute_script(color) == light


@pytest.mark.parametrize("width", [390, 820, 1280])
def test_nothing_is_cut_on_any_screen(driver: Any, report: Path, width: int) -> None:
    size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        driver.get(report.as_uri())
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        stage = driver.execute_script(
            "return ['network', 'panel'].map((id) => document.getElementById(id).getBoundingClientRect().top)"
        )
        assert (stage[0] < stage[1]) == (width < 1000)
    finally:
        whole = {"width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", whole)


def test_the_file_names_the_command_that_answers_questions(driver: Any, report: Path) -> None:
    driver.get(report.as_uri())
    assert "sparsefield explore" in panel(driver)
    assert not driver.find_elements("css selector", "[data-tab='evidence']")


def test_a_wide_network_opens_communities_and_neighborhoods(driver: Any, tmp_path: Path) -> None:
    write_report(make_markov_field(400, 1, neighbors=4.0, burn_in=1, seed=1).field, None, tmp_path / "wide.html")
    driver.get((tmp_path / "wide.html").as_uri())
    wait_for(driver, lambda: canvas(driver, "scene") == "bubbles")
    click(driver, ".group", "community 1")
    wait_for(driver, lambda: canvas(driver, "scene") == "group")
    assert "Its columns" in panel(driver)
    click(driver, "#view .go")
    wait_for(driver, lambda: canvas(driver, "scene") == "near")
    assert int(canvas(driver, "nodes")) > 1
    click(driver, "#all")
    wait_for(driver, lambda: canvas(driver, "scene") == "bubbles")
    assert console_errors(driver) == []


# -- with a server -----------------------------------------------------------------------------------------------------


def test_evidence_changes_beliefs_and_the_address_keeps_it(driver: Any, served: str) -> None:
    driver.get(served)
    click(driver, "[data-tab='evidence']")
    wait_for(driver, lambda: "Beliefs" in panel(driver))
    fill(driver, "#add", "smokes")
    wait_for(driver, lambda: "smokes" in panel(driver))
    fill(driver, "select[aria-label='Value of smokes']", "yes", "change")
    wait_for(driver, lambda: re.search(r"\d+% \u2192 \d+%", panel(driver)) is not None)
    assert "rows of the data agree" in panel(driver)
    assert "set.smokes=yes" in unquote(driver.current_url)
    shown = panel(driver)
    driver.refresh()
    wait_for(driver, lambda: panel(driver) == shown)
    fill(driver, "[aria-label='Inference']", "exact", "change")
    wait_for(driver, lambda: "inference=exact" in driver.current_url and "By exact" in panel(driver))
    click(driver, "#view button", "Clear")
    wait_for(driver, lambda: "set." not in driver.current_url)
    assert console_errors(driver) == []
    assert all(address.startswith(served) for address in requests(driver))


def test_rows_are_shown_and_are_evidence(driver: Any, served: str) -> None:
    driver.get(served + "#tab=rows&row=4")
    wait_for(driver, lambda: "Missing values" in panel(driver))
    assert "p3 (row 4)" in panel(driver)
    click(driver, "[aria-label='Next row']")
    wait_for(driver, lambda: "row 5" in panel(driver))
    fill(driver, "#row-search", "p12", "change")
    wait_for(driver, lambda: "p12 (row 13)" in panel(driver))
    click(driver, "#view button", "p12 (row 13)")
    wait_for(driver, lambda: "row=13" in driver.current_url and "Use as evidence" in panel(driver))
    click(driver, "#view button", "Use as evidence")
    wait_for(driver, lambda: "set.smokes=" in driver.current_url)
    time.sleep(0.1)
    assert [line for line in console_errors(driver) if "422" not in line] == []
