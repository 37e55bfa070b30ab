"""The file census: every path of a source is either indexed or recorded with the reason for skipping it."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from codequarry.pipelines.git.trees import SUBMODULE_MODE, blob_oid
from codequarry.pipelines.ignore.patterns import MatchingBudget, TooMuchWorkError
from codequarry.pipelines.ignore.rules import OWN_IGNORE_FILE, IgnoreFiles, settings_patterns
from codequarry.pipelines.sources.beneath import leads_out
from codequarry.pipelines.sources.encoding import decoded_source
from codequarry.pipelines.sources.files import SourceFiles, open_files, read_plain
from codequarry.pipelines.sources.path_classes import path_class
from codequarry.pipelines.sources.skip import by_content, by_kind, by_name, by_size, is_reserved, is_secret
from codequarry.pipelines.sources.sources import Source
from codequarry.pipelines.sources.stamps import Stamp
from codequarry.schemas.languages import language_of
from codequarry.schemas.resources import raise_if_exhausted
from codequarry.schemas.settings.load import SourcesSettings

_IGNORE_FILE_BYTES = 1_000_000
_IGNORE_LIMIT = "ignore_limit"
_CLASS_BY_REASON = {"generated": "generated", "minified": "generated", "vendored": "vendored"}
_EXAMINED_BYTES = 64 << 10
_COMMENT_OR_STRING = re.compile(rb'/\*.*?(?:\*/|\Z)|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
# C headers for use in C++ hold `extern "C"` behind `#ifdef __cplusplus`: that alone is no sign of C++.
_ONLY_IN_CPP = re.compile(
    rb"""
    ^[ \t]*(?:
        (?:inline\s+)?namespace(?:\s+[A-Za-z_:]+){0,9}\s*\{
      | template\s*<
      | (?:enum\s+)?class\s+[^;(){}]{0,500}[{:;]
      | (?:public|protected|private)(?:\s+Q_SLOTS|\s+slots)?\s*:
      | using\s+[A-Za-z_]
      | constexpr\b
      | \#\s*include\s*<[a-z_]+>
    )
  | \bstd::|\boperator\s*[=<>+\-*/!\[(&|]|\bvirtual\s|\bstatic_cast\s*<|\bnullptr\b|\bnoexcept\b
    """,
    re.VERBOSE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class CensusFile:
    """One path: indexed, or skipped for a reason."""

    path: str
    lang: str | None
    size_bytes: int
    skip_reason: str | None
    content: bytes = b""
    """The file's text when it is indexed, in UTF-8."""
    sha256: str = ""
    encoding: str = ""
    """Encoding of the file on disk, see `decoded_source`; the content is UTF-8 when it is known. "" when skipped."""
    differs_from_head: bool = False
    may_differ: bool = False
    """True for a skipped file that differs from the commit, or was not read far enough to tell."""
    stamp: Stamp | None = None
    """Stamp of the file before it was looked at, where there is no commit to compare it with."""

    @property
    def path_class(self) -> str:
        """Path class: source, test, example, docs, generated, vendored or stub."""
        return _CLASS_BY_REASON.get(self.skip_reason or "") or path_class(self.path)


def take_census(
    source: Source, settings: SourcesSettings, progress: Callable[[int, int], None] | None = None
) -> Iterator[CensusFile]:
    """Yield every path of the source in sorted order, with contents where it is indexed.

    One file is held in memory at a time. An unreadable or vanished file is a row, never an exception.

    Args:
        source: Source to read.
        settings: Settings of sources, with size limits and exclusions.
        progress: Called with (files done, files in all).

    Yields:
        One entry per path.
    """
    with open_files(source) as files:
        rules = _Ignored(source, settings, files)
        escapes: dict[bytes, bool] = {}
        for done, raw in enumerate(source.paths, start=1):
            folder = os.path.dirname(raw)
            if folder not in escapes:
                escapes[folder] = files.escapes(folder)
            if escapes[folder] or leads_out(raw.removesuffix(b"/")):
                yield CensusFile(raw.decode("utf-8", "backslashreplace"), None, 0, "outside_tree")
            elif source.commit:
                yield _examine(source, files, raw, settings, rules)
            else:
                status = files.status(raw)
                entry = _examine(source, files, raw, settings, rules)
                yield replace(entry, stamp=status.stamp if status is not None else None)
            if progress is not None and (done % 256 == 0 or done == len(source.paths)):
                progress(done, len(source.paths))


class _Ignored:
    """Ignore rules besides git's own: the settings' patterns, our ignore files, a plain directory's .gitignore."""

    def __init__(self, source: Source, settings: SourcesSettings, files: SourceFiles) -> None:
        self._files = files
        self._too_large: set[str] = set()
        self._excluded = settings_patterns(settings.exclude)
        self._work = MatchingBudget()
        self._own = IgnoreFiles(OWN_IGNORE_FILE, self._read, self._work)
        self._git = None if source.commit else IgnoreFiles(".gitignore", self._read, self._work)

    def reason(self, path: str) -> str | None:
        if self._excluded.match_file(path):
            return "excluded"
        try:
            self._work.spend(1)
            if self._git is not None and self._git.ignores(path):
                return "excluded"
            if self._own.ignores(path):
                return "codequarryignore"
        except TooMuchWorkError:
            return _IGNORE_LIMIT
        return _IGNORE_LIMIT if self._is_refused(path) else None

    def _is_refused(self, path: str) -> bool:
        """Return whether a path is an ignore file whose patterns are not applied, because it is beyond a limit."""
        refused = (self._too_large, self._own.refused, self._git.refused if self._git is not None else ())
        return any(path in paths for paths in refused)

    def _read(self, path: str) -> bytes | None:
        raw = path.encode()
        status = self._files.status(raw)
        if status is not None and stat.S_ISREG(status.mode) and status.size_bytes > _IGNORE_FILE_BYTES:
            self._too_large.add(path)
        return read_plain(self._files, raw, _IGNORE_FILE_BYTES)


def _examine(
    source: Source, files: SourceFiles, raw: bytes, settings: SourcesSettings, ignored: _Ignored
) -> CensusFile:
    try:
        path = raw.decode("utf-8")
    except UnicodeDecodeError:
        return CensusFile(raw.decode("utf-8", "backslashreplace"), None, 0, "path_not_utf8")
    if is_reserved(path):
        return CensusFile(path, None, 0, "reserved_name")
    lang = language_of(path)
    head = source.head.get(raw)
    if path.endswith("/") or (head is not None and head.mode == SUBMODULE_MODE):
        return CensusFile(path, None, 0, "nested_repository")
    status = files.status(raw)
    if status is None and raw in source.unchecked:
        return CensusFile(path, lang, 0, "not_checked_out")
    if status is None:
        return CensusFile(path, lang, 0, "missing", differs_from_head=head is not None)
    if stat.S_ISDIR(status.mode):
        if not source.commit:
            return CensusFile(path, None, 0, "unreadable")  # folders are among the paths only if unreadable
        if head is None:
            return CensusFile(path, None, 0, "nested_repository")  # a submodule that is not committed yet
        return CensusFile(path, lang, 0, "missing", differs_from_head=True)
    size, on_disk = status.size_bytes, bool(source.commit) and not source.from_commit
    unread = by_kind(status.mode)
    reason = unread or _by_path(path, ignored)
    if reason is None:
        reason = unread = by_size(size, settings.max_file_bytes)
    if reason is not None:
        return CensusFile(path, lang, size, reason, may_differ=on_disk and unread is not None)
    try:
        written = files.read(raw, settings.max_file_bytes)
    except OSError as error:
        raise_if_exhausted(error, f"{path} cannot be read now")  # else the version would lack the file
        return CensusFile(path, lang, size, "unreadable", may_differ=on_disk)
    content, encoding = decoded_source(written)
    reason = by_size(len(written), settings.max_file_bytes) or by_content(content)
    differs = head is None if source.commit else False
    if head is not None and not source.from_commit:
        differs = blob_oid(written, head.oid) != head.oid
    if reason is not None:
        return CensusFile(path, lang, len(written), reason, may_differ=differs)
    if path.endswith(".h") and lang == "c":
        lang = header_language(content)
    return CensusFile(
        path,
        lang or "text",
        len(content),
        None,
        content,
        sha256=hashlib.sha256(content).hexdigest(),
        encoding=encoding,
        differs_from_head=differs,
    )


def _by_path(path: str, ignored: _Ignored) -> str | None:
    if is_secret(path):
        return "secret_file"
    return ignored.reason(path) or by_name(path)


def header_language(content: bytes) -> str:
    """Return ``cpp`` when the first 64 KiB of a ``.h`` file hold what no C compiler accepts; else ``c``.

    The name does not tell, and each grammar fails on the other's code.

    >>> header_language(b"struct point { int x; };"), header_language(b"class Point { int x; };")
    ('c', 'cpp')
    """
    code = _COMMENT_OR_STRING.sub(b" ", content[:_EXAMINED_BYTES])
    return "cpp" if _ONLY_IN_CPP.search(code) else "c"
