"""Redaction: asterisks replace secrets before anything is made of a file, so that no stage, index or table holds one.

A redacted file has the same number of bytes and lines as the original. Everything derived from a file is derived from
its redacted form: texts, vectors, terms, chunk ids, and every sha256 but the commit id, which is git's. The store keeps
findings by the file's name and contents.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from codequarry.pipelines.ignore.rules import settings_patterns
from codequarry.pipelines.secrets.scanner import ARMOUR, PUTTY, RULES, Span, find_secrets
from codequarry.pipelines.store.content import ContentStore, open_content_store
from codequarry.pipelines.store.library_versions import SCANNER, scanner_version, tool_versions
from codequarry.schemas.settings.load import Settings

_KEY_MATERIAL = re.compile(rb"(?<!\\)[A-Za-z0-9+/=]")
_VISIBLE = re.compile(rb"\S")


class Secret(NamedTuple):
    """Line and kind of a secret that was found, without its value."""

    line: int
    """0-based."""
    kind: str
    """Name of the rule, as ``github-pat``."""


class Redacted(NamedTuple):
    """A file without its secrets."""

    content: bytes
    secrets: tuple[Secret, ...]
    """The secrets, in order of place."""


class Redactor:
    """Redaction of secrets in files. Use through `open_redactor`."""

    def __init__(self, settings: Settings, store: ContentStore | None) -> None:
        self._allowed = settings_patterns(settings.secrets.allow, "[secrets] allow")
        self._store = store

    def redact(self, files: Sequence[tuple[str, bytes]]) -> list[Redacted]:
        """Return each file without its secrets, in order.

        Args:
            files: (path, content) of each file.

        Returns:
            Redacted files with the places of their secrets.
        """
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
        """Return a text that is not a file, as a message or a comment, without its secrets.

        Its findings are not stored.
        """
        if self._store is None:
            return text
        content = text.encode("utf-8", "surrogatepass")
        spans = find_secrets("", content)
        return _without(content, spans).content.decode("utf-8", "surrogatepass") if spans else text


@contextmanager
def open_redactor(settings: Settings) -> Iterator[Redactor]:
    """Open a redactor with the rules of the settings.

    Args:
        settings: Settings of secrets and paths.

    Yields:
        The redactor.

    Raises:
        UnavailableError: As `open_content_store` does.
        SettingsError: A pattern of `[secrets] allow` is invalid.
    """
    if not settings.secrets.scan:
        yield Redactor(settings, None)
        return
    with open_content_store(scans_file(settings.paths.store)) as store:
        yield Redactor(settings, store)


def scans_folder(store: Path) -> Path:
    """Return the folder of the findings in the store."""
    return store / "secrets"


def scans_file(store: Path) -> Path:
    """Return the file of the findings of this scanner with these rules."""
    scanner = f"{SCANNER} {scanner_version()} {tool_versions()['codequarry']}\0".encode()
    return scans_folder(store) / f"{hashlib.sha256(scanner + RULES.read_bytes()).hexdigest()}.sqlite"


def scan_key(path: str, content_sha256: str) -> bytes:
    """Return the key of a file: findings depend on its name and bytes alone."""
    return hashlib.sha256(f"{_name(path)}\0{content_sha256}".encode("utf-8", "surrogatepass")).digest()


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _without(content: bytes, spans: Sequence[Span]) -> Redacted:
    redacted = bytearray(content)
    secrets: list[Secret] = []
    line = counted = 0
    for start, end, kind in spans:
        redacted[start:end] = _masked(content[start:end], kind)
        line, counted = line + content.count(b"\n", counted, start), start
        secrets.append(Secret(line, kind))
    return Redacted(bytes(redacted), tuple(secrets))


def _masked(secret: bytes, kind: str) -> bytes:
    """Return a secret as asterisks, with as many bytes and lines.

    A key keeps its armour and the syntax around its lines.
    """
    armour = list(ARMOUR.finditer(secret))
    if not armour and kind != PUTTY:
        return _VISIBLE.sub(b"*", secret)
    masked = bytearray(_KEY_MATERIAL.sub(b"*", secret))
    for found in armour:
        masked[found.start() : found.end()] = found[0]
    return bytes(masked)
