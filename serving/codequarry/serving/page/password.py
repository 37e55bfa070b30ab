"""Tokens of people with a browser, which sends them as a password."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Container

from starlette.types import ASGIApp, Receive, Scope, Send


class PasswordAsToken:
    """ASGI middleware for the page alone: HTTP Basic authentication, whose password is a bearer token.

    A browser sends a password to every path below the one that asked for it. It counts at the paths of the page, which
    change nothing, and nowhere else.
    """

    def __init__(self, app: ASGIApp, paths: Container[str]) -> None:
        """Guard an application.

        Args:
            app: Application behind the middleware.
            paths: Paths of the page.
        """
        self._app, self._paths = app, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] in self._paths:
            scope = {**scope, "headers": [_as_bearer(name, value) for name, value in scope["headers"]]}
        await self._app(scope, receive, send)


def _as_bearer(name: bytes, value: bytes) -> tuple[bytes, bytes]:
    if name != b"authorization" or value[:6].lower() != b"basic ":
        return name, value
    try:
        _, _, password = base64.b64decode(value[6:].strip(), validate=True).partition(b":")
    except binascii.Error:
        return name, value
    return name, b"Bearer " + password
