"""A browser for the tests of pages; without one they are skipped, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import console_errors, go_online, open_browser, open_offline, requests, why_not


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    reason = why_not()
    if reason:
        pytest.skip(reason)
    driver = open_browser()
    yield driver
    driver.quit()


@pytest.fixture
def driver(browser: Any) -> Any:
    """The browser on an empty page, with empty logs."""
    browser.get("about:blank")
    console_errors(browser), requests(browser)
    return browser


@pytest.fixture
def offline(driver: Any) -> Iterator[Callable[[Path], list[str]]]:
    """A function that opens a file without a network and returns console errors and requested addresses.

    Afterwards ``driver`` shows the page.
    """
    yield lambda path: open_offline(driver, path)
    go_online(driver)
