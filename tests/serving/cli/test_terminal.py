"""What anybody wrote into an indexed file is shown on a terminal, and never obeyed by it."""

import csv
import io
import json
import re
import sys
from pathlib import Path

import pytest

from codequarry.pipelines.cli.root import build_app
from codequarry.serving.cli.terminal import escaped, for_terminal
from tests.serving.bundles.bundle_factory import Piece, write_bundle
from tests.serving.bundles.corpus import PIECES

EVIL = "\x1b[2J\x9b31m\x07\x7f\u202e\u200b\U000e0041"
TEXT = f"evilness {EVIL} größe 日本\n"
PIECE = Piece("docs/evil.md", TEXT, kind="text")
COMMANDS = {
    "sql": ["sql", f"SELECT text, text AS \"{EVIL}\" FROM chunks WHERE path = 'docs/evil.md'"],
    "sql of pieces": ["sql", "SELECT chr(27) || '[2J' || chr(155) AS x, [chr(27)] AS list, 'größe 日本' AS y"],
    "grep": ["grep", "evilness"],
    "grep with context": ["grep", "evilness", "-C", "3"],
    "search": ["search", "evilness"],
    "search, explained": ["search", "evilness", "--explain"],
    "fetch": ["fetch", str(PIECE.id)],
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundles")
    write_bundle(folder, [*PIECES, PIECE])
    return folder


def printed(root: Path, stream: io.StringIO, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        patch.setattr(sys, "stderr", stream)
        patch.setenv("NO_COLOR", "1")
        build_app()([*arguments, "--root", str(root)], standalone_mode=False)
    return stream.getvalue()


@pytest.mark.parametrize("mode", ["", "--json", "--csv"])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_control_character_reaches_a_terminal(root, monkeypatch, name, mode):
    if mode == "--csv" and not name.startswith("sql"):
        return
    out = printed(root, Terminal(), [*COMMANDS[name], *([mode] if mode else [])], monkeypatch)
    out = re.sub(r"\x1b\[[0127;]*m", "", out)  # our own: bold, dim, reversed
    assert "größe" in out
    assert not [character for character in out if not character.isprintable() and character not in "\n\t"]


def test_json_on_a_terminal_says_the_same(root, monkeypatch):
    for name in COMMANDS:
        command = [*COMMANDS[name], "--json"]
        on_terminal = json.loads(printed(root, Terminal(), command, monkeypatch))
        piped = json.loads(printed(root, io.StringIO(), command, monkeypatch))
        for volatile in ("latency_ms", "request_id"):
            for answer in (on_terminal, piped):
                if isinstance(answer, dict):
                    answer.pop(volatile, None)
        assert on_terminal == piped


def test_a_pipe_gets_every_byte(root, monkeypatch):
    query = COMMANDS["sql"][1]
    piped = printed(root, io.StringIO(), ["sql", query, "--csv"], monkeypatch)
    assert list(csv.reader(io.StringIO(piped))) == [["text", EVIL], [TEXT, TEXT]]


def test_escapes_are_those_of_python():
    assert escaped("a\x1b[2J\u202e\t\n é") == "a\\x1b[2J\\u202e\t\n é"
    assert for_terminal(EVIL) == "[2J31m"
