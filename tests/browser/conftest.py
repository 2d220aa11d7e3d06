"""A browser for the tests of pages; where there is none, they are skipped and say why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import console_errors, open_browser, open_unplugged, plug_in, requests, why_not


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
    """The browser on an empty page, with nothing in its logs."""
    browser.get("about:blank")
    console_errors(browser), requests(browser)
    return browser


@pytest.fixture
def unplugged(driver: Any) -> Iterator[Callable[[Path], list[str]]]:
    """Opens a file in the browser with the network unplugged, and returns what went wrong: errors in the console, and
    addresses elsewhere that the page asked for. Afterwards ``driver`` is on the page."""
    yield lambda path: open_unplugged(driver, path)
    plug_in(driver)
