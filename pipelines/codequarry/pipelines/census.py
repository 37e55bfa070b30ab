"""The file census: every path of a source is either indexed or recorded with the reason why not."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pathspec

from codequarry.pipelines.c_headers import header_language
from codequarry.pipelines.git import SUBMODULE_MODE, blob_oid
from codequarry.pipelines.ignore_rules import OWN_IGNORE_FILE, IgnoreFiles, settings_patterns
from codequarry.pipelines.path_classes import path_class
from codequarry.pipelines.skip_rules import by_content, by_kind, by_name, by_size, is_secret
from codequarry.pipelines.source_files import SourceFiles, open_files, read_plain
from codequarry.pipelines.sources import Source
from codequarry.schemas.languages import language_of
from codequarry.schemas.settings import SourcesSettings

_IGNORE_FILE_LIMIT = 1_000_000
_CLASS_BY_REASON = {"generated": "generated", "minified": "generated", "vendored": "vendored"}


@dataclass(frozen=True, slots=True)
class CensusFile:
    """One path and its fate."""

    path: str
    lang: str | None
    size_bytes: int
    skip_reason: str | None
    content: bytes = b""
    """The file's bytes when it is indexed."""
    sha256: str = ""
    encoding: str = ""
    """``utf-8``, or ``unknown-8bit`` when some bytes are not valid UTF-8; "" when skipped."""
    differs_from_head: bool = False

    @property
    def path_class(self) -> str:
        """source, test, example, docs, generated, vendored or stub."""
        return _CLASS_BY_REASON.get(self.skip_reason or "") or path_class(self.path)


def take_census(
    source: Source, settings: SourcesSettings, progress: Callable[[int, int], None] | None = None
) -> Iterator[CensusFile]:
    """Every path of the source in sorted order, contents included where indexed.

    progress: called with (files done, files in all).

    One file is held at a time; an unreadable or vanished file is a row, never an exception.
    """
    with open_files(source) as files:
        rules = _Ignored(source, settings, files)
        escapes: dict[bytes, bool] = {}
        for done, raw in enumerate(source.paths, start=1):
            folder = os.path.dirname(raw)
            if folder not in escapes:
                escapes[folder] = files.escapes(folder)
            if escapes[folder]:
                yield CensusFile(raw.decode("utf-8", "backslashreplace"), None, 0, "outside_tree")
            else:
                yield _examine(source, files, raw, settings, rules)
            if progress is not None and (done % 256 == 0 or done == len(source.paths)):
                progress(done, len(source.paths))


class _Ignored:
    """What git has not applied already: the settings' patterns, our ignore files, a plain directory's .gitignore."""

    def __init__(self, source: Source, settings: SourcesSettings, files: SourceFiles) -> None:
        def read(path: str) -> bytes | None:
            return read_plain(files, path.encode(), _IGNORE_FILE_LIMIT)

        self._excluded: pathspec.GitIgnoreSpec = settings_patterns(settings.exclude)
        self._own = IgnoreFiles(OWN_IGNORE_FILE, read)
        self._git = None if source.commit else IgnoreFiles(".gitignore", read)

    def reason(self, path: str) -> str | None:
        if self._excluded.match_file(path) or (self._git is not None and self._git.ignores(path)):
            return "excluded"
        return "codequarryignore" if self._own.ignores(path) else None


def _examine(
    source: Source, files: SourceFiles, raw: bytes, settings: SourcesSettings, ignored: _Ignored
) -> CensusFile:
    try:
        path = raw.decode("utf-8")
    except UnicodeDecodeError:
        return CensusFile(raw.decode("utf-8", "backslashreplace"), None, 0, "path_not_utf8")
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
            return CensusFile(path, None, 0, "unreadable")  # a folder comes up only when it cannot be listed
        if head is None:
            return CensusFile(path, None, 0, "nested_repository")  # a submodule that is not committed yet
        return CensusFile(path, lang, 0, "missing", differs_from_head=True)
    size = status.size_bytes
    reason = by_kind(status.mode) or _by_path(path, ignored) or by_size(size, settings.max_file_bytes)
    if reason is not None:
        return CensusFile(path, lang, size, reason)
    try:
        content = files.read(raw, settings.max_file_bytes)
    except OSError:
        return CensusFile(path, lang, size, "unreadable")
    reason = by_size(len(content), settings.max_file_bytes) or by_content(content)
    if reason is not None:
        return CensusFile(path, lang, len(content), reason)
    if path.endswith(".h") and lang == "c":
        lang = header_language(content)
    differs = head is None if source.commit else False
    if head is not None and not source.from_commit:
        differs = blob_oid(content, head.oid) != head.oid
    return CensusFile(
        path,
        lang or "text",
        len(content),
        None,
        content,
        sha256=hashlib.sha256(content).hexdigest(),
        encoding=_encoding(content),
        differs_from_head=differs,
    )


def _by_path(path: str, ignored: _Ignored) -> str | None:
    if is_secret(path):
        return "secret_file"
    return ignored.reason(path) or by_name(path)


def _encoding(content: bytes) -> str:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return "unknown-8bit"
    return "utf-8"
