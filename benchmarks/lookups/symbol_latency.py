"""Latency of symbol look-ups and relations in any bundle, over definitions drawn at random.

    python -m benchmarks.lookups.symbol_latency ROOT [--questions N]

Each kind of question is asked once of each definition, in this process, with the defaults of the tools.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.report import percentile
from codequarry.schemas.kinds import stored_kinds
from codequarry.schemas.settings.load import load_settings
from codequarry.schemas.wire.relations import RelationsRequest
from codequarry.schemas.wire.symbols import DefinitionRequest, ReferencesRequest
from codequarry.serving.request.deadline import NEVER
from codequarry.serving.tools.context import ToolContext
from codequarry.serving.tools.definitions import go_to_definition
from codequarry.serving.tools.references import find_references
from codequarry.serving.tools.relations.relations import relations
from codequarry.serving.version.open import Bundle

_DEFINITIONS = """
SELECT qualified_name, concat(repo, '/', path, ':', start_line + 1, ':', start_column + 1) FROM symbols_mat
WHERE kind IN (SELECT unnest($kinds)) AND path_class = 'source' ORDER BY symbol_id
"""
_KINDS = stored_kinds(["function", "method", "type"])
_QUESTIONS: dict[str, Callable[[ToolContext, str, str], Any]] = {
    "go_to_definition of a name": lambda context, name, place: go_to_definition(
        context, DefinitionRequest(symbol=name)
    ),
    "find_references of a name": lambda context, name, place: find_references(context, ReferencesRequest(symbol=name)),
    "find_references of a place": lambda context, name, place: find_references(context, ReferencesRequest(uri=place)),
    "callers": lambda context, name, place: relations(context, RelationsRequest(kind="callers", target=place)),
    "callees": lambda context, name, place: relations(context, RelationsRequest(kind="callees", target=place)),
    "impact, three steps": lambda context, name, place: relations(
        context, RelationsRequest(kind="impact", target=place, depth=3)
    ),
}


def main() -> None:
    """Ask, and print."""
    parser = argparse.ArgumentParser(prog="symbol_latency", description=__doc__, formatter_class=_Plain)
    parser.add_argument("root", type=Path, help="folder of a bundle's versions")
    parser.add_argument("--questions", type=int, default=300, help="definitions to ask about")
    options = parser.parse_args()
    bundle = Bundle.open_current(options.root, channels=())
    context = ToolContext(bundle, load_settings().serving, NEVER)
    with bundle.catalog.reading() as cursor:
        rows = cursor.execute(_DEFINITIONS, {"kinds": list(_KINDS)}).fetchall()
    chosen = random.Random(7).sample(rows, min(options.questions, len(rows)))
    print(f"{len(bundle.directory.by_row):,} chunks, {len(rows):,} functions, methods and types in sources\n")
    print("| question | p50 ms | p95 ms | p99 ms |\n|---|---|---|---|")
    for title, ask in _QUESTIONS.items():
        ask(context, *chosen[0])
        seconds: list[float] = []
        for name, place in chosen:
            start = time.perf_counter()
            ask(context, name, place)
            seconds.append(time.perf_counter() - start)
        shown = " | ".join(f"{percentile(seconds, share) * 1000:.1f}" for share in (0.5, 0.95, 0.99))
        print(f"| {title} | {shown} |", flush=True)


class _Plain(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the description."""


if __name__ == "__main__":
    main()
