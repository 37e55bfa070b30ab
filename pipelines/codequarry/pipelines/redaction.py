"""Secrets become asterisks before anything is made of a file, so that no stage, index or table ever holds one.

A redacted file is as long as it was, in bytes and in lines, and everything that is derived from a file is derived from
that: texts, vectors, terms, chunk ids, and every sha256 but the commit id, which is git's. What was found in a file
is kept in the store by the file's name and contents.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pathspec

from codequarry.pipelines.content_store import ContentStore, open_content_store
from codequarry.pipelines.ignore_rules import settings_patterns
from codequarry.pipelines.secret_scanner import LIBRARY, Span, find_secrets
from codequarry.pipelines.tools import scanner_version, tool_versions
from codequarry.schemas.settings import Settings

_ARMOUR = re.compile(rb"-----(?:BEGIN|END)[A-Z0-9 ]*-----")
_KEY_MATERIAL = re.compile(rb"(?<!\\)[A-Za-z0-9+/=]")
_VISIBLE = re.compile(rb"\S")


class Secret(NamedTuple):
    """A secret that was found, and nothing of what it was."""

    line: int
    """0-based."""
    kind: str
    """As ``github-pat``."""


class Redacted(NamedTuple):
    """A file without its secrets."""

    content: bytes
    secrets: tuple[Secret, ...]
    """In order of place."""


class Redactor:
    """Takes secrets out of files. Use through `open_redactor`."""

    def __init__(self, settings: Settings, store: ContentStore | None) -> None:
        self._allowed: pathspec.GitIgnoreSpec = settings_patterns(settings.secrets.allow, "[secrets] allow")
        self._store = store

    def redact(self, files: Sequence[tuple[str, bytes]]) -> list[Redacted]:
        """Each file without its secrets, in order. files: (path, content)."""
        if self._store is None:
            return [Redacted(content, ()) for _, content in files]
        keys = [scan_key(path, hashlib.sha256(content).hexdigest()) for path, content in files]
        known = self._store.get(keys)
        new: dict[bytes, bytes] = {}
        made: list[Redacted] = []
        for (path, content), key in zip(files, keys, strict=True):
            if (answer := known.get(key) or new.get(key)) is None:
                spans = find_secrets(_name(path), content)
                answer = new[key] = json.dumps(spans).encode()
            allowed = answer == b"[]" or self._allowed.match_file(path)
            spans = [] if allowed else [Span(*span) for span in json.loads(answer)]
            made.append(_without(content, spans) if spans else Redacted(content, ()))
        if new:
            self._store.put(new.items())
        return made

    def text(self, text: str) -> str:
        """A text of no file, as a message or a comment, without its secrets; it is not kept in the store."""
        if self._store is None:
            return text
        content = text.encode("utf-8", "surrogatepass")
        spans = find_secrets("", content)
        return _without(content, spans).content.decode("utf-8", "surrogatepass") if spans else text


@contextmanager
def open_redactor(settings: Settings) -> Iterator[Redactor]:
    """Redact as the settings say; raises as `open_content_store`."""
    if not settings.secrets.scan:
        yield Redactor(settings, None)
        return
    with open_content_store(scans_file(settings.paths.store)) as store:
        yield Redactor(settings, store)


def scans_folder(store: Path) -> Path:
    """Where the store keeps what was found."""
    return store / "secrets"


def scans_file(store: Path) -> Path:
    """The file of what this scanner found."""
    scanner = f"{LIBRARY} {scanner_version()} {tool_versions()['codequarry']}"
    return scans_folder(store) / f"{hashlib.sha256(scanner.encode()).hexdigest()}.sqlite"


def scan_key(path: str, content_sha256: str) -> bytes:
    """Key of a file: what is found depends on its name and bytes alone."""
    return hashlib.sha256(f"{_name(path)}\0{content_sha256}".encode("utf-8", "surrogatepass")).digest()


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _without(content: bytes, spans: Sequence[Span]) -> Redacted:
    redacted = bytearray(content)
    secrets: list[Secret] = []
    line = counted = 0
    for start, end, kind in spans:
        redacted[start:end] = _masked(content[start:end])
        line, counted = line + content.count(b"\n", counted, start), start
        secrets.append(Secret(line, kind))
    return Redacted(bytes(redacted), tuple(secrets))


def _masked(secret: bytes) -> bytes:
    """As many bytes and lines. Of a key in armour the armour stays, and the syntax around its lines."""
    armour = list(_ARMOUR.finditer(secret))
    if not armour:
        return _VISIBLE.sub(b"*", secret)
    masked = bytearray(_KEY_MATERIAL.sub(b"*", secret))
    for found in armour:
        masked[found.start() : found.end()] = found[0]
    return bytes(masked)
