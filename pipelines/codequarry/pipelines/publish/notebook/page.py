"""A notebook with its outputs as one HTML page, pictures included, that fetches and runs nothing.

What a notebook shows may quote indexed text, which nobody trusts. So HTML passes a list of allowed tags, drawings are
images, and the policy of the page forbids scripts besides.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from html import escape
from html.parser import HTMLParser
from typing import Any

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 75rem; margin: 1.5rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; }
td, th { border: 1px solid #8886; padding: .2rem .6rem; text-align: left; vertical-align: top; }
pre { overflow-x: auto; } img { max-width: 100%; background: #fff; } summary { color: #888; cursor: pointer; }
"""
_TAGS = frozenset(
    "a b blockquote br caption code dd del div dl dt em h1 h2 h3 h4 h5 h6 hr i img li ol p pre s small span strong sub "
    "sup table tbody td tfoot th thead tr u ul".split()
)
_EMPTY = frozenset({"br", "hr", "img"})
_HIDDEN = frozenset({"script", "style"})
_ATTRIBUTES = {
    "colspan": re.compile(r"\d{1,3}"),
    "rowspan": re.compile(r"\d{1,3}"),
    "alt": re.compile(r".*", re.DOTALL),
    "href": re.compile(r"(?:https?://|#).*", re.DOTALL | re.IGNORECASE),
    "src": re.compile(r"data:image/(?:png|jpeg|gif|webp|svg\+xml);base64,[\w+/=\s]*"),
}
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PICTURES = ("image/svg+xml", "image/png", "image/jpeg")
_PICTURE = '<img src="data:image/'


def page_of(notebook: Mapping[str, Any], title: str, marks: Mapping[str, str]) -> str:
    """Return the page of an executed notebook.

    Args:
        notebook: The notebook, of nbformat 4, its texts joined.
        title: Title of the page.
        marks: Facts about the page by name, shown on top and found again by `mark`.

    Returns:
        The page, in HTML.
    """
    facts = ", ".join(f"{name} {value}" for name, value in marks.items())
    head = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        *(mark(name, value) for name, value in marks.items()),
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<p>{escape(title)}: {escape(facts)}</p>",
    ]
    return "\n".join([*head, *filter(None, map(_cell, notebook["cells"])), "</body></html>"]) + "\n"


def mark(name: str, value: str) -> str:
    """Return the tag by which a page says a fact about itself; no text of a cell can hold it."""
    return f'<meta name="codequarry-{escape(name)}" content="{escape(value)}">'


def count_pictures(page: str) -> int:
    """Return the number of pictures in a page."""
    return page.count(_PICTURE)


def clean(html: str) -> str:
    """Return HTML with allowed tags and attributes alone.

    >>> clean('<b onclick="x()">2 &lt; 3</b><script>x()</script><img src="https://h/x.png" alt="plot">')
    '<b>2 &lt; 3</b>plot'
    """
    cleaner = _Cleaner()
    cleaner.feed(html)
    cleaner.close()
    return "".join([*cleaner.made, *(f"</{tag}>" for tag in reversed(cleaner.unclosed))])


class _Cleaner(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.made: list[str] = []
        self.unclosed: list[str] = []
        self._hidden = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden = self._hidden or tag in _HIDDEN
        if self._hidden or tag not in _TAGS:
            return
        kept = {name: value or "" for name, value in attrs if name in _ATTRIBUTES}
        kept = {name: value for name, value in kept.items() if _ATTRIBUTES[name].fullmatch(value)}
        if tag == "img" and "src" not in kept:
            self.made.append(escape(kept.get("alt", "")))
            return
        kept = dict(sorted(kept.items(), reverse=True))  # the source first, as `count_pictures` expects
        self.made.append("".join([f"<{tag}", *(f' {name}="{escape(value)}"' for name, value in kept.items()), ">"]))
        if tag not in _EMPTY:
            self.unclosed.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in _HIDDEN:
            self._hidden = False
        while tag in self.unclosed:
            closed = self.unclosed.pop()
            self.made.append(f"</{closed}>")
            if closed == tag:
                return

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.made.append(escape(data))


def _cell(cell: Mapping[str, Any]) -> str:
    if cell["cell_type"] == "markdown":
        return _markdown(cell["source"], cell.get("attachments", {}))
    if cell["cell_type"] != "code" or not cell["source"].strip():
        return ""
    code = f"<details><summary>code</summary><pre>{escape(cell['source'])}</pre></details>"
    return "\n".join([code, *_outputs(cell["outputs"])])


def _markdown(text: str, attachments: Mapping[str, Mapping[str, Any]]) -> str:
    import mistune

    for name, data in attachments.items():
        for kind, content in data.items():
            text = text.replace(f"](attachment:{name})", f"](data:{kind};base64,{content})")
    rendered = mistune.create_markdown(escape=True, plugins=["table"])(text)
    assert isinstance(rendered, str)  # a list only where there is no renderer
    return clean(rendered)


def _outputs(outputs: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for output in outputs:
        if output["output_type"] == "stream":
            yield _plain(output["text"])
        elif output["output_type"] == "error":  # of a cell that may fail, as its tag says
            yield _plain("\n".join(output["traceback"]))
        else:
            yield _richest(output["data"])


def _richest(data: Mapping[str, Any]) -> str:
    for kind in _PICTURES:
        if kind in data:
            drawn: str = data[kind]
            content = base64.b64encode(drawn.encode()).decode() if kind == "image/svg+xml" else "".join(drawn.split())
            return clean(f'<p><img src="data:{kind};base64,{escape(content)}" alt="picture"></p>')
    if "text/html" in data:
        return clean(data["text/html"])
    if "text/markdown" in data:
        return _markdown(data["text/markdown"], {})
    return _plain(data.get("text/plain", ""))


def _plain(text: str) -> str:
    return f"<pre>{escape(_ANSI.sub('', text))}</pre>" if text else ""
