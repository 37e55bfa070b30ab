"""History of the result documents of Great Expectations: the last ones of each table, in the work folder.

They hold times and random ids, which no bundle may. The name of a file is the time of its run and the digest of the
rows that it judged, so that a run finds the document of unchanged rows without reading the others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codequarry.pipelines.store.workspace import replacing

KEPT = 20
"""Documents of each table that are kept."""
_META = "codequarry"
_DIGEST_CHARS = 16
SITE = "site"
"""Folder of the pages, below the folder of the documents."""


@dataclass(frozen=True, slots=True)
class KeptDocument:
    """A result document: what Great Expectations wrote, and our summary in its ``meta``."""

    table: str
    path: Path
    content: dict[str, Any]

    @property
    def summary(self) -> Mapping[str, Any]:
        """Name of the run, repositories, rows, and what was found; see ``great_expectations``."""
        return self.content["meta"][_META]

    @property
    def passed(self) -> bool:
        """True when every expectation holds."""
        return all(each["passed"] for each in self.summary["found"])

    @property
    def note(self) -> str:
        """Sentence on the rows that were looked at, and on what they were compared with."""
        said = self.summary
        rows = f"{said['rows']:,} rows"
        if said["looked_at"] < said["rows"]:
            rows = f"a sample of {said['looked_at']:,} of {rows}, chosen by the hash of their key"
        idle = f"{len(said['not_asked'])} not asked of so few rows" if said["not_asked"] else ""
        return "; ".join(part for part in (rows, idle, said["against_current"]) if part)

    def page(self, site: Path) -> Path:
        """Return the path of its page below the folder of the pages."""
        return site / self.table / f"{self.path.stem}.html"


def documents_folder(work: Path) -> Path:
    """Return the folder of the documents of a work folder."""
    return work / "gates"


def keep_document(
    folder: Path, table: str, content: Mapping[str, Any], summary: Mapping[str, Any], time: str, digest: str
) -> KeptDocument:
    """Write a document, and remove the oldest ones of its table with their pages.

    Args:
        folder: Folder of the documents.
        table: Table that was judged.
        content: Document of Great Expectations.
        summary: Our summary.
        time: Time of the run; names sort by it.
        digest: Digest of the rows and of the suite.

    Returns:
        The document.
    """
    whole = {**content, "meta": {**content["meta"], _META: dict(summary)}}
    text = json.dumps(whole, indent=1, sort_keys=True) + "\n"
    path = folder / table / f"{time}-{digest[:_DIGEST_CHARS]}.json"
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    for old in sorted(path.parent.glob("*.json"))[:-KEPT]:
        old.unlink(missing_ok=True)
        (folder / SITE / table / f"{old.stem}.html").unlink(missing_ok=True)
    return KeptDocument(table, path, json.loads(text))  # as readers find it, without NumPy's numbers


def document_of(folder: Path, table: str, digest: str) -> KeptDocument | None:
    """Return the newest kept document of these rows; None without one."""
    files = sorted((folder / table).glob(f"*-{digest[:_DIGEST_CHARS]}.json"), reverse=True)
    return next((read for file in files if (read := _read(table, file)) is not None), None)


def all_documents(folder: Path) -> list[KeptDocument]:
    """Return every kept document that can be read, newest first."""
    read = [_read(file.parent.name, file) for file in folder.glob("*/*.json")]
    return sorted((each for each in read if each is not None), key=lambda each: each.path.name, reverse=True)


def _read(table: str, file: Path) -> KeptDocument | None:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return KeptDocument(table, file, content) if _META in content.get("meta", {}) else None
