"""Edits of JSON texts that leave every other byte as it is: comments, key order, indentation and line ends.

A text is never written anew from its values. Its comments are blanked to find out where things are, and a member is
put in or taken out of the original.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from codequarry.schemas.errors import InvalidArgumentError

_BLANK = re.compile(r"[ \t\n\r]*")
_LINE_START = re.compile(r"[\n\r]([ \t]*)$")


class UnreadableConfigError(InvalidArgumentError):
    """A configuration of a client that cannot be read, or not be changed safely."""


@dataclass(frozen=True, slots=True)
class _Member:
    """Place of one member of an object."""

    key: str
    start: int
    """Place of the key's quotation mark."""
    value_start: int
    end: int
    """Behind the value."""
    value: Any


@dataclass(frozen=True, slots=True)
class _Object:
    """Place of one object."""

    start: int
    """Place of the opening brace."""
    end: int
    """Place of the closing brace."""
    members: tuple[_Member, ...]


@dataclass(frozen=True, slots=True)
class _Blanked:
    """Text in which comments and trailing commas are spaces."""

    plain: str
    commas: frozenset[int]
    """Places of the trailing commas."""
    commented: bool
    """True when there are comments."""


def read_value(text: str, *, comments: bool, commas: bool) -> dict[str, Any]:
    """Return the object that a configuration holds; an empty one for a text without any value.

    Args:
        text: The configuration.
        comments: Whether the client reads comments.
        commas: Whether it reads trailing commas.

    Returns:
        The object.

    Raises:
        UnreadableConfigError: It is no JSON, holds no object, or says a key twice.
    """
    blanked = _blank(text)
    if (blanked.commented and not comments) or (blanked.commas and not commas):
        raise UnreadableConfigError("it has comments or trailing commas that its client does not read")
    if not blanked.plain.strip(" \t\r\n\ufeff"):
        return {}
    try:
        value = json.loads(blanked.plain.removeprefix("\ufeff"), object_pairs_hook=_unique, parse_constant=_refuse)
    except RecursionError:
        raise UnreadableConfigError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise UnreadableConfigError(f"it is no JSON: {error.msg} in line {error.lineno}") from None
    if not isinstance(value, dict):
        raise UnreadableConfigError("it holds no object")
    return value


