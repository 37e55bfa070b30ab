"""Authentication over HTTP: tokens that the settings list by hash, and JWTs of an identity provider."""

from __future__ import annotations

import hashlib

from fastmcp.server.auth import AccessToken, AuthProvider, TokenVerifier
from fastmcp.server.auth.providers.jwt import JWTVerifier
from joserfc.errors import JoseError
from joserfc.jwt import JWTClaimsRegistry

from codequarry.schemas.errors import SettingsError
from codequarry.schemas.settings.service import AuthSettings
from codequarry.serving.encoders.client import key_client

_LONGEST_TOKEN = 4_096
_CLOCKS_APART_S = 30


class HashedTokens(TokenVerifier):
    """Bearer tokens of which only the hash is stored, so that a leaked settings file grants no access.

    The look-up goes by hash, so that its time reveals nothing about a token.
    """

    def __init__(self, entries: tuple[str, ...]) -> None:
        """Read the tokens' hashes.

        Args:
            entries: ``NAME:SHA256`` of each token.
        """
        super().__init__()
        self._names = {digest: name for name, _, digest in (entry.partition(":") for entry in entries)}

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the client of a token; None when the token is unknown."""
        if len(token) > _LONGEST_TOKEN:
            return None
        name = self._names.get(hashlib.sha256(token.encode("utf-8", "replace")).hexdigest())
        return None if name is None else AccessToken(token=token, client_id=name, scopes=[])


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


def build_auth(settings: AuthSettings) -> AuthProvider | None:
    """Build the check of tokens.

    Args:
        settings: Settings of authentication.

    Returns:
        The check; None when the settings require no token.

    Raises:
        SettingsError: The key of the settings cannot be used.
    """
    verifiers: dict[str, TokenVerifier] = {}
    if settings.tokens:
        verifiers["tokens"] = HashedTokens(settings.tokens)
    if settings.jwks_uri or settings.public_key is not None:
        verifiers["jwt"] = _jwt(settings)
    if not verifiers:
        return None
    if len(verifiers) == 1:
        return next(iter(verifiers.values()))
    from fastmcp.server.auth import MultiAuth

    return MultiAuth(verifiers=verifiers)


def _jwt(settings: AuthSettings) -> TokenVerifier:
    key = None
    if settings.public_key is not None:
        try:
            key = settings.public_key.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(
                f"auth.public_key: {settings.public_key} cannot be read ({type(error).__name__})",
                suggestion="name a PEM file with the public key",
            ) from error
    try:
        return StrictJWTs(
            public_key=key,
            jwks_uri=settings.jwks_uri or None,
            issuer=settings.issuer or None,
            audience=settings.audience or None,
            algorithm=settings.algorithm,
            required_scopes=list(settings.scopes) or None,
            http_client=key_client() if settings.jwks_uri else None,
        )
    except ValueError as error:
        raise SettingsError(f"[auth] cannot be used: {error}", suggestion="see docs/SECURITY.md") from error
