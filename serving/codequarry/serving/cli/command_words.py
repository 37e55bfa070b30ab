"""Sentences of the tools in the words of the command line: options and commands for arguments and tools."""

from __future__ import annotations

import re

_ARGUMENTS = {
    "filters.lang": "--lang", "filters.include": "--include", "filters.exclude": "--exclude", "filters.repos": "--repo",
    "filters.ref": "--ref", "filters.symbols": "--symbol", "filters.kinds": "--kind", "top_k": "--limit",
    "context_lines": "-C", "max_tokens": "--max-tokens", "describe_index": "`codequarry overview`",
    "search_code": "`codequarry grep`",
    "list_files": "`codequarry files`", "go_to_definition": "`codequarry definition`",
    "find_references": "`codequarry references`",
}  # fmt: skip
_KNOWN = re.compile(rf"(?<![\w./])({'|'.join(map(re.escape, _ARGUMENTS))})\b(\[\d+\])?(?![\w./]\w)")
_FIRST = re.compile(r"^(channel|mode|limit|depth|class): ")
"""The argument that a message is about."""
_ALL_ARGUMENTS = re.compile(r"the arguments are [\w, ]+; see the tool's input schema")


def for_command_line(text: str) -> str:
    """Return a message of a tool as a user of the command line understands it.

    >>> for_command_line("filters.kinds[0]: must be one of 'function' or 'class'")
    "--kind: must be one of 'function' or 'class'"
    >>> for_command_line("top_k clamped to 50, the range is 1 to 50")
    '--limit clamped to 50, the range is 1 to 50'
    """
    text = _ALL_ARGUMENTS.sub("add -h to the command, which lists its options", text)
    text = _FIRST.sub(lambda found: f"--{found[1]}: ", text)
    return _KNOWN.sub(lambda found: _ARGUMENTS[found[1]], text)
