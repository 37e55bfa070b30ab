"""What explanations tell besides: the catalog's own rows, the most frequent first, and damage is seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.tables import MODULES
from codequarry.schemas.errors import IntegrityError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.catalog.explanation_facts import MAX_LEAVES, MAX_SAID, ChunkFacts
from codequarry.serving.engine.engine import Engine
from codequarry.serving.version.open import Bundle
from tests.serving.bundles.bundle_factory import Piece, definition_row, write_bundle

POOL = Piece("web/pool.py", "class Pool: ...\n", "Pool", ("Pool",), kind="class")
CLOSE = Piece("web/pool.py", "def close(): ...\n", "close", ("close",), start_line=1, start_byte=16)
NOTES = Piece("notes.txt", "no code of a pool\n", kind="text")
PIECES = (POOL, CLOSE, NOTES)
COUNTS = {"string": 2, "identifier": 9, "comment": 2, "integer": 5, "operator": 1}
DOC = "Größere Pools\nof connections. " + "x" * 200


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> BundlePaths:
    leaves = [
        {"repo": POOL.repo, "path": POOL.path, "chunk_id": POOL.id, "kind": kind, "count": count}
        for kind, count in COUNTS.items()
    ]
    module = {"repo": POOL.repo, "path": POOL.path, "lang": "python", "module": "web.pool", "package": "web"}
    lists = {name: [] for name in ("imports", "external", "resolved", "exports", "tags")}
    numbers = {name: 0 for name in MODULES.names if name not in module and name not in lists and name != "doc"}
    nodes = [definition_row(POOL, "Pool"), definition_row(CLOSE, "close")]
    rows = {"cst_nodes": leaves, "modules": [{**module, **lists, **numbers, "doc": DOC}], "ast_nodes": nodes}
    return write_bundle(tmp_path_factory.mktemp("facts"), PIECES, rows=rows)


def test_leaves_by_count_and_then_by_name_and_what_the_file_says(paths: BundlePaths) -> None:
    facts = ChunkFacts.open(paths.facts, 3, 2)
    # By repository, path and place: notes.txt, then the two of web/pool.py.
    assert [list(facts.leaves_of(row).items()) for row in range(3)] == [
        [],
        [("identifier", 9), ("integer", 5), ("comment", 2), ("string", 2)][:MAX_LEAVES],
        [],
    ]
    assert [facts.said_of(file) for file in range(2)] == ["", DOC[:MAX_SAID]]


def test_a_search_tells_them(paths: BundlePaths) -> None:
    engine = Engine(Bundle.open_current(paths.path.parents[1], channels=("bm25",)), ServingSettings())
    try:
        results = engine.search(SearchRequest(query="pool", explain=True)).results
    finally:
        engine.close()
    told = {int(result.id): result.metadata.explain for result in results}
    assert told[POOL.id].leaves == {"identifier": 9, "integer": 5, "comment": 2, "string": 2}
    assert told[POOL.id].said.startswith("Größere Pools of connections. ")
    assert (told[POOL.id].kinds, told[CLOSE.id].kinds) == ({"class": 1}, {"function": 1})
    assert (told[NOTES.id].kinds, told[NOTES.id].leaves, told[NOTES.id].said) == ({}, {}, "")


def test_written_again_they_are_the_same_bytes(paths: BundlePaths, tmp_path: Path) -> None:
    ChunkFacts.open(paths.facts, 3, 2).write(tmp_path / "again")
    for file in paths.facts.iterdir():
        assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes()


@pytest.mark.parametrize("damage", ["leaves", "leaf_starts", "said", "said_starts", "kinds", "kind", "chunks", "files"])
def test_damage_and_facts_of_something_else_are_refused(paths: BundlePaths, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "facts"
    ChunkFacts.open(paths.facts, 3, 2).write(folder)
    if damage == "kinds":
        (folder / "kinds.txt").write_text("comment\n")
    elif damage == "kind":
        leaves = np.load(folder / "leaves.npy")
        leaves["kind"][0] = np.iinfo(leaves["kind"].dtype).max
        np.save(folder / "leaves.npy", leaves)
    elif damage not in ("chunks", "files"):
        np.save(folder / f"{damage}.npy", np.load(folder / f"{damage}.npy")[:-1])
    with pytest.raises(IntegrityError, match="is damaged"):
        ChunkFacts.open(folder, 4 if damage == "chunks" else 3, 1 if damage == "files" else 2)


def test_a_version_without_anything_has_facts(tmp_path: Path) -> None:
    paths = write_bundle(tmp_path / "none", ())
    assert ChunkFacts.open(paths.facts, 0, 0).kinds == ()
