"""Issues as people paste them: a title, sentences, code, traces; and what of that a search looks for."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LEAST_LINES, _LEAST_WORDS, _LEAST_TITLE = 2, 10, 3
"""Lines, words of title and sentences, and words of the title that an issue has at least."""
_MOST_PROSE = 400
"""Characters of sentences that say what an issue is about."""
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_INDENTED = re.compile(r"^(?: {4}|\t)")
_PROMPT = re.compile(r"^\s*(?:>>>|\.\.\.|In \[\d+\]:|Out\[\d+\]:|\$ )")
_STATEMENT = re.compile(
    r"[;{}]\s*$|^\s*(?:#!|#include|//|/?\*|@\w|--|</?\w)|\S\s*(?::=|(?<![=!<>])=(?!=))\s*\S|\)\s*:\s*$"
    r"|^\s*(?:abstract|async|class|const|def|defmodule|defp?|end|enum|export|extern|final|fn|from\s+\S+\s+import|func|"
    r"function|impl|import|interface|let|module|namespace|package|private|protected|pub|public|return|static|struct|"
    r"template|trait|type|typedef|use|using|val|var|void)\b(?!.*[a-z] (?:is|are|the|a|not|to|in|with|when|for)\b)"
)
"""A line of code that nothing else marks as such."""
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_ADDRESS = re.compile(r"https?://\S+")
_HEADING = re.compile(r"^\s*(?:#{1,6}|\*\*)\s*(.{3,60}?)(?:\*\*)?:?\s*$")
_ENVIRONMENT = re.compile(r"\b(?:versions?|environment|system info|platform|checklist)\b", re.IGNORECASE)
_BOX = re.compile(r"^\s*[-*]\s*\[[ xX]\]")
_NO_TITLE = re.compile(r"^\s*(?:Traceback|\"{3}|'{3})")
_TRACE = re.compile(r"^\s*(?:Traceback \(most recent call last\)|panicked at|goroutine \d+|Caused by:|Stack trace)")
_FRAME = re.compile(
    r"""File\ "[^"]+",\ line\ \d+(?:,\ in\ (?P<python>[\w.]+))?
    |(?<![\w./\\-])[\w./\\-]{1,200}\.\w{1,5}:\d+(?::\d+)?:in\ [`'](?P<ruby>[\w?!]+)'
    |^\s*at\ (?P<other>[\w.$]{1,200})\s?\([^()]*:\d+\)""",
    re.VERBOSE,
)
_LIBRARY = re.compile(r"site-packages|dist-packages|node_modules|/lib/python|/usr/|\.cargo|<frozen|<ipython|<stdin>")
_TICKED = re.compile(r"`([^`\n]{1,200})`")
_NAME = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)*")
_CALLED = re.compile(r"(?<![\w.])([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\(")
_IMPORTED = re.compile(r"^\s*(?:>>> )?(?:from\s+([\w.]+)\s+)?import\s+([\w., ]+)", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z]{2,}")
_SHORTEST = 3
"""Letters of a name that is worth looking for."""


@dataclass(frozen=True, slots=True)
class Issue:
    """An issue, read apart."""

    title: str
    prose: str
    """The beginning of its sentences, without code, traces, versions and what a template asks."""
    names: tuple[str, ...]
    """Names of code, each once: those in sentences first, then called and imported ones, then those of frames."""


def read_issue(text: str) -> Issue | None:
    """Read an issue apart; None when the text is none.

    >>> issue = read_issue('''Pool leaks sessions on timeout
    ...
    ... When a request times out, `Pool.release` is never called and the session stays busy for ever, so that
    ... after some minutes nothing can be asked any more. I expected that sessions come back.
    ...
    ... Traceback (most recent call last):
    ...   File "shop/web/pool.py", line 31, in acquire
    ...     raise TimeoutError
    ... ''')
    >>> issue.title, issue.names
    ('Pool leaks sessions on timeout', ('Pool.release', 'acquire'))
    >>> read_issue("def f():\\n    return 1\\n") is None
    True

    Args:
        text: Text of a query.

    Returns:
        Its parts.
    """
    lines = _COMMENT.sub(" ", text).strip().splitlines()
    if sum(1 for line in lines if line.strip()) < _LEAST_LINES:
        return None
    title = lines[0].strip().lstrip("# ")
    prose, code, indented, functions = _sorted_lines(lines[1:])
    said = _ADDRESS.sub(" ", "\n".join([title, *prose]))
    if len(_WORD.findall(title)) < _LEAST_TITLE or len(_WORD.findall(said)) < _LEAST_WORDS or _NO_TITLE.match(lines[0]):
        return None
    if _is_pasted_code([lines[0], *prose], indented):
        return None
    written = "\n".join([*code, *indented])
    names = [
        *(name for ticked in _TICKED.findall(said) for name in _NAME.findall(ticked)),
        *(name for name in _NAME.findall(said) if _is_code(name)),
        *_CALLED.findall(written),
        *(name.strip() for found in _IMPORTED.findall(written) for name in (found[0], *found[1].split(","))),
        *functions,
    ]
    return Issue(
        title,
        " ".join(" ".join(prose).split())[:_MOST_PROSE],
        tuple(dict.fromkeys(name.replace("::", ".") for name in names if len(name) >= _SHORTEST)),
    )


def _sorted_lines(lines: list[str]) -> tuple[list[str], list[str], list[str], list[str]]:
    """Return the lines of sentences, of marked code and of indented text, and the functions in traces of no library."""
    prose: list[str] = []
    code: list[str] = []
    indented: list[str] = []
    functions: list[str] = []
    fenced = traced = skipped = False
    for line in lines:
        if _FENCE.match(line):
            fenced, traced = not fenced, False
        elif not fenced and (heading := _HEADING.match(line)) is not None:
            skipped, traced = _ENVIRONMENT.search(heading.group(1)) is not None, False
        elif _TRACE.match(line):
            traced = True
        elif (frame := _FRAME.search(line)) is not None:
            traced = True
            if not _LIBRARY.search(line):
                functions += [name for name in frame.groups() if name]
        elif traced and (not line.strip() or line[0].isspace()):
            pass
        elif not _BOX.match(line) and not skipped:
            traced = False
            marked = fenced or _PROMPT.match(line)
            (code if marked else indented if _INDENTED.match(line) else prose).append(line)
    return prose, code, indented, functions


def _is_pasted_code(prose: list[str], indented: list[str]) -> bool:
    """Tell whether a text has more lines of code than of sentences, besides code that is marked as such."""
    statements = sum(_STATEMENT.search(line) is not None for line in prose)
    sentences = sum(1 for line in prose if line.strip()) - statements
    return statements + sum(1 for line in indented if line.strip()) > sentences


def _is_code(name: str) -> bool:
    return "_" in name.strip("_") or "." in name or "::" in name or re.search(r"[a-z][A-Z]", name) is not None
