"""Misspelt words of a question are replaced by words of names, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.channels.bm25 import Bm25Channel
from codequarry.serving.channels.misspelt_words import correct_words
from codequarry.serving.engine.engine import Engine
from codequarry.serving.text.query_classes import analyze_query
from codequarry.serving.version.open import Bundle
from tests.serving.bundles.bundle_factory import Piece, definition_row, write_bundle

PIECES = tuple(
    Piece(path, text, name, (name,))
    for path, text, name in (
        ("lib/source.py", "def reallocate_source(buffer): return buffer", "reallocate_source"),
        ("lib/factory.py", "def build_factory(name): return name", "buildFactory"),
        ("lib/head.py", "def read_header(line): return line", "read_header"),
        ("lib/use.py", "build_factory(read_header(line)) # organised colours", "use"),
    )
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    root = tmp_path_factory.mktemp("misspelt")
    write_bundle(root, PIECES, rows={"ast_nodes": [definition_row(one, one.symbols[0]) for one in PIECES]})
    with closing(Engine(Bundle.open_current(root, channels=("bm25", "symbol")), ServingSettings())) as opened:
        yield opened


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("realocate the buffer", "reallocate the buffer"),
        ("how is the sorce reallocated", "how is the source reallocated"),
        ("the factry of names", "the factory of names"),
        ("the Faxtory of names", "the factory of names"),
        ("haeder line", "header line"),
        ("reader line", "reader line"),  # another first letter: nothing is misspelt
        ("colours of a line", "colours of a line"),  # a text has it
        ("seurce line", "seurce line"),  # six letters, one stands for another
        ("buildFactry", "buildfactory"),
        ("lib/factry.py", "lib/factry.py"),
        ("Lib.buildFactry", "Lib.buildFactry"),
    ],
)
def test_what_no_chunk_holds_is_replaced_by_a_word_of_a_name(engine: Engine, asked: str, meant: str) -> None:
    lexical = engine.bundle.channels["bm25"]
    assert isinstance(lexical, Bm25Channel)
    query, notes = correct_words(analyze_query(asked), lexical, engine.bundle.catalog.index)
    assert query.text == meant
    assert bool(notes) == (asked != meant)


def test_a_search_finds_what_was_meant_and_says_so(engine: Engine) -> None:
    answer = engine.search(SearchRequest(query="factry of sorces", explain=True))
    assert answer.results[0].title.startswith("quarry/lib/factory.py")
    assert answer.queryEcho == "factry of sorces"
    assert "nothing holds factry; looked for factory instead" in answer.limits
    alone = engine.search(SearchRequest(query="factry of sorces", channel="bm25"))
    assert (alone.results, [note for note in alone.limits if "instead" in note]) == ([], [])
