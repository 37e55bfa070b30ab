"""What an edit does to the ids of chunks it has nothing to do with, and what the order of work does to any row."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codequarry.pipelines.sources.snapshot import snapshot_repository
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.pipelines.store.workspace import repository_work
from codequarry.pipelines.syntax.chunks.chunk import chunk_source
from codequarry.pipelines.syntax.chunks.rows import chunk_ids
from codequarry.pipelines.syntax.stage import chunk_repository
from codequarry.pipelines.syntax.workers import chunk_files
from codequarry.schemas.bundle.tables import SCHEMAS
from codequarry.schemas.languages import language_of
from codequarry.schemas.settings.load import ChunkingSettings
from tests.pipelines.conftest import MakeSettings

MAX, MERGE = 320, 120
SOURCES = sorted((Path(__file__).parents[2] / "fixtures" / "sources").iterdir())
INSERTED = {
    "function": "def inserted(first, second):\n    total = first + second\n    return total\n\n\n",
    "decorated function": "@cached\n@twice\ndef inserted():\n    return 1\n\n\n",
    "class": "class Inserted:\n    def open(self):\n        return 1\n\n    def close(self):\n        return 2\n\n\n",
    "large function": "def inserted():\n" + "    work(1234567890)\n" * 30 + "\n\n",
    "comment block": "# ----\n# A new section of this file, which says a few words.\n# ----\n\n",
    "blank lines": "\n\n\n",
}


def ids_by_place(data: bytes, max_chars: int = MAX, merge_chars: int = MERGE) -> list[tuple[int, int, int]]:
    """(start, end, id) of every chunk."""
    made = chunk_source(data, "python", max_chars=max_chars, merge_chars=merge_chars)
    ids = chunk_ids("repo", "file.py", data, made)
    return [(span.start_byte, span.end_byte, own) for span, own in zip(made.spans, ids, strict=True)]


def function(number: int, lines: int) -> str:
    body = "".join(f"    value_{number}_{line} = {line}\n" for line in range(lines))
    return f"def function_{number}():\n{body}\n\n"


def stands_alone(part: str) -> bool:
    return len("".join(part.split())) > MERGE


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 14), min_size=2, max_size=25),
    at=st.integers(0, 25),
    kind=st.sampled_from(sorted(INSERTED)),
)
def test_an_insertion_changes_ids_only_from_where_it_is_to_the_next_definition_that_stands_alone(
    sizes: list[int], at: int, kind: str
) -> None:
    parts = [function(number, lines) for number, lines in enumerate(sizes)]
    at = min(at, len(parts))
    place = len("".join(parts[:at]))
    after = next((n for n in range(at, len(parts)) if stands_alone(parts[n])), len(parts))
    settled = len("".join(parts[:after]))
    before = ids_by_place("".join(parts).encode())
    now = {own for *_, own in ids_by_place("".join([*parts[:at], INSERTED[kind], *parts[at:]]).encode())}
    touched = settled if settled > place else place + 1
    kept = [own for start, end, own in before if end < place or start >= touched]
    assert set(kept) <= now


@settings(max_examples=100, deadline=None)
@given(sizes=st.lists(st.integers(10, 14), min_size=2, max_size=12), at=st.integers(0, 11))
def test_where_every_definition_stands_alone_a_new_one_changes_no_other_id(sizes: list[int], at: int) -> None:
    parts = [function(number, lines) for number, lines in enumerate(sizes)]
    assert all(map(stands_alone, parts))
    at = min(at, len(parts))
    before = ids_by_place("".join(parts).encode())
    now = ids_by_place("".join([*parts[:at], INSERTED["large function"], *parts[at:]]).encode())
    assert {own for *_, own in before} <= {own for *_, own in now}


@pytest.mark.parametrize(("count", "width"), [(200, 20), (200, 60), (200, 250)])
def test_in_a_long_row_of_equal_functions_the_cuts_soon_fall_where_they_did(count: int, width: int) -> None:
    """Greedy merging alone would move every cut behind an insertion, to the end of the file."""
    parts = [f"def f{number:03}(a):\n    return {'x' * width}\n\n\n" for number in range(count)]
    before = ids_by_place("".join(parts).encode(), 1600, 600)
    changed: list[int] = []
    for at in range(0, count, 9):
        inserted = f"def inserted(a):\n    return {'y' * width}\n\n\n"
        now = {own for *_, own in ids_by_place("".join([*parts[:at], inserted, *parts[at:]]).encode(), 1600, 600)}
        changed.append(sum(own not in now for *_, own in before))
    assert mean(changed) < len(before) / 4


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(order=st.permutations(SOURCES), workers=st.integers(1, 4))
def test_neither_the_order_of_files_nor_the_number_of_workers_changes_a_chunk(
    order: Sequence[Path], workers: int
) -> None:
    files = [(file.name, language_of(file.name) or "text", file.read_bytes()) for file in order]
    made = chunk_files(files, ChunkingSettings(max_chars=MAX, merge_chars=MERGE), workers=workers)
    for (_, lang, content), found, *_ in made:
        assert found == chunk_source(content, lang, max_chars=MAX, merge_chars=MERGE)


def test_neither_the_order_on_disk_nor_the_number_of_cores_changes_a_table(
    tmp_path: Path, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tables(home: str, files: list[Path], cores: int) -> dict[str, bytes]:
        folder = tmp_path / home / "demo"
        folder.mkdir(parents=True)
        for file in files:
            (folder / file.name).write_bytes(file.read_bytes())
        made = make_settings(folder, home=tmp_path / home)
        (repository,) = repositories_by_name(made.sources.repositories).values()
        snapshot_repository(repository, made)
        monkeypatch.setattr(os, "cpu_count", lambda: cores)
        chunk_repository("demo", made)
        work = repository_work(made.paths.work, "demo")
        return {
            name: b"".join(map(Path.read_bytes, work.tables(name)))
            for name in SCHEMAS
            if work.tables(name)[0].is_file()
        }

    shuffled = random.Random(7).sample(SOURCES, len(SOURCES))
    first = tables("one", SOURCES, 1)
    assert {"files", "chunks", "ast_nodes", "ast_references", "cst_nodes"} <= set(first)
    assert tables("two", shuffled, 3) == first
