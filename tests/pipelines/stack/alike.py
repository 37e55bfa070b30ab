"""Answers of two engines compared: those over a delta version, and those over a complete version of the same tree."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

from pydantic import BaseModel

from codequarry.schemas.wire.describe import DescribeRequest
from codequarry.schemas.wire.grep import CodeSearchRequest
from codequarry.schemas.wire.list_files import ListFilesRequest
from codequarry.schemas.wire.outline import OutlineRequest
from codequarry.schemas.wire.overview import OverviewRequest
from codequarry.schemas.wire.search import FetchRequest, SearchFilters, SearchRequest
from codequarry.schemas.wire.symbols import DefinitionRequest, ReferencesRequest
from codequarry.serving.engine.engine import Engine
from codequarry.serving.tools.browse.list_files import list_files
from codequarry.serving.tools.browse.outline import outline
from codequarry.serving.tools.browse.overview import overview
from codequarry.serving.tools.describe import describe_index

_MAY_DIFFER = re.compile(r"took_ms|timings|bundle|age_s|fan_in")
_NAME = re.compile(r"[A-Za-z_]\w{2,}")


def plain(answer: BaseModel) -> Any:
    """Return an answer without what may differ between two versions of one tree.

    These are times, the version's name, and how many files import those that did not change (compaction counts anew).
    """
    found = _without(answer.model_dump(mode="json"))
    for repository in found.get("repositories", []):
        if "folders" in repository:
            repository["folders"].sort(key=lambda folder: folder["uri"])
    return found


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without(each) for key, each in value.items() if not _MAY_DIFFER.fullmatch(key)}
    return [_without(each) for each in value] if isinstance(value, list) else value


def questions(texts: Iterable[str], paths: Iterable[str]) -> Iterator[tuple[str, Any, BaseModel]]:
    """Yield tools and requests about a tree: each name and each file in every way that needs no ranking.

    Args:
        texts: Texts of all files.
        paths: Their paths, with the repository.

    Yields:
        Name of the tool, its function, and a request.
    """
    listed = sorted(paths)
    names = sorted({name for text in texts for name in _NAME.findall(text)})
    for name in names[::2]:
        yield "go_to_definition", Engine.definitions, DefinitionRequest(symbol=name)
        yield "find_references", Engine.references, ReferencesRequest(symbol=name, include_definitions=True)
        yield "search_code", Engine.search_code, CodeSearchRequest(pattern=name, mode="word", limit=100)
        yield "search", Engine.search, SearchRequest(query=name, channel="symbol", top_k=20)
    for name in names[::7]:
        yield "search_code", Engine.search_code, CodeSearchRequest(pattern=name[:3], limit=100, case_sensitive=False)
        slip = name[:-2] + name[-1] if len(name) > 5 else name
        yield "search", Engine.search, SearchRequest(query=slip, channel="symbol", top_k=20)
        yield "search", Engine.search, SearchRequest(query=f"how is {name} used", channel="faiss", top_k=10)
        only = SearchFilters(include=["**/*.py"], kinds=["function"])
        yield "search", Engine.search, SearchRequest(query=f"where is {name}", channel="faiss", filters=only)
    for path in listed:
        yield "fetch", Engine.fetch, FetchRequest(id=f"{path}:1-400")
        yield "outline", outline, OutlineRequest(path=path)
        for line in (1, 4, 9):
            yield "go_to_definition", Engine.definitions, DefinitionRequest(uri=f"{path}:{line}")
    yield "list_files", list_files, ListFilesRequest(pattern="**/*", limit=500)
    yield "list_files", list_files, ListFilesRequest()
    yield "overview", overview, OverviewRequest()
    yield "describe_index", describe_index, DescribeRequest()


def differing(stacked: Engine, complete: Engine, texts: Iterable[str], paths: Iterable[str]) -> list[str]:
    """Return the questions that the two engines answer otherwise, each with both answers."""
    found: list[str] = []
    for name, tool, request in questions(texts, paths):
        ours, theirs = (_ask(engine, name, tool, request) for engine in (stacked, complete))
        if ours != theirs:
            found.append(f"{name} {request!r}\n  stacked:  {ours}\n  complete: {theirs}")
    return found


def moved(stacked: Engine, complete: Engine, texts: Iterable[str]) -> tuple[int, int]:
    """Return how many of the first ten places of hybrid answers differ, and how many places there are."""
    different = places = 0
    for name in sorted({name for text in texts for name in _NAME.findall(text)})[::4]:
        for query in (name, f"how does it {name} things"):
            ours, theirs = (
                [result.id for result in engine.search(SearchRequest(query=query, top_k=10)).results]
                for engine in (stacked, complete)
            )
            places += len(theirs)
            different += sum(one != other for one, other in zip_longest(ours, theirs))
    return different, places


def _ask(engine: Engine, name: str, tool: Any, request: BaseModel) -> Any:
    try:
        own = getattr(Engine, tool.__name__, None) is tool
        return plain(tool(engine, request) if own else engine.answer(name, tool, request))
    except Exception as error:  # noqa: BLE001 - a refusal is an answer, too
        return f"{type(error).__name__}: {error}"
