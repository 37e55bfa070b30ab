from __future__ import annotations

import re
import time
from fnmatch import translate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.serving.catalog.globs import compile_glob


@pytest.mark.parametrize(
    ("glob", "matching", "other"),
    [
        ("src/**", ["src/a.py", "src/b/c.py"], ["src", "lib/src/a.py", "srcs/a.py"]),
        ("**/tests/**", ["tests/a.py", "x/tests/b/c.py"], ["tests", "x/mytests/a.py"]),
        ("*.py", ["a.py", "x/y/a.py"], ["a.pyi", "a.py/b"]),
        ("**.py", ["a.py", "x/y/a.py"], ["a.pyi"]),
        ("src/*.py", ["src/a.py"], ["src/b/a.py", "a.py"]),
        ("src/**/*.py", ["src/a.py", "src/b/c/d.py"], ["src/a.go"]),
        ("a/**/b/**/c.py", ["a/b/c.py", "a/x/b/c.py", "a/x/b/y/z/c.py", "a/b/b/c.py"], ["a/c.py", "b/c.py"]),
        ("src", ["src/a.py", "x/src/b.py", "src"], ["srcs/a.py"]),
        ("src/", ["src/a.py", "x/src/b.py"], ["src"]),
        ("src/api", ["src/api/a.py", "src/api"], ["x/src/api/a.py", "src/apis"]),
        ("./src/a.py", ["src/a.py"], ["a.py"]),
        ("test_?.py", ["test_a.py"], ["test_.py", "test_ab.py"]),
        ("[a-c]*.py", ["a.py", "bx.py"], ["d.py", "A.py"]),
        ("[!a-c].py", ["d.py"], ["a.py", "/.py"]),
        ("[]x].py", ["].py", "x.py"], ["y.py"]),
        ("x[.py", ["x[.py"], ["x.py"]),
        ("a+(b).py", ["a+(b).py"], ["aab.py"]),
        ("README*", ["README", "docs/README.md"], ["readme"]),
        ("**", ["a", "a/b"], []),
        ("*a*b*c*", ["abc", "x/1a2b3c4"], ["acb"]),
        ("src/*x*/f.py", ["src/axb/f.py"], ["src/a/x/f.py"]),
        ("überblick.*", ["docs/überblick.md"], []),
    ],
)
def test_globs(glob: str, matching: list[str], other: list[str]) -> None:
    matches = compile_glob(glob)
    assert [path for path in matching if not matches(path)] == []
    assert [path for path in other if matches(path)] == []


@pytest.mark.parametrize(
    "glob",
    ["", "/", "//", "/etc/passwd", "~/x", "../x", "a/../b", "a/..", "a\\b", "a\0b", "a\nb", "\ud800", "x" * 257, "a**b",
     "***", "[z-a]"],
)  # fmt: skip
def test_globs_that_are_refused(glob: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        compile_glob(glob)
    assert caught.value.suggestion


@given(
    st.lists(st.sampled_from(["a", "b", "*", "?", "[ab]", "[!a]", "ab"]), min_size=1, max_size=6).map("".join),
    st.text("ab", min_size=1, max_size=10),
)
def test_inside_one_segment_globs_agree_with_fnmatch(glob: str, name: str) -> None:
    if "**" in glob:
        return
    assert compile_glob(f"./{glob}")(name) == bool(re.match(translate(glob), name))


def naive(segments: list[str], path: list[str]) -> bool:
    """Segment by segment, trying everything."""
    if not segments:
        return not path
    if segments[0] == "**":
        if len(segments) == 1:
            return len(path) > 0
        return any(naive(segments[1:], path[start:]) for start in range(len(path) + 1))
    return bool(path) and bool(re.match(translate(segments[0]), path[0])) and naive(segments[1:], path[1:])


@given(
    st.lists(st.sampled_from(["**", "a", "b", "a*", "*b", "*", "?"]), min_size=2, max_size=6),
    st.lists(st.sampled_from(["a", "b", "ab", "ba"]), min_size=1, max_size=6),
)
def test_across_segments_globs_agree_with_trying_everything(segments: list[str], path: list[str]) -> None:
    expected = naive(
        [one for one, before in zip(segments, ["", *segments], strict=False) if (one, before) != ("**", "**")], path
    )
    if not re.search(r"[*?]", segments[-1]):  # a plain last name also stands for the folder of that name
        expected = expected or any(naive(_collapsed(segments), path[:end]) for end in range(1, len(path)))
    assert compile_glob("/".join(segments))("/".join(path)) == expected


def _collapsed(segments: list[str]) -> list[str]:
    return [one for one, before in zip(segments, ["", *segments], strict=False) if (one, before) != ("**", "**")]


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("*a" * 120 + "b", "a" * 4000),
        ("**/" + "*a/**/" * 40 + "b", "/".join(["aa"] * 1000)),
        ("**/" + "a/" * 60 + "**/" + "a/" * 60 + "b", "a/" * 2000 + "c"),
        ("[ab]*" * 50 + "c", "ab" * 2000),
    ],
)
def test_no_glob_takes_long(glob: str, path: str) -> None:
    started = time.process_time()
    assert not compile_glob(glob[:256])(path)
    assert time.process_time() - started < 1
