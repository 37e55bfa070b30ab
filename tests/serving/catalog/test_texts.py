"""Scanning the mapped texts: what holds a needle is found, whatever stands around it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from codequarry.serving.catalog.texts import _rows_holding
from codequarry.serving.text.literal_patterns import fold

_TEXT = st.text("abA B\nKßİſé€😀", min_size=1, max_size=12)


@given(st.lists(_TEXT, min_size=1, max_size=6), st.text("abk \n", min_size=1, max_size=3), st.booleans())
def test_every_chunk_that_holds_the_needle_is_found(texts: list[str], needle: str, folded: bool) -> None:
    encoded = [text.encode() for text in texts]
    starts = np.cumsum([0, *map(len, encoded[:-1])])
    found = set(_rows_holding(b"".join(encoded), starts, needle.encode(), folded=folded))
    holding = {row for row, text in enumerate(texts) if needle in (fold(text) if folded else text)}
    assert holding <= found
    # Beyond those, only chunks at whose end the needle begins.
    for row in found - holding:
        text = fold(texts[row]) if folded else texts[row]
        assert any(text.endswith(needle[:size]) for size in range(1, len(needle)))
