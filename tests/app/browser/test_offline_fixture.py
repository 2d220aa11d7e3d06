"""The fixture that opens a file without a network reports errors and requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PAGE = "<!DOCTYPE html><html><head><title>t</title>{head}</head><body><p id='p'>here</p>{body}</body></html>"


def test_a_page_that_holds_everything_opens_without_errors(tmp_path: Path, driver: Any, offline) -> None:
    page = tmp_path / "page.html"
    page.write_text(PAGE.format(head="", body="<script>document.getElementById('p').textContent = 'run'</script>"))
    assert offline(page) == []
    assert driver.find_element("id", "p").text == "run"


def test_errors_and_requests_are_reported(tmp_path: Path, offline) -> None:
    page = tmp_path / "page.html"
    page.write_text(PAGE.format(head="<script src='http://example.org/x.js'></script>", body="<script>gone()</script>"))
    found = offline(page)
    assert "requested http://example.org/x.js" in found
    assert any("gone is not defined" in line for line in found)
