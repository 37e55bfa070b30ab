"""Who may call over HTTP: clients whose token the settings know by hash, and those an identity provider vouches for."""

from __future__ import annotations

import hashlib

from fastmcp.server.auth import AccessToken, AuthProvider, TokenVerifier

from codequarry.schemas.endpoints import key_client
from codequarry.schemas.errors import SettingsError
from codequarry.schemas.service_settings import AuthSettings

_LONGEST_TOKEN = 4_096


class HashedTokens(TokenVerifier):
    """Bearer tokens of which only the hash is known: a settings file that leaks lets nobody in.

    The look-up goes by hash, so that its time tells nothing of a token.
    """

    def __init__(self, entries: tuple[str, ...]) -> None:
        """entries: NAME:SHA256 of the token."""
        super().__init__()
        self._names = {digest: name for name, _, digest in (entry.partition(":") for entry in entries)}

    async def verify_token(self, token: str) -> AccessToken | None:
        """The client of a token; None when it is nobody's."""
        if len(token) > _LONGEST_TOKEN:
            return None
        name = self._names.get(hashlib.sha256(token.encode("utf-8", "replace")).hexdigest())
        return None if name is None else AccessToken(token=token, client_id=name, scopes=[])


def build_auth(settings: AuthSettings) -> AuthProvider | None:
    """What checks tokens; None when the settings ask for none.

    Raises SettingsError: the key of the settings cannot be used.
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
    from fastmcp.server.auth.providers.jwt import JWTVerifier

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
        return JWTVerifier(
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
