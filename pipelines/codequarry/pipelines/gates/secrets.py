"""The gate of secrets: the texts of a staged version are scanned again, and the number of found secrets is limited.

The scanner itself is run, without the store of earlier results. It also has to find a known dummy token, so that a
broken scanner is not mistaken for clean files.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from codequarry.pipelines.ignore.rules import settings_patterns
from codequarry.pipelines.secrets.scanner import find_secrets
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.bundle.tables import read_table
from codequarry.schemas.gates.expectation import EXAMPLES
from codequarry.schemas.settings.sources import SecretsSettings
from codequarry.serving.version.check import Check

IN_TEXTS = "secrets in texts"
SCANNER = "scanner of secrets"
NUMBER = "secrets found"
SECRETS = (SCANNER, IN_TEXTS, NUMBER)
"""Every check of this module."""

_CANARY = "ghp" + "_" + "A7xQ9kLm2ZpR4tVb8NcY1WdE5sHfJ3uG6oi0"
"""Dummy in the format of a token; it never opened anything."""


def secret_checks(
    paths: BundlePaths, manifest: Manifest, held: Manifest | None, settings: SecretsSettings, most: int | None
) -> list[Check]:
    """Check for secrets left in a staged version, and limit the number that was taken out of its files.

    Args:
        paths: Paths of the staged version.
        manifest: Its manifest.
        held: Manifest of CURRENT, whose tables of chunks were scanned when they were published; None without one.
        settings: Settings of the scan.
        most: Largest number of secrets that may have been taken out; None for any.

    Returns:
        The checks.
    """
    expected = "any number" if most is None else f"at most {most}"
    if not settings.scan:
        return [Check(NUMBER, most is None, "not looked for: secrets.scan is false", expected)]
    works = bool(find_secrets("canary.py", f'token = "{_CANARY}"\n'.encode()))
    left = list(_in_texts(paths, manifest, held, settings.allow)) if works else []
    found = {source.name: sum((source.secrets or {}).values()) for source in manifest.sources}
    total = sum(found.values())
    most_of = sorted((name for name in found if found[name]), key=lambda name: (-found[name], name))[:EXAMPLES]
    return [
        Check(SCANNER, works, "works" if works else "does not find a token that was put before it", "works"),
        Check(IN_TEXTS, not left, str(len(left)), "0", tuple(left[:EXAMPLES])),
        Check(
            NUMBER, most is None or total <= most, f"{total:,}", expected,
            tuple(f"{name}: {found[name]:,}" for name in most_of),
        ),
    ]  # fmt: skip


def _in_texts(paths: BundlePaths, manifest: Manifest, held: Manifest | None, allow: tuple[str, ...]) -> Iterator[str]:
    """Yield each secret in files whose chunks CURRENT does not hold, as ``repo/path:line kind``."""
    allowed = settings_patterns(allow, "[secrets] allow")
    known = {entry.sha256 for entry in held.files} if held is not None else set[str]()
    digests = {entry.path: entry.sha256 for entry in manifest.files}
    for file in paths.table_files("chunks"):
        if digests[file.relative_to(paths.path).as_posix()] in known:
            continue
        rows = read_table(file, ["repo", "path", "text"])
        texts = zip(*(column.to_pylist() for column in rows.columns), strict=True)
        for (repo, path), chunks in groupby(texts, key=lambda row: row[:2]):
            if allowed.match_file(path):
                continue
            content = "".join(text for *_, text in chunks).encode()
            for span in find_secrets(path.rpartition("/")[2], content):
                line = content.count(b"\n", 0, span.start) + 1
                yield f"{repo}/{path}:{line} {span.kind}"
