"""One entry, block or file that is put into a text, found in it and taken out again."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from codequarry.serving.cli.install import json_text, toml_text
from codequarry.serving.cli.install.clients import TOKEN
from codequarry.serving.cli.install.json_text import UnreadableConfigError

BEGIN = "<!-- codequarry:begin -->"
END = "<!-- codequarry:end -->"


@dataclass(frozen=True, slots=True)
class ConfigTarget:
    """One thing that is written."""

    file: Path
    """The file as the user knows it; it may be a link."""
    language: Literal["json", "toml", "block", "file"]
    value: Any
    """An object for JSON and TOML, otherwise text that ends with a line end."""
    keys: tuple[str, ...] = ()
    """Place of an object in its file."""
    name: str = ""
    """Its name in the list of what was written."""
    comments: bool = False
    """True when comments in JSON are read."""
    commas: bool = False
    """True when trailing commas in JSON are read."""
    project: Path | None = None
    """Folder that the file may not be led out of by links; None for a file of the user's own."""

    @property
    def ours(self) -> bool:
        """True when all of the value is codequarry's, whatever somebody wrote into it."""
        return self.language == "block"


def find_value(target: ConfigTarget, text: str | None) -> Any:
    """Return the value that a text has in the target's place; None when it has none.

    Args:
        target: The target.
        text: Text of its file; None without a file.

    Returns:
        The value.

    Raises:
        UnreadableConfigError: The text cannot be read.
    """
    if text is None:
        return None
    if target.language == "file":
        return text
    if target.language == "block":
        span = _block(text)
        return text[span[0] : span[1]] if span else None
    value = _read(target, text)
    for key in target.keys:
        if not isinstance(value, dict):
            raise UnreadableConfigError(f"what its {key!r} is in is no table")
        value = value.get(key)
        if value is None:
            return None
    return value


def missing_levels(target: ConfigTarget, text: str | None) -> int:
    """Count the objects around the entry that a text lacks, the outermost apart.

    Args:
        target: The target.
        text: Text of its file; None without a file.

    Returns:
        The number.
    """
    if target.language != "json":
        return 0
    value: Any = _read(target, text or "")
    for depth, key in enumerate(target.keys[:-1]):
        if not isinstance(value, dict) or key not in value:
            return len(target.keys) - 1 - depth
        value = value[key]
    return 0


def put_value(target: ConfigTarget, text: str | None, before: Any) -> str:
    """Return the text with the target's value, and everything else as it was.

    Args:
        target: The target.
        text: Text of its file; None without a file.
        before: The value that is replaced; None when there is none.

    Returns:
        The changed text.

    Raises:
        UnreadableConfigError: The text cannot be read, or not be changed safely.
    """
    if target.language == "file":
        return target.value
    if target.language == "block":
        return _put_block(text or "", target.value)
    old = text or ""
    if target.language == "toml":
        new = toml_text.put_table(old, target.keys, target.value, before)
    else:
        new = json_text.put_member(old, target.keys, target.value)
    _compare(target, old, new, target.value)
    return new


def take_value(target: ConfigTarget, text: str, levels: int) -> str:
    """Return the text without the target's value, and everything else as it was.

    Args:
        target: The target; its value is the one in the text.
        text: Text of its file.
        levels: Objects around the entry that were made for it, and go when nothing else is in them.

    Returns:
        The changed text.

    Raises:
        UnreadableConfigError: The text cannot be changed safely.
    """
    if target.language == "file":
        return ""
    if target.language == "block":
        return _take_block(text)
    if target.language == "toml":
        new = toml_text.take_table(text, target.keys, target.value)
    else:
        new = json_text.take_member(text, target.keys, empty_too=levels)
    _compare(target, new, text, find_value(target, text))
    return new


def is_as_written(written: Any, found: Any) -> bool:
    """Tell whether a value is still the one that was written; a token in place of `TOKEN` is meant to be there.

    Args:
        written: What was written.
        found: What is there.

    Returns:
        True when nothing else was changed.
    """
    if isinstance(written, dict) and isinstance(found, dict):
        return written.keys() == found.keys() and all(is_as_written(written[key], found[key]) for key in written)
    if isinstance(written, list) and isinstance(found, list):
        return len(written) == len(found) and all(map(is_as_written, written, found))
    if isinstance(written, str) and isinstance(found, str) and TOKEN in written:
        return re.fullmatch(re.escape(written).replace(re.escape(TOKEN), r"\S+"), found) is not None
    return type(written) is type(found) and written == found


def _read(target: ConfigTarget, text: str) -> dict[str, Any]:
    if target.language == "toml":
        return toml_text.read_value(text)
    return json_text.read_value(text, comments=target.comments, commas=target.commas)


def _compare(target: ConfigTarget, without: str, having: str, value: Any) -> None:
    """Refuse a change whose two texts differ in anything but the entry."""
    expected = copy.deepcopy(_read(target, without))
    level = expected
    for key in target.keys[:-1]:
        level = level.setdefault(key, {})
    level[target.keys[-1]] = value
    if _pruned(target, expected) != _pruned(target, _read(target, having)):
        raise UnreadableConfigError("it is written in a way that cannot be changed safely")


def _pruned(target: ConfigTarget, value: dict[str, Any]) -> dict[str, Any]:
    """Leave out TOML's parent table when nothing is in it: a header of its own makes none."""
    first = target.keys[0]
    return {key: held for key, held in value.items() if key != first or held != {} or target.language != "toml"}


def _block(text: str) -> tuple[int, int] | None:
    """Find the block with its markers and its line end."""
    starts, ends = text.count(BEGIN), text.count(END)
    if not starts and not ends:
        return None
    start, end = text.find(BEGIN), text.find(END)
    if (starts, ends) != (1, 1) or end < start:
        raise UnreadableConfigError(f"it does not have {BEGIN} and {END} once each, in this order")
    end += len(END)
    for newline in ("\r\n", "\n"):
        if text.startswith(newline, end):
            return start, end + len(newline)
    return start, end


def _put_block(text: str, block: str) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    block = block.replace("\n", newline)
    span = _block(text)
    if span is not None:
        return text[: span[0]] + block + text[span[1] :]
    if not text.strip("\ufeff"):
        return text + block
    return text + ("" if text.endswith("\n") else newline) + newline + block


def _take_block(text: str) -> str:
    span = _block(text)
    if span is None:
        return text
    start, end = span
    for gap in ("\r\n\r\n", "\n\n"):
        if text[:start].endswith(gap):
            return text[: start - len(gap) // 2] + text[end:]
    return text[:start] + text[end:]
