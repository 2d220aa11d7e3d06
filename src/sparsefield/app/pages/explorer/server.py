"""This module serves the page on the loopback address, and refuses requests without the token of its address."""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import Callable, Iterable
from typing import Any

from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from sparsefield.app.pages.explorer.explorer_page import make_app
from sparsefield.app.pages.explorer.session import Session
from sparsefield.errors import DataError

HOST = "127.0.0.1"
POLICY = (
    "default-src 'none'; script-src 'self' {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content security policy: the browser loads nothing from another host."""

NO_STORE = [("Cache-Control", "no-store")]
"""Header that keeps data out of the browser's cache."""

REFUSED = b"Refused: open the complete address that 'sparsefield explore' printed.\n"


class TokenGuard:
    """A WSGI middleware that passes on only requests whose path begins with the token.

    The Host header must name this machine, which prevents DNS rebinding by other sites. ``scripts`` are the hashes of
    the inline scripts of the page, as in a content security policy.
    """

    def __init__(self, app: Callable[..., Iterable[bytes]], token: str, scripts: Iterable[str] = ()) -> None:
        self.app = app
        self._token = token.encode()
        self._headers = [
            ("Content-Security-Policy", POLICY.format(scripts=" ".join(scripts))),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
        ]

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if not (self._has_token(environ) and self._names_this_host(environ)):
            start_response("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8"), *self._headers])
            return [REFUSED]

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            kept = any(name.lower() == "cache-control" for name, _ in headers)
            return start_response(status, [*headers, *self._headers, *([] if kept else NO_STORE)], *more)

        return self.app(environ, start)

    def _has_token(self, environ: dict[str, Any]) -> bool:
        first = environ.get("PATH_INFO", "").encode("latin-1", "replace").split(b"/", 2)[1:2]
        # In constant time, so that the token cannot be guessed letter by letter.
        return secrets.compare_digest(first[0] if first else b"", self._token)

    @staticmethod
    def _names_this_host(environ: dict[str, Any]) -> bool:
        port = environ.get("SERVER_PORT", "")
        names = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        return environ.get("HTTP_HOST", "") in names | ({"127.0.0.1", "localhost"} if port == "80" else set())


class _SilentHandler(WSGIRequestHandler):
    """A request handler that logs no requests, since their addresses contain the token."""

    def log(self, type: str, message: str, *args: Any) -> None:
        return None


class _TokenFilter(logging.Filter):
    """A log filter that removes the token from messages about failed requests."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = record.getMessage().replace(self._token, "..."), ()
        return True


def open_server(session: Session, port: int = 0, token: str | None = None) -> tuple[BaseWSGIServer, str]:
    """Return a server on the loopback address and the address of its page; port 0 takes a free port."""
    token = token or secrets.token_urlsafe(32)
    app = make_app(session, token)
    app.server.logger.addFilter(_TokenFilter(token))
    scripts = ["'" + digest.strip("'") + "'" for digest in app.csp_hashes()]
    guard = TokenGuard(app.server, token, scripts)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((HOST, port))
        except OSError as error:
            raise DataError(
                f"Port {port} is not available ({error.strerror}): choose another --port, or omit it to use a free one."
            ) from error
        bound.listen()
        server = make_server(HOST, port, guard, threaded=True, request_handler=_SilentHandler, fd=bound.fileno())
    server.daemon_threads = True  # pyright: ignore[reportAttributeAccessIssue]
    return server, f"http://{HOST}:{server.port}/{token}/"


def serve(session: Session, *, port: int = 0, ready: Callable[[str], None]) -> None:
    """Serve until interrupted; ``ready`` is called with the address."""
    server, address = open_server(session, port)
    try:
        ready(address)
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
