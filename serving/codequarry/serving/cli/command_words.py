"""Sentences of the tools in the words of the command line: options and commands for arguments and tools."""

from __future__ import annotations

import re

_FILTERS = {
    "lang": "--lang", "include": "--include", "exclude": "--exclude", "repos": "--repo", "ref": "--ref",
    "symbols": "--symbol", "kinds": "--kind",
}  # fmt: skip
_FILTER = re.compile(rf"\bfilters\.({'|'.join(_FILTERS)})\b(\[\d+\])?")
_PHRASES = {
    "top_k clamped": "--limit clamped",
    "context_lines clamped": "-C clamped",
    "max_tokens clamped": "--max-tokens clamped",
    "raise max_tokens": "raise --max-tokens",
    "fewer context_lines": "a smaller -C",
    "describe_index tells": "`codequarry overview` tells",
    "describe_index counts": "`codequarry overview` counts",
    "see describe_index": "see `codequarry overview`",
    "list_files tells": "`codequarry files` tells",
    "use list_files": "use `codequarry files`",
    "text with search_code": "text with `codequarry grep`",
}
"""Phrases of the tools, with words that alone may be names in the user's code."""
_PHRASE = re.compile("|".join(map(re.escape, _PHRASES)))
_FIRST = re.compile(r"^(channel|mode|limit|depth|class): ")
"""The argument that a message is about."""
_ALL_ARGUMENTS = re.compile(r"the arguments are [\w, ]+; see the tool's input schema")


def for_command_line(text: str) -> str:
    """Return a message of a tool as a user of the command line understands it.

    >>> for_command_line("filters.kinds[0]: must be one of 'function' or 'class'")
    "--kind: must be one of 'function' or 'class'"
    >>> for_command_line("top_k clamped to 50, the range is 1 to 50")
    '--limit clamped to 50, the range is 1 to 50'
    >>> for_command_line("near names: max_tokens")
    'near names: max_tokens'
    """
    text = _ALL_ARGUMENTS.sub("add -h to the command, which lists its options", text)
    text = _FIRST.sub(lambda found: f"--{found[1]}: ", text)
    text = _FILTER.sub(lambda found: _FILTERS[found[1]], text)
    return _PHRASE.sub(lambda found: _PHRASES[found[0]], text)
