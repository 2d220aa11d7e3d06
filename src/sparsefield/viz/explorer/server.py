"""This module serves the page on the loopback address until it is interrupted."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from typing import Any

from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from sparsefield.errors import DataError
from sparsefield.viz.explorer.explorer_page import make_app
from sparsefield.viz.explorer.session import Session
from sparsefield.viz.explorer.token_guard import TokenGuard, new_token

__all__ = ["open_server", "serve"]

HOST = "127.0.0.1"


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
    token = token or new_token()
    app = make_app(session, token)
    app.server.logger.addFilter(_TokenFilter(token))
    guard = TokenGuard(app.server, token, [f"'{digest}'" for digest in _script_hashes(app)])
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


def _script_hashes(app: Any) -> list[str]:
    return [digest.strip("'") for digest in app.csp_hashes()]
