"""Encodings of source files under the names that Python gives them, as ``files.encoding`` holds them."""

from __future__ import annotations

UTF_8 = "utf-8"
UNKNOWN = "unknown-8bit"
"""Bytes that are not UTF-8 and whose encoding is unknown: they are indexed unchanged."""
MARKED = ("utf-16-le", "utf-16-be")
"""Encodings told by a byte-order mark."""
WIDE = ("gb18030", "cp932", "euc_jp", "euc_kr", "big5")
"""Guessed encodings of Chinese, Japanese and Korean, whose letters have two or more bytes."""
WESTERN = "cp1252"
"""Guessed encoding: Latin-1 with the characters that Windows puts into its control range."""
ENCODINGS = (UTF_8, UNKNOWN, *MARKED, *WIDE, WESTERN)
