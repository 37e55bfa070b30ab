"""A repository with a published version, and ways to break the next one."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from codequarry.pipelines.bundle.stage import Staged, stage_bundle
from codequarry.pipelines.embed.encoders import SHIPPED
from codequarry.pipelines.embed.stage import embed_repository, embedding_key
from codequarry.pipelines.gates.verify import verify_staged
from codequarry.pipelines.modules.stage import module_repository
from codequarry.pipelines.publish.publish import publish_verified
from codequarry.pipelines.run import index_repositories
from codequarry.pipelines.scip.stage import scip_repository
from codequarry.pipelines.sources.snapshot import snapshot_repository
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.pipelines.store.parts import CHUNKED, EMBEDDED, plan_parts, put_seal
from codequarry.pipelines.store.workspace import repository_work
from codequarry.pipelines.syntax.stage import chunk_repository
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.bundle.manifest import FileEntry, Manifest, to_json
from codequarry.schemas.bundle.tables import SCHEMAS, write_table
from codequarry.schemas.settings.load import BundleSettings, PathsSettings, RepositorySettings, Settings
from codequarry.serving.encoders.spec import EncoderSpec
from codequarry.serving.files.integrity import file_sha256, list_files, read_manifest
from tests.pipelines.repositories import commit, git
from tests.pipelines.scip.scip_writer import document, information, metadata, occurrence

Edit = Callable[[pa.Table], pa.Table]
NAME = "field"
_LARGE = 1 << 16
PYTHON, TYPESCRIPT, TESTS = 16, 14, 4


def python(number: int, functions: int = 1) -> str:
    """A module of ours; functions: how many chunks it makes."""
    before = f"from src.m{number - 1:02} import part_{number - 1}_0\n\n\n" if number else ""
    line = "    total += sum(value * {0} for value in values if value > {0} and value < {0} * 1000)\n"
    body = "".join(map(line.format, range(1, 12)))
    parts = (
        f'def part_{number}_{each}(values):\n    """Weigh part {each} of {number}."""\n    total = 0\n{body}'
        "    return total\n"
        for each in range(functions)
    )
    return before + "\n\n".join(parts)


def corpus() -> dict[str, str | bytes]:
    """Files of three languages, tests, documentation, and one that is skipped."""
    files: dict[str, str | bytes] = {f"src/m{number:02}.py": python(number) for number in range(PYTHON)}
    for number in range(TYPESCRIPT):
        files[f"web/view{number:02}.ts"] = (
            f"export function view{number}(n: number): number {{\n  return n + {number};\n}}\n"
        )
    for number in range(TESTS):
        files[f"tests/test_m{number:02}.py"] = f"def test_part_{number}():\n    assert part_{number}_0([]) == 0\n"
    files["docs/guide.md"] = "# Guide\n\nWhat the parts are for.\n\n## Parts\n\nEach weighs values.\n"
    files["web/logo.png"] = b"\x89PNG\r\n"
    return files


def scip_index() -> bytes:
    """An index made elsewhere, of two of the files."""
    found = b""
    for number in range(2):
        symbol = f"scip-test pip field 1 `src.m{number:02}`/part_{number}_0()."
        line = 3 if number else 0
        parts = occurrence(symbol, [line, 4, 12], 1), occurrence(symbol, [line + 4, 4, 9], 8)
        found += document(f"src/m{number:02}.py", *parts, symbols=[information(symbol, ["It weighs."])])
    return metadata() + found


@dataclass(frozen=True)
class Scene:
    """A folder with a repository, its work folder and its bundles."""

    folder: Path
    store: Path
    more: tuple[tuple[str, object], ...] = ()
    """Sections of the settings, by name."""

    @property
    def repo(self) -> Path:
        return self.folder / NAME

    @property
    def settings(self) -> Settings:
        settings = Settings.model_validate(
            {"scip": {"enabled": False}, "retrieval": {"enabled": False}, **dict(self.more)}
        )
        listed = (RepositorySettings(path=self.repo, scip=(self.folder / "given.scip",)),)
        return settings.model_copy(
            update={
                "paths": PathsSettings(store=self.store, work=self.folder / "work"),
                "bundle": BundleSettings(root=self.folder / "bundles"),
                "sources": settings.sources.model_copy(update={"repositories": listed}),
            }
        )

    @property
    def root(self) -> BundleRoot:
        return BundleRoot(self.folder / "bundles")

    @property
    def current(self) -> Manifest:
        return read_manifest(self.root.version(self.root.read_current().version))

    def state(self) -> tuple[bytes, list[str], list[str]]:
        """What readers could see, and what a failed build might leave."""
        left = sorted(path.name for path in self.root.versions.glob(".*"))
        return self.root.current.read_bytes(), self.root.version_names(), left

    def copy(self, folder: Path) -> Scene:
        """The same elsewhere; large files, which nobody edits in place, are links."""
        shutil.copytree(self.folder, folder, copy_function=_copied)
        return Scene(folder, self.store, self.more)

    def commit(self, files: dict[str, str | bytes]) -> None:
        commit(self.repo, files)

    def remove(self, *patterns: str) -> None:
        git(self.repo, "rm", "-rq", *patterns)
        git(self.repo, "commit", "-qm", "remove")

    def index(self, accept: str = "") -> Manifest:
        """What ``codequarry index`` does."""
        return index_repositories(self.settings, accept=accept).manifest

    def run_stages(self) -> None:
        """Every stage up to the embeddings."""
        (repository,) = repositories_by_name(self.settings.sources.repositories).values()
        snapshot_repository(repository, self.settings)
        for stage in (chunk_repository, module_repository, scip_repository, embed_repository):
            stage(NAME, self.settings)

    def stage(self) -> Staged:
        return stage_bundle([NAME], self.settings)

    def publish(self, staged: Staged) -> None:
        publish_verified(verify_staged(staged, self.settings), self.settings.bundle)

    def edit(self, name: str, change: Edit) -> None:
        """Change what a stage wrote as a stage that is wrong would: sealed, so that only the checks can tell."""
        work = repository_work(self.settings.paths.work, NAME)
        (part,) = plan_parts(work, self.settings)
        if work.table(name).is_file():
            write_table(work.table(name), change(pq.read_table(work.table(name))), SCHEMAS[name])
            return
        table = change(pq.read_table(part.table(name)))
        write_table(part.table(name), table, table.schema)
        seal = EMBEDDED if name == "embeddings" else CHUNKED
        record = json.loads((part.folder / f"{seal}.json").read_text())
        put_seal(part.folder, seal, record["key"], list(record["files"]), record["facts"])
        if seal == CHUNKED:
            spec = EncoderSpec.load(SHIPPED)
            put_seal(part.folder, EMBEDDED, embedding_key(part, spec.fingerprint), ["embeddings.parquet"], {})


def reseal(staged: BundlePaths) -> None:
    """Make the manifest promise the files as they are now, as a staging stage that is wrong would."""
    manifest = read_manifest(staged)
    held = {entry.path: entry for entry in manifest.files}
    files: list[FileEntry] = []
    for name in list_files(staged.path):
        if name != staged.manifest.name:
            file = staged.path / name
            found = {"path": name, "size_bytes": file.stat().st_size, "sha256": file_sha256(file)}
            files.append(held[name].model_copy(update=found) if name in held else FileEntry.model_validate(found))
    staged.manifest.write_bytes(to_json(manifest.model_copy(update={"files": tuple(files)})))


def replaced(table: pa.Table, column: str, values: object) -> pa.Table:
    """The table with other values in a column."""
    return table.set_column(table.schema.get_field_index(column), table.schema.field(column), values)


def first(column: str, value: object) -> Edit:
    """An edit that gives the first row another value."""

    def edit(table: pa.Table) -> pa.Table:
        values = [value, *table[column].to_pylist()[1:]]
        return replaced(table, column, pa.array(values, table.schema.field(column).type))

    return edit


def added(column: str, number: int) -> Edit:
    """An edit that adds a number to a whole column."""
    return lambda table: replaced(table, column, pc.add(table[column], pa.scalar(number, table[column].type)))


def vectors(change: Callable[[list[list[float]]], list[list[float]]]) -> Edit:
    """An edit of the vectors."""

    def edit(table: pa.Table) -> pa.Table:
        made = change(table["vector"].to_pylist())
        kind = pa.list_(pa.float32(), len(made[0]))
        field = table.schema.field("vector").with_type(kind)
        return table.set_column(table.schema.get_field_index("vector"), field, pa.array(made, kind))

    return edit


def _copied(source: str, target: str) -> None:
    if os.path.getsize(source) > _LARGE and source.endswith(".npy"):
        os.link(source, target)
    else:
        shutil.copy2(source, target)
