"""Configurations as people write them: JSON with comments, in many styles, and TOML."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

_KEYS = st.sampled_from(["a", "b", "c", "mcpServers", "servers", "x y", 'q"t', "ü//", "/*"])
_WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=6)
_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | _WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=8,
)
_GAPS = ["", " ", "\n", "\r\n", "\n\n\t", " // c {\n", "/* , } */", "\n  // x\n  "]


@st.composite
def jsonc_texts(draw: st.DrawFn, *, comments: bool = True) -> str:
    """Draw an object, with any white space, comments and trailing commas."""
    value = draw(st.dictionaries(_KEYS, _VALUES, max_size=4))
    style = draw(st.sampled_from(["compact", "two", "tab", "loose"]))
    if style != "loose" or not comments:
        text = json.dumps(value, indent={"two": 2, "tab": "\t"}.get(style), ensure_ascii=False)
        return draw(st.sampled_from(["", "\ufeff"])) + text + draw(st.sampled_from(["", "\n"]))
    gap = st.sampled_from(_GAPS)

    def write(one: Any) -> str:
        if isinstance(one, dict):
            parts = [f"{json.dumps(key)}{draw(gap)}:{draw(gap)}{write(inner)}{draw(gap)}" for key, inner in one.items()]
            return "{" + draw(gap) + _joined(parts, draw(gap), draw(st.booleans())) + "}"
        if isinstance(one, list):
            return (
                "["
                + draw(gap)
                + _joined([f"{write(inner)}{draw(gap)}" for inner in one], "", draw(st.booleans()))
                + "]"
            )
        return json.dumps(one)

    return draw(gap) + write(value) + draw(gap)


def _joined(parts: list[str], gap: str, trailing: bool) -> str:
    return f",{gap}".join(parts) + ("," + gap if trailing and parts else "")


@st.composite
def toml_texts(draw: st.DrawFn) -> str:
    """Draw a few tables of a configuration such as Codex has."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    lines = draw(st.lists(st.sampled_from(["# note", "", 'model = "m"', "n = [", "x = 1"]), unique=True, max_size=3))
    lines = [line + ("1,  # one" + newline + "]" if line == "n = [" else "") for line in lines]
    for name in draw(st.lists(st.sampled_from(["tui", "mcp_servers.other", "mcp_servers.a.env"]), unique=True)):
        value = json.dumps(draw(st.text("ab", max_size=2)))
        lines += [*draw(st.sampled_from([[], [""], ["# of it"]])), f"[{name}]", f"key = {value}"]
        lines += ['text = """', "[mcp_servers.codequarry]", '"""'] if draw(st.booleans()) else []
    return newline.join(lines) + draw(st.sampled_from(["", newline, 2 * newline]))
