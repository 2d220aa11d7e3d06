"""Server of the page on the loopback address, which refuses requests without the token of its address."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sparsefield.app.pages.session import Session
from sparsefield.errors import DataError

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette

HOST = "127.0.0.1"
MAX_BODY = 1_000_000
"""Largest body of a request in bytes."""

MAX_CONNECTIONS = 40
"""Connections at a time; others are refused."""

HEADERS = {
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
REFUSED = "Refused: open the complete address that 'sparsefield explore' printed.\n"


class Guard:
    """ASGI middleware that passes on only requests whose path begins with the token, from this machine's own page.

    The Host header must name this machine, which prevents DNS rebinding, and an Origin must be that host. Bodies need a
    length, which the server holds them to, so that no larger one than `MAX_BODY` gets into memory.
    """

    def __init__(self, app: Any, token: str, port: Callable[[], int]) -> None:
        self.app, self._token, self._port = app, token.encode(), port

    async def __call__(self, scope: Any, receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        from starlette.responses import PlainTextResponse

        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        problem = self._problem(scope, headers)
        if problem is not None:
            await PlainTextResponse(problem[1], problem[0], headers=HEADERS)(scope, receive, send)
            return
        inner = {**scope, "path": scope["path"][1 + len(self._token) :], "raw_path": b""}
        await self.app(inner, receive, send)

    def _problem(self, scope: Any, headers: dict[str, str]) -> tuple[int, str] | None:
        """Return the status and the text of a refusal; None for a request that is in order."""
        first = scope["path"].encode("utf-8", "replace").split(b"/", 2)[1:2]
        # In constant time, so that the token cannot be guessed letter by letter.
        known = secrets.compare_digest(first[0] if first else b"", self._token)
        hosts = {f"{name}:{self._port()}" for name in (HOST, "localhost")}
        if not known or headers.get("host") not in hosts:
            return 403, REFUSED
        if "origin" in headers and headers["origin"] != f"http://{headers['host']}":
            return 403, REFUSED
        if scope["method"] == "POST" and headers.get("content-type") != "application/json":
            return 415, "Questions are JSON.\n"
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers:
            return 411, "The request has no length.\n"
        if not length.isdecimal() or int(length) > MAX_BODY:
            return 413, "The request is too large.\n"
        return None


def make_app(session: Session, token: str, port: Callable[[], int]) -> Guard:
    """Return the application: the page, and a JSON interface of questions."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, Response
    from starlette.routing import Route

    questions: dict[str, Callable[[dict[str, Any]], Any]] = {
        "beliefs": session.beliefs,
        "rows": session.find_rows,
        "row": session.row,
    }

    async def show_page(request: Request) -> Response:
        text = await asyncio.to_thread(lambda: session.page)
        return HTMLResponse(text, headers={**HEADERS, "Content-Security-Policy": "frame-ancestors 'none'"})

    async def answer(request: Request) -> Response:
        ask = questions.get(request.path_params["question"])
        if ask is None:
            return JSONResponse({"error": "There is no such question."}, 404, headers=HEADERS)
        try:
            asked = json.loads(await request.body())
        except (ValueError, RecursionError):
            asked = None
        if not isinstance(asked, dict):
            return JSONResponse({"error": "A question is a JSON object."}, 400, headers=HEADERS)
        try:
            return JSONResponse(await asyncio.to_thread(ask, asked), headers=HEADERS)
        except DataError as error:
            return JSONResponse({"error": str(error)}, 422, headers=HEADERS)

    routes = [Route("/", show_page, methods=["GET"]), Route("/api/{question}", answer, methods=["POST"])]
    app: Starlette = Starlette(routes=routes)
    return Guard(app, token, port)


def open_server(session: Session, port: int = 0, token: str | None = None) -> tuple[uvicorn.Server, socket.socket, str]:
    """Return a server, its socket on the loopback address, and the address of its page; port 0 takes a free port.

    ``server.run(sockets=[bound])`` serves until it is interrupted.
    """
    import uvicorn

    token = token or secrets.token_urlsafe(32)
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((HOST, port))
    except OSError as error:
        bound.close()
        raise DataError(f"Port {port} is not available ({error.strerror}): choose another --port, or none.") from error
    bound.listen()  # so that the address answers as soon as it is known
    own_port = bound.getsockname()[1]
    config = uvicorn.Config(
        make_app(session, token, lambda: own_port),
        access_log=False,  # addresses contain the token
        log_level="error",
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=1,
        server_header=False,
        lifespan="off",
        ws="none",
    )
    return uvicorn.Server(config), bound, f"http://{HOST}:{own_port}/{token}/"


def serve(session: Session, *, port: int = 0, ready: Callable[[str], None]) -> None:
    """Serve until interrupted; ``ready`` is called with the address."""
    server, bound, address = open_server(session, port)
    try:
        ready(address)
        server.run(sockets=[bound])
    except KeyboardInterrupt:
        pass
    finally:
        bound.close()
