"""Rules for git URLs and refs, and their display: never with credentials.

A URL reaches git's command line and a shell at the other end of ssh. Therefore only four schemes are accepted. Anything
that git or ssh could read as an option or as a program to run is refused (``ext::``, a host or path that starts with
``-``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

SCHEMES = ("https", "ssh", "git", "file")
_EXPECTED = "expected https://…, ssh://…, git://…, file:///… or user@host:path"
_URL = re.compile(r"(?P<scheme>[a-z]+)://(?P<authority>[^/]*)(?P<path>/.*)")
_SCP = re.compile(r"(?P<user>[A-Za-z0-9_][\w.+-]*)@(?P<host>\[[0-9A-Fa-f:.]+\]|[^/:@\[\]]+):(?P<path>(?!/?/?-)[^:].*)")
_USER_INFO = re.compile(r"(?<=://)[^/\s'\"]*@")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_][A-Za-z0-9_.-]*)(:[0-9]{1,5})?")
_REF = re.compile(
    r"(?!.*(\.\.|@\{|//|/\.|\.lock(/|$)))[^-/.\s~^:?*\[\\\x00-\x20\x7f][^\s~^:?*\[\\\x00-\x20\x7f]{0,249}"
)


@dataclass(frozen=True, slots=True)
class GitUrl:
    """A checked URL."""

    scheme: str
    public: str
    """The URL without credentials: what is stored, shown and digested."""
    name: str
    """Last part of the path without ``.git``: the name a clone would get."""
    secrets: tuple[str, ...]
    """Parts of the credentials, as written and decoded, to be cut out of git's messages."""


def parse_git_url(text: str) -> GitUrl:
    """Check a URL.

    >>> parse_git_url("https://me:token@example.org/team/app.git").public
    'https://example.org/team/app.git'
    >>> parse_git_url("git@example.org:team/app").name
    'app'

    Args:
        text: The URL, as a user wrote it.

    Returns:
        The checked URL.

    Raises:
        ValueError: Git may not be given the URL; the message holds no part of it.
    """
    if any(not char.isprintable() for char in text + unquote(text)) or " " in text:
        raise ValueError("a git URL must not hold spaces or control characters")
    scp = _SCP.fullmatch(text)
    if scp is not None:
        return GitUrl("ssh", text, _name(scp["path"]), ()) if _HOST.fullmatch(scp["host"]) else _refuse()
    match = _URL.fullmatch(text)
    if match is None or match["scheme"] not in SCHEMES:
        return _refuse()
    scheme, path = match["scheme"], match["path"]
    user_info, at, host = match["authority"].rpartition("@")
    if (scheme == "file") != (not match["authority"]) or (scheme != "file" and not _HOST.fullmatch(host)):
        return _refuse()
    if "#" in path or (scheme == "https" and "?" in path):
        raise ValueError("a git URL must hold no '?' or '#'; give a branch, tag or commit as ref")
    if unquote(user_info).startswith("-") or unquote(path).startswith("/-"):
        return _refuse()
    user, _, password = user_info.partition(":")
    if scheme == "ssh":  # the user is the account to log in as, seldom a secret and never optional
        return GitUrl(scheme, f"ssh://{user}{at}{host}{path}", _name(path), _forms(password))
    return GitUrl(scheme, f"{scheme}://{host}{path}", _name(path), _forms(user_info, user, password))


def looks_like_git_url(text: str) -> bool:
    """Return whether a person who writes this means a URL, valid or not, rather than a path.

    >>> [looks_like_git_url(each) for each in ("https://x/y", "ext::sh -c id", "git@host:app", "a/b", "c:d")]
    [True, True, True, False, False]
    """
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*:(//|:)|[\w.+-]+@[^/\s]+:", text) is not None


def check_ref(text: str) -> str:
    """Check a ref.

    >>> check_ref("release/2.0")
    'release/2.0'

    Args:
        text: Branch, tag, full ref name or commit id.

    Returns:
        The same text.

    Raises:
        ValueError: Git would not take the text for a ref.
    """
    if not _REF.fullmatch(text):
        raise ValueError("expected the name of a branch or tag, or a commit id")
    return text


def without_credentials(text: str) -> str:
    """Return a text with the user part of every URL in it cut out.

    >>> without_credentials("fatal: no https://me:token@example.org/app")
    'fatal: no https://example.org/app'
    """
    return _USER_INFO.sub("", text)


def _refuse() -> GitUrl:
    raise ValueError(f"not a git URL that may be used; {_EXPECTED}")


def _name(path: str) -> str:
    return unquote(path).rstrip("/").rpartition("/")[2].removesuffix(".git")


def _forms(*parts: str) -> tuple[str, ...]:
    """Return the parts as they are and unquoted, longest first: replacing one leaves no rest of a longer one."""
    return tuple(sorted({form for part in parts if part for form in (part, unquote(part))}, key=len, reverse=True))
