"""``python -m tools.pictures``: pictures of this project's own index, in the terminal and in the browser."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import typer
from rich.console import Console
from rich.text import Text

from tools.pictures.terminal import run_in_terminal

PROJECT = Path(__file__).resolve().parents[2]
_COLUMNS = 100
_WINDOW = (1200, 900)
"""Pixels."""
_COMMANDS = (
    ["search", "how are near names of a misspelt identifier found", "serving", "--limit", "2"],
    ["grep", "os.replace(", "--limit", "3"],
    ["relations", "callers", "read_manifest", "--limit", "3"],
)
_PAGES = {
    "page-search": "/?" + urlencode({"q": "how are near names of a misspelt identifier found", "path": "serving/**"}),
    "page-symbol": "/symbol?" + urlencode({"name": "read_manifest"}),
    "page-versions": "/versions",
}
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+(?=/mcp)")
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def main(
    out: Annotated[Path, typer.Option(help="Folder of the pictures.")] = PROJECT / "docs" / "pictures",
    browser: Annotated[bool, typer.Option(help="Draw the page too, which takes Chromium.")] = True,
) -> None:
    """Index a clone of this project, at its last two commits, and draw what commands and page show of it."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "codequarry")
        _git("clone", "--quiet", str(PROJECT), str(clone))
        if browser:
            _git("-C", str(clone), "checkout", "--quiet", "HEAD~1")
            run_in_terminal(["index", "."], clone, _COLUMNS)
            _git("-C", str(clone), "checkout", "--quiet", "-")
        draw_terminal(clone, [["index", "."], *_COMMANDS], out / "terminal.svg")
        if browser:
            _draw_pages(clone, out)


def draw_terminal(folder: Path, commands: list[list[str]], picture: Path) -> None:
    """Run commands in a terminal, and draw what stands there.

    Args:
        folder: The working folder.
        commands: The commands, without the name of the program.
        picture: File of the picture, SVG.

    Raises:
        SystemExit: A command failed.
    """
    lines: list[str] = []
    for command in commands:
        screen = run_in_terminal(command, folder, _COLUMNS)
        if screen.code:
            raise SystemExit("\n".join(screen.lines))
        words = (f"'{word}'" if " " in word or "(" in word else word for word in command)
        lines += [f"\x1b[1m$ codequarry {' '.join(words)}\x1b[0m", *_without_ends(screen.coloured), ""]
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi("\n".join(lines)))
    console.save_svg(str(picture), title="codequarry")


def _without_ends(lines: list[str]) -> list[str]:
    """Leave out the empty lines that progress bars and the end of a command leave."""
    return [line for line in lines if line.strip() and "━" not in line]


def _draw_pages(folder: Path, out: Path) -> None:
    chromium = next((found for name in _CHROMIUM if (found := shutil.which(name))), None)
    if chromium is None:
        raise SystemExit("found no Chromium, expected one of " + ", ".join(_CHROMIUM))
    with _served(folder) as address, tempfile.TemporaryDirectory() as profile:
        for name, path in _PAGES.items():
            subprocess.run(
                [
                    chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
                    "--disable-component-update", "--disable-sync", "--no-first-run", "--hide-scrollbars",
                    f"--user-data-dir={profile}", f"--window-size={_WINDOW[0]},{_WINDOW[1]}",
                    f"--screenshot={out / f'{name}.png'}", f"{address}{path}",
                ],
                check=True, capture_output=True, timeout=120,
            )  # fmt: skip


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """Serve the index of a folder for the block; the address of the page."""
    command = [sys.executable, "-m", "codequarry.pipelines.cli", "serve", "--port", "0"]
    log = folder / ".codequarry" / "pictures.log"
    with log.open("w") as errors, subprocess.Popen(command, cwd=folder, stderr=errors) as server:
        try:
            while (found := _ADDRESS.search(log.read_text(encoding="utf-8"))) is None:
                if server.poll() is not None:
                    raise SystemExit("codequarry serve ended before it answered")
                time.sleep(0.1)
            yield found[0]
        finally:
            server.terminate()


def _git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True)


if __name__ == "__main__":
    typer.run(main)
