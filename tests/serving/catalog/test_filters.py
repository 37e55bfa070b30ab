from __future__ import annotations

import pytest

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.wire.search import SearchFilters
from codequarry.serving.catalog.filters import allowed_chunks
from tests.serving.bundles.corpus import (
    CONFIG,
    GO_SERVER,
    HOSTILE,
    INDEX_OPEN,
    LONG,
    MINIFIED,
    PIECES,
    SESSION,
    UNICODE,
)


def allowed(engine, **filters) -> list[int] | None:
    found, _ = allowed_chunks(SearchFilters(**filters), engine.bundle.directory, engine.bundle.catalog)
    return None if found is None else found.tolist()


def test_no_filter_is_no_restriction(lexical_engine) -> None:
    assert allowed(lexical_engine) is None


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"lang": ["go"]}, [GO_SERVER]),
        ({"lang": ["go", "toml"]}, [GO_SERVER, CONFIG]),
        ({"lang": ["rust"]}, []),
        ({"repos": ["gateway"]}, [GO_SERVER]),
        ({"repos": ["gateway"], "lang": ["python"]}, []),
        ({"include": ["io/**"]}, [INDEX_OPEN, LONG]),
        ({"include": ["quarry/io/**"]}, [INDEX_OPEN, LONG]),
        ({"include": ["gateway/**"]}, [GO_SERVER]),
        ({"include": ["*.js", "*.go"]}, [MINIFIED, GO_SERVER]),
        ({"include": ["*.py"], "exclude": ["tests"]}, [SESSION, INDEX_OPEN, LONG]),
        ({"exclude": ["*.py", "*.md", "*.js", "*.go"]}, [CONFIG]),
        ({"include": ["IO/**"]}, []),
        ({"symbols": ["open"]}, [INDEX_OPEN]),
        ({"symbols": ["Index.open"]}, [INDEX_OPEN]),
        ({"symbols": ["Index"]}, []),
        ({"symbols": ["ndex.open"]}, []),
        ({"symbols": ["open", "listenAndServe"]}, [INDEX_OPEN, GO_SERVER]),
        ({"symbols": ["open"], "lang": ["go"]}, []),
        ({"symbols": ["open", "listenAndServe"], "lang": ["go"]}, [GO_SERVER]),
        ({"symbols": ["') OR 1=1 --"]}, []),
        ({"symbols": ["%"]}, []),
        ({"symbols": ["symbol:Index.open"]}, [INDEX_OPEN]),
        ({"kinds": ["method"]}, [SESSION, INDEX_OPEN]),
        ({"kinds": ["method"], "symbols": ["open", "listenAndServe"]}, [INDEX_OPEN]),
        ({"kinds": ["macro"]}, []),
        ({"include": ["überblick.md"]}, [UNICODE]),
        ({"include": ["docs/**"]}, [HOSTILE, UNICODE]),
    ],
)
def test_filters(lexical_engine, filters, expected) -> None:
    assert allowed(lexical_engine, **filters) == sorted(piece.id for piece in expected)


@pytest.mark.parametrize(
    ("filters", "message", "suggestion"),
    [
        ({"lang": ["pyhton"]}, "filters.lang", "'python'"),
        ({"lang": ["kotln"]}, "filters.lang", "'kotlin'"),
        ({"lang": ["java script"]}, "filters.lang", "'javascript'"),
        ({"lang": ["'; DROP TABLE chunks_mat; --"]}, "filters.lang", "use"),
        ({"repos": ["gatway"]}, "filters.repos", "'gateway'"),
        ({"repos": ["../quarry"]}, "filters.repos", "'quarry'"),
        ({"include": ["../x"]}, "glob", "src/"),
        ({"exclude": ["/x"]}, "glob", "src/"),
        ({"symbols": [""]}, "filters.symbols", "Index.open"),
        ({"symbols": ["."]}, "filters.symbols", "Index.open"),
        ({"symbols": ["a\nb"]}, "filters.symbols", "Index.open"),
        ({"symbols": ["x" * 513]}, "filters.symbols", "Index.open"),
        ({"symbols": ["a\0"]}, "filters.symbols", "Index.open"),
    ],
)
def test_filters_that_are_refused(lexical_engine, filters, message, suggestion) -> None:
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        allowed(lexical_engine, **filters)
    assert suggestion in caught.value.suggestion


@pytest.mark.parametrize("name", ["Python", "py", ".py", "PYTHON3", " python "])
def test_a_language_is_known_by_the_names_people_use(lexical_engine, name) -> None:
    """Only `python` was, and for `ts` the advice was the first ten languages of the alphabet."""
    assert allowed(lexical_engine, lang=[name]) == allowed(lexical_engine, lang=["python"])


def test_an_alias_and_its_name_are_one_language() -> None:
    assert SearchFilters(lang=["ts", "typescript", "C#", "shell", "golang"]).lang == [
        "typescript",
        "csharp",
        "bash",
        "go",
    ]


def test_the_directory_holds_every_chunk(lexical_engine) -> None:
    directory = lexical_engine.bundle.directory
    assert directory.chunk_ids.tolist() == sorted(piece.id for piece in PIECES)
    assert directory.repo_names == ("gateway", "quarry")
