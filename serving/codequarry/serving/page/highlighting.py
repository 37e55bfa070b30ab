"""Code as HTML with colours, a line at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from markupsafe import Markup, escape
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, Operator, String, Token
from pygments.util import ClassNotFound

_CLASSES = (
    (Comment, "c"), (String, "s"), (Keyword, "k"), (Number, "m"), (Operator.Word, "k"), (Name.Function, "d"),
    (Name.Class, "d"), (Name.Decorator, "d"), (Name.Tag, "k"), (Name, "n"),
)  # fmt: skip
"""Class of a token in style.css by its kind; the first that fits counts. Names are links for the script."""
_LEXERS = {"restructuredtext": "rst", "dockerfile": "docker", "text": ""}
"""Names of languages in Pygments, where they differ from ours."""
_LONGEST_S = 0.25
"""Seconds after which the rest stays without colours: what is indexed may be written to be slow."""


def highlighted(code: str, language: str) -> list[Markup]:
    """Return code as HTML, one entry a line.

    Args:
        code: The code.
        language: Its language, as files have it.

    Returns:
        Lines without their ends; what Pygments does not know is escaped text.
    """
    if language == "python" and _starts_in_docstring(code):
        return highlighted(f'"""\n{code}', language)[1:]
    lines = [Markup("")]
    for kind, text in _tokens(code, language):
        name = next((name for parent, name in _CLASSES if kind in parent), "")
        for number, part in enumerate(text.split("\n")):
            if number:
                lines.append(Markup(""))
            if part:
                lines[-1] += Markup('<span class="{}">{}</span>').format(name, part) if name else escape(part)
    return lines


def _starts_in_docstring(code: str) -> bool:
    """Return whether the first triple quote of a part of a file closes one: it stands alone in its line."""
    first = next((line for line in code.split("\n") if '"""' in line), "")
    return code.count('"""') % 2 == 1 and first.strip() == '"""'


def _tokens(code: str, language: str) -> Iterator[tuple[Any, str]]:
    """Yield (kind, text); the whole of what is left as plain text once the time is over."""
    try:
        lexer = get_lexer_by_name(_LEXERS.get(language, language))
    except ClassNotFound:
        yield Token, code
        return
    ends = time.monotonic() + _LONGEST_S
    for place, kind, text in lexer.get_tokens_unprocessed(code):
        if time.monotonic() > ends:
            yield Token, code[place:]
            return
        yield kind, text
