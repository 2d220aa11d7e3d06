"""This script makes the documentation's picture of the explorer.

Run ``python tests/app/browser/explorer_picture.py docs/images/explorer.png``. It fits the animals data, which are
fetched or read from SPARSEFIELD_DATA, opens the page in Chromium, and sets evidence.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import polars as pl
from browsing import console_errors, open_browser, wait, why_not
from explorer_pages import CY, ExplorerPage, served

from sparsefield import MarkovField
from sparsefield.app.datasets import load_dataset
from sparsefield.app.pages.explorer.session import open_session
from sparsefield.app.pages.explorer.table_rows import InputTable, TableRows
from sparsefield.model.atomic_write import write_atomically

DARK = "rgb(31,36,48)"
"""Color of variables that are set."""


def draw(path: Path) -> None:
    """Write the picture."""
    reason = why_not()
    if reason:
        sys.exit(f"No picture: {reason}.")
    animals = load_dataset("animals")
    known = animals.frame
    table = known.with_columns(pl.all().cast(pl.String)).insert_column(0, pl.Series("animal", animals.names))
    field = MarkovField(l1=1.5).fit(known)
    rows = TableRows(field, {"": InputTable(table, known, {}, "animals.csv")})
    driver = open_browser()
    try:
        with served(open_session("animals.safetensors", field, rows)) as address:
            page = ExplorerPage(driver, address)
            page.tab("evidence")
            page.set_variable("fish", "1")
            page.set_variable("claws", "1")
            is_set = f"return {CY}.nodes().filter(n => n.data('name') === 'claws')[0].style('background-color')"
            wait(lambda: driver.execute_script(is_set) == DARK, "a picture with the evidence")
            agree = known.filter((pl.col("fish") == 1) & (pl.col("claws") == 1)).height
            wait(lambda: f"of {agree} rows" in page.one("#beliefs").text, "beliefs under both values")
            time.sleep(2.0)  # until the picture is drawn
            driver.execute_script("document.activeElement.blur()")
            write_atomically(path, driver.get_screenshot_as_png())
            for line in console_errors(driver):
                print(line, file=sys.stderr)
    finally:
        driver.quit()


if __name__ == "__main__":
    draw(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images/explorer.png"))
