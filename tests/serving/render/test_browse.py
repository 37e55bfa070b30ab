"""Texts of outlines, lists and overviews that the tests of the tools do not see."""

from __future__ import annotations

import pytest

from codequarry.schemas.wire.outline import FileOutline, OutlineAnswer, OutlineDefinition
from codequarry.schemas.wire.search import BundleInfo
from codequarry.serving.render.browse import outline_text

INFO = BundleInfo(version="v", created="", commits={"app": "a" * 40})


@pytest.mark.parametrize(
    ("name", "kind", "signature", "shown"),
    [
        ("open", "function", "def open(path)", "def open(path)"),
        ("LIMIT", "constant", "LIMIT = 3", "constant LIMIT = 3"),
        ("open", "key", "", "key open"),
        ("x", "variable", "builtins.int", "variable x builtins.int"),
        ("a\x1b[2J", "function", "def a\x1b[2J()", "def a[2J()"),
    ],
)
def test_a_definition_is_its_signature_or_kind_and_name(name: str, kind: str, signature: str, shown: str) -> None:
    one = OutlineDefinition(
        name=name, qualified_name=name, kind=kind, start_line=0, end_line=4, depth=1, signature=signature
    )
    file = FileOutline(uri="app/a.py", lang="python", total_lines=9, definitions=[one], total=3)
    answer = OutlineAnswer(files=[file], files_total=1, total=1, limits=["said"], bundle=INFO)
    assert outline_text(answer).split("\n") == [
        "a.py  (python, 9 lines, 2 more definitions further in or down)", f"  1-5  {shown}",
        "app@aaaaaaa · 1 definition", "note: said",
    ]  # fmt: skip
