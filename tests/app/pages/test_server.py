"""The server answers only its own page: token, host, origin, kind and size of a request are checked."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from sparsefield import MarkovField
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


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", "localhost.evil:80"])
def test_other_hosts_are_refused(address: str, host: str) -> None:
    assert ask(address, host=host)[0] == 403


def test_localhost_is_this_host(address: str) -> None:
    host = f"localhost:{urlsplit(address).port}"
    assert ask(address, host=host)[0] == 200
    assert ask(address, "api/beliefs", question({}), host=host, origin=f"http://{host}")[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1"])
def test_other_origins_are_refused(address: str, origin: str) -> None:
    assert ask(address, "api/beliefs", question({}), origin=origin)[0] == 403


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
    assert ask(address, "api/secrets", question({}))[0] == 404
    assert ask(address, "api/beliefs")[0] == 405
    assert ask(address, "", method="DELETE")[0] == 405


def test_a_port_that_is_taken_is_refused(address: str, field: MarkovField) -> None:
    port = urlsplit(address).port
    assert port is not None
    with pytest.raises(DataError, match=f"Port {port} is not available"):
        open_server(Session("survey", field), port)
