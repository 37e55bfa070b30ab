"""Authentication over HTTP: tokens that the settings list by hash, and JWTs of an identity provider.

With each comes the scope of its holder: the repositories that it may see.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, cast

from fastmcp.server.auth import AccessToken, AuthProvider, TokenVerifier
from fastmcp.server.auth.providers.jwt import JWTVerifier
from joserfc.errors import JoseError
from joserfc.jwt import JWTClaimsRegistry

from codequarry.schemas.errors import SettingsError
from codequarry.schemas.settings.service import GROUP_PREFIX, AuthSettings, is_repository_glob
from codequarry.serving.encoders.client import key_client
from codequarry.serving.request.repository_scope import EVERYTHING, NOTHING, RepositoryScope
from codequarry.serving.server.scoped_token import ScopedToken

_LONGEST_TOKEN = 4_096
_CLOCKS_APART_S = 30
_MOST_GRANTED = 10_000
"""Groups or repositories of a claim; a token has to fit into a header."""


class Grants:
    """The scope of each caller, by the settings."""

    def __init__(self, settings: AuthSettings) -> None:
        """Read groups and grants.

        Args:
            settings: Settings of authentication.
        """
        self._settings = settings
        self._without = EVERYTHING if settings.open_to_all else NOTHING
        self._by_client = {client: self._scope_of_entries(given) for client, given in settings.grants.items()}

    def of_client(self, client: str) -> RepositoryScope:
        """Return the scope of a token of the settings."""
        return self._by_client.get(client, self._without)

    def of_claims(self, claims: Mapping[str, Any]) -> RepositoryScope:
        """Return the scope of a JWT.

        Groups that the settings do not have grant nothing: identity providers list many that concern others.

        Args:
            claims: Verified claims.

        Returns:
            The scope; that of callers without a grant where no claim grants anything, and nothing for a claim that is
            neither a text nor a list of texts.
        """
        settings = self._settings
        groups = _texts_of(_claim(claims, settings.groups_claim))
        own = _texts_of(_claim(claims, settings.repositories_claim))
        if groups is None or own is None:
            return NOTHING
        held = [group for group in groups if group in settings.groups]
        globs = [glob for glob in own if is_repository_glob(glob)]
        return self._scope(held, globs) if held or own else self._without

    def _scope_of_entries(self, given: Iterable[str]) -> RepositoryScope:
        entries = list(given)
        groups = [each.removeprefix(GROUP_PREFIX) for each in entries if each.startswith(GROUP_PREFIX)]
        return self._scope(groups, [each for each in entries if not each.startswith(GROUP_PREFIX)])

    def _scope(self, groups: Iterable[str], globs: Iterable[str]) -> RepositoryScope:
        held = sorted(set(groups))
        of_groups = [glob for group in held for glob in self._settings.groups[group]]
        return RepositoryScope(tuple(sorted({*of_groups, *globs})), tuple(held))


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its name, or by the path of a nested one; None when there is none."""
    if not name:
        return None
    found: Any = claims
    for part in [name] if name in claims else name.split("."):
        found = cast("Mapping[str, Any]", found).get(part) if isinstance(found, Mapping) else None
    return found


def _texts_of(claim: Any) -> list[str] | None:
    """Return the texts of a claim; None when it has another form."""
    if claim is None:
        return []
    items = cast("list[Any]", claim) if isinstance(claim, list) else [claim]
    fits = len(items) <= _MOST_GRANTED and all(isinstance(each, str) for each in items)
    return items if fits else None


class HashedTokens(TokenVerifier):
    """Bearer tokens of which only the hash is stored, so that a leaked settings file grants no access.

    The look-up goes by hash, so that its time reveals nothing about a token.
    """

    def __init__(self, entries: tuple[str, ...], grants: Grants) -> None:
        """Read the tokens' hashes.

        Args:
            entries: ``NAME:SHA256`` of each token.
            grants: Scopes of their holders.
        """
        super().__init__()
        self._grants = grants
        self._names = {digest: name for name, _, digest in (entry.partition(":") for entry in entries)}

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the client of a token; None when the token is unknown."""
        if len(token) > _LONGEST_TOKEN:
            return None
        name = self._names.get(hashlib.sha256(token.encode("utf-8", "replace")).hexdigest())
        if name is None:
            return None
        return ScopedToken(
            token=token, client_id=name, scopes=[], repositories=self._grants.of_client(name), listed=True
        )


class StrictJWTs(JWTVerifier):
    """Verifier of JWTs that rejects tokens without an expiry and tokens that are not valid yet.

    FastMCP's own verifier accepts both.
    """

    grants: Grants
    """Scopes of their holders."""

    async def load_access_token(self, token: str) -> AccessToken | None:
        """Return the claims of a token; None when it is not valid now."""
        access = await super().load_access_token(token)
        if access is None:
            return None
        try:
            JWTClaimsRegistry(leeway=_CLOCKS_APART_S, exp={"essential": True}).validate(access.claims)
        except JoseError:
            return None
        return ScopedToken(**access.model_dump(), repositories=self.grants.of_claims(access.claims))


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
    grants = Grants(settings)
    if settings.tokens:
        verifiers["tokens"] = HashedTokens(settings.tokens, grants)
    if settings.jwks_uri or settings.public_key is not None:
        verifiers["jwt"] = _jwt(settings, grants)
    if not verifiers:
        return None
    if len(verifiers) == 1:
        return next(iter(verifiers.values()))
    from fastmcp.server.auth import MultiAuth

    return MultiAuth(verifiers=verifiers)


def _jwt(settings: AuthSettings, grants: Grants) -> TokenVerifier:
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
        verifier = StrictJWTs(
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
    verifier.grants = grants
    return verifier
