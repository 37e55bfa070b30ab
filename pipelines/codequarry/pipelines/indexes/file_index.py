"""The index of files (`serving.files.file_index`) of a staged version, from the work folders of its repositories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from codequarry.pipelines.embed.encoders import encoder_directories
from codequarry.pipelines.embed.stage import embed_texts
from codequarry.pipelines.store.workspace import RepositoryWork
from codequarry.schemas.bundle.layout import DENSE_LEGS, BundlePaths
from codequarry.schemas.bundle.shards import shard_of
from codequarry.schemas.bundle.tables import read_table
from codequarry.schemas.settings.load import Settings
from codequarry.serving.files.file_index import FileIndex, FileRow, card_text

_OUTER = 1
"""Most dots in the qualified name of a definition that a file summary names."""
_NO_MODULE = {"doc": "", "fan_in": 0, "code_lines": 0}


class FileCard(NamedTuple):
    """A file of the census."""

    path: str
    indexed: bool
    fan_in: int
    code_lines: int
    text: str
    """Text that the encoder reads; "" when the file is not indexed."""


def write_file_index(paths: BundlePaths, works: Sequence[RepositoryWork], shards: int, settings: Settings) -> None:
    """Write ``files/`` of a staged version.

    Args:
        paths: Paths of the version.
        works: Work folders of its repositories, in the order of their names.
        shards: Number of shards of the version.
        settings: Settings of the encoder.
    """
    cards = [(work.path.name, card) for work in works for card in file_cards(work)]
    rows = [
        FileRow(row, repo, card.path, card.fan_in, card.code_lines)
        for row, (repo, card) in enumerate(cards)
        if card.indexed
    ]
    texts = [card.text for _, card in cards if card.indexed]
    vectors = embed_texts(texts, encoder_directories(settings)[DENSE_LEGS[0]], settings)
    numbers = [shard_of(row.repo, row.path, shards) for row in rows]
    FileIndex.build(rows, vectors, numbers).write(paths.files)


def file_cards(work: RepositoryWork) -> Iterator[FileCard]:
    """Yield the files of a repository by path, as its stages left them.

    Args:
        work: Work folder of the repository.

    Yields:
        Each file of the census with its summary.

    Raises:
        SourceError: As `RepositoryWork.require` does.
    """
    files = read_table(work.require(work.table("files"), "chunk"), ["path", "skip_reason"]).sort_by("path")
    columns = ["path", *_NO_MODULE]
    modules = read_table(work.require(work.table("modules"), "module"), columns).to_pylist()
    by_path = {module["path"]: module for module in modules}
    outer = _outer_names(work)
    for path, skipped in zip(files["path"].to_pylist(), files["skip_reason"].to_pylist(), strict=True):
        module = by_path.get(path, _NO_MODULE)
        text = "" if skipped else card_text(path, module["doc"], outer.get(path, ()))
        yield FileCard(path, not skipped, module["fan_in"], module["code_lines"], text)


def _outer_names(work: RepositoryWork) -> dict[str, list[str]]:
    """Return the names of the outer definitions of each file, in order."""
    found: dict[str, list[str]] = {}
    for file in sorted(work.parts.glob("*/ast_nodes.parquet")):
        table = read_table(file, ["path", "start_byte", "name", "qualified_name"])
        by_place = table.sort_by([(name, "ascending") for name in ("path", "start_byte", "qualified_name")])
        columns = (by_place[name].to_pylist() for name in ("path", "name", "qualified_name"))
        for path, name, qualified_name in zip(*columns, strict=True):
            if qualified_name.count(".") <= _OUTER:
                found.setdefault(path, []).append(name)
    return found
