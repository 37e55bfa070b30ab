"""Cost of an agent's answers: tokens of the tools as a client gets them, against grep and reading files.

    python -m benchmarks.agents.agent --repositories FOLDER [--only NAME] [--rival ANSWERS]

``--repositories``: a folder with a git clone ``<name>`` of each entry of
``benchmarks/agents/questions/repositories.toml``, at the commit that stands there.
``benchmarks/agents/questions/questions.jsonl`` holds 72 questions with the places that answer them (lines from 1),
written by one reader of the code and confirmed by a second who saw questions and code alone.

``--rival``: answers of another tool to the same questions, as `benchmarks/agents/semble_answers.py` writes them. Its
places are read as an agent reads lines of a file, numbered.

A token is four characters. The tools are called through an MCP client in this process, in the default profile.

**grep and read**, the other way: the rarest word of the question that stands anywhere in the files, looked up whatever
its case; the first 50 hits are read as ``path:line: text``, then 80 lines around the first hit of each of the first
five files, until a line of the answer is among them.

**Recall of the answer's lines**: which part of them is among the numbered lines of the texts, at 4,000 tokens.
`explore` is asked once. The other way is a search, then `fetch` of its places in their order until the texts have as
many tokens; it is given more places than a search lists (20), so that it never runs out of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import subprocess
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mcp_types
from fastmcp import Client

from benchmarks.report import Figure, at_least, at_most, print_figures
from codequarry.pipelines.run import index_repositories
from codequarry.schemas.settings.load import (
    BundleSettings,
    PathsSettings,
    RepositorySettings,
    Settings,
    SourcesSettings,
)
from codequarry.schemas.wire.search import CHARS_PER_TOKEN, WITH_CODE
from codequarry.serving.engine.engine import Engine
from codequarry.serving.server.mcp import build_server, listed_tools
from codequarry.serving.text.stems import STOP_WORDS

HERE = Path(__file__).resolve().parent / "questions"
_CODE = re.compile(r" *\d+ \|(?: (.*))?")
_HEADING = re.compile(r"(\S.*?):\d+(?:-\d+)?(?:  |$)")
_HITS, _AROUND, _FILES = 50, 40, 5
_BUDGET, _PLACES = 4_000, 20
"""Tokens within which the recall of lines is measured, and places that may be fetched."""


@dataclass(frozen=True, slots=True)
class Place:
    """Lines of a file, from 1 and inclusive."""

    path: str
    first: int
    last: int

    def meets(self, others: Sequence[Place]) -> bool:
        """True when a line of this place is a line of one of the others."""
        return any(one.path == self.path and one.first <= self.last and self.first <= one.last for one in others)


@dataclass(frozen=True, slots=True)
class RivalCost:
    """Cost of the question with another tool, in tokens."""

    search: float
    rank: int
    """Place of its first result that meets the answer, from 1; 0 when none does."""
    reached: float | None
    """Its answer and the lines of that place; None when there is none."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one question, in tokens."""

    search: float
    structured: float
    explained: float
    code: float
    """Tokens of code in the search's text."""
    rank: int
    """Place of the first result that meets the answer, from 1; 0 when none does."""
    same: bool
    """True when the lean and the explained answer have the same places."""
    windows: tuple[bool, ...]
    """Of the first results that meet the answer: whether their snippet shows a line of it."""
    reached: float | None
    """Search and one fetch of the first such result; None when there is none."""
    grep: float | None
    """The other way; None when it does not get there."""
    rival: RivalCost | None
    explored: float
    """Tokens of `explore`."""
    explore_recall: float
    """Part of the answer's lines that it shows."""
    read: float
    """Tokens of search and fetch."""
    read_recall: float
    """Part of them that search and fetch show within as many tokens."""


def run() -> None:
    """Explain how to run it: it needs clones, which nothing here fetches."""
    print("\n## Agent\n\nnot measured: python -m benchmarks.agents.agent --repositories FOLDER")


