"""The page of a notebook: what is shown, and that nothing of it runs or is fetched."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest

from codequarry.pipelines.publish.notebook.page import clean, count_pictures, mark, page_of

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)><meta http-equiv=refresh content='0;//h'>"


def page(*cells: dict[str, Any], **marks: str) -> str:
    return page_of({"cells": list(cells)}, "report", {"version": "v1", **marks})


def code(*outputs: dict[str, Any]) -> dict[str, Any]:
    return {"cell_type": "code", "source": "show(1 < 2)", "outputs": list(outputs)}


def shown(**data: str) -> dict[str, Any]:
    kinds = {"png": "image/png", "svg": "image/svg+xml", "html": "text/html", "plain": "text/plain"}
    kinds["markdown"] = "text/markdown"
    return {"output_type": "display_data", "data": {kinds[kind]: value for kind, value in data.items()}}


def test_a_picture_is_inside_of_the_page_and_is_counted() -> None:
    made = page(code(shown(png=PNG, plain="alt.Chart(…)"), shown(svg="<svg onload='x()'/>")))
    assert f'src="data:image/png;base64,{PNG}"' in made
    assert "data:image/svg+xml;base64," in made
    assert count_pictures(made) == 2
    assert "alt.Chart" not in made
    assert "onload" not in made


def test_tables_lists_and_code_are_shown() -> None:
    made = page(
        {"cell_type": "markdown", "source": "# Files\n\n| a | b |\n|---|---|\n| 1 | 2 |"},
        code(
            shown(html="<style>td{}</style><table border=1><tr><td colspan=2>x</td></tr></table>", plain="x"),
            {"output_type": "stream", "text": "\x1b[31mred\x1b[0m & done"},
            {"output_type": "error", "traceback": ["ValueError: <expected>"]},
        ),
        {"cell_type": "raw", "source": "left out"},
    )
    assert "<h1>Files</h1>" in made
    assert made.count("<table>") == 2
    assert '<td colspan="2">x</td>' in made
    assert "show(1 &lt; 2)" in made
    assert "<pre>red &amp; done</pre>" in made
    assert "ValueError: &lt;expected&gt;" in made
    assert "left out" not in made


@pytest.mark.parametrize(
    "cell",
    [
        {"cell_type": "markdown", "source": HOSTILE + "\n\n![p](https://h/x.png) [l](javascript:alert(1))"},
        code(shown(html=f"<table><tr><td>{HOSTILE}</td></tr></table><a href='javascript:alert(1)'>l</a>")),
        code(shown(html="<div style='background:url(https://h)'><iframe src='https://h'></iframe><link href='//h'>")),
        code(shown(html="<svg><script href='https://h/x.js'/></svg><form action='https://h'><base href='https://h'>")),
        code(shown(html="<!--<script>--><SCRIPT\n>alert(1)</SCRIPT\n><a href=' javascript:alert(1)'>l</a><script>x")),
        code(shown(markdown=HOSTILE)),
        code(shown(plain=HOSTILE)),
        code(shown(png='"><script>alert(1)</script>')),
        code({"output_type": "stream", "text": HOSTILE}),
    ],
)
def test_no_script_survives_and_nothing_is_fetched(cell: dict[str, Any]) -> None:
    made = page(cell)
    body = made.partition("<body>")[2]
    assert re.findall(r"<(?:script|iframe|link|meta|base|form|object|style|svg)\b", body, re.IGNORECASE) == []
    assert re.findall(r"<[^>]*(?:\son\w+\s*=|javascript:|\sstyle=|src=\"(?!data:))", body, re.IGNORECASE) == []
    assert "default-src 'none'" in made.partition("<body>")[0]


def test_tags_are_closed_so_that_a_cell_cannot_change_the_next_one() -> None:
    assert clean("<table><tr><td>x") == "<table><tr><td>x</td></tr></table>"
    assert clean("</div></p>x<br></br>") == "x<br>"
    assert clean("<b><i>x</b>y") == "<b><i>x</i></b>y"


def test_an_attached_picture_of_a_text_is_shown() -> None:
    cell = {"cell_type": "markdown", "source": "![a](attachment:a.png)", "attachments": {"a.png": {"image/png": PNG}}}
    assert count_pictures(page(cell)) == 1


def test_only_the_head_says_what_the_page_is_of() -> None:
    made = page(code(shown(plain=mark("version", "v2"))), sha256="ab")
    assert mark("version", "v1") in made
    assert mark("sha256", "ab") in made
    assert mark("version", "v2") not in made
