"""Expressions that a variable is bound to in the lines above a place, read from the text alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

_COLON_TYPES = frozenset(("python", "typescript", "tsx", "rust", "kotlin", "swift", "scala"))
"""Languages that write a type behind the name and a colon."""
_ECMASCRIPT = {"typescript": "javascript", "tsx": "javascript"}
_TYPES_FIRST = frozenset(("java", "csharp", "c", "cpp", "dart"))
"""Languages that write a type before the name."""
_HEADER = re.compile(r"(\s*)(?:[\w@]+\s+){0,4}(?:def|func|function|fn|fun)\b")
_TYPE_HEAD = re.compile(
    r"\s*(?:[\w@]+\s+){0,4}(?:class|interface|struct|impl|trait|object|enum|record|extension)\b\s*(?:<[^>]*>\s*)?(\w+)"
    r"(?:[^{]*?\bfor\s+(\w+))?"
)
_LITERAL = re.compile(r"[\"'`\d\[{(]|[rbfu]{1,2}[\"']|(?:True|False|None|null|nil|true|false|lambda|undefined|not)\b")
_NO_TYPE = frozenset(("return", "new", "throw", "else", "in", "case", "await", "yield", "delete", "not", "and", "or"))
_MOST_LINES = 400
_OPENING, _CLOSING = "([{<", ")]}>"


class Binding(NamedTuple):
    """A line that binds a variable."""

    type_text: str
    """Its declared type; "" where it is not declared."""
    expression: str
    """What it is set to; "" for nothing that can be read, such as a parameter without a type."""
    line: int
    """0-based."""


def bindings_above(lines: Sequence[str], line: int, word: str, lang: str) -> Binding | None:
    """Find the line that binds a variable nearest above a place.

    Lines of other functions do not count: behind the head of a function only lines that are indented less than it.

    Args:
        lines: Lines of the file.
        line: Line of the place, 0-based.
        word: Name of the variable.
        lang: Language of the file.

    Returns:
        The binding; None where no line binds the name.
    """
    outer = None
    for at in range(min(line, len(lines) - 1), max(-1, line - _MOST_LINES), -1):
        text = lines[at]
        header = _HEADER.match(text)
        is_seen = outer is None or _indent(text) < outer + (header is None)
        if is_seen and word in text:
            for declared, expression in _bound(text, word, lang):
                return Binding(declared, expression, at)
            if header and _is_parameter(text, word):
                return Binding("", "", at)
        if header and (outer is None or _indent(text) < outer):
            outer = _indent(text)
    return None


def type_around(lines: Sequence[str], line: int) -> str:
    """Return the name of the type whose lines are around a line, by their indentation; "" outside of types."""
    least = _indent(lines[line]) if line < len(lines) else 0
    for at in range(min(line, len(lines)) - 1, -1, -1):
        text = lines[at]
        if least == 0:
            break
        indent = _indent(text)
        if indent >= least or not text.strip():
            continue
        if (found := _TYPE_HEAD.match(text)) is not None:
            return found[2] or found[1]
        if not text.lstrip().startswith((")", "}", "#", "//", "*")):
            least = indent
    return ""


def imports_whole(lines: Sequence[str], word: str, lang: str) -> bool:
    """Tell whether a file imports a module as a whole under a name."""
    pattern = _import_patterns(word).get(_ECMASCRIPT.get(lang, lang))
    return pattern is not None and any(pattern.search(text) for text in lines if word in text)


@lru_cache(maxsize=2000)
def _import_patterns(word: str) -> dict[str, re.Pattern[str]]:
    name = re.escape(word)
    return {
        "python": re.compile(rf"^\s*import\s+(?:.*\bas\s+|.*,\s*)?{name}\s*(?:\.[\w.]+\s*)?(?:,|$|#)"),
        "go": re.compile(rf"^\s*(?:import\s+)?(?:{name}\s+)?\"(?:[^\"]*/)?{name}\""),
        "javascript": re.compile(rf"\bimport\s+\*\s+as\s+{name}\b|^\s*(?:const|let|var)\s+{name}\s*=\s*require\("),
    }


def member_bindings(lines: Sequence[str], word: str, lang: str) -> list[Binding]:
    """Return what the lines of a file say of an attribute: ``self.store = Store()``, ``store: Store``."""
    found: list[Binding] = []
    for at, text in enumerate(lines):
        if word in text:
            found += [Binding(declared, expression, at) for declared, expression in _bound(text, word, lang)]
    return found


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _is_parameter(text: str, word: str) -> bool:
    return re.search(rf"[(,*&]\s*{re.escape(word)}\s*[,)=]", text) is not None


def _bound(text: str, word: str, lang: str) -> Iterator[tuple[str, str]]:
    """Yield the declared type and the expression that a line binds a name to."""
    patterns = _patterns(word)
    if (found := patterns.loop.search(text)) is not None:
        looped = found[1].rstrip(": {")
        yield "", looped[:-1] if looped.count(")") > looped.count("(") else looped
    if (found := patterns.context.search(text)) is not None:
        yield "", found[1]
    if lang in _COLON_TYPES and (found := patterns.colon.search(text)) is not None:
        declared = _until_separator(text[found.end() :])
        if any(character.isalpha() for character in declared):
            rest = text[found.end() + len(declared) :].lstrip()
            yield declared, rest[1:].strip() if rest[:1] == "=" else ""
            return
    found = patterns.type_first.search(text) if lang in _TYPES_FIRST else None
    if found is not None and not _NO_TYPE & set(re.findall(r"\w+", found[1])):
        yield found[1], ""
        return
    if lang == "go" and (found := patterns.go.search(text)) is not None:
        yield found[1], ""
        return
    if (found := patterns.assigned.search(text)) is not None:
        yield "", text[found.end() :].strip().rstrip(";")


class _Patterns(NamedTuple):
    loop: re.Pattern[str]
    context: re.Pattern[str]
    colon: re.Pattern[str]
    type_first: re.Pattern[str]
    go: re.Pattern[str]
    assigned: re.Pattern[str]


@lru_cache(maxsize=2000)
def _patterns(word: str) -> _Patterns:
    name = re.escape(word)
    return _Patterns(
        loop=re.compile(rf"\bfor\s*\(?(?:const |let |var )?\s*{name}\s+(?:in|of)\s+(.+)"),
        context=re.compile(rf"\bwith\b.*?([\w.]+(?:\(.*?\))?)\s+as\s+{name}\b"),
        colon=re.compile(rf"(?:^\s*|[(,]\s*|\b(?:let|const|var|val|mut|readonly|private|public|protected)\s+|self\.)"
                         rf"{name}\??\s*:(?![:=])"),
        type_first=re.compile(rf"((?:[A-Z_][\w.]*|\w+_t)(?:<[^;=()]*>)?(?:\[\])?)[\s*&]+{name}\s*(?:[;=,)]|:|in\b)"),
        go=re.compile(rf"(?:^\s*|[(,]\s*|\bvar\s+){name}\s+((?:\*|\[\]|\.\.\.|map\[[^]]*\])*[A-Za-z_][\w.]*)\s*(?:[,)=`]|$)"),
        assigned=re.compile(rf"(?:^\s*|[,({{]\s*|\b(?:let|const|var|val|mut|auto)\s+|\.)\b{name}\s*(?::=|=(?![=>]))"),
    )  # fmt: skip


def _until_separator(text: str) -> str:
    """Return the text of a type, up to what ends it at the same depth of brackets.

    >>> _until_separator(" dict[str, Store] = {}, other: int)")
    ' dict[str, Store] '
    """
    depth = 0
    for at, character in enumerate(text):
        if character in _OPENING and (character != "{" or depth):
            depth += 1
        elif character in _CLOSING:
            if depth == 0:
                return text[:at]
            depth -= character != ">" or text[at - 1 : at] not in ("-", "=")
        elif depth == 0 and character in ",=;{#":
            return text[:at]
    return text


def trailing_expression(before: str) -> str:
    """Return the end of a text that is one expression: names, calls and indexes joined by dots.

    >>> trailing_expression("return f(a, self.make(1)[0].")
    'self.make(1)[0].'
    """
    depth, at = 0, len(before)
    while at:
        character = before[at - 1]
        if character in ")]}":
            depth += 1
        elif character in "([{":
            if depth == 0:
                break
            depth -= 1
        elif depth == 0 and not (character.isalnum() or character in "_$.?!:>-\"'`"):
            break
        at -= 1
    return before[at:].lstrip(":>-?!").removeprefix("=")


class Primary(NamedTuple):
    """Last part of an expression: ``run`` of ``project.run("x")``."""

    word: str
    is_called: bool
    of: str
    """What stands before its dot; "" for a name alone."""

    @property
    def is_name(self) -> bool:
        """True for a name alone."""
        return not self.of and not self.is_called


def last_primary(expression: str) -> Primary | None:
    """Return the last part of an expression; None for one that is no name, attribute or call.

    >>> last_primary('project.run("x", y=(1, 2))'), last_primary("a + b")
    (Primary(word='run', is_called=True, of='project'), None)
    """
    text = re.sub(r"^(?:await|new|return|&|\*)+\s*", "", expression.strip()).rstrip("?!; ")
    if text.endswith(("(", "{", "[", ",")):
        text, called = _before_open(text), True
    else:
        text, called = _without_call(text)
    found = re.fullmatch(r"(?:(.*?)(?:\?|!!?)?(?:\.|->|::))?([\w$]+)(?:<[^()]*>)?", text, re.DOTALL)
    if found is None or (found[1] is not None and trailing_expression(found[1]) != found[1]):
        return None
    return Primary(found[2], called, found[1] or "")


def _before_open(text: str) -> str:
    """Return what stands before the first bracket that is left open; the text where none is.

    >>> _before_open('tox_project({"a": f(1)'), _before_open("a(1)")
    ('tox_project', 'a(1)')
    """
    open_at: list[int] = []
    for at, character in enumerate(text):
        if character in "([{":
            open_at.append(at)
        elif character in ")]}" and open_at:
            open_at.pop()
    return text[: open_at[0]].rstrip() if open_at else text


def _without_call(text: str) -> tuple[str, bool]:
    """Return an expression without the arguments or the index at its end, and whether it is a call."""
    called = False
    while text.endswith((")", "]", "}")):
        called = called or text[-1] in ")}"
        shorter = _before_open(text[:-1])
        if shorter == text[:-1]:
            break
        text = shorter
    return text, called


def is_literal(expression: str) -> bool:
    """Tell whether an expression is a literal, whose type is one of the language."""
    return _LITERAL.match(expression) is not None
