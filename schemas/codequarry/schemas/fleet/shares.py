"""Shares of a fleet: which bundles a replica holds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.fleet.generation import bundle_number

_SHARE = re.compile(r"([0-9]{1,4})/([0-9]{1,4})")


@dataclass(frozen=True, slots=True)
class Share:
    """One of several equal parts of the bundles.

    A bundle's number decides, and no list: bundles that come or go leave all others where they are, and numbers that
    follow each other spread evenly.
    """

    number: int
    """Number of the share, from 1 on."""
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @classmethod
    def parse(cls, text: str) -> Share:
        """Parse a share.

        >>> Share.parse("2/8")
        Share(number=2, of=8)

        Args:
            text: Number and count, as in 2/8.

        Returns:
            The share.

        Raises:
            InvalidArgumentError: It is none.
        """
        match = _SHARE.fullmatch(text)
        found = cls(int(match[1]), int(match[2])) if match else None
        if found is None or not 1 <= found.number <= found.of:
            raise InvalidArgumentError(
                f"{text[:40]!r} is no share of a fleet", suggestion="write it like 2/8, the second of eight"
            )
        return found

    def select(self, names: Iterable[str]) -> list[str]:
        """Return the bundles of this share, sorted.

        >>> Share(1, 2).select(["b0003", "b0001", "b0002"])
        ['b0001', 'b0003']

        Args:
            names: Names of bundles.

        Returns:
            Those that the share holds.
        """
        return sorted(name for name in names if bundle_number(name) % self.of == self.number % self.of)


WHOLE = Share(1, 1)
"""All bundles."""
