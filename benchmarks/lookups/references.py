"""References by syntax beside those of SCIP indexers: precision and recall by kind of definition.

    CODEQUARRY_SCIP_TOOLS=DIR python -m benchmarks.lookups.references FOLDER... [--definitions N] [--home DIR]

Each folder is a git clone whose language has an indexer. It is indexed twice. What SCIP says of a definition is taken
for the truth; the version without SCIP is asked for the references of the same place. Places that SCIP says nothing of
do not count: a receiver of unknown type, a package that is not installed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from benchmarks.report import percentile
from codequarry.pipelines.run import index_repositories
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.errors import CodequarryError
from codequarry.schemas.kinds import stored_kinds
from codequarry.schemas.settings.load import RepositorySettings, Settings, load_settings
from codequarry.schemas.wire.symbols import REFERENCES_MAX, ReferenceResult, ReferencesRequest
from codequarry.serving.request.deadline import NEVER
from codequarry.serving.tools.context import ToolContext
from codequarry.serving.tools.references import find_references
from codequarry.serving.version.open import Bundle

HOME = Path(__file__).resolve().parents[2] / ".codequarry" / "bench" / "references"
_ATTRIBUTES = stored_kinds(["attribute"])
_KINDS = {
    "function": stored_kinds(["function"]),
    "method": stored_kinds(["method"]),
    "class": stored_kinds(["type"]),
    "variable of a module": [word for word in stored_kinds(["variable"]) if word not in _ATTRIBUTES],
    "attribute": _ATTRIBUTES,
}
_DEFINITIONS = """
SELECT concat(repo, '/', path), start_line, start_column FROM symbols_mat
WHERE precise AND kind IN (SELECT unnest($kinds)) AND end_line = start_line AND path_class IN ('source', 'stub')
AND (NOT $of_modules OR NOT contains(qualified_name, '.'))
ORDER BY symbol_id
"""
Place = tuple[str, int, int]


class Compared(NamedTuple):
    """References of one definition."""

    right: int
    found: int
    true: int
    sure_right: int
    """Of those that are called resolved, the right ones."""
    sure: int
    seconds: float


class Answered(NamedTuple):
    """References that an answer names."""

    places: dict[Place, ReferenceResult]
    is_cut: bool
    """True where there are more than an answer holds."""
    seconds: float

    @property
    def sure(self) -> set[Place]:
        """Places that are called resolved."""
        return {place for place, one in self.places.items() if one.evidence != "by name"}

    @property
    def callers(self) -> set[tuple[str, str]]:
        """Definitions that call: file and qualified name."""
        return {(one.uri, one.enclosing) for one in self.places.values() if "call" in one.roles}

    @property
    def sure_callers(self) -> set[tuple[str, str]]:
        """Callers that are called resolved."""
        return self._replace(places={place: self.places[place] for place in self.sure}).callers

    def within(self, judged: set[Place]) -> Answered:
        """Return what the answer names among some places."""
        return self._replace(places={place: one for place, one in self.places.items() if place in judged})


def main() -> None:
    """Index twice, ask, and print."""
    parser = argparse.ArgumentParser(prog="references", description=__doc__, formatter_class=_Plain)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--definitions", type=int, default=250, help="most definitions of each kind and repository")
    parser.add_argument("--home", type=Path, default=HOME, help="where bundles are kept")
    parser.add_argument("--errors", type=Path, help="file for the places that are wrong or missing")
    options = parser.parse_args()
    errors: list[str] | None = [] if options.errors else None
    compared: dict[str, list[Compared]] = defaultdict(list)
    edges: list[Compared] = []
    for folder in options.folders:
        name = (folder.parent.name if folder.name in ("repo", ".git") else folder.name).rsplit("+", 1)[-1]
        exact, plain = (_bundle(folder, name, options.home / name, scip=scip) for scip in (True, False))
        for kind, words in _KINDS.items():
            wanted = {"kinds": words, "of_modules": kind == "variable of a module"}
            own, calls = _compare(exact, plain, wanted, options.definitions, errors)
            compared[kind] += own
            edges += calls
            print(_row(f"{name} {kind}", own), file=sys.stderr, flush=True)
        exact.close()
        plain.close()
    if errors is not None:
        options.errors.write_text("\n".join(errors) + "\n")
    print("\n| definitions | number | precision | recall | of the resolved, right | resolved | p95 ms |")
    print("|---|---|---|---|---|---|---|")
    for kind, own in compared.items():
        print(_row(kind, own))
    print(_row("all", [one for own in compared.values() for one in own]))
    print(_row("calls of them", edges))


def _compare(
    exact: Bundle, plain: Bundle, wanted: Mapping[str, object], most: int, errors: list[str] | None
) -> tuple[list[Compared], list[Compared]]:
    """Return the references and the calls of definitions; a call is a definition that calls, however often."""
    with exact.catalog.reading() as cursor:
        rows = cursor.execute(_DEFINITIONS, wanted).fetchall()
        known = cursor.execute("SELECT file, start_line, start_column FROM occurrences_mat WHERE precise").fetchall()
    uris = [f"{repo}/{path}" for repo, path in zip(exact.directory.repos, exact.directory.paths, strict=True)]
    judged = {(uris[file], line, column) for file, line, column in known}
    random.Random(7).shuffle(rows)
    found: list[Compared] = []
    calls: list[Compared] = []
    for uri, line, column in rows:
        place = f"{uri}:{line + 1}:{column + 1}"
        exactly = _references(exact, place, "precise")
        true = set(exactly.places)
        if not true:
            continue
        try:
            given = _references(plain, place, "all")
        except CodequarryError as error:
            print(f"{place}: {error}", file=sys.stderr)
            continue
        if given.is_cut:
            continue
        given = given.within(judged)
        all_of, sure = set(given.places), given.sure
        found.append(_compared(true, all_of, sure, given.seconds))
        if exactly.callers or given.callers:
            calls.append(_compared(exactly.callers, given.callers, given.sure_callers, given.seconds))
        if errors is not None:
            errors += [f"{place} means not {_shown(one)}{' (sure)' * (one in sure)}" for one in sorted(all_of - true)]
            errors += [f"{place} also means {_shown(one)}" for one in sorted(true - all_of)]
        if len(found) == most:
            break
    return found, calls


def _compared(true: set[Any], given: set[Any], sure: set[Any], seconds: float) -> Compared:
    return Compared(len(given & true), len(given), len(true), len(sure & true), len(sure), seconds)


def _references(bundle: Bundle, place: str, precision: Literal["all", "precise"]) -> Answered:
    """Ask for the references of what is defined at a place."""
    context = ToolContext(bundle, load_settings().serving, NEVER)
    start = time.perf_counter()
    answer = find_references(context, ReferencesRequest(uri=place, limit=REFERENCES_MAX, precision=precision))
    seconds = time.perf_counter() - start
    places = {(one.uri, one.start_line, one.start_column): one for one in answer.results}
    return Answered(places, answer.totals.all > len(answer.results), seconds)


def _shown(place: Place) -> str:
    uri, line, column = place
    return f"{uri}:{line + 1}:{column + 1}"


def _bundle(folder: Path, name: str, home: Path, *, scip: bool) -> Bundle:
    root = BundleRoot(home / ("scip" if scip else "syntax"))
    if not root.current.exists():
        index_repositories(_settings(folder, name, home, root, scip=scip), accept="a benchmark")
    return Bundle.open_current(root.path, channels=())


def _settings(folder: Path, name: str, home: Path, root: BundleRoot, *, scip: bool) -> Settings:
    settings = load_settings()
    source = RepositorySettings(path=folder.absolute(), ref="HEAD", name=name)
    return settings.model_copy(
        update={
            "sources": settings.sources.model_copy(update={"repositories": (source,)}),
            "scip": settings.scip.model_copy(update={"enabled": scip}),
            "bundle": settings.bundle.model_copy(update={"root": root.path}),
            "paths": settings.paths.model_copy(update={"store": home.parent / "store", "work": home / root.path.name}),
        }
    )


def _row(name: str, own: Sequence[Compared]) -> str:
    right, found, true, sure_right, sure = (sum(one[at] for one in own) for at in range(5))
    shares = (right / max(1, found), right / max(1, true), sure_right / max(1, sure), sure / max(1, found))
    slow = percentile([one.seconds for one in own], 0.95) * 1000 if own else 0.0
    return f"| {name} | {len(own)} | {' | '.join(f'{share:.3f}' for share in shares)} | {slow:.1f} |"


class _Plain(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the description."""


if __name__ == "__main__":
    main()
