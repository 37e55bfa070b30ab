"""Edits of TOML texts that leave every other byte as it is: a table is put behind the others, or taken out.

What a text means is read by `tomllib` before and after; a text that would come to mean something else is refused.
"""

from __future__ import annotations

import json
import tomllib
from typing import Any

from codequarry.serving.cli.install.json_text import UnreadableConfigError


def read_value(text: str) -> dict[str, Any]:
    """Return what a TOML text holds.

    Args:
        text: The configuration.

    Returns:
        Its tables.

    Raises:
        UnreadableConfigError: It is no TOML.
    """
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UnreadableConfigError(f"it is no TOML: {error or 'it is nested too deeply'}") from None


def table_text(path: tuple[str, ...], table: dict[str, Any], newline: str = "\n") -> str:
    """Return a table of strings, lists of strings and booleans as TOML.

    Args:
        path: Keys of the table, which need no quotation marks.
        table: Its values.
        newline: End of a line.

    Returns:
        The header and a line for each key.
    """
    # A JSON string is a TOML string, but for DEL, which has to be escaped.
    lines = [
        f"{key} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f") for key, value in table.items()
    ]
    return newline.join([f"[{'.'.join(path)}]", *lines, ""])


def put_table(text: str, path: tuple[str, ...], table: dict[str, Any], before: dict[str, Any] | None = None) -> str:
    """Return the text with a table; one that is there is replaced where it stands.

    Args:
        text: Configuration that `read_value` accepts.
        path: Keys of the table.
        table: Its values.
        before: Values of the table that is there, as this module wrote it; None when there is none.

    Returns:
        The changed text.

    Raises:
        UnreadableConfigError: The table cannot be put there.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    written = table_text(path, table, newline)
    if before is not None:
        old = table_text(path, before, newline)
        if text.count(old) != 1:
            raise UnreadableConfigError(f"its table {'.'.join(path)} is written in another way than expected")
        return text.replace(old, written)
    if not text.strip("\ufeff"):
        return text + written
    end = "" if text.endswith("\n") else newline
    return f"{text}{end}{newline}{written}"


def take_table(text: str, path: tuple[str, ...], table: dict[str, Any]) -> str:
    """Return the text without a table that this module wrote.

    Args:
        text: Configuration that `read_value` accepts.
        path: Keys of the table.
        table: Its values.

    Returns:
        The changed text.

    Raises:
        UnreadableConfigError: The table is not written as this module writes it.
    """
    for newline in ("\r\n", "\n"):
        written = table_text(path, table, newline)
        if text.count(written) == 1:
            break
    else:
        raise UnreadableConfigError(f"its table {'.'.join(path)} is written in another way than expected")
    start = text.index(written)
    end = start + len(written)
    if text.startswith(newline, end):
        end += len(newline)
    elif text[:start].endswith(2 * newline):
        start -= len(newline)
    return text[:start] + text[end:]
