"""Text search the slow way: every file, every position, no index. What `search_code` must agree with."""

from __future__ import annotations

import itertools
import re
import unicodedata

from codequarry.serving.text.analyzer import Fragment, analyze, source_tokens, words

Found = list[tuple[int, int]]
"""Starts and ends in characters."""


def fold(text: str) -> str:
    """Lower case, one character at a time; İ has none of one character, and both sigmas are one."""
    lowered = (one if len(one.lower()) > 1 else one.lower() for one in text)
    return "".join("σ" if one == "ς" else one for one in lowered)


def is_held(fragment: Fragment, text: str) -> bool:
    """Tell whether some word of a text holds the fragment."""
    if fragment.starts and fragment.ends:
        return fragment.text in {token.text for token in analyze(text)}
    tokens = [token.lower() for token in source_tokens(text)]
    return any(
        fragment.text in token
        and (not fragment.starts or token.startswith(fragment.text))
        and (not fragment.ends or token.endswith(fragment.text))
        for token in tokens
    )


def exact(pattern: str, text: str, *, case_sensitive: bool = True) -> Found:
    if not case_sensitive:
        pattern, text = fold(pattern), fold(text)
    return [match.span() for match in re.finditer(re.escape(pattern), text)]


def word(pattern: str, text: str, *, case_sensitive: bool = True) -> Found:
    left = r"(?<!\w)" if re.match(r"\w", pattern) else ""
    right = r"(?!\w)" if re.search(r"\w\Z", pattern) else ""
    if not case_sensitive:
        pattern, text = fold(pattern), fold(text)
    return [match.span() for match in re.finditer(left + re.escape(pattern) + right, text)]


def phrase(pattern: str, text: str, *, case_sensitive: bool = True) -> Found:
    wanted = [fold(one.text) for one in words(pattern)]
    there = list(words(text))
    found: Found = []
    at = 0
    while at + len(wanted) <= len(there):
        window = there[at : at + len(wanted)]
        between = "".join(text[left.end : right.start] for left, right in itertools.pairwise(window))
        plain = not any(one.isalnum() for one in between)
        if plain and [fold(one.text) for one in window] == wanted:
            found.append((window[0].start, window[-1].end))
            at += len(wanted)
        else:
            at += 1
    return found


def regex(pattern: str, text: str, *, case_sensitive: bool = True) -> Found:
    """Line by line, by Python's own engine; for patterns that mean the same to both."""
    compiled = re.compile(pattern, re.ASCII | (re.NOFLAG if case_sensitive else re.IGNORECASE))
    found: Found = []
    offset = 0
    for line in text.split("\n"):
        found += [(offset + match.start(), offset + match.end()) for match in compiled.finditer(line) if match.group()]
        offset += len(line) + 1
    return found


def place(text: str, at: int) -> tuple[int, int]:
    """Line and byte column."""
    head = text[:at].split("\n")
    return len(head) - 1, len(head[-1].encode())


def visible(text: str) -> bool:
    """No control or format character but tabs."""
    return all(one == "\t" or unicodedata.category(one) not in ("Cc", "Cf", "Cs") for one in text)
