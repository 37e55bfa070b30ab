"""Web links to indexed code: lines of a commit have an address when the host of the repository is known."""

from __future__ import annotations

import re
from urllib.parse import quote

from codequarry.schemas.bundle.manifest import SourceEntry

_HOSTS = {
    "github.com": "https://github.com/{path}/blob/{commit}/{file}#L{first}-L{last}",
    "gitlab.com": "https://gitlab.com/{path}/-/blob/{commit}/{file}#L{first}-{last}",
    "codeberg.org": "https://codeberg.org/{path}/src/commit/{commit}/{file}#L{first}-L{last}",
    "bitbucket.org": "https://bitbucket.org/{path}/src/{commit}/{file}#lines-{first}:{last}",
}
_REMOTE = re.compile(r"(?:(?:https|ssh|git)://(?:[^/@]*@)?|[\w.+-]+@)(?P<host>[a-z0-9.-]+)(?::[0-9]+)?[:/](?P<path>.+)")
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+")
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def permalink(source: SourceEntry | None, path: str, first: int, last: int) -> str:
    """Return the address of lines ``first`` to ``last``, 1-based; "" without a known host or commit.

    >>> permalink(None, "a.py", 1, 2)
    ''
    """
    if source is None or source.dirty or not _COMMIT.fullmatch(source.commit):
        return ""
    match = _REMOTE.fullmatch(source.url)
    pattern = _HOSTS.get(match["host"]) if match else None
    if match is None or pattern is None:
        return ""
    remote = match["path"].strip("/").removesuffix(".git")
    if not _PATH.fullmatch(remote):
        return ""
    return pattern.format(path=remote, commit=source.commit, file=quote(path, safe="/"), first=first, last=last)
