"""The explorer's page, controlled as a person would."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from browsing import wait

from sparsefield.app.pages.explorer.server import open_server
from sparsefield.app.pages.explorer.session import Session

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
        self._click(f"const p = {CY}.nodes().filter(n => n.data('name') === arguments[0])[0].renderedPosition();", name)

    def _click(self, find: str, *names: str) -> None:
        """Click a place in the picture, which a script finds as p, once the picture stands still."""
        from selenium.webdriver.common.action_chains import ActionChains

        x, y = wait(lambda: self._place_at_rest(find, names), "a picture that stands still")
        mouse = ActionChains(self.driver)
        mouse.w3c_actions.pointer_action.move_to_location(x, y)
        mouse.w3c_actions.pointer_action.click()
        mouse.perform()

    def _place_at_rest(self, find: str, names: tuple[str, ...]) -> list[int] | None:
        """Return the place that a script finds as p, or None while it moves or the page waits for a callback."""
        script = (
            "if (document.querySelector('[data-dash-is-loading=true]')) return null;"
            f"{find} const box = document.getElementById('network').getBoundingClientRect();"
            "return [Math.round(box.left + p.x), Math.round(box.top + p.y)];"
        )
        before = self.driver.execute_script(script, *names)
        time.sleep(0.25)
        return before if before and self.driver.execute_script(script, *names) == before else None

    def click_edge(self, one: str, two: str) -> None:
        """Click the middle of an edge in the picture."""
        self._click(
            f"const e = {CY}.edges().filter(e => e.connectedNodes().map(n => n.data('name')).sort().join() ==="
            "[...arguments].sort().join())[0]; const p = e.renderedMidpoint();",
            one,
            two,
        )

    def resize(self, width: int, height: int, *, scheme: str = "light") -> None:
        """Give the page the size of a screen, and the colors that its owner prefers."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def reload(self) -> None:
        """Load the page again at its present address."""
        self.driver.refresh()
        wait(lambda: self.driver.execute_script(f"return {CY}?.nodes().length"), "the network")

    def theme(self) -> str:
        return self.driver.execute_script("return document.documentElement.dataset.theme")

    def fragment(self) -> str:
        """Return the part of the address after the #."""
        return self.driver.execute_script("return window.location.hash")

    def low_contrasts(self) -> list[str]:
        """Return the texts whose contrast with their background is below level AA of WCAG 2."""
        return self.driver.execute_script(CONTRASTS)

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

CONTRASTS = """
const parse = text => { const n = text.match(/[0-9.]+(e-?[0-9]+)?/g).map(Number);
  return text.startsWith('color(') ? [n[0] * 255, n[1] * 255, n[2] * 255, n[3] ?? 1] : [n[0], n[1], n[2], n[3] ?? 1]; };
const luminance = c => { const f = c.slice(0, 3).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 :
  ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2]; };
const over = (top, below) => [0, 1, 2].map(k => top[k] * top[3] + below[k] * (1 - top[3])).concat(1);
const behind = e => { const layers = []; for (; e; e = e.parentElement) {
  const c = parse(getComputedStyle(e).backgroundColor); if (c[3] > 0) layers.push(c); if (c[3] === 1) break; }
  return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]); };
const found = [];
for (const e of document.querySelectorAll('body *')) {
  const own = [...e.childNodes].filter(n => n.nodeType === 3).map(n => n.textContent.trim()).join('');
  if (!own || !e.checkVisibility() || ['SCRIPT', 'STYLE'].includes(e.tagName)) continue;
  const back = behind(e), ink = over(parse(getComputedStyle(e).color), back);
  const [low, high] = [luminance(back), luminance(ink)].sort((a, b) => a - b);
  const ratio = (high + 0.05) / (low + 0.05);
  if (ratio < 4.5) found.push(`${own.slice(0, 30)}: ${ratio.toFixed(2)}`);
}
return found;
"""
"""A script that compares each text with the colors behind it."""
