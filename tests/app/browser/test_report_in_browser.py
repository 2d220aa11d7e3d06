"""The report in a real browser, opened from disk without a network."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import console_errors, wait

pytest.importorskip("selenium")
sys.path.append(str(Path(__file__).resolve().parents[1] / "pages"))

from selenium.webdriver.common.by import By
from surveys import make_survey, with_missing

from sparsefield import MarkovField, write_report

SIZES = {"desktop": (1280, 800), "phone": (390, 844)}


@pytest.fixture
def downloads(driver: Any, tmp_path: Path) -> Path:
    """A folder in which the browser saves downloads."""
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    return tmp_path


@pytest.fixture
def resize(driver: Any) -> Iterator[Callable[[str], None]]:
    """A function that gives the page the size of a desktop or a phone."""

    def change(name: str) -> None:
        width, height = SIZES[name]
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    yield change
    change("desktop")


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    survey = with_missing(make_survey()).drop("person")
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(MarkovField(l1="auto", random_state=0).fit(survey), survey, path, title="A survey")
    return path


def drawn(driver: Any) -> int:
    return int(driver.find_element(By.ID, "network").get_attribute("data-drawn"))


def test_it_opens_from_disk_without_errors_or_requests(offline, driver, page: Path) -> None:
    assert offline(page) == []
    assert driver.find_element(By.TAG_NAME, "h1").text == "A survey"
    for section in (
        "tiles",
        "network-section",
        "findings",
        "summary",
        "features",
        "quality",
        "missing-values",
        "method",
    ):
        assert driver.find_element(By.ID, section).is_displayed()


def test_searching_shows_a_variable_and_its_neighbors(offline, driver, page: Path) -> None:
    offline(page)
    driver.find_element(By.ID, "search").send_keys("smokes\n")
    wait(lambda: "smokes" in driver.find_element(By.ID, "details").text, "details of the variable")


def test_the_slider_leaves_only_strong_edges(offline, driver, page: Path) -> None:
    offline(page)
    before = drawn(driver)
    assert before > 1
    driver.execute_script(
        "const s = document.getElementById('strength'); s.value = s.min; s.dispatchEvent(new Event('input'));"
    )
    wait(lambda: drawn(driver) < before, "fewer edges")


def column_values(driver: Any, table: str, column: int) -> list[float]:
    script = f"return [...document.querySelector('table[data-name={table}]').tBodies[0].rows]"
    return driver.execute_script(f"{script}.map(row => Number(row.cells[{column}].dataset.value))")


def test_tables_show_that_they_can_be_sorted_and_are(offline, driver, page: Path) -> None:
    offline(page)
    head = driver.find_elements(By.CSS_SELECTOR, "table[data-name=features] th")[1]
    assert head.get_attribute("aria-sort") == "none"
    head.find_element(By.TAG_NAME, "button").click()
    values = column_values(driver, "features", 1)
    assert head.get_attribute("aria-sort") == "descending"
    assert values == sorted(values, reverse=True)
    head.find_element(By.TAG_NAME, "button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert column_values(driver, "features", 1) == values[::-1]
    assert console_errors(driver) == []


def test_a_table_is_downloaded_as_csv(offline, driver, page: Path, downloads: Path) -> None:
    import polars as pl

    offline(page)
    driver.find_element(By.CSS_SELECTOR, "#columns button.csv").click()
    file = downloads / "columns.csv"
    wait(file.exists, "the file")
    table = pl.read_csv(file)
    assert {"column", "explained", "gain"} <= set(table.columns)
    assert sorted(table["column"]) == ["age", "coughs", "smokes", "sport", "tea"]
    assert console_errors(driver) == []


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("svg", b"<svg")])
def test_the_network_is_downloaded_as_a_picture(
    offline, driver, page: Path, downloads: Path, kind: str, start: bytes
) -> None:
    offline(page)
    driver.find_element(By.ID, f"save-{kind}").click()
    file = downloads / f"network.{kind}"
    wait(lambda: file.exists() and file.stat().st_size > 500, "the file")
    assert file.read_bytes().startswith(start)
    assert console_errors(driver) == []


def test_a_button_switches_to_dark_colors_and_back(offline, driver, page: Path) -> None:
    def background() -> str:
        return driver.execute_script("return getComputedStyle(document.body).backgroundColor")

    offline(page)
    light = background()
    driver.find_element(By.CSS_SELECTOR, "nav .theme").click()
    dark = background()
    assert dark != light
    driver.refresh()
    assert background() == dark  # the page remembers it
    driver.find_element(By.CSS_SELECTOR, "nav .theme").click()
    assert background() == light
    assert console_errors(driver) == []


def test_colors_follow_the_preference_of_the_system(offline, driver, page: Path) -> None:
    def prefer(scheme: str) -> str:
        feature = {"name": "prefers-color-scheme", "value": scheme}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        return driver.execute_script("return getComputedStyle(document.body).color")

    offline(page)
    driver.execute_script("localStorage.clear()")
    driver.refresh()
    assert prefer("dark") != prefer("light")


@pytest.mark.parametrize("size", SIZES)
def test_nothing_is_wider_than_the_window(offline, driver, page: Path, resize, size: str) -> None:
    resize(size)
    offline(page)
    driver.execute_script("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    wide, window = driver.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= window == SIZES[size][0]


def test_a_link_opens_what_is_folded(offline, driver, page: Path) -> None:
    offline(page)
    assert not driver.find_element(By.ID, "training").is_displayed()
    driver.find_element(By.CSS_SELECTOR, 'nav a[href="#training"]').click()
    wait(lambda: driver.find_element(By.ID, "training").is_displayed(), "the folded section")
