"""Inputs and outputs of ``set_scope`` and ``get_scope``, and the scope that a ``scope_id`` holds.

An id *is* its scope: canonical JSON and a digest of it, in URL-safe base64. Nothing is stored, so an id means the same
to every server and after every restart, without a session. It can only narrow a request, so a made-up id gains nothing.
An id with a changed character is refused all the same.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json

from pydantic import Field, ValidationError

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.strict_model import StrictModel
from codequarry.schemas.wire.search import BundleInfo, FileFilters, Globs, LanguageNames, Names

MAX_SCOPE_BYTES = 6_000
_PREFIX = "s1"
_DIGEST_BYTES = 12


class SetScopeRequest(StrictModel):
    """Where to look from now on. Every given list must match; inside one list any entry may."""

    languages: LanguageNames = Field(default=[], max_length=64, description="Languages, e.g. ['python', 'go'].")
    include: Globs = Field(default=[], description="Keep only paths matching one of these globs, e.g. ['src/**'].")
    exclude: Globs = Field(default=[], description="Drop paths matching one of these globs, e.g. ['**/tests/**'].")
    repos: Names = Field(default=[], max_length=256, description="Repository names.")


class GetScopeRequest(StrictModel):
    """Which scope an id holds."""

    scope_id: str = Field(description="From set_scope.")


class Scope(StrictModel):
    """A scope, its lists sorted and without repetitions."""

    languages: list[str] = Field(description="Languages; empty for all.")
    include: list[str] = Field(description="Globs of which a path must match one; empty for all paths.")
    exclude: list[str] = Field(description="Globs of which a path must match none.")
    repos: list[str] = Field(description="Repositories; empty for all.")

    @classmethod
    def of(cls, request: SetScopeRequest) -> Scope:
        """Return the one scope of all requests that mean the same."""
        return cls(**{name: sorted(set(values)) for name, values in request.model_dump().items()})

    def filters(self) -> FileFilters:
        """Return the scope as filters of a request."""
        return FileFilters(lang=self.languages, include=self.include, exclude=self.exclude, repos=self.repos)

    def id(self) -> str:
        """Return the scope's id, of the characters ``A-Z a-z 0-9 _ -``.

        Returns:
            The id.

        Raises:
            InvalidArgumentError: The scope is too large for an id.
        """
        written = self._encode_json()
        if len(written) > MAX_SCOPE_BYTES:
            raise InvalidArgumentError(
                f"the scope takes {len(written)} bytes, expected at most {MAX_SCOPE_BYTES}",
                suggestion="use fewer or wider globs, e.g. 'src/**'",
            )
        return _PREFIX + base64.urlsafe_b64encode(_digest(written) + written).rstrip(b"=").decode()

    def _encode_json(self) -> bytes:
        return json.dumps(self.model_dump(), sort_keys=True, separators=(",", ":")).encode()


class ScopeAnswer(StrictModel):
    """A scope and what it holds."""

    scope_id: str = Field(description="Give it to any tool that takes filters; it holds the whole scope.")
    scope: Scope = Field(description="What the id stands for.")
    files: int = Field(description="Indexed files in the scope.")
    chunks: int = Field(description="Their chunks; 0 means that nothing can be found in it.")
    limits: list[str] = Field(description="What should be known of the scope; empty when nothing.")
    bundle: BundleInfo = Field(description="The index version the counts are of.")


def parse_scope_id(text: str) -> Scope:
    """Return the scope of an id.

    >>> empty = Scope.of(SetScopeRequest())
    >>> parse_scope_id(empty.id()) == empty
    True

    Args:
        text: The id.

    Returns:
        The scope.

    Raises:
        InvalidArgumentError: `Scope.id` does not make such a text.
    """
    try:
        if not text.startswith(_PREFIX) or len(text) > 2 * MAX_SCOPE_BYTES:
            raise ValueError
        body = text.removeprefix(_PREFIX).encode("ascii")
        raw = base64.b64decode(body + b"=" * (-len(body) % 4), b"-_", validate=True)
        scope = Scope.model_validate_json(raw[_DIGEST_BYTES:], strict=True)
        # One id for each scope: spaces in the JSON or loose bits at the end of the base64 would make others.
        if scope.id() != text:
            raise ValueError
    except (ValueError, binascii.Error, ValidationError, RecursionError):
        raise InvalidArgumentError(
            "scope_id: not one that set_scope returns", suggestion="call set_scope again and copy its scope_id whole"
        ) from None
    return scope


def _digest(written: bytes) -> bytes:
    return hashlib.blake2b(written, digest_size=_DIGEST_BYTES, person=b"codequarry-scope").digest()