def main() -> None:
    """Index the repositories, ask every question, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repositories", type=Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--rival", type=Path)
    options = parser.parse_args()
    listed = tomllib.loads((HERE / "repositories.toml").read_text(encoding="utf-8"))["repository"]
    questions = [json.loads(line) for line in (HERE / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    answers = options.rival.read_text(encoding="utf-8").splitlines() if options.rival is not None else []
    rival = {answer["id"]: answer for answer in map(json.loads, answers)}
    costs: list[Cost] = []
    for entry in listed:
        if options.only in ("", entry["name"]):
            asked = [one for one in questions if one["repo"] == entry["name"]]
            costs += _costs(options.repositories / entry["name"], entry, asked, rival)
    _print(costs)


def _costs(
    checkout: Path, entry: dict[str, Any], questions: Sequence[dict[str, Any]], rival: dict[str, dict[str, Any]]
) -> list[Cost]:
    if not checkout.is_dir():
        raise SystemExit(
            f"no clone {checkout}; run: git clone {entry['url']} {checkout} and check {entry['commit']} out"
        )
    with tempfile.TemporaryDirectory() as scratch:
        settings = Settings(
            sources=SourcesSettings(repositories=(RepositorySettings(name=entry["name"], path=checkout),)),
            bundle=BundleSettings(root=Path(scratch) / "bundles"),
            paths=PathsSettings(work=Path(scratch) / "work"),
        )
        index_repositories(settings)
        engine = Engine.open(settings.bundle.root, settings.serving)
        try:
            files = _texts(checkout)
            costs = [asyncio.run(_cost(engine, question, files, rival.get(question["id"]))) for question in questions]
        finally:
            engine.close()
    found = sum(one.rank > 0 for one in costs)
    recalls = (statistics.mean(one.explore_recall for one in costs), statistics.mean(one.read_recall for one in costs))
    print(
        f"{entry['name']}: {len(costs)} questions, {found} answered within twelve places; "
        f"lines by explore {recalls[0]:.3f}, by search and fetch {recalls[1]:.3f}",
        flush=True,
    )
    return costs


async def _call(client: Client, tool: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Text and structured content of an answer."""
    result = await client.call_tool_mcp(tool, arguments)
    (item,) = result.content
    assert isinstance(item, mcp_types.TextContent)
    assert isinstance(result.structured_content, dict)
    return item.text, result.structured_content


async def _cost(
    engine: Engine, question: dict[str, Any], files: dict[str, list[str]], rival: dict[str, Any] | None
) -> Cost:
    gold = [Place(one["path"], one["start_line"], one["end_line"]) for one in question["gold"]]
    async with Client(build_server(engine, version="0")) as client:
        text, lean = await _call(client, "search", {"query": question["query"]})
        whole_text, whole = await _call(client, "search", {"query": question["query"], "explain": True})
        results = lean["results"]
        places = [_place(one) for one in results]
        rank = next((number for number, one in enumerate(places, start=1) if one.meets(gold)), 0)
        reached = None
        if rank:
            best = places[rank - 1]
            read, _ = await _call(client, "fetch", {"id": f"{best.path}:{best.first}-{best.last}"})
            reached = (len(text) + len(read)) / CHARS_PER_TOKEN
        explored, _ = await _call(client, "explore", {"query": question["query"], "max_tokens": _BUDGET})
        _, longer = await _call(client, "search", {"query": question["query"], "top_k": _PLACES})
        read_texts = await _search_and_fetch(client, text, [_place(one) for one in longer["results"]])
    shown = _shown_lines(text, places)
    code = sum(len(match[1] or "") for line in text.split("\n") if (match := _CODE.fullmatch(line)))
    return Cost(
        search=len(text) / CHARS_PER_TOKEN,
        structured=_tokens(lean),
        explained=_tokens(whole) + len(whole_text) / CHARS_PER_TOKEN,
        code=code / CHARS_PER_TOKEN,
        rank=rank,
        same=[one["id"] for one in results] == [one["id"] for one in whole["results"]],
        windows=tuple(
            any(Place(one.path, line, line).meets(gold) for line in shown.get(one, ()))
            for one in places[:WITH_CODE]
            if one.meets(gold)
        ),
        reached=reached,
        grep=_grep_and_read(question["query"], gold, files),
        rival=_rival_cost(rival, gold, files) if rival is not None else None,
        explored=len(explored) / CHARS_PER_TOKEN,
        explore_recall=_recall([explored], gold),
        read=sum(map(len, read_texts)) / CHARS_PER_TOKEN,
        read_recall=_recall(read_texts, gold),
    )


