"""The page on the loopback address, until someone interrupts."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from typing import Any

from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from sparsefield.errors import DataError
from sparsefield.viz.explorer.explorer_page import make_app
from sparsefield.viz.explorer.session import Subject
from sparsefield.viz.explorer.token_guard import Guard, new_token

__all__ = ["open_server", "serve"]

HOST = "127.0.0.1"


class _Quiet(WSGIRequestHandler):
    """Says nothing of single requests, whose addresses hold the token."""

    def log(self, type: str, message: str, *args: Any) -> None:
        return None


class _Masked(logging.Filter):
    """Takes the token out of what is logged of failed requests."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = record.getMessage().replace(self._token, "..."), ()
        return True


def open_server(subject: Subject, port: int = 0, token: str | None = None) -> tuple[BaseWSGIServer, str]:
    """A server that listens on the loopback address alone, and the address of its page; port 0 takes a free one."""
    token = token or new_token()
    app = make_app(subject, token)
    app.server.logger.addFilter(_Masked(token))
    guard = Guard(app.server, token, [f"'{word}'" for word in _hashes(app)])
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((HOST, port))
        except OSError as error:
            raise DataError(
                f"Port {port} cannot be had ({error.strerror}): give another --port, or none for a free one."
            ) from error
        bound.listen()
        server = make_server(HOST, port, guard, threaded=True, request_handler=_Quiet, fd=bound.fileno())
    server.daemon_threads = True  # pyright: ignore[reportAttributeAccessIssue]
    return server, f"http://{HOST}:{server.port}/{token}/"


def serve(subject: Subject, *, port: int = 0, ready: Callable[[str], None]) -> None:
    """Serve until interrupted; ``ready`` hears the address."""
    server, address = open_server(subject, port)
    try:
        ready(address)
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()


def _hashes(app: Any) -> list[str]:
    return [word.strip("'") for word in app.csp_hashes()]
