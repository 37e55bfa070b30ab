"""tantivy against a BM25 written down from its definition."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.ranking_profile import BUILT_IN
from codequarry.serving.channels.bm25 import MAX_TERMS, Bm25Channel, matched_terms
from codequarry.serving.text.lexical import FIELDS, tantivy_schema
from codequarry.serving.text.query_classes import analyze_query
from tests.serving.bundles.bundle_factory import Piece, tokens_of, write_bm25
from tests.serving.channels.ask_channel import ask_channel

K1, B = 1.2, 0.75


def quantized_length(length: int) -> int:
    """A field's length as Lucene and tantivy store it: exact below 40, then four significant bits in one byte."""
    if length < 40:
        return length
    extra = length - 24
    shift = max(extra.bit_length() - 4, 0)
    return 24 + (extra >> shift << shift)


def naive_scores(pieces: list[Piece], query: str) -> dict[int, float]:
    """Sum over terms and fields of boost x idf x saturated frequency; only chunks that hold a term."""
    documents = {
        piece.id: {field: [term for term, _ in terms] for field, terms in tokens_of(piece).items()} for piece in pieces
    }
    scores: dict[int, float] = {}
    read = analyze_query(query)
    kind = BUILT_IN.classes[read.kind]
    for field, boost in zip(FIELDS, (kind.path_field, kind.name_field, 1.0), strict=True):
        average = sum(len(fields[field]) for fields in documents.values()) / len(documents)
        for term in read.terms if boost else ():
            holding = sum(term in fields[field] for fields in documents.values())
            if not holding:
                continue
            idf = math.log(1 + (len(documents) - holding + 0.5) / (holding + 0.5))
            for chunk_id, fields in documents.items():
                frequency = Counter(fields[field])[term]
                if frequency:
                    norm = K1 * (1 - B + B * quantized_length(len(fields[field])) / average)
                    scores[chunk_id] = scores.get(chunk_id, 0) + boost * idf * frequency * (K1 + 1) / (frequency + norm)
    return scores


def opened(folder: Path, pieces: list[Piece]) -> Bm25Channel:
    folder.mkdir()
    write_bm25(folder, pieces)
    return Bm25Channel.open(folder)


WORDS = ["open", "file", "openFile", "read_bytes", "index", "Index", "close", "x1", "->", "session", "42"]
names = st.sampled_from(["", "Index.open", "readBytes", "close_all"])
texts = st.lists(st.sampled_from(WORDS), max_size=90).map(" ".join)
corpora = st.lists(
    st.tuples(st.sampled_from(["a/open.py", "b/index.py", "c.py"]), names, texts), min_size=1, max_size=12
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(corpora, st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join), st.data())
def test_scores_are_those_of_the_definition(tmp_path_factory, corpus, query, data) -> None:
    pieces = [
        Piece(path, text, name, (name,) if name else (), start_line=number)
        for number, (path, name, text) in enumerate(corpus)
    ]
    channel = opened(tmp_path_factory.mktemp("bm25") / "bm25", pieces)
    expected = naive_scores(pieces, query)
    found = ask_channel(channel, query, 100)
    scores = dict(zip(found.chunk_ids.tolist(), found.scores.tolist(), strict=True))
    assert scores == pytest.approx(expected, rel=1e-3, abs=1e-4)  # scores are rounded to four digits
    assert found.chunk_ids.tolist() == sorted(
        found.chunk_ids.tolist(), key=lambda one: (-found.scores[found.chunk_ids.tolist().index(one)], one)
    )
    allowed = np.array(sorted(data.draw(st.sets(st.sampled_from([piece.id for piece in pieces])))), np.int64)
    kept = ask_channel(channel, query, 100, allowed=allowed)
    assert set(kept.chunk_ids.tolist()) == expected.keys() & set(allowed.tolist())


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> tuple[Bm25Channel, list[Piece]]:
    """2,000 chunks, most of them tied."""
    random = np.random.default_rng(7)
    pieces = [
        Piece("a.py", " ".join(random.choice(WORDS, 3)) if number % 3 else "open file", start_line=number)
        for number in range(2000)
    ]
    return opened(tmp_path_factory.mktemp("many") / "bm25", pieces), pieces


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5, 1.0])
def test_a_filtered_search_is_the_whole_ranking_without_the_others(many, share: float) -> None:
    channel, pieces = many
    everything = ask_channel(channel, "open file session", 2000).chunk_ids
    random = np.random.default_rng(3)
    allowed = np.sort(random.choice([piece.id for piece in pieces], int(2000 * share), replace=False))
    found = ask_channel(channel, "open file session", 50, allowed=allowed).chunk_ids
    assert found.tolist() == everything[np.isin(everything, allowed)][:50].tolist()


@pytest.mark.parametrize("query", ["", "   ", "+*?^", 'body:"zz" OR *:*', "nowhere_to_be_found", "AND OR NOT (", "🎉"])
def test_queries_are_words_and_no_language(many, query: str) -> None:
    found = ask_channel(many[0], query, 10)
    assert len(found.chunk_ids) == 0


def test_a_query_of_too_many_terms_is_cut_and_says_so(many) -> None:
    found = ask_channel(many[0], " ".join(f"word_{number}" for number in range(250)), 10)
    assert found.notes == (f"bm25 searched the first {MAX_TERMS} of 501 terms",)


def test_matched_terms() -> None:
    assert matched_terms(analyze_query("opening of the files now"), ["def openFile():", "x"]) == ["open", "file"]


def test_prose_finds_other_forms_of_its_words_and_identifiers_only_themselves(tmp_path) -> None:
    parser = Piece("parser.py", "class Parser: parse_header", start_line=1)
    parsing = Piece("guide.md", "header parsing", start_line=2)
    channel = opened(tmp_path / "bm25", [parser, parsing])
    for query in ("parsing of headers", "parsed headers"):
        assert set(ask_channel(channel, query, 9).chunk_ids.tolist()) == {parser.id, parsing.id}
    assert ask_channel(channel, "parse_header", 1).chunk_ids.tolist() == [parser.id]


def test_words_that_stand_one_after_the_other(tmp_path) -> None:
    there = Piece("a.py", 'raise IOError("no such file: " + name)', start_line=1)
    apart = Piece("b.py", "no file is such a name", start_line=2)
    channel = opened(tmp_path / "bm25", [there, apart])
    assert channel.holding_phrase(analyze_query("no such file")).tolist() == [there.id]
    assert channel.holding_phrase(analyze_query("file")).tolist() == []
    assert channel.holding_phrase(analyze_query("IOError")).tolist() == [there.id]
    parts = Piece("d.py", "noSuchFile(", start_line=3)
    other = Piece("e.py", "such_file no", start_line=4)
    channel = opened(tmp_path / "parts", [parts, other])
    assert channel.holding_phrase(analyze_query("no such file")).tolist() == [parts.id]
    assert channel.holding_phrase(analyze_query("no such")).tolist() == [parts.id]
    crowd = [Piece("c.py", "no such file", start_line=number) for number in range(60)]
    assert opened(tmp_path / "many", crowd).holding_phrase(analyze_query("no such file")).tolist() == []


def test_a_panic_over_damaged_bytes_turns_the_channel_off() -> None:
    class PanicException(BaseException):
        """What pyo3 raises for a Rust panic."""

    class Damaged:
        num_docs = 1

        def search(self, *_: object, **__: object) -> None:
            raise PanicException("range end out of bounds")

    channel = Bm25Channel(Damaged(), tantivy_schema())
    with pytest.raises(UnavailableError, match="damaged"):
        ask_channel(channel, "open", 5)
