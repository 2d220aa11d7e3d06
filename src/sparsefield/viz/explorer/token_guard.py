"""Nobody is let in who does not know the token: other users of the machine, and pages of other sites, do not."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["Guard", "new_token"]

POLICY = (
    "default-src 'none'; script-src 'self' {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The browser itself refuses to load anything from another host."""

NOT_KEPT = [("Cache-Control", "no-store")]
"""Data have no place in the browser's files."""

REFUSED = b"Refused: open the address that 'sparsefield explore' printed, with all of its letters.\n"


def new_token() -> str:
    """A word that cannot be guessed, for the path of the page."""
    return secrets.token_urlsafe(32)


class Guard:
    """A WSGI application before another: lets requests through whose path begins with the token.

    The name in the Host header must be that of this machine. A page of another site that has its own name point here
    (DNS rebinding) comes with that name.

    Parameters
    ----------
    app : WSGI application
    token : str
    scripts : hashes of the scripts that stand in the page itself, as a content security policy writes them
    """

    def __init__(self, app: Callable[..., Iterable[bytes]], token: str, scripts: Iterable[str] = ()) -> None:
        self.app = app
        self._token = token.encode()
        policy = POLICY.format(scripts=" ".join(scripts))
        self._headers = [
            ("Content-Security-Policy", policy),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
        ]

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if not (self._knows_token(environ) and self._means_us(environ)):
            start_response("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8"), *self._headers])
            return [REFUSED]

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            kept = any(name.lower() == "cache-control" for name, _ in headers)
            return start_response(status, [*headers, *self._headers, *([] if kept else NOT_KEPT)], *more)

        return self.app(environ, start)

    def _knows_token(self, environ: dict[str, Any]) -> bool:
        first = environ.get("PATH_INFO", "").encode("latin-1", "replace").split(b"/", 2)[1:2]
        # In constant time, so that its letters cannot be found one by one.
        return secrets.compare_digest(first[0] if first else b"", self._token)

    @staticmethod
    def _means_us(environ: dict[str, Any]) -> bool:
        port = environ.get("SERVER_PORT", "")
        names = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        return environ.get("HTTP_HOST", "") in names | ({"127.0.0.1", "localhost"} if port == "80" else set())
