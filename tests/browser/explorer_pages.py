"""The explorer's page, controlled as a person would."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from browsing import wait

from sparsefield.viz.explorer.server import open_server
from sparsefield.viz.explorer.session import Session

TABS = ("variable", "evidence", "rows")


@contextmanager
def served(session: Session) -> Iterator[str]:
    """Serve the page and return its address."""
    server, address = open_server(session)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield address
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class ExplorerPage:
    """Actions on the page, and what it shows."""

    def __init__(self, driver: Any, address: str) -> None:
        self.driver, self.address = driver, address
        driver.get(address)
        wait(lambda: driver.execute_script(f"return {CY}?.nodes().length"), "the network")

    def all(self, selector: str) -> list[Any]:
        return self.driver.find_elements("css selector", selector)

    def one(self, selector: str) -> Any:
        return wait(lambda: self.all(selector), selector)[0]

    def tab(self, name: str) -> None:
        self.all("#tab label")[TABS.index(name)].click()
        wait(lambda: self.all(f"#{name}-panel")[0].is_displayed(), f"the tab {name}")

    def nodes(self) -> list[str]:
        """Return the names of the variables in the picture."""
        return self.driver.execute_script(f"return {CY}.nodes().map(n => n.data('name'))")

    def click_node(self, name: str) -> None:
        """Click a variable in the picture."""
        from selenium.webdriver.common.action_chains import ActionChains

        x, y = self.driver.execute_script(
            f"const n = {CY}.nodes().filter(n => n.data('name') === arguments[0])[0].renderedPosition();"
            "const box = document.getElementById('network').getBoundingClientRect();"
            "return [Math.round(box.left + n.x), Math.round(box.top + n.y)];",
            name,
        )
        mouse = ActionChains(self.driver)
        mouse.w3c_actions.pointer_action.move_to_location(x, y)
        mouse.w3c_actions.pointer_action.click()
        mouse.perform()

    def choose(self, selector: str, option: str, text: str = "") -> None:
        """Open a drop-down list, type a text, and choose an option."""
        self.one(selector).click()
        if text:
            wait(lambda: self.all(".dash-dropdown-content input"), "a place to type")[0].send_keys(text)
        found = ".dash-dropdown-content .dash-options-list-option"
        wait(lambda: [one for one in self.all(found) if one.text.strip() == option], option)[0].click()

    def set_variable(self, name: str, state: str) -> None:
        """Set a variable."""
        self.choose("#add", name, name)
        line = f"//div[@class='setter'][span='{name}']//button[contains(@class, 'dash-dropdown')]"
        wait(lambda: self.driver.find_elements("xpath", line), name)[0].click()
        found = ".dash-dropdown-content .dash-options-list-option"
        wait(lambda: [one for one in self.all(found) if one.text.strip() == state], state)[0].click()

    def beliefs(self) -> dict[tuple[str, str], tuple[float, float]]:
        """Return {(variable, state): (before, after)} in the order of the page."""
        rows = self.driver.execute_script(
            "return [...document.querySelectorAll('.state-change[data-state]')].map(e => ["
            "e.closest('.change').dataset.name, e.dataset.state, +e.dataset.before, +e.dataset.after])"
        )
        return {(name, state): (before, after) for name, state, before, after in rows}


CY = "document.getElementById('network')?._cyreg?.cy"
"""Where cytoscape keeps its graph."""
