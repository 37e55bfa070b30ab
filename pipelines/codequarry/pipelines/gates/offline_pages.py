"""Pages of result documents that need no network: the style is inside of them, and scripts are gone.

Great Expectations renders a document with styles, scripts, fonts and pictures of public servers. Without those, what it
folds away would stay hidden and its index, which a script fills, empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from pathlib import Path

from codequarry.pipelines.gates.kept_documents import KeptDocument
from codequarry.pipelines.store.workspace import replacing

_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 75rem; margin: 1.5rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; }
td, th { border: 1px solid #8886; padding: .3rem .6rem; text-align: left; vertical-align: top; }
nav ol, .breadcrumb { list-style: none; display: flex; gap: 1rem; padding: 0; }
.btn-group-toggle, .btn-group { display: none; }
.failed { color: #c0392b; font-weight: bold; }
"""
_GONE = re.compile(
    r"<script\b.*?</script\s*>|<link\b[^>]*>|<img\b[^>]*>|<iframe\b.*?</iframe\s*>|@font-face\s*\{[^}]*\}"
    r"|@import[^;]*;|url\([^)]*\)|<footer\b.*?</footer\s*>",
    re.DOTALL | re.IGNORECASE,
)
_OF_SUITES = re.compile(r' href="(?:\.\./)+expectations/[^"]*"')
"""Links to pages of the suites, which the pages of the results repeat."""
_HOME = re.compile(r'href="(?:\.\./)+index\.html"')


def offline_page(html: str, note: str) -> str:
    """Return a rendered page without anything that a browser would fetch, in our style, with a note on top.

    >>> offline_page('<head><script src="https://cdn/x.js"></script></head><body><a href="../../index.html">', "3 rows")
    ... # doctest: +ELLIPSIS
    '<head><style>...</style></head><body><p>3 rows</p><a href="../index.html">'
    """
    plain = _HOME.sub('href="../index.html"', _OF_SUITES.sub("", _GONE.sub("", html)))
    styled = plain.replace("</head>", f"<style>{_STYLE}</style></head>", 1)
    return styled.replace("<body>", f"<body><p>{escape(note)}</p>", 1)


def write_page(file: Path, html: str) -> None:
    """Write a page so that readers see the old or the new one."""
    with replacing(file) as temporary:
        temporary.write_text(html, encoding="utf-8")


def write_index(site: Path, documents: Iterable[KeptDocument]) -> Path:
    """Write the page that lists the documents, newest first.

    Args:
        site: Folder of the pages.
        documents: Documents with a page.

    Returns:
        Path of the page.
    """
    head = ("run", "time", "table", "rows", "looked at", "expectations", "result")
    lines = [
        "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'><title>Great Expectations of codequarry</title>",
        f"<style>{_STYLE}</style></head><body><h1>Great Expectations</h1>",
        "<p>The last results of each table. They warn; what stops a version is judged by SQL.</p>",
        f"<table><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>",
        *map(_line, documents),
        "</table></body></html>",
    ]
    page = site / "index.html"
    write_page(page, "\n".join(lines) + "\n")
    return page


def _line(document: KeptDocument) -> str:
    said, failed = document.summary, [each["name"] for each in document.summary["found"] if not each["passed"]]
    cells = (
        escape(said["run"]),
        escape(said["time"]),
        f'<a href="{escape(document.page(Path()).as_posix())}">{escape(document.table)}</a>',
        f"{said['rows']:,}",
        f"{said['looked_at']:,}",
        str(len(said["found"])),
        f'<span class="failed">{escape("; ".join(failed))}</span>' if failed else "all hold",
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
