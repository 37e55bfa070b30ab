"""Repositories that a caller may see, by globs over their names.

Every answer is made as if no other repository were in the bundle.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

_DIGEST_DIGITS = 12


@dataclass(frozen=True, slots=True)
class RepositoryScope:
    """Globs of repositories, and the groups that they came from. Equal globs give equal answers."""

    globs: tuple[str, ...]
    """Sorted, each once."""
    groups: tuple[str, ...] = ()
    """Names of the groups that the caller holds, for the record alone."""

    @property
    def whole(self) -> bool:
        """True when every repository may be seen, those of later versions included."""
        return "*" in self.globs

    @property
    def digest(self) -> str:
        """Digest of the globs by which records tell scopes apart: twelve hexadecimal digits."""
        return hashlib.sha256("\n".join(self.globs).encode()).hexdigest()[:_DIGEST_DIGITS]

    def sees(self, repository: str) -> bool:
        """Tell whether a repository may be seen.

        >>> RepositoryScope(("billing", "ledger-*")).sees("ledger-eu"), NOTHING.sees("billing")
        (True, False)
        """
        return any(fnmatchcase(repository, glob) for glob in self.globs)

    def narrowed(self, other: RepositoryScope, repositories: Iterable[str]) -> RepositoryScope:
        """Return the scope of what this one and another one see, among known repositories.

        >>> RepositoryScope(("ledger-*",)).narrowed(RepositoryScope(("*-eu",)), ["ledger-eu", "ledger-us"]).globs
        ('ledger-eu',)
        """
        if self.whole:
            return other
        if other.whole:
            return self
        return RepositoryScope(tuple(sorted({one for one in repositories if self.sees(one) and other.sees(one)})))


EVERYTHING = RepositoryScope(("*",))
NOTHING = RepositoryScope(())
