"""Token of a caller over HTTP, with the repositories that the caller may see."""

from __future__ import annotations

from typing import Any

from fastmcp.server.auth import AccessToken
from starlette.requests import Request

from codequarry.serving.request.repository_scope import EVERYTHING, NOTHING, RepositoryScope


class ScopedToken(AccessToken):
    """A verified token and its scope."""

    repositories: RepositoryScope
    listed: bool = False
    """It is a token of the settings, whose client id no identity provider chose."""


def scope_of(token: Any) -> RepositoryScope:
    """Return the scope of a caller where callers must show a token.

    Args:
        token: Token as the check of callers returned it; None where there is none.

    Returns:
        Its scope; nothing for a caller whose token has none.
    """
    return token.repositories if isinstance(token, ScopedToken) else NOTHING


def scope_of_request(request: Request, *, authenticated: bool) -> RepositoryScope:
    """Return the scope of who sent a request.

    Args:
        request: The request.
        authenticated: Callers need a token.

    Returns:
        The scope; everything where nobody needs a token.
    """
    return scope_of(getattr(request.user, "access_token", None)) if authenticated else EVERYTHING