def _rival_cost(answer: dict[str, Any], gold: Sequence[Place], files: dict[str, list[str]]) -> RivalCost:
    places = [Place(one["path"], one["start_line"], one["end_line"]) for one in answer["places"]]
    rank = next((number for number, one in enumerate(places, start=1) if one.meets(gold)), 0)
    chars, reached = len(answer["text"]), None
    if rank:
        best = places[rank - 1]
        read = files[best.path][best.first - 1 : best.last]
        reached = (chars + sum(len(line) + 8 for line in read)) / CHARS_PER_TOKEN
    return RivalCost(chars / CHARS_PER_TOKEN, rank, reached)


async def _search_and_fetch(client: Client, text: str, places: Sequence[Place]) -> list[str]:
    """Texts of a search and of fetches of its places, in their order; the last is cut where the budget ends."""
    texts, left = [text], _BUDGET * CHARS_PER_TOKEN - len(text)
    for one in places:
        if left <= 0:
            break
        read, _ = await _call(client, "fetch", {"id": f"{one.path}:{one.first}-{one.last}"})
        texts.append(read[:left])
        left -= len(read)
    return texts


def _recall(texts: Sequence[str], gold: Sequence[Place]) -> float:
    """Part of the lines of some places that texts show with their numbers."""
    wanted = {(one.path, line) for one in gold for line in range(one.first, one.last + 1)}
    shown: set[tuple[str, int]] = set()
    for text in texts:
        path = ""
        for line in text.split("\n"):
            if (match := _HEADING.match(line)) is not None:
                path = match[1]
            elif _CODE.fullmatch(line):
                shown.add((path, int(line.partition("|")[0])))
    return len(wanted & shown) / len(wanted)


def _place(result: dict[str, Any]) -> Place:
    found = result["metadata"]
    return Place(found["uri"].partition("/")[2], found["start_line"] + 1, found["end_line"] + 1)


def _shown_lines(text: str, places: Sequence[Place]) -> dict[Place, list[int]]:
    """Numbers of the lines of code that the text shows, by the place they stand under."""
    by_heading = {f"{one.path}:{one.first}" + (f"-{one.last}" if one.last > one.first else ""): one for one in places}
    shown: dict[Place, list[int]] = {}
    current: Place | None = None
    for line in text.split("\n"):
        current = by_heading.get(line.partition("  ")[0], current)
        if current is not None and _CODE.fullmatch(line):
            shown.setdefault(current, []).append(int(line.partition("|")[0]))
    return shown


def _tokens(content: Any) -> float:
    return len(json.dumps(content, ensure_ascii=False, separators=(",", ":"))) / CHARS_PER_TOKEN


