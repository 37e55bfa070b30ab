"""The commands of docs/WALKTHROUGH.md, run in order beside a real watch and a real MCP client."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio.from_thread
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from tests.pipelines.cli.watch.watch_process import COMMAND, DEADLINE_S, Watch
from tests.pipelines.repositories import shim

PAGE = Path(__file__).resolve().parents[3] / "docs" / "WALKTHROUGH.md"
WATCH, SERVE = "codequarry watch", "codequarry serve --stdio --watch"
_HOME = "/home/me"
_VOLATILE = {
    "version": r"\d{8}T\d{6}Z-[0-9a-f]{8}",
    "commit": r"\b[0-9a-f]{40}\b|\b[0-9a-f]{12}\b",
    "time": r"\b\d\d:\d\d:\d\d\b",
    "duration": r"\b\d+(?:\.\d+)? (?:s|min|h)\b",
    "size": r"\b\d+(?:\.\d+)? [kKMG]?B\b",
}
"""What differs from run to run. A version or commit of the page is the same one at each of its places."""
_ANY = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _VOLATILE.items()))


class Step(NamedTuple):
    """A command, or a wait for lines of the watch, and what is printed then."""

    kind: str
    """``console``, ``text`` for lines of the watch, ``json`` for a call and its answer."""
    command: str
    printed: str


def read_steps(page: str) -> list[Step]:
    """Return what the page does, in order."""
    steps: list[Step] = []
    call = ""
    for kind, text in re.findall(r"^```(\w+)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        if kind == "console":
            parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)
            assert not parts[0], f"output before the first command: {parts[0]}"
            steps += [Step(kind, *pair) for pair in zip(parts[1::2], parts[2::2], strict=True)]
        elif kind == "json":
            steps += [Step(kind, call, text)] if call else []
            call = "" if call else text
        else:
            assert kind == "text", f"nothing runs a block of {kind}"
            steps.append(Step(kind, "", text))
    assert not call, f"a call without an answer: {call}"
    return steps


def plain(text: str) -> str:
    """Return an output without progress bars, blank lines, and the widths of columns."""
    lines = [re.sub("─+", "─", re.sub(r"\s+", " ", line)).strip() for line in text.splitlines() if "━" not in line]
    return "".join(f"{line}\n" for line in lines if line)


class Comparison:
    """Comparison of what the page shows with what was printed; it remembers what each version and commit became."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}

    def matches(self, shown: str, printed: str) -> bool:
        """Return whether an output is what the page shows; a line ``…`` of the page stands for any lines."""
        groups: dict[str, str] = {}
        pattern = "".join(
            r"(?:.*\n)*?" if line == "…\n" else self._pattern(line, groups)
            for line in plain(shown).splitlines(keepends=True)
        )
        found = re.fullmatch(pattern, plain(printed))
        if found is None:
            return False
        self.known |= {token: found[group] for token, group in groups.items()}
        return len(set(self.known.values())) == len(self.known)

    def has(self, shown: Any, answer: Any) -> bool:
        """Return whether an answer has the fields that the page shows."""
        if isinstance(shown, dict):
            return isinstance(answer, dict) and all(
                key in answer and self.has(value, answer[key]) for key, value in shown.items()
            )
        if isinstance(shown, list):
            return len(shown) == len(answer) and all(map(self.has, shown, answer))
        return self.matches(str(shown), str(answer))

    def _pattern(self, line: str, groups: dict[str, str]) -> str:
        """Return the pattern of a line; tokens that are not known yet get a group, and the same one each time."""
        pattern, end = "", 0
        for found in _ANY.finditer(line):
            kind, token = str(found.lastgroup), found[0]
            pattern, end = pattern + re.escape(line[end : found.start()]), found.end()
            if kind not in ("version", "commit"):
                pattern += f"(?:{_VOLATILE[kind]})"
            elif token in self.known:
                pattern += re.escape(self.known[token])
            elif token in groups:
                pattern += f"(?P={groups[token]})"
            else:
                groups[token] = f"g{len(groups)}"
                pattern += f"(?P<{groups[token]}>{_VOLATILE[kind]})"
        return pattern + re.escape(line[end:])


