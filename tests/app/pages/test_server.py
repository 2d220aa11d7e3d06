"""The served page answers questions, to those who know its address."""

from __future__ import annotations

import http.client
import json
import re
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import polars as pl
import pytest
from surveys import make_linked

from sparsefield import MarkovField
from sparsefield.app.pages import session as session_module
from sparsefield.app.pages.cells import TableRows
from sparsefield.app.pages.server import MAX_BODY, open_server
from sparsefield.app.pages.session import Session
from sparsefield.errors import DataError

pytest.importorskip("uvicorn")
LIMIT = 60.0


@pytest.fixture(scope="module")
def address(field: MarkovField) -> Iterator[str]:
    server, bound, address = open_server(Session("survey", field), token="token")
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + LIMIT
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.02)
    yield address
    server.should_exit = True
    thread.join(LIMIT)
    bound.close()


def ask(
    address: str, path: str = "", body: bytes | None = None, method: str | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body of an answer; ``host`` and others replace headers of the request."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=LIMIT)
    sent = {"Host": parts.netloc} | ({} if body is None else {"Content-Type": "application/json"})
    sent |= {name.replace("_", "-").title(): value for name, value in headers.items()}
    place = path if path.startswith("/") else parts.path + path
    connection.request(method or ("GET" if body is None else "POST"), place, body, sent)
    answer = connection.getresponse()
    found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    connection.close()
    return found


def question(content: Any) -> bytes:
    return json.dumps(content).encode()


def test_the_page_and_its_questions_are_answered(address: str) -> None:
    status, headers, page = ask(address)
    assert status == 200
    assert b"<h1>survey</h1>" in page
    assert b"connect-src 'self'" in page
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "server" not in headers
    status, _, body = ask(address, "api/beliefs", question({"set": {"smokes": "yes"}}))
    assert status == 200
    assert json.loads(body)["changes"][0]["label"] == "coughs"


@pytest.mark.parametrize("path", ["/", "/other/", "/toke/", "/tokens/", "/token%20/", "/api/beliefs", "//token/"])
def test_other_paths_are_refused(address: str, path: str) -> None:
    status, _, body = ask(address, path)
    assert status == 403
    assert b"survey" not in body


def test_other_hosts_and_origins_are_refused_and_localhost_is_this_host(address: str) -> None:
    for host in ("evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", "localhost.evil:80"):
        assert ask(address, host=host)[0] == 403
    for origin in ("http://evil.example", "null", "https://127.0.0.1"):
        assert ask(address, "api/beliefs", question({}), origin=origin)[0] == 403
    host = f"localhost:{urlsplit(address).port}"
    assert ask(address, host=host)[0] == 200
    assert ask(address, "api/beliefs", question({}), host=host, origin=f"http://{host}")[0] == 200


def test_only_json_of_limited_size_is_read(address: str) -> None:
    assert ask(address, "api/beliefs", question({}), content_type="text/plain")[0] == 415
    assert ask(address, "api/beliefs", b"x" * (MAX_BODY + 1))[0] == 413
    assert ask(address, "api/beliefs", question({}), content_length="many")[0] in (400, 413)
    for body in (b"", b"{", b"[]", b"1", b"[" * 100_000):
        assert ask(address, "api/beliefs", body)[0] == 400


def test_a_body_without_a_length_is_refused(address: str) -> None:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=LIMIT)
    chunks = (b"x" * 100_000 for _ in range(MAX_BODY // 100_000 + 2))
    headers = {"Host": parts.netloc, "Content-Type": "application/json", "Transfer-Encoding": "chunked"}
    try:
        connection.request("POST", parts.path + "api/beliefs", chunks, headers, encode_chunked=True)
        assert connection.getresponse().status == 411
    except (BrokenPipeError, ConnectionResetError):
        pass  # refused before all of it was sent
    finally:
        connection.close()
    assert ask(address)[0] == 200


def test_wrong_questions_get_the_reason(address: str) -> None:
    status, _, body = ask(address, "api/beliefs", question({"set": {"smokes": "perhaps"}}))
    assert (status, json.loads(body)) == (422, {"error": "Column 'smokes' has no state 'perhaps'."})
    assert ask(address, "api/beliefs", question({"method": ["exact"]}))[0] == 422
    assert ask(address, "api/secrets", question({}))[0] == 404
    assert ask(address, "api/beliefs")[0] == 405
    assert ask(address, "", method="DELETE")[0] == 405


def test_a_port_that_is_taken_is_refused(address: str, field: MarkovField) -> None:
    port = urlsplit(address).port
    assert port is not None
    with pytest.raises(DataError, match=f"Port {port} is not available"):
        open_server(Session("survey", field), port)


@pytest.fixture
def session(field: MarkovField, rows: TableRows) -> Session:
    return Session("survey", field, rows)


def test_beliefs_are_those_of_the_model_for_a_row_with_the_evidence_alone(session: Session, field: MarkovField) -> None:
    answer = session.beliefs({"set": {"smokes": "yes"}, "method": "exact"})
    row = pl.DataFrame({"age": [None], "smokes": ["yes"], "coughs": [None], "sport": [None], "tea": [None]})
    typed = row.with_columns(pl.col("age", "coughs", "tea").cast(pl.String), pl.col("sport").cast(pl.Int64))
    expected = MarkovField.from_field(field.field_, inference="exact").predict_proba(typed)
    changes = {change["label"]: change for change in answer["changes"]}
    assert "smokes" not in changes
    for name in ("age", "coughs", "sport", "tea"):
        np.testing.assert_allclose(changes[name]["after"], expected[name][0], atol=1e-4)
    assert answer["method"] == "exact"
    distances = [change["distance"] for change in answer["changes"]]
    assert distances == sorted(distances, reverse=True)
    assert answer["colors"]["coughs"][0] == 1


def test_beliefs_come_with_the_shares_of_rows_that_agree(session: Session, survey: pl.DataFrame) -> None:
    answer = session.beliefs({"set": {"smokes": "yes"}})
    agree = survey.filter(pl.col("smokes") == "yes")
    assert answer["rows"] == agree.height
    (coughs,) = [change for change in answer["changes"] if change["label"] == "coughs"]
    counts = dict(zip(coughs["states"], coughs["counts"], strict=True))
    assert counts["yes"] == agree.filter(pl.col("coughs") == "yes").height


def test_beliefs_can_be_filtered_by_name(session: Session) -> None:
    answer = session.beliefs({"set": {"smokes": "yes"}, "filter": "TEA"})
    assert [change["label"] for change in answer["changes"] if "tea" in change["label"]] == ["tea"]
    assert answer["total"] == 1


def test_missing_values_of_a_row_have_the_states_that_are_filled_in(
    session: Session, field: MarkovField, survey
) -> None:
    filled = field.transform(survey.drop("person")).row(0, named=True)
    cells = session.row({"row": 0})["missing"]
    assert {cell["name"]: cell["best"] for cell in cells} == {name: str(filled[name]) for name in ("smokes", "sport")}


def test_rows_are_found_by_number_and_name(session: Session) -> None:
    assert session.find_rows({"text": "p012"})["rows"] == [{"row": 12, "name": "p012 (row 13)"}]
    assert session.find_rows({"text": "3"})["rows"][0]["row"] == 2


def test_linked_tables_have_rows_and_no_values_to_set() -> None:
    field, data, rows = make_linked()
    session = Session("linked", field, rows)
    last = len(data.tables["person"]) - 1
    assert [cell["name"] for cell in session.row({"table": "person", "row": last})["missing"]] == ["smokes"]
    assert 'data-tab="evidence"' not in session.page
    visits = data.tables["visit"].with_row_index()
    who = visits["who"][0]
    shown = session.row({"table": "person", "row": data.tables["person"]["id"].to_list().index(who)})
    (link,) = shown["linked"]
    assert link["title"] == "visit, who"
    assert [row for _, row, *_ in link["rows"]] == visits.filter(pl.col("who") == who)["index"].to_list()
    states = [dict(pair.split(" = ") for pair in text.split(", ")) for *_, text in link["rows"]]
    for reason in shown["reasons"]:  # of as many linked rows as have the state
        number, state = re.search(r"since (\d+) of \d+ linked rows? ha\w+ visit\.(\S+),", reason).groups()
        name, value = state.split("=")
        assert int(number) == sum(own[name] == value for own in states)
    assert shown["reasons"]
    with pytest.raises(DataError, match="one table"):
        session.beliefs({"set": {}})


def test_a_wide_field_answers_by_belief_propagation(field: MarkovField, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "WIDE", 3)
    session = Session("wide", field)
    fast, exact = (session.beliefs({"set": {"age": "old"}, "method": m})["changes"] for m in (None, "exact"))
    assert session.default_method == "bp"
    after = {change["label"]: change["after"] for change in fast}
    assert all(np.allclose(change["after"], after[change["label"]], atol=0.02) for change in exact)


@pytest.mark.parametrize(
    ("question", "request_", "message"),
    [
        ("beliefs", {"set": {"height": "1"}}, "no column 'height'"),
        ("beliefs", {"set": {"smokes": "perhaps"}}, "no state 'perhaps'"),
        ("beliefs", {"set": ["smokes"]}, "text for each column"),
        ("beliefs", {"set": {"smokes": 1}}, "text for each column"),
        ("beliefs", {"method": "magic"}, "no inference method 'magic'"),
        ("row", {"row": 300}, "no row 301"),
        ("row", {"row": "1"}, "a number"),
        ("find_rows", {"table": "other"}, "table 'other'"),
    ],
)
def test_wrong_questions_are_refused_with_the_reason(session: Session, question: str, request_, message: str) -> None:
    with pytest.raises(DataError, match=message):
        getattr(session, question)(request_)


def test_without_data_there_are_no_rows(field: MarkovField) -> None:
    with pytest.raises(DataError, match="without data"):
        Session("alone", field).row({"row": 0})
