"""The report in a real browser, opened from disk without a network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from browsing import wait

pytest.importorskip("selenium")
sys.path.append(str(Path(__file__).resolve().parents[1] / "viz"))

from selenium.webdriver.common.by import By
from surveys import make_survey, with_missing

from sparsefield import MarkovField


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    survey = with_missing(make_survey()).drop("person")
    path = tmp_path_factory.mktemp("report") / "report.html"
    MarkovField(l1="auto", random_state=0).fit(survey).write_report(path, survey, title="A survey")
    return path


def drawn(driver: Any) -> int:
    return int(driver.find_element(By.ID, "network").get_attribute("data-drawn"))


def test_it_opens_from_disk_without_errors_or_requests(offline, driver, page: Path) -> None:
    assert offline(page) == []
    assert driver.find_element(By.TAG_NAME, "h1").text == "A survey"
    for section in ("summary", "features", "training", "quality", "missing-values", "certificate", "repeat"):
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
