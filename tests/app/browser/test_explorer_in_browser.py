"""The explorer in a real browser."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import polars as pl
import pytest
from browsing import console_errors, requests, wait

pytest.importorskip("dash")
pytest.importorskip("selenium")
sys.path.append(str(Path(__file__).resolve().parents[1] / "pages"))

from explorer_pages import ExplorerPage, served
from surveys import make_linked, make_survey, with_missing

from sparsefield import MarkovField
from sparsefield.app.pages.explorer.conditional_beliefs import METHODS
from sparsefield.app.pages.explorer.session import open_session
from sparsefield.app.pages.explorer.table_rows import InputTable, TableRows


@dataclass(frozen=True)
class Explored:
    address: str
    field: MarkovField
    survey: pl.DataFrame
    rows: TableRows


@pytest.fixture(scope="module")
def explored() -> Iterator[Explored]:
    survey = with_missing(make_survey())
    known = survey.drop("person")
    field = MarkovField(l1=2.0).fit(known)
    missing = {name: known[name].is_null() for name in known.columns}
    rows = TableRows(
        field, {"": InputTable(survey.with_columns(pl.all().cast(pl.String)), known, missing, "survey.csv")}
    )
    with served(open_session("survey.safetensors", field, rows)) as address:
        yield Explored(address, field, survey, rows)


@pytest.fixture
def page(driver: Any, explored: Explored) -> ExplorerPage:
    explored.rows.accepted.clear()
    return ExplorerPage(driver, explored.address)


def test_the_page_loads_without_errors_from_one_host(page: ExplorerPage, explored: Explored) -> None:
    assert sorted(page.nodes()) == sorted(explored.field.field_.schema.order)
    assert "survey.safetensors" in page.one("h1").text
    for tab in ("evidence", "rows", "variable"):
        page.tab(tab)
    wait(lambda: page.beliefs() or page.all("#values div"), "beliefs")
    asked = requests(page.driver)
    assert len(asked) > 5
    assert {urlsplit(url).netloc for url in asked} == {urlsplit(explored.address).netloc}
    assert all(url.startswith(explored.address) for url in asked)
    assert console_errors(page.driver) == []


def test_a_click_on_a_variable_shows_its_neighbors(page: ExplorerPage, explored: Explored) -> None:
    page.click_node("smokes")
    wait(lambda: page.one("#variable-name").text == "smokes", "the variable")
    shown = [
        (one.get_attribute("data-label"), float(one.get_attribute("data-strength"))) for one in page.all(".neighbor")
    ]
    told = {}
    for a, b, strength in explored.field.edges_.iter_rows():
        if "smokes" in (a, b):
            told[b if a == "smokes" else a] = strength
    assert dict(shown) == pytest.approx(told, abs=1e-7)
    assert len(shown) > 2
    assert [strength for _, strength in shown] == sorted((strength for _, strength in shown), reverse=True)
    wait(lambda: set(page.nodes()) >= {"smokes", *told}, "the neighborhood")
    page.one(".neighbor button").click()
    wait(lambda: page.one("#variable-name").text == shown[0][0], "the neighbor")
    assert console_errors(page.driver) == []


def test_a_variable_is_found_by_its_name(page: ExplorerPage) -> None:
    page.choose("#find", "coughs", "oug")
    wait(lambda: page.one("#variable-name").text == "coughs", "the variable")


@pytest.mark.parametrize("name", ["auto", "mean-field", "bp", "exact"])
def test_beliefs_under_evidence_are_those_of_the_library(page: ExplorerPage, explored: Explored, name: str) -> None:
    page.tab("evidence")
    if name != "auto":  # which is the default
        page.choose("#method", METHODS[name])
    told = "Automatic inference: exact." if name == "auto" else METHODS[name]
    wait(lambda: told.lower() in page.one("#beliefs .method-used").text.lower(), "the method")
    page.set_variable("smokes", "yes")
    page.set_variable("age", "old")
    model = MarkovField.from_field(explored.field.field_, inference=name)
    schema = explored.survey.drop("person").schema
    row = pl.DataFrame(
        {"age": ["old"], "smokes": ["yes"], "coughs": [None], "sport": [None], "tea": [None]}, schema=schema
    )
    after, before = model.predict_proba(row), model.predict_proba(row.clear(1))
    names = {"coughs", "sport", "tea"}

    def current_beliefs() -> Any:
        shown = page.beliefs()
        return shown if {variable for variable, _ in shown} == names else None

    shown = wait(current_beliefs, "beliefs under evidence")
    states = {column: [str(state) for state in found] for column, found in explored.field.states_.items()}
    for (variable, state), (was, now) in shown.items():
        place = states[variable].index(state)
        assert was == pytest.approx(before[variable][0, place], abs=1e-9)
        assert now == pytest.approx(after[variable][0, place], abs=1e-9)
    moves = [abs(now - was) for was, now in shown.values()]
    assert moves == sorted(moves, reverse=True)
    page.one("#clear").click()
    wait(lambda: {variable for variable, _ in page.beliefs()} == {*names, "smokes", "age"}, "all beliefs")
    assert console_errors(page.driver) == []


def test_a_wrong_token_is_refused_also_for_callbacks(page: ExplorerPage, explored: Explored) -> None:
    parts = urlsplit(explored.address)
    wrong = f"{parts.scheme}://{parts.netloc}/{'x' * 43}/"
    ask = (
        "const done = arguments[arguments.length - 1]; fetch(arguments[0], {method: 'POST', body: arguments[1],"
        "headers: {'Content-Type': 'application/json'}}).then(r => done(r.status))"
    )
    body = json.dumps(
        {
            "output": "find.options",
            "outputs": {"id": "find", "property": "options"},
            "inputs": [{"id": "find", "property": "search_value", "value": ""}],
            "changedPropIds": ["find.search_value"],
        }
    )
    assert page.driver.execute_async_script(ask, f"{explored.address}_dash-update-component", body) == 200
    assert page.driver.execute_async_script(ask, f"{wrong}_dash-update-component", body) == 403
    page.driver.get(wrong)
    assert "Refused" in page.driver.page_source
    assert page.all("#network") == []
    console_errors(page.driver)


def test_the_most_surprising_value_comes_first(page: ExplorerPage, explored: Explored) -> None:
    page.tab("rows")
    view = explored.rows.describe("", 0, "auto")
    cells = wait(lambda: page.all("#values > div"), "cells")
    shown = [(one.get_attribute("data-name"), float(one.get_attribute("data-surprise"))) for one in cells]
    assert shown == [(cell.name, pytest.approx(cell.surprise, abs=1e-9)) for cell in view.values]
    logs = [float(one.get_attribute("data-log-p")) for one in cells]
    assert logs == [pytest.approx(cell.log_probability, abs=1e-9) for cell in view.values]
    page.one("#next").click()
    wait(lambda: "row 2" in page.one("#row").text and len(page.all("#values > div")) == 5, "the next row")


def test_accepted_values_are_in_the_download(page: ExplorerPage, explored: Explored, tmp_path: Path) -> None:
    page.tab("rows")
    filled = explored.field.transform(explored.survey.drop("person"))
    wait(lambda: len(page.all(".missing-value")) == 2, "two missing values")
    page.one(".missing-value[data-name=smokes] button").click()
    wait(
        lambda: len(page.all("#accepted > div")) == 1 and len(page.all(".missing-value")) == 1,
        "what was accepted",
    )
    page.one(".missing-value[data-name=sport] button").click()
    wait(lambda: len(page.all("#accepted > div")) == 2 and not page.all("#missing-values"), "both")
    page.all("#accepted button")[0].click()  # the latest, sport
    wait(
        lambda: len(page.all("#accepted > div")) == 1 and len(page.all(".missing-value")) == 1,
        "a missing value again",
    )
    where = {"behavior": "allow", "downloadPath": str(tmp_path)}
    page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", where)
    page.one("#download").click()
    path = tmp_path / "survey.csv"
    wait(path.is_file, "the file")
    wait(lambda: path.stat().st_size > 0 or time.sleep(0.1), "its content")
    got = pl.read_csv(path, infer_schema=False)
    wanted = explored.survey.with_columns(pl.all().cast(pl.String))
    wanted[0, "smokes"] = filled["smokes"][0]
    assert got.equals(wanted)
    assert console_errors(page.driver) == []


def test_linked_tables_are_shown_by_table_and_entity(driver: Any) -> None:
    field, data, rows = make_linked()
    with served(open_session("linked", field, rows)) as address:
        page = ExplorerPage(driver, address)
        assert {"person.smokes", "visit.fun"} <= set(page.nodes())
        page.tab("rows")
        missing_value = wait(lambda: page.all(".missing-value"), "the missing value")[0]
        belief = field.predict_proba(data)["person"]["smokes"][39]
        assert float(missing_value.get_attribute("data-p")) == pytest.approx(belief.max(), abs=1e-9)
        assert "n39 (row 40)" in page.one("#row").text
        page.choose("#table", "visit")
        wait(lambda: [cell.get_attribute("data-name") for cell in page.all("#values > div")] == ["fun"], "a visit")
        assert page.one("#download").get_attribute("href").endswith("completed/1.csv")
        assert console_errors(driver) == []