def _texts(checkout: Path) -> dict[str, list[str]]:
    """Lines of every text file that git tracks, by path."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=checkout, capture_output=True, check=True, text=True).stdout
    texts: dict[str, list[str]] = {}
    for path in filter(None, listed.split("\0")):
        file = checkout / path
        if file.is_file() and not file.is_symlink() and file.stat().st_size < 1 << 20:
            data = file.read_bytes()
            if b"\0" not in data:
                texts[path] = data.decode("utf-8", "replace").split("\n")
    return texts


def _grep_and_read(query: str, gold: Sequence[Place], files: dict[str, list[str]]) -> float | None:
    words = {word.lower() for word in re.findall(r"[A-Za-z_][\w.-]{2,}", query)} - STOP_WORDS
    hits: list[tuple[str, int, str]] = []
    for word in words:
        found = [
            (path, number, line)
            for path, lines in files.items()
            for number, line in enumerate(lines, start=1)
            if word in line.lower()
        ]
        if found and (not hits or len(found) < len(hits)):
            hits = found
    chars = sum(len(f"{path}:{number}: {line[:200]}") + 1 for path, number, line in hits[:_HITS])
    first: dict[str, int] = {}
    for path, number, _ in hits[:_HITS]:
        first.setdefault(path, number)
    for path, number in list(first.items())[:_FILES]:
        start = max(1, number - _AROUND)
        read = files[path][start - 1 : number + _AROUND]
        chars += sum(len(line) + 8 for line in read)  # numbered, as tools that read files show them
        if Place(path, start, start + len(read) - 1).meets(gold):
            return chars / CHARS_PER_TOKEN
    return None


def _print(costs: Sequence[Cost]) -> None:
    listed = [{key: tool[key] for key in ("name", "description", "inputSchema")} for tool in listed_tools()]
    both = [(one.reached, one.grep) for one in costs if one.reached is not None and one.grep is not None]
    windows = [shown for one in costs for shown in one.windows]
    searched, shares = sum(one.search for one in costs), [one.code / one.search for one in costs]
    reached = [one.reached for one in costs if one.reached is not None]
    found = [sum(0 < one.rank <= depth for one in costs) for depth in (1, 5, 10)]
    explored, read = (
        100 * statistics.mean(recalls)
        for recalls in ([one.explore_recall for one in costs], [one.read_recall for one in costs])
    )
    more = sum(one.explore_recall > one.read_recall for one in costs)
    fewer = sum(one.explore_recall < one.read_recall for one in costs)
    print_figures(
        f"An agent's {len(costs)} questions",
        [
            at_most("tools/list, default", _tokens(listed), 2_500, "tokens", 0),
            at_most("search, text, mean", statistics.mean(one.search for one in costs), 700, "tokens", 0),
            at_least("of all its characters code", 100 * sum(one.code for one in costs) / searched, 60, "%", 0),
            Figure("the same, mean of questions", f"{100 * statistics.mean(shares):.0f} %"),
            at_most("search, structured, mean", statistics.mean(one.structured for one in costs), 1_200, "tokens", 0),
            Figure("search with explain, both, mean", f"{statistics.mean(one.explained for one in costs):.0f} tokens"),
            at_least("same places as with explain", 100 * statistics.mean(one.same for one in costs), 100, "%", 0),
            Figure("a place of the answer among 1, 5, 10", ", ".join(f"{one} of {len(costs)}" for one in found)),
            at_least("its snippet shows a line of it, first five", 100 * statistics.mean(windows), 90, "%", 0),
            at_most("search and fetch to the answer, median", statistics.median(reached), 1_300, "tokens", 0),
            Figure("grep and read get there", f"{sum(one.grep is not None for one in costs)} of {len(costs)}"),
            at_most(
                "where both get there, search and fetch of grep and read, median",
                100 * statistics.median(mine / other for mine, other in both), 50, "%", 0,
            ),
            Figure(f"lines of the answer shown by search and fetch, {_BUDGET:,} tokens", f"{read:.1f} %"),
            at_least(f"lines of the answer shown by explore, {_BUDGET:,} tokens", explored, read, "%"),
            Figure("questions in which explore shows more of them, and fewer", f"{more} and {fewer} of {len(costs)}"),
            at_most("explore, text, largest", max(one.explored for one in costs), _BUDGET, "tokens", 0),
            Figure("explore, text, mean", f"{statistics.mean(one.explored for one in costs):.0f} tokens"),
            Figure("search and fetch, texts, mean", f"{statistics.mean(one.read for one in costs):.0f} tokens"),
        ],
    )  # fmt: skip
    _print_rival([(one, one.rival) for one in costs if one.rival is not None])


def _print_rival(pairs: Sequence[tuple[Cost, RivalCost]]) -> None:
    """Print the figures of another tool beside ours, over the questions that both were asked."""
    if not pairs:
        return
    count = len(pairs)
    ours, theirs = ([sum(0 < rank <= depth for rank in ranks) for depth in (1, 5)] for ranks in
                    ([one.rank for one, _ in pairs], [other.rank for _, other in pairs]))  # fmt: skip
    both = [
        (one.reached, other.reached) for one, other in pairs if one.reached is not None and other.reached is not None
    ]
    reached = [other.reached for _, other in pairs if other.reached is not None]
    print_figures(
        f"The rival's {count} answers",
        [
            Figure("its search, mean", f"{statistics.mean(other.search for _, other in pairs):.0f} tokens"),
            Figure("a place of the answer among 1, 5: ours", ", ".join(f"{one} of {count}" for one in ours)),
            Figure("a place of the answer among 1, 5: its", ", ".join(f"{one} of {count}" for one in theirs)),
            Figure("its search and the lines of that place, median", f"{statistics.median(reached):.0f} tokens"),
            Figure(
                f"where both get there ({len(both)}), ours of its, median",
                f"{100 * statistics.median(mine / other for mine, other in both):.0f} %",
            ),
        ],
    )


if __name__ == "__main__":
    main()
