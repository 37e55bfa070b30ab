"""Commands of ``codequarry --help``, by what they are for."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

GROUPS = {
    "Search": (
        "search", "grep", "fetch", "open", "explore", "outline", "files", "overview", "definition", "references",
        "relations", "sql",
    ),
    "Index": ("index", "watch", "census", "tune", "models"),
    "Serve": ("serve", "install", "tools", "token", "usage", "route"),
    "Versions": ("versions", "diff", "rollback", "verify", "prune", "store", "export", "import"),
    "Many machines": ("push", "pull", "follow", "fleet"),
    "Quality": ("evaluate", "verdict", "gates"),
    "Configuration": ("doctor", "setup", "settings", "trust"),
}  # fmt: skip
"""Commands by what they are for, in the order of the help."""
_INDENT = 6
"""Columns around a command's name and its description."""


class CommandGroups(TyperGroup):
    """Commands in groups, each with as much of its first sentence as the terminal has room for."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each group as a section; a command of no group comes in the last one."""
        names = [name for name in self.list_commands(ctx) if not self.commands[name].hidden]
        widest = max(map(len, names))
        grouped = {name for group in GROUPS.values() for name in group}
        groups = {**GROUPS, "More": tuple(name for name in names if name not in grouped)}
        for title, group in groups.items():
            rows = [
                (name, self._short_help(name, formatter.width - _INDENT - widest)) for name in group if name in names
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl([(name.ljust(widest), text) for name, text in rows])

    def _short_help(self, name: str, room: int) -> str:
        return self.commands[name].get_short_help_str(room)
