"""Text of an exploration."""

from __future__ import annotations

from codequarry.schemas.wire.explore import ExploreAnswer, ExplorePlace, ExploreRemainder, PlaceRole
from codequarry.schemas.wire.search import BundleInfo
from codequarry.serving.render.explore import explore_text

INFO = BundleInfo(version="v", created="", commits={"app": "a" * 40})


def place(role: PlaceRole, uri: str, first: int, last: int, symbol: str, code: str, *, by_name: bool = False):
    return ExplorePlace(
        uri=uri, start_line=first, end_line=last, role=role, symbol=symbol, by_name=by_name, code=code
    )  # fmt: skip


def test_code_then_relations_then_what_is_left_out() -> None:
    answer = ExploreAnswer(
        places=[
            place("match", "app/a.py", 8, 9, "Worker > method run", "def run(self):\n    step()"),
            place("match", "app/b.py", 0, 0, "", "x = 1\x1b[2J"),
            place("caller", "app/c.py", 4, 4, "Worker.run", "run()"),
            place("callee", "app/c.py", 6, 8, "Worker.run", "def step()", by_name=True),
        ],
        left_out=[
            ExploreRemainder(role="match", count=2, places=["app/d.py:1-2"]),
            ExploreRemainder(role="test", count=1, places=[]),
        ],
        limits=["said"],
        bundle=INFO,
    )
    assert explore_text(answer).split("\n") == [
        "a.py:9-10  Worker > method run", " 9 | def run(self):", "10 |     step()",
        "b.py:1", "1 | x = 1[2J",
        "c.py:5  caller of Worker.run: run()",
        "c.py:7-9  callee of Worker.run (by name): def step()",
        "left out: 2 matches (fetch d.py:1-2) · 1 test",
        "app@aaaaaaa", "note: said",
    ]  # fmt: skip


def test_nothing_found() -> None:
    text = explore_text(ExploreAnswer(places=[], left_out=[], limits=[], bundle=INFO))
    assert text.startswith("nothing found: ")