def put_member(text: str, path: tuple[str, ...], value: Any) -> str:
    """Return the text with a member at a path; one that is there is replaced where it stands.

    Args:
        text: Configuration that `read_value` accepts.
        path: Keys from the outermost object to the member.
        value: Value of the member.

    Returns:
        The changed text.

    Raises:
        UnreadableConfigError: Something on the path is no object.
    """
    blanked = _blank(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    if not blanked.plain.strip(" \t\r\n\ufeff"):
        end = newline if text.strip("\ufeff") and not text.endswith(("\n", "\r")) else ""
        return text + end + _dump(_nested(path, value), "  ", "", newline) + newline
    found = list(_objects_on(blanked, path))
    held, depth = found[-1], len(found) - 1
    rest = path[depth:]
    present = next((member for member in held.members if member.key == rest[0]), None)
    unit = _unit(text, found[0])
    if present is not None:
        if present.value == value:
            return text
        indent = _indent_of(text, present.start)
        dumped = _dump(value, unit, indent if indent is not None else unit * (depth + 1), newline)
        return text[: present.value_start] + dumped + text[present.end :]
    return _insert(text, blanked, held, depth, _nested(rest, value), unit, newline)


def take_member(text: str, path: tuple[str, ...], *, empty_too: int = 0) -> str:
    """Return the text without the member at a path.

    Args:
        text: Configuration that `read_value` accepts.
        path: Keys from the outermost object to the member, which is there.
        empty_too: How many of the objects around it go with it when nothing else is in them, from the inside.

    Returns:
        The changed text.
    """
    found = list(_objects_on(_blank(text), path))
    depth = len(path) - 1
    while depth > 0 and empty_too > 0 and len(found[depth].members) == 1:
        depth, empty_too = depth - 1, empty_too - 1
    return _remove(text, _blank(text), found[depth], path[depth])


def _insert(
    text: str, blanked: _Blanked, held: _Object, depth: int, member: dict[str, Any], unit: str, newline: str
) -> str:
    """Put a member at the end of an object."""
    inner = text[held.start + 1 : held.end]
    closing = unit * depth
    indent = unit * (depth + 1)
    if held.members:
        own = _indent_of(text, held.members[-1].start)
        indent = own if own is not None else indent
    elif (own := _line_indent(text, held.start)) is not None:
        closing, indent = own, own + unit
    if held.members and not re.search(r"[\n\r]", inner):
        # An object on one line stays on one line.
        written = _member_text(member, None, "", newline)
        last = held.members[-1].end
        return f"{text[:last]}, {written}{text[last:]}"
    written = _member_text(member, unit, indent, newline)
    kept = held.start + 1 + len(inner.rstrip(" \t\r\n"))
    behind = text[kept : held.end]
    if not re.search(r"[\n\r]", behind):
        behind = newline + closing
    if not held.members:
        return f"{text[:kept]}{newline}{indent}{written}{behind}{text[held.end :]}"
    last = held.members[-1].end
    trailing = any(last <= comma < held.end for comma in blanked.commas)
    between = text[last:kept]
    if trailing:
        return f"{text[:kept]}{newline}{indent}{written},{behind}{text[held.end :]}"
    return f"{text[:last]},{between}{newline}{indent}{written}{behind}{text[held.end :]}"


def _remove(text: str, blanked: _Blanked, held: _Object, key: str) -> str:
    """Take a member out of an object, with its comma and its line."""
    place = next(index for index, member in enumerate(held.members) if member.key == key)
    member = held.members[place]
    line = _LINE_START.search(text[: member.start])
    start = line.start() if line else len(text[: member.start].rstrip(" \t"))
    if line and text[start - 1 : start + 1] == "\r\n":
        start -= 1
    end = member.end
    behind = place + 1 < len(held.members)
    limit = held.members[place + 1].start if behind else held.end
    comma = next(
        (at for at in range(end, limit) if at in blanked.commas or (behind and blanked.plain[at] == ",")), None
    )
    cuts = [(start, end)]
    if comma is not None:
        cuts = [(start, comma + 1)] if not text[end:comma].strip() else [(start, end), (comma, comma + 1)]
    elif place:
        before = held.members[place - 1].end
        at = next(at for at in range(before, member.start) if blanked.plain[at] == ",")
        cuts = [(at, at + 1), (max(start, at + 1), end)]
    for first, last in reversed(cuts):
        text = text[:first] + text[last:]
    return text


def _objects_on(blanked: _Blanked, path: tuple[str, ...]) -> Iterator[_Object]:
    """Yield the objects along a path, as far as they are there."""
    held = _object_at(blanked.plain, len(_BLANK.match(blanked.plain.replace("\ufeff", " ", 1))[0]))  # type: ignore[index]
    yield held
    for key in path[:-1]:
        member = next((member for member in held.members if member.key == key), None)
        if member is None:
            return
        if not isinstance(member.value, dict):
            raise UnreadableConfigError(f"its {key!r} is no object")
        held = _object_at(blanked.plain, member.value_start)
        yield held


def _object_at(plain: str, start: int) -> _Object:
    """Find the members of the object that starts at a place of valid JSON."""
    decoder = json.JSONDecoder()
    members: list[_Member] = []
    at = _skip(plain, start + 1)
    while plain[at] != "}":
        key, behind = decoder.raw_decode(plain, at)
        value_start = _skip(plain, _skip(plain, behind) + 1)
        value, end = decoder.raw_decode(plain, value_start)
        members.append(_Member(key, at, value_start, end, value))
        at = _skip(plain, end)
        if plain[at] == ",":
            at = _skip(plain, at + 1)
    return _Object(start, at, tuple(members))


def _skip(plain: str, at: int) -> int:
    return _BLANK.match(plain, at).end()  # type: ignore[union-attr]


def _blank(text: str) -> _Blanked:
    """Blank comments and trailing commas, so that places stay."""
    characters = list(text)
    commas: set[int] = set()
    commented = False
    comma, last = -1, ""
    at = 0
    while at < len(text):
        character = text[at]
        if character == '"':
            at = _string_end(text, at)
            comma, last = -1, '"'
            continue
        if text.startswith(("//", "/*"), at):
            end = _comment_end(text, at)
            characters[at:end] = [one if one in "\r\n" else " " for one in text[at:end]]
            at, commented = end, True
            continue
        if character == ",":
            comma = at if last not in ("", ",", "[", "{", ":") else -1
            last = ","
        elif character not in " \t\r\n":
            if character in "]}" and comma >= 0:
                commas.add(comma)
                characters[comma] = " "
            comma, last = -1, character
        at += 1
    return _Blanked("".join(characters), frozenset(commas), commented)


def _string_end(text: str, at: int) -> int:
    end = at + 1
    while end < len(text) and text[end] != '"':
        end += 2 if text[end] == "\\" else 1
    return min(end + 1, len(text))


def _comment_end(text: str, at: int) -> int:
    if text[at + 1] == "/":
        match = re.compile(r"[\r\n]").search(text, at)
        return match.start() if match else len(text)
    end = text.find("*/", at + 2)
    if end < 0:
        raise UnreadableConfigError("a comment in it has no end")
    return end + 2


def _unit(text: str, outermost: _Object) -> str:
    """Return what one level is indented by."""
    for member in outermost.members:
        indent = _indent_of(text, member.start)
        if indent:
            return "\t" if indent[0] == "\t" else indent
    return "  "


def _indent_of(text: str, start: int) -> str | None:
    """Return the white space before a place when nothing else is before it on its line."""
    line = _LINE_START.search(text[:start])
    return line[1] if line else None


def _line_indent(text: str, at: int) -> str | None:
    """Return the white space that the line of a place starts with; None on the first line."""
    lines = re.split(r"[\n\r]", text[:at])
    return re.match(r"[ \t]*", lines[-1])[0] if len(lines) > 1 else None  # type: ignore[index]


def _nested(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    for key in reversed(path):
        value = {key: value}
    return value


def _dump(value: Any, unit: str, indent: str, newline: str) -> str:
    dumped = json.dumps(value, ensure_ascii=False, indent=unit)
    return dumped.replace("\n", newline + indent)


def _member_text(member: dict[str, Any], unit: str | None, indent: str, newline: str) -> str:
    ((key, value),) = member.items()
    name = json.dumps(key, ensure_ascii=False)
    return f"{name}: {json.dumps(value, ensure_ascii=False) if unit is None else _dump(value, unit, indent, newline)}"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise UnreadableConfigError("it says a key twice in one object, and clients differ in which one counts")
    return value


def _refuse(constant: str) -> Any:
    raise UnreadableConfigError(f"it is no JSON: {constant} is no number")