class _Server:
    """An MCP client with a server that it started, and what the server prints on standard error."""

    def __init__(self, folder: Path, log: Path) -> None:
        self._log, self._read = log, 0
        self._stack = ExitStack()
        portal = self._stack.enter_context(anyio.from_thread.start_blocking_portal())
        transport = StdioTransport(
            COMMAND[0], [*COMMAND[1:], *SERVE.split()[1:]], cwd=str(folder), env=dict(os.environ), keep_alive=False,
            log_file=log,
        )  # fmt: skip
        client = self._stack.enter_context(portal.wrap_async_context_manager(Client(transport)))
        self._call = lambda name, arguments: portal.call(client.call_tool_mcp, name, arguments)

    def ask(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return self._call(name, arguments).structured_content

    def next_line(self) -> str:
        """Wait for the next line on standard error."""
        ends = time.monotonic() + DEADLINE_S
        while time.monotonic() < ends:
            lines = self._log.read_text().splitlines(keepends=True)
            if len(lines) > self._read and lines[self._read].endswith("\n"):
                self._read += 1
                return lines[self._read - 1]
            time.sleep(0.1)
        raise AssertionError(self._log.read_text())

    def end(self) -> None:
        self._stack.close()


class Walk:
    """A walk through the page.

    Args:
        home: Home folder of whoever walks; an empty folder.
        store: Store that the index uses.
    """

    def __init__(self, home: Path, store: Path) -> None:
        self._home, self._store, self._folder = home, store, home
        self._watch: Watch | None = None
        self._server: _Server | None = None
        self.comparison = Comparison()
        path = shim(home / ".bin", "codequarry", f'exec {sys.executable} -P -m codequarry.pipelines.cli "$@"')
        self._environment = {
            **os.environ, "PATH": path, "PYTHONUNBUFFERED": "1", "COLUMNS": "100",
            "CODEQUARRY__PATHS__STORE": str(store),
        }  # fmt: skip

    def take(self, step: Step) -> str:
        """Take a step, and return what is printed, with the home folder of the page."""
        if step.kind == "json":
            return self._call(step)
        printed = self._wait_for_lines(step.printed) if step.kind == "text" else self._run(step.command)
        return plain(printed.replace(str(self._home), _HOME))

    def close(self) -> None:
        """End what still runs."""
        if self._watch is not None:
            self._watch.close()
        if self._server is not None:
            self._server.end()

    def _run(self, command: str) -> str:
        if command == WATCH:
            self._watch = Watch(self._folder, self._store)
            return self._watch.lines[-1]
        if command == SERVE:
            self._server = _Server(self._folder, self._home / ".log")
            while "watching" not in (line := self._server.next_line()):
                pass
            return line
        where = self._home / ".where"
        done = subprocess.run(
            ["bash", "-c", f"{command}\npwd > {where}"], cwd=self._folder, env=self._environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=DEADLINE_S,
        )  # fmt: skip
        self._folder = Path(where.read_text().strip())
        return done.stdout

    def _wait_for_lines(self, shown: str) -> str:
        """Return the next lines of the watch, as many as the page shows; the last one comes when the watch ends."""
        source = self._server or self._watch
        assert source is not None, "nothing watches"
        if shown.startswith("stopped watching"):
            self._end()
        lines: list[str] = []
        while len(lines) < len(shown.splitlines()):
            lines += [line] if plain(line := source.next_line()) else []
        return "".join(lines)

    def _end(self) -> None:
        if self._server is not None:
            self._server.end()
        elif self._watch is not None:
            assert self._watch.end(signal.SIGINT) == 0

    def _call(self, step: Step) -> str:
        """Call a tool until its answer is the one of the page: a server opens a version a moment after its line."""
        assert self._server is not None, "no client is connected"
        call, shown = json.loads(step.command), json.loads(step.printed)
        ends = time.monotonic() + DEADLINE_S
        while True:
            answer, known = self._server.ask(call["name"], call["arguments"]), dict(self.comparison.known)
            if self.comparison.has(shown, answer):
                return step.printed
            self.comparison.known = known
            if time.monotonic() > ends:
                return json.dumps(answer, indent=1)
            time.sleep(0.2)


@contextmanager
def walking(home: Path, store: Path) -> Iterator[Walk]:
    """Walk, and end what runs in any case."""
    walk = Walk(home, store)
    try:
        yield walk
    finally:
        walk.close()
