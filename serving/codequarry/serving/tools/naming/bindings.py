"""Expressions that a variable is bound to in the lines above a place, read from the text alone.

Patterns are compiled once and not for each name: in the line that they read, the name is replaced by `NAME`. Time grows
with a line at most as its square, and long lines are left out, so that no file makes an answer wait.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
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
_LONGEST_LINE = 500
"""Characters of a line that is read; longer ones are mostly generated, and bind nothing that anybody asks for."""
NAME = "\0"
"""Character in the place of a name."""
_PARAMETER = re.compile(rf"[(,*&]\s*{NAME}\s*[,)=]")
_LOOP = re.compile(rf"\bfor\s*\(?(?:const |let |var )?\s*{NAME}\s+(?:in|of)\s+(.+)")
_CONTEXT = re.compile(r"\bwith\s+(.+)")
_AS = re.compile(rf"\sas\s+{NAME}")
_COLON = re.compile(
    rf"(?:^\s*|[(,]\s*|\b(?:let|const|var|val|mut|readonly|private|public|protected)\s+|self\.){NAME}\??\s*:(?![:=])"
)
_TYPE_FIRST = re.compile(rf"\b((?:[A-Z_][\w.]*|\w+_t)(?:<[^;=()]*>)?(?:\[\])?)[\s*&]+{NAME}\s*(?:[;=,)]|:|in\b)")
_GO = re.compile(rf"(?:^\s*|[(,]\s*|\bvar\s+){NAME}\s+((?:\*|\[\]|\.\.\.|map\[[^]]*\])*[A-Za-z_][\w.]*)\s*(?:[,)=`]|$)")
_ASSIGNED = re.compile(rf"(?:^\s*|[(,{{]\s*|\b(?:let|const|var|val|mut|auto)\s+|\.){NAME}\s*(?::=|=(?![=>]))")
_WHOLE_IMPORTS = {
    "python": re.compile(rf"^\s*import\s+(?:.*\bas\s+|.*,\s*)?{NAME}\s*(?:\.[\w.]+\s*)?(?:,|$|#)"),
    "go": re.compile(rf"^\s*(?:import\s+)?(?:{NAME}\s+)?\"(?:[^\"]*/)?{NAME}\""),
    "javascript": re.compile(rf"\bimport\s+\*\s+as\s+{NAME}|^\s*(?:const|let|var)\s+{NAME}\s*=\s*require\("),
}
"""Imports of a module as a whole, by language."""
_ALTERNATIVES = re.compile(r" or | if .*? else |\?\?|\|\|")
_OPENING, _CLOSING = "([{<", ")]}>"


class Binding(NamedTuple):
    """A line that binds a variable."""

    type_text: str
    """Its declared type; "" where it is not declared."""
    expression: str
    """The value that it is set to; "" for nothing that can be read, such as a parameter without a type."""
    line: int
    """0-based."""


class SourceLines:
    """Lines of a file, and where its functions begin.

    Args:
        texts: Lines without their ends. Those that are too long to be read count as empty.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = [text if len(text) <= _LONGEST_LINE else "" for text in texts]

    @cached_property
    def headers(self) -> Sequence[int]:
        """Numbers of the lines that begin a function with a keyword, ascending."""
        return [
            at
            for at, text in enumerate(self.texts)
            if ("def" in text or "fun" in text or "fn" in text) and _HEADER.match(text)
        ]


def bindings_above(lines: SourceLines, line: int, word: str, lang: str) -> Binding | None:
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
    last = min(line, len(lines.texts) - 1)
    first = max(0, last - _MOST_LINES + 1)
    holding = [at for at in range(first, last + 1) if word in lines.texts[at]]
    low, high = bisect_left(lines.headers, first), bisect_right(lines.headers, last)
    headers = set(lines.headers[low:high])
    for at in sorted(headers.union(holding), reverse=True):
        text, header = lines.texts[at], at in headers
        is_seen = outer is None or _indent(text) < outer + (not header)
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
    pattern = _WHOLE_IMPORTS.get(_ECMASCRIPT.get(lang, lang))
    return pattern is not None and any(pattern.search(with_name_marked(text, word)) for text in lines if word in text)


def member_bindings(lines: Sequence[str], word: str, lang: str) -> list[Binding]:
    """Return what the lines of a file say of an attribute: ``self.store = Store()``, ``store: Store``."""
    found: list[Binding] = []
    for at, text in enumerate(lines):
        if word in text:
            found += [Binding(declared, expression, at) for declared, expression in _bound(text, word, lang)]
    return found


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def with_name_marked(text: str, name: str) -> str:
    """Return a text with `NAME` in the place of a name, where it stands as a whole word.

    >>> with_name_marked("store = stores[store]", "store").replace(NAME, "_")
    '_ = stores[_]'
    """
    pieces: list[str] = []
    start, at = 0, text.find(name) if name else -1
    while at >= 0:
        end = at + len(name)
        if not (_is_word(text[at - 1 : at]) or _is_word(text[end : end + 1])):
            pieces.append(text[start:at])
            start = end
        at = text.find(name, end)
    return NAME.join([*pieces, text[start:]])


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _is_parameter(text: str, word: str) -> bool:
    return _PARAMETER.search(with_name_marked(text, word)) is not None


def _bound(text: str, word: str, lang: str) -> Iterator[tuple[str, str]]:
    """Yield the declared type and the expression that a line binds a name to."""
    for declared, expression in _bound_to_marked(with_name_marked(text, word), lang):
        yield declared.replace(NAME, word), expression.replace(NAME, word)


def _bound_to_marked(text: str, lang: str) -> Iterator[tuple[str, str]]:
    """Yield the declared type and the expression that a line binds `NAME` to."""
    if NAME not in text:
        return
    if (found := _LOOP.search(text)) is not None:
        looped = found[1].rstrip(": {")
        yield "", looped[:-1] if looped.count(")") > looped.count("(") else looped
    if (found := _AS.search(text)) is not None and (context := _CONTEXT.search(text, 0, found.start())) is not None:
        yield "", trailing_expression(context[1].rstrip())
    if lang in _COLON_TYPES and (found := _COLON.search(text)) is not None:
        declared = _until_separator(text[found.end() :])
        if any(character.isalpha() for character in declared):
            rest = text[found.end() + len(declared) :].lstrip()
            yield declared, rest[1:].strip() if rest[:1] == "=" else ""
            return
    found = _TYPE_FIRST.search(text) if lang in _TYPES_FIRST else None
    if found is not None and not _NO_TYPE & set(re.findall(r"\w+", found[1])):
        yield found[1], ""
        return
    if lang == "go" and (found := _GO.search(text)) is not None:
        yield found[1], ""
        return
    if (found := _ASSIGNED.search(text)) is not None:
        yield "", text[found.end() :].strip().rstrip(";")


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


def alternatives(expression: str) -> list[str]:
    """Return the expressions that a value may be one of.

    >>> alternatives("given or make() if new else None"), alternatives("a ?? b")
    (['given', 'make()', 'None'], ['a', 'b'])
    """
    parts = _ALTERNATIVES.split(" ".join(expression.split()))
    return [part.strip() for part in parts if part.strip()]


class Primary(NamedTuple):
    """Last part of an expression: ``run`` of ``project.run("x")``."""

    word: str
    is_called: bool
    of: str
    """Text before its dot; "" for a name alone."""

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
