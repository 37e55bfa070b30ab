"""Search over a fleet of 64 bundles beside one bundle of the same repositories: quality, time and memory.

Questions are first sentences of docstrings; the answer is the file that they stand in. Both sides have the sentence in
their index, so the figures say how far the fleet is from the one bundle, and not how good either is.
"""

from __future__ import annotations

import ast
import math
import re
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from benchmarks.corpus import HOME, package_folder
from benchmarks.report import Figure, at_most, print_figures
from codequarry.pipelines.run import index_repositories
from codequarry.schemas.settings.load import ServingSettings, Settings
from codequarry.schemas.wire.search import SearchFilters, SearchRequest
from codequarry.serving.engine.engine import Engine
from codequarry.serving.fleet.fleet_engine import FleetEngine, ServedGeneration
from codequarry.serving.tools.search import search
from codequarry.serving.version.open import Bundle
from codequarry.serving.version.served import Served

PACKAGES = tuple(
    "alembic altair antlr4 anyio attr authlib cachetools cffi charset_normalizer click coloredlogs "
    "cryptography cyclopts dagster_graphql dagster_pipes dagster_shared dateutil dns docstring_parser "
    "email_validator exceptiongroup execnet executing fastjsonschema filelock flatbuffers fsspec gql "
    "graphene graphql griffe grimp h11 hatchling humanfriendly idna importlinter ipykernel jedi jinja2 "
    "jsonschema jwt key_value keyring mako markdown_it mcp mistune more_itertools nbclient packaging "
    "parso pathspec pexpect platformdirs prompt_toolkit psutil pycparser pydoclint pyparsing rich "
    "starlette structlog tomlkit".split()
)
QUESTIONS_EACH = 4
_SENTENCE = re.compile(r"[A-Z][^.\n]{30,120}\.")


def run() -> None:
    """Measure and print."""
    settings = ServingSettings()
    every = _index("every", PACKAGES)
    memory = [anonymous_mb()]
    single = Engine(Bundle.open_current(every, settings), settings)
    questions = [one for package in PACKAGES for one in _questions(package)]
    single_figures = _asked(single, questions)
    memory.append(anonymous_mb())
    served = {
        f"b{number:04d}": Served(Bundle.open_current(_index(name, [name]), settings))
        for number, name in enumerate(PACKAGES)
    }
    fleet = FleetEngine(ServedGeneration(1, "2026-01-01T00:00:00Z", served), settings)
    asked = _asked(fleet, questions)
    memory.append(anonymous_mb())
    fleet.settings = settings.model_copy(update={"fleet_bundles": 0})
    all_asked = _asked(fleet, questions)
    filtered = _filtered(single, questions), _filtered(fleet, questions)
    print_figures(
        f"{len(PACKAGES)} bundles beside one, {len(questions)} questions",
        [
            Figure("chunks", f"{len(single.bundle.directory.chunk_ids):,}"),
            Figure("NDCG@10, one bundle", f"{single_figures[0]:.3f}"),
            at_most("loss of NDCG@10, the most promising bundles", single_figures[0] - asked[0], 0.01, "", 3),
            at_most("loss of NDCG@10, all bundles", single_figures[0] - all_asked[0], 0.01, "", 3),
            Figure("p50, one bundle", f"{single_figures[1]:.1f} ms"),
            at_most("p50, the most promising bundles", asked[1], 80, "ms"),
            Figure("p50, all bundles", f"{all_asked[1]:.1f} ms"),
            Figure("p50 of one repository, one bundle", f"{filtered[0]:.1f} ms"),
            at_most("more for the fleet", filtered[1] - filtered[0], 3, "ms"),
            Figure("memory of its own, one bundle", f"{memory[1] - memory[0]:.0f} MB"),
            Figure("memory of its own, fleet", f"{memory[2] - memory[1]:.0f} MB"),
        ],
    )
    single.close()
    fleet.close()


def _index(name: str, packages: Sequence[str]) -> Path:
    home = HOME / "served_fleet"
    settings = Settings.model_validate(
        {
            "paths": {"store": str(home / "store"), "work": str(home / name / "work")},
            "bundle": {"root": str(home / name / "bundles")},
            "sources": {"repositories": [{"path": str(package_folder(one)), "name": one} for one in packages]},
            "retrieval": {"enabled": False},
        }
    )
    index_repositories(settings)
    return settings.bundle.root


def _questions(package: str) -> Iterator[tuple[str, str]]:
    """Yield first sentences of docstrings of a package, with the uris of their files."""
    return islice(sentences_of(package), QUESTIONS_EACH)


def sentences_of(package: str) -> Iterator[tuple[str, str]]:
    folder = package_folder(package)
    for file in sorted(folder.rglob("*.py"), key=lambda one: (one.stat().st_size % 1009, str(one))):
        with suppress(SyntaxError, UnicodeDecodeError):
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if not isinstance(node, ast.FunctionDef | ast.ClassDef):
                    continue
                found = _SENTENCE.match(ast.get_docstring(node) or "")
                if found:
                    yield found[0], f"{package}/{file.relative_to(folder).as_posix()}"
                    break


def _asked(engine: Engine | FleetEngine, questions: Sequence[tuple[str, str]]) -> tuple[float, float]:
    """Return NDCG@10 and the median time in ms."""
    gains: list[float] = []
    times: list[float] = []
    for query, uri in questions:
        started = time.perf_counter()
        answer = engine.answer_admitted("search", search, SearchRequest(query=query, top_k=10))
        times.append(1000 * (time.perf_counter() - started))
        found = list(dict.fromkeys(one.metadata.uri for one in answer.results))
        gains.append(1 / math.log2(2 + found.index(uri)) if uri in found else 0.0)
    return statistics.mean(gains), statistics.median(times)


def _filtered(engine: Engine | FleetEngine, questions: Sequence[tuple[str, str]]) -> float:
    """Return the median time in ms of searches in one repository."""
    times: list[float] = []
    for query, uri in questions:
        filters = SearchFilters(repos=[uri.partition("/")[0]])
        started = time.perf_counter()
        engine.answer_admitted("search", search, SearchRequest(query=query, top_k=10, filters=filters))
        times.append(1000 * (time.perf_counter() - started))
    return statistics.median(times)


def anonymous_mb() -> float:
    """Return the memory of this process that no file backs."""
    with suppress(OSError):
        read = Path("/proc/self/status").read_text()
        if found := re.search(r"RssAnon:\s+(\d+)", read):
            return int(found[1]) / 1024
    return 0.0
