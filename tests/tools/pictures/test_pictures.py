"""Pictures of commands: they show what the commands printed, with its colours."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from tools.pictures.__main__ import draw_terminal


def test_a_picture_shows_commands_and_what_they_printed(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "prices.py").write_text("def read_price(text):\n    return float(text)\n")
    picture = tmp_path / "terminal.svg"
    draw_terminal(tmp_path / "code", [["index", "."], ["definition", "read_price"]], picture)
    drawn = html.unescape(re.sub(r"<[^>]+>", "", picture.read_text(encoding="utf-8"))).replace("\xa0", " ")
    for expected in (
        "$ codequarry index .",
        "1 file, 1 chunk",
        "published",
        "$ codequarry definition read_price",
        "prices.py",
    ):
        assert expected in drawn
    assert "\x1b" not in drawn and len(set(re.findall(r"fill: (#[0-9a-f]{6})", picture.read_text()))) >= 3


def test_a_command_that_fails_draws_nothing(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="does not exist"):
        draw_terminal(tmp_path, [["index", "nowhere"]], tmp_path / "terminal.svg")
    assert not (tmp_path / "terminal.svg").exists()
