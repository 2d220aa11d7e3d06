"""This module refuses requests without the token, as those of other users of the machine or of other sites."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["TokenGuard", "new_token"]

POLICY = (
    "default-src 'none'; script-src 'self' {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content security policy: the browser loads nothing from another host."""

NO_STORE = [("Cache-Control", "no-store")]
"""Header that keeps data out of the browser's cache."""

REFUSED = b"Refused: open the complete address that 'sparsefield explore' printed.\n"


def new_token() -> str:
    """Return a random token for the path of the page."""
    return secrets.token_urlsafe(32)


class TokenGuard:
    """A WSGI middleware that passes on only requests whose path begins with the token.

    The Host header must name this machine, which prevents DNS rebinding by other sites.

    Parameters
    ----------
    app : WSGI application
    token : str
    scripts : iterable of str
        Hashes of the inline scripts of the page, as in a content security policy.
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
