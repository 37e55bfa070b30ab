"""No secret is published: the texts of a staged version are looked through again, and how many were found is limited.

The scanner is asked itself, and not the store of what it found before; it has to find a secret that is none, so that a
scanner that finds nothing is not taken for files that hold nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from codequarry.pipelines.ignore_rules import settings_patterns
from codequarry.pipelines.secret_scanner import find_secrets
from codequarry.schemas.checks import Check
from codequarry.schemas.expectations import EXAMPLES
from codequarry.schemas.layout import BundlePaths
from codequarry.schemas.manifest import Manifest
from codequarry.schemas.settings import Settings
from codequarry.schemas.tables import read_table

IN_TEXTS = "secrets in texts"
SCANNER = "scanner of secrets"
NUMBER = "secrets found"
SECRETS = (SCANNER, IN_TEXTS, NUMBER)
"""Every check of this module."""

_CANARY = "ghp" + "_" + "A7xQ9kLm2ZpR4tVb8NcY1WdE5sHfJ3uG6oi0"
"""Of the format of a token; it never opened anything."""


def secret_checks(paths: BundlePaths, manifest: Manifest, held: Manifest | None, settings: Settings) -> list[Check]:
    """What a staged version holds that nobody may read, and how many secrets were taken out of its files.

    held: the manifest of CURRENT, whose tables of chunks were looked through when they were published.
    """
    most = settings.checks.max_secrets
    expected = "any number" if most is None else f"at most {most}"
    if not settings.secrets.scan:
        return [Check(NUMBER, most is None, "not looked for: secrets.scan is false", expected)]
    works = bool(find_secrets("canary.py", f'token = "{_CANARY}"\n'.encode()))
    left = list(_in_texts(paths, manifest, held, settings)) if works else []
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


def _in_texts(paths: BundlePaths, manifest: Manifest, held: Manifest | None, settings: Settings) -> Iterator[str]:
    """Each secret in files of which CURRENT does not hold the same chunks, as ``repo/path:line kind``."""
    allowed = settings_patterns(settings.secrets.allow, "[secrets] allow")
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
