"""Requests without the token, or under another host name, are refused."""

from __future__ import annotations

import json
import secrets
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from dask_processes import LIMIT

pytest.importorskip("dash")

from sparsefield import MarkovField
from sparsefield.app.pages.explorer.server import open_server
from sparsefield.app.pages.explorer.session import open_session
from sparsefield.app.pages.explorer.table_rows import TableRows
from sparsefield.errors import DataError

TOKEN = secrets.token_urlsafe(32)


@pytest.fixture(scope="module")
def address(field: MarkovField) -> Iterator[str]:
    server, address = open_server(open_session("survey", field), token=TOKEN)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield address
    server.shutdown()
    thread.join()
    server.server_close()


def ask(
    address: str, path: str, *, body: str | None = None, host: str | None = None
) -> tuple[int, str, dict[str, str]]:
    parts = urlsplit(address)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=LIMIT)
    headers = {"Host": host or parts.netloc, "Content-Type": "application/json"}
    try:
        connection.request("GET" if body is None else "POST", path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace"), dict(answer.getheaders())
    finally:
        connection.close()


CALLBACK = json.dumps(
    {
        "output": "find.options",
        "outputs": {"id": "find", "property": "options"},
        "inputs": [{"id": "find", "property": "search_value", "value": "smo"}],
        "changedPropIds": ["find.search_value"],
    }
)


def test_the_page_listens_on_the_loopback_address_alone(address: str) -> None:
    assert urlsplit(address).hostname == "127.0.0.1"
    assert len(TOKEN) > 40
    status, page, headers = ask(address, f"/{TOKEN}/")
    assert status == 200
    assert "http://" not in page
    assert "https://" not in page
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "no-referrer"


@pytest.mark.parametrize(
    "path",
    ["", "_dash-layout", "_dash-dependencies", "_dash-update-component", "assets/explorer.css", "_favicon.ico",
     "completed/0.csv", "_reload-hash", "nonsense"],
)  # fmt: skip
@pytest.mark.parametrize(
    "token",
    ["", "wrong", TOKEN[:-1], TOKEN + "x", TOKEN.swapcase(), f"%2F{TOKEN}", "é"],
    ids=["none", "wrong", "cut", "longer", "swapped", "slashed", "accented"],  # the token differs from run to run
)
def test_every_path_is_refused_without_the_token(address: str, path: str, token: str) -> None:
    from urllib.parse import quote

    before = f"/{quote(token, safe='%')}" if token else ""
    status, words, _ = ask(address, f"{before}/{path}", body=CALLBACK if "update" in path else None)
    assert status == 403
    assert "sparsefield explore" in words
    assert TOKEN not in words


def test_callbacks_answer_with_the_token(address: str) -> None:
    status, answer, _ = ask(address, f"/{TOKEN}/_dash-update-component", body=CALLBACK)
    assert status == 200
    assert [option["label"] for option in json.loads(answer)["response"]["find"]["options"]] == ["smokes"]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example:{port}", "127.0.0.1:1"]
)
def test_another_host_name_is_refused_even_with_the_token(address: str, host: str) -> None:
    port = urlsplit(address).port
    assert ask(address, f"/{TOKEN}/", host=host.format(port=port))[0] == 403
    assert ask(address, f"/{TOKEN}/", host=f"localhost:{port}")[0] == 200


def test_tokens_differ(field: MarkovField) -> None:
    opened = [open_server(open_session("survey", field)) for _ in range(4)]
    for server, _ in opened:
        server.server_close()
    assert len({urlsplit(address).path for _, address in opened}) == 4


def test_a_port_that_is_taken_is_named(field: MarkovField) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(DataError, match=f"Port {port} is not available"):
            open_server(open_session("survey", field), port=port)


def test_a_table_that_is_not_there_is_not_found(field: MarkovField, rows: TableRows) -> None:
    server, address = open_server(open_session("survey", field, rows), token=TOKEN)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        assert ask(address, f"/{TOKEN}/completed/7.csv")[0] == 404
        status, text, headers = ask(address, f"/{TOKEN}/completed/0.csv")
        assert status == 200
        assert text.encode() == rows.csv("")
        assert headers["Content-Disposition"] == "attachment; filename=survey.csv"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
