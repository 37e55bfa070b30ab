"""JWTs of an identity provider, with additional checks of their times."""

from __future__ import annotations

from fastmcp.server.auth import AccessToken
from fastmcp.server.auth.providers.jwt import JWTVerifier
from joserfc.errors import JoseError
from joserfc.jwt import JWTClaimsRegistry

_CLOCKS_APART_S = 30


class StrictJWTs(JWTVerifier):
    """Verifier of JWTs that rejects tokens without an expiry and tokens that are not valid yet.

    FastMCP's own verifier accepts both.
    """

    async def load_access_token(self, token: str) -> AccessToken | None:
        """Return the claims of a token; None when it is not valid now."""
        access = await super().load_access_token(token)
        if access is None:
            return None
        try:
            JWTClaimsRegistry(leeway=_CLOCKS_APART_S, exp={"essential": True}).validate(access.claims)
        except JoseError:
            return None
        return access
