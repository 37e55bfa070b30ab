"""Whether a ``.h`` file is C or C++: its name does not say, and each grammar makes errors of the other's code."""

from __future__ import annotations

import re

_EXAMINED_BYTES = 64 << 10
_COMMENT_OR_STRING = re.compile(rb'/\*.*?(?:\*/|\Z)|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
# A C header that C++ may include holds `extern "C"` behind `#ifdef __cplusplus`: that alone is no sign of C++.
_ONLY_IN_CPP = re.compile(
    rb"""
    ^\s*(?:
        (?:inline\s+)?namespace(?:\s+[A-Za-z_:]+)*\s*\{
      | template\s*<
      | (?:enum\s+)?class\s+[^;(){}]*[{:;]
      | (?:public|protected|private)(?:\s+Q_SLOTS|\s+slots)?\s*:
      | using\s+[A-Za-z_]
      | constexpr\b
      | \#\s*include\s*<[a-z_]+>
    )
  | \bstd::|\boperator\s*[=<>+\-*/!\[(&|]|\bvirtual\s|\bstatic_cast\s*<|\bnullptr\b|\bnoexcept\b
    """,
    re.VERBOSE | re.MULTILINE,
)


def header_language(content: bytes) -> str:
    """``cpp`` when a header holds what no C compiler takes, looking at its first 64 KiB; else ``c``.

    >>> header_language(b"struct point { int x; };"), header_language(b"class Point { int x; };")
    ('c', 'cpp')
    """
    code = _COMMENT_OR_STRING.sub(b" ", content[:_EXAMINED_BYTES])
    return "cpp" if _ONLY_IN_CPP.search(code) else "c"
