"""Listing the files of a repository, within the limits of the settings.

A few kilobytes of git objects can name more files than there are atoms: trees that hold trees. So a listing is read as
a stream, counted while it is read, and given up at the first limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from codequarry.pipelines.git.process import stream_git
from codequarry.schemas.errors import SourceError, SourceLimitError
from codequarry.schemas.settings.sources import LimitsSettings

_META_BYTES = 256
"""Room for what git writes beside a path: mode, type, id, size."""


class Listing:
    """Counter of what is listed of one repository."""

    def __init__(self, place: str, limits: LimitsSettings) -> None:
        """Start at zero entries.

        Args:
            place: Name of the repository in messages.
            limits: Limits of the listing.
        """
        self._place = place
        self._limits = limits
        # Read for each path: as attributes of their own these take half the time.
        self._left, self._path_bytes, self._depth = limits.entries, limits.path_bytes, limits.depth

    def add(self, path: bytes) -> None:
        """Count a path.

        Args:
            path: Path as git lists it.

        Raises:
            SourceLimitError: There are too many paths, or this one is too long or too deep.
        """
        self._left -= 1
        if self._left >= 0 and len(path) <= self._path_bytes and path.count(b"/") < self._depth:
            return
        if self._left < 0:
            raise self._beyond("entries", f"has more than {self._limits.entries:,} files")
        if len(path) > self._path_bytes:
            raise self._beyond("path_bytes", f"has a path of more than {self._path_bytes:,} bytes")
        raise self._beyond("depth", f"has a path of more than {self._depth:,} names")

    def records(
        self, folder: Path, *arguments: str, data: bytes = b"", settings: Mapping[str, str] | None = None
    ) -> Iterator[bytes]:
        """Yield what git lists, one NUL-terminated record after the other; git is stopped at the end in any case.

        Args:
            folder: Folder that git runs in.
            *arguments: Git command and its options.
            data: Bytes of its standard input.
            settings: Further git settings.

        Yields:
            Records without the NUL.

        Raises:
            SourceError: Git fails.
            SourceLimitError: The listing is too large or takes too long.
        """
        size, rest = 0, b""
        output = stream_git(folder, *arguments, timeout_s=self._limits.listing_timeout_s, data=data, settings=settings)
        try:
            while True:
                try:
                    block = next(output)
                except StopIteration as end:
                    outcome = end.value
                    break
                size += len(block)
                if size > self._limits.listing_bytes:
                    raise self._beyond(
                        "listing_bytes", f"has a listing of more than {self._limits.listing_bytes:,} bytes"
                    )
                *records, rest = (rest + block).split(b"\0")
                yield from records
                if len(rest) > self._limits.path_bytes + _META_BYTES:
                    raise self._beyond("path_bytes", f"has a path of more than {self._limits.path_bytes:,} bytes")
        except TimeoutError:
            found = f"is not listed in {self._limits.listing_timeout_s:g} s by git {arguments[0]}"
            raise self._beyond("listing_timeout_s", found) from None
        finally:
            output.close()
        if rest:
            yield rest
        if not outcome.done:
            raise SourceError(
                f"git {arguments[0]} failed in {self._place}: {outcome.complaint[:300]}",
                suggestion="run `git fsck` there; the repository may be damaged",
            )

    def _beyond(self, limit: str, found: str) -> SourceLimitError:
        return SourceLimitError(
            f"{self._place} {found} ([limits] {limit})",
            limit=f"limits.{limit}",
            suggestion=f"index a folder of it, or raise [limits] {limit} if you trust it",
        )
