"""A headless Chromium, its console errors and its requests."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

WINDOW = (1280, 800)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TIMEOUT = 120.0
"""Seconds to wait for something to appear."""

NO_PROXY_SERVER = "127.0.0.1:9"
"""A proxy address without a server."""


def why_not() -> str:
    """Return the reason why there is no browser; empty if there is one."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed"
    if not any(map(shutil.which, BROWSERS)):
        return "Chromium is not installed"
    return "" if shutil.which("chromedriver") else "Chromium's driver, chromedriver, is not installed"


def open_browser() -> Any:
    """Return a browser that reaches only this machine: all other names go to a proxy that does not exist."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = next(path for path in map(shutil.which, BROWSERS) if path)
    for flag in (
        "--headless=new",
        "--no-sandbox",  # which root cannot have
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        "--hide-scrollbars",
        f"--window-size={WINDOW[0]},{WINDOW[1]}",
        f"--proxy-server={NO_PROXY_SERVER}",
        "--proxy-bypass-list=127.0.0.1",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    size = {"width": WINDOW[0], "height": WINDOW[1], "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    return driver


def console_errors(driver: Any) -> list[str]:
    """Return the console errors since the last call."""
    return [line["message"] for line in driver.get_log("browser") if line["level"] == "SEVERE"]


def requests(driver: Any) -> list[str]:
    """Return the addresses that pages requested since the last call, without those inside a page."""
    found = []
    for line in driver.get_log("performance"):
        message = json.loads(line["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            found.append(message["params"]["request"]["url"])
    return [url for url in found if urlsplit(url).scheme not in ("data", "blob", "about", "chrome")]


def open_offline(driver: Any, path: Path) -> list[str]:
    """Open a file without a network and return console errors and requested addresses."""
    page = path.resolve().as_uri()
    driver.get("about:blank")
    requests(driver), console_errors(driver)
    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    driver.execute_cdp_cmd("Network.enable", {})
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    driver.get(page)
    wait(lambda: driver.execute_script("return document.readyState") == "complete", "the page")
    requested = [f"requested {url}" for url in requests(driver) if not url.startswith("file:")]
    return [*console_errors(driver), *requested]


def go_online(driver: Any) -> None:
    """Restore the network of this machine."""
    online = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", online)


def wait(condition: Callable[[], Any], what: str) -> Any:
    """Return the value of a condition as soon as it is true; replaced elements are looked up again."""
    from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException

    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        try:
            found = condition()
        except (NoSuchElementException, StaleElementReferenceException):
            found = None
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what} did not appear within {TIMEOUT:.0f} s")
