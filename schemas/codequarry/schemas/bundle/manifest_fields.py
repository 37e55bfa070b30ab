"""Types of the manifest's fields: a manifest may come from anywhere, and what it says reaches people and agents.

What programs act on (versions, times, names, URLs, refs, commits, digests, numbers) is refused unless it has the form
that this program writes. Free text, such as why an indexer failed, is taken as one line without control and invisible
characters and of limited length, so that versions which are published already still open.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import accumulate
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from codequarry.schemas.bundle.layout import is_version_name
from codequarry.schemas.git_urls import check_ref, parse_git_url

MAX_SIZE = 1 << 46
"""Most bytes of a file. Sums over all files stay below 2^63, which tables can hold."""
MAX_COUNT = 1 << 40
MAX_DIM = 1 << 20
MAX_SOURCES = 50_000
MAX_FILES = 100_000
MAX_ENTRIES = 1_000
"""Most entries of every other list and table of the manifest."""
_FIRST_YEAR, _LAST_YEAR = 2000, 2261
"""NumPy's and pandas' nanoseconds end in 2262."""
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|\+00:00)")
_LABEL_CHARS, _TEXT_CHARS, _URL_CHARS = 500, 4_000, 2_000
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
# Invisible characters, which can spell out any text.
_VARIATION_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
MAX_PATH_BYTES = 512
MAX_DEPTH = 16
"""Most names in a path; each of its folders is remembered."""
_MAX_NAME_BYTES = 255


def visible_line(text: str) -> str:
    """Return the text on one line, without control and invisible characters.

    >>> visible_line("a\\x1b[2Jb\\n\\u202ec")
    'a[2Jb c'
    """
    text = _VARIATION_SELECTORS.sub("", text)
    if text.isprintable():
        return text
    line = re.sub(r"\s+", " ", text)
    return "".join(character for character in line if unicodedata.category(character) not in _INVISIBLE)


def _label(value: object) -> object:
    return visible_line(value)[:_LABEL_CHARS] if isinstance(value, str) else value


def _text(value: object) -> object:
    return visible_line(value)[:_TEXT_CHARS] if isinstance(value, str) else value


def _prefix(value: object) -> object:
    if not isinstance(value, str):
        return value
    return "\n".join(visible_line(line) for line in value[:_TEXT_CHARS].split("\n"))


def _version(value: str) -> str:
    if not is_version_name(value):
        raise ValueError("no version name")
    moment = datetime.strptime(value[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    return _in_time(value, moment)


def _time(value: str) -> str:
    if _TIME.fullmatch(value) is None:
        raise ValueError("no UTC time of ISO 8601")
    return _in_time(value, datetime.fromisoformat(value))


def _in_time(value: str, moment: datetime) -> str:
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        raise ValueError(f"expected a year from {_FIRST_YEAR} to {_LAST_YEAR}")
    return value


def _url(value: str) -> str:
    if value and parse_git_url(value).public != value:
        raise ValueError("the URL holds credentials")
    return value


def _ref(value: str) -> str:
    if value and (check_ref(value) != visible_line(value)):
        raise ValueError("the ref holds invisible characters")
    return value


Count = Annotated[int, Field(strict=True, ge=0, le=MAX_COUNT)]
Size = Annotated[int, Field(strict=True, ge=0, le=MAX_SIZE)]
Dim = Annotated[int, Field(strict=True, ge=1, le=MAX_DIM)]
Flag = Annotated[bool, Field(strict=True)]
VersionName = Annotated[str, Field(strict=True), AfterValidator(_version)]
Time = Annotated[str, Field(strict=True), AfterValidator(_time)]
Name = Annotated[str, Field(strict=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
"""Of a repository, as the settings take it and folders are renamed to."""
Url = Annotated[str, Field(strict=True, max_length=_URL_CHARS), AfterValidator(_url)]
Ref = Annotated[str, Field(strict=True), AfterValidator(_ref)]
Hex = Annotated[str, Field(strict=True, pattern=r"^[0-9a-f]{0,64}$")]
"""A commit id or a digest, where there is one."""
Sha256 = Annotated[str, Field(strict=True, pattern=r"^[0-9a-f]{64}$")]
Label = Annotated[str, BeforeValidator(_label)]
"""A name or a word that people read."""
Text = Annotated[str, BeforeValidator(_text)]
"""Sentences that people read."""
PrefixText = Annotated[str, BeforeValidator(_prefix)]
"""Text before a query or a chunk; may have several lines."""
Counted = Annotated[dict[Label, Count], Field(max_length=MAX_ENTRIES)]


def check_file_paths(paths: Iterable[str], *, taken: str) -> None:
    """Check that files of these paths can be made below one folder, each at its own place and none elsewhere.

    >>> check_file_paths(["bm25/meta.json", "faiss.index"], taken="manifest.json")
    >>> check_file_paths(["bm25", "bm25/meta.json"], taken="manifest.json")
    Traceback (most recent call last):
    ValueError: 'bm25' is a file and a folder

    Args:
        paths: '/' separated, relative to the folder.
        taken: Path of a file that lies there already.

    Raises:
        ValueError: A path leads out of the folder, is not a path, comes twice, or is also the folder of another file.
    """
    files, folders = {taken}, set[str]()
    for path in paths:
        _check(path)
        if path in files:
            raise ValueError(f"{path!r} is there twice")
        files.add(path)
        folders.update(accumulate(path.split("/")[:-1], "{}/{}".format))
    if both := sorted(files & folders):
        raise ValueError(f"{both[0]!r} is a file and a folder")


def _check(path: str) -> None:
    names = path.split("/")
    if any(name in ("", ".", "..") for name in names):
        raise ValueError(f"{path!r} is no path below a folder")
    if visible_line(path) != path:
        raise ValueError(f"{path!r} has characters that cannot be shown")
    if len(names) > MAX_DEPTH:
        raise ValueError(f"{path[:80]!r}… has more than {MAX_DEPTH} names")
    if len(path.encode()) > MAX_PATH_BYTES or any(len(name.encode()) > _MAX_NAME_BYTES for name in names):
        raise ValueError(f"{path[:80]!r}… is too long")
