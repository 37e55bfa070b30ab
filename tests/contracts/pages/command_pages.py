"""docs/COMMANDS.md and the manual page, from the command line: `python -m tests.contracts.pages.command_pages`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer.main

from codequarry.pipelines.cli.command_groups import GROUPS
from codequarry.pipelines.cli.root import build_app

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = DOCS / "COMMANDS.md"
MANUAL = DOCS / "man" / "codequarry.1"

INTRODUCTION = """\
# Commands

Generated from the command line (`python -m tests.contracts.pages.command_pages`) and compared by a test.
`codequarry --help` and `codequarry COMMAND --help` print the same; `man codequarry` does where the folder of the
program is on `PATH`.

The exit code is 0 for found or done, 1 for nothing found or a check that failed, 2 for an error. Paths in answers are
relative to the working folder. A place (`path:12-20`), an id, a name and a line of a stack trace are understood by
every command that takes one.

On a terminal, an answer longer than the screen is shown by `$PAGER`, or by less; `codequarry --no-pager …` prints it.
"""
ENDING = {
    "EXIT STATUS": {
        "0": "Found, or done.",
        "1": "Nothing found, or a check that failed.",
        "2": "An error; the message says what was found, what was expected, and what to do.",
    },
    "ENVIRONMENT": {
        "CODEQUARRY_HOME": "Folder for all indexes; else they lie in .codequarry beside the code.",
        "CODEQUARRY__SECTION__KEY": "Any setting; `codequarry settings` lists them with their names.",
        "VISUAL, EDITOR": "The editor of `codequarry open`.",
        "PAGER": "Shows answers longer than the screen; less if it is not set.",
        "NO_COLOR": "Print without colours.",
    },
    "FILES": {
        ".codequarry": "The index, in the indexed folder.",
        "dagster_project.toml": "The settings file of a folder.",
    },
}
"""Last sections of the manual page: entries and their meanings."""
OWN_ENTRY = ("--help", "-h, --help")
"""The option that every command has."""


@dataclass(frozen=True)
class Command:
    """One command as the help shows it."""

    name: str
    """With the names of its parents, without the program's."""
    summary: str
    """Its description; paragraphs are separated by empty lines."""
    usage: str
    arguments: list[tuple[str, str]]
    """Declaration and meaning of each."""
    options: list[tuple[str, str]]
    """Declaration and meaning of each."""


def commands() -> dict[str, list[Command]]:
    """Read the command line: the commands of each group, those of command groups such as ``fleet`` among them."""
    root = typer.main.get_command(build_app())
    context = root.context_class(root, info_name="codequarry")
    inner: dict[str, Any] = root.commands  # pyright: ignore[reportAttributeAccessIssue] # a group has them
    return {
        title: [command for name in names if name in inner for command in _read(inner[name], name, context)]
        for title, names in GROUPS.items()
    }


def program_options() -> list[tuple[str, str]]:
    """Read the options that stand before a command."""
    root = typer.main.get_command(build_app())
    return _entries(root, root.context_class(root, info_name="codequarry"))["option"]


def _read(command: Any, name: str, parent: Any) -> Iterator[Command]:
    context = command.context_class(command, info_name=name.rpartition(" ")[2], parent=parent)
    entries = _entries(command, context)
    usage = f"codequarry {name} " + " ".join(command.collect_usage_pieces(context))
    yield Command(name, command.help or "", usage.strip(), entries["argument"], entries["option"])
    for below, child in getattr(command, "commands", {}).items():
        yield from _read(child, f"{name} {below}", context)


def _entries(command: Any, context: Any) -> dict[str, list[tuple[str, str]]]:
    entries = {"argument": [], "option": []}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record and record[0] not in OWN_ENTRY:
            entries[parameter.param_type_name].append(record)
    return entries


def markdown() -> str:
    """The whole page docs/COMMANDS.md."""
    parts = [INTRODUCTION, "\n".join(_table("option before the command", program_options()))]
    for title, group in commands().items():
        parts.append(f"## {title}\n")
        parts += ["\n".join(_markdown_of(command)) for command in group]
    return "\n".join(parts)


def _markdown_of(command: Command) -> Iterator[str]:
    yield f"### {command.name}\n"
    text, _, example = command.summary.partition("Example: ")
    yield f"{_in_paragraphs(text)}\n"
    yield f"```text\n{command.usage}\n```\n"
    if example:
        yield f"Example:\n\n```bash\n{_one_line(example)}\n```\n"
    for title, entries in (("argument", command.arguments), ("option", command.options)):
        if entries:
            yield from _table(title, entries)


def _table(title: str, entries: list[tuple[str, str]]) -> Iterator[str]:
    yield f"| {title} | meaning |\n|---|---|"
    yield from (f"| `{_cell(name)}` | {_cell(meaning).replace('<', '&lt;')} |" for name, meaning in entries)
    yield ""


def _in_paragraphs(text: str) -> str:
    return "\n\n".join(_one_line(paragraph) for paragraph in text.split("\n\n") if paragraph.strip())


def _one_line(text: str) -> str:
    return " ".join(text.replace("\b", "").split())


def _cell(text: str) -> str:
    return _one_line(text).replace("|", "\\|")


def manual() -> str:
    """The manual page in roff, with the macros of man(7)."""
    parts = [
        '.\\" Generated from the command line: python -m tests.contracts.pages.command_pages',
        '.TH CODEQUARRY 1 "" codequarry "User Commands"',
        ".SH NAME\ncodequarry \\- search code by meaning, words and symbols",
        ".SH SYNOPSIS\n.B codequarry\n.RI [ options ]\n.I command\n.RI [ arguments ]",
        ".SH DESCRIPTION\n" + _roff(
            "codequarry turns git repositories into checked, versioned search bundles, and answers from them on the "
            "command line and over MCP. In a git repository that has no index yet, the first question makes it."
        ),
        ".SH OPTIONS",
        *_roff_entries(program_options()),
    ]  # fmt: skip
    for title, group in commands().items():
        parts.append(f".SH {title.upper()}")
        for command in group:
            parts += _roff_of(command)
    for title, entries in ENDING.items():
        parts.append(f".SH {title}")
        parts += [f".TP\n.B {_roff(name)}\n{_roff(meaning)}" for name, meaning in entries.items()]
    return "\n".join(parts) + "\n"


def _roff_of(command: Command) -> Iterator[str]:
    yield f".SS codequarry {_roff(command.name)}"
    text, _, example = command.summary.partition("Example: ")
    yield "\n.PP\n".join(_roff(_one_line(paragraph)) for paragraph in text.split("\n\n") if paragraph.strip())
    yield f".PP\n.nf\n{_roff(command.usage)}\n.fi"
    if example:
        yield f".PP\nExample:\n{_roff(_one_line(example))}"
    yield from _roff_entries([*command.arguments, *command.options])


def _roff_entries(entries: list[tuple[str, str]]) -> Iterator[str]:
    for name, meaning in entries:
        yield f".TP\n.B {_roff(name)}\n{_roff(_one_line(meaning)) or 'See above.'}"


def _roff(text: str) -> str:
    """Escape a line for roff: backslashes, hyphens that are copied, and signs that open a line of control."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...")
    return re.sub(r"^([.'])", r"\\&\1", escaped)


if __name__ == "__main__":
    PAGE.write_text(markdown(), encoding="utf-8")
    MANUAL.parent.mkdir(exist_ok=True)
    MANUAL.write_text(manual(), encoding="utf-8")
