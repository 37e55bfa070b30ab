"""Places and code on standard output: in colour and within the width on a terminal, as they are into a pipe."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from codequarry.serving.cli.terminal import for_terminal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_WORD = re.compile(r"\w{3,}")
_THEME = "ansi_dark"
"""Colours of code: those that the terminal itself has been given."""
_MATCH = "bold reverse"


class Output:
    """Standard output of one command."""

    def __init__(self) -> None:
        self._console: Console | None = None
        if sys.stdout.isatty():
            from rich.console import Console  # takes longer than a pipe should wait

            self._console = Console(highlight=False)

    @property
    def is_terminal(self) -> bool:
        """True when a person reads it."""
        return self._console is not None

    def line(self, *parts: tuple[str, str]) -> None:
        """Print one line.

        Args:
            *parts: Texts, which may come from indexed code, each with its style in the words of rich.
        """
        if self._console is None:
            typer.echo("".join(for_terminal(text) for text, _ in parts))
            return
        from rich.text import Text

        self._print(Text.assemble(*((for_terminal(text), style) for text, style in parts)))

    def code(self, lines: Sequence[str], first: int, lang: str, *, marked: re.Pattern[str] | None = None) -> None:
        """Print lines of code with their numbers.

        Args:
            lines: Lines without line breaks.
            first: Number of the first, 1-based.
            lang: Language of the file, for the colours.
            marked: What is set off from the rest.
        """
        width = len(str(first + len(lines)))
        coloured = self._coloured([for_terminal(line) for line in lines], lang, marked)
        for number, line in enumerate(coloured, start=first):
            head = f"{number:>{width}} | "
            if self._console is None or isinstance(line, str):
                typer.echo(f"{head}{line}".rstrip())
            else:
                from rich.text import Text

                self._print(Text.assemble((head, "dim"), line))

    def _coloured(self, lines: list[str], lang: str, marked: re.Pattern[str] | None) -> Sequence[Text | str]:
        if self._console is None:
            return lines
        from rich.syntax import Syntax

        text = Syntax("", lang or "text", theme=_THEME, background_color="default").highlight("\n".join(lines))
        if marked is not None:
            text.highlight_regex(marked, _MATCH)
        return list(text.split("\n", allow_blank=True))[: len(lines)]

    def _print(self, text: Text) -> None:
        assert self._console is not None
        self._console.print(text, no_wrap=True, overflow="ellipsis", crop=True)


def words_of(query: str) -> re.Pattern[str] | None:
    """Return a pattern of the words of a question that are worth setting off; None where it has none.

    >>> words_of("is the_config loaded?").findall("The config: the_config = LOADED")
    ['the_config', 'LOADED']
    """
    words = sorted(set(_WORD.findall(query)) - _COMMON, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, words)), re.IGNORECASE) if words else None


_COMMON = frozenset(
    "the and for are was how does what where when which who why with from that this into not can has have its".split()
)
