"""Stage 1 as an asset: what each repository was when it was read."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from codequarry.assets.metadata import counts_table, table_metadata
from codequarry.assets.project import Project
from codequarry.assets.stages import each_repository, repository_asset
from codequarry.pipelines.workspace import Progress, repository_work
from codequarry.schemas.settings import RepositorySettings, Settings


@repository_asset("snapshot.snapshot_repository", kinds={"git", "parquet"})
def repository_snapshot(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
    return each_repository(context, project, _snapshot)


def _snapshot(repository: RepositorySettings, settings: Settings, progress: Progress) -> Mapping[str, Any]:
    from codequarry.pipelines.snapshot import snapshot_repository

    snapshot = snapshot_repository(repository, settings, progress)
    work = repository_work(settings.paths.work, snapshot.name)
    return {
        **table_metadata(work, "census", ("path", "lang", "path_class", "size_bytes", "encoding", "skip_reason")),
        "url": snapshot.url or "a local path",
        "ref": snapshot.ref or "none",
        "commit": snapshot.commit or "a directory without git",
        "uncommitted_changes": snapshot.dirty,
        "tree_sha256": snapshot.tree_sha256,
        "indexed_files": snapshot.files,
        "indexed_bytes": snapshot.size_bytes,
        "classes": counts_table(snapshot.classes, "class"),
        "skipped": counts_table(snapshot.skipped, "reason"),
        "secrets": counts_table(snapshot.secrets, "kind") if snapshot.secrets is not None else "not looked for",
    }
