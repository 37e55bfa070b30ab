"""Stage 2 as an asset: each repository's chunks."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from codequarry.assets.metadata import counts_table, table_metadata
from codequarry.assets.project import Project
from codequarry.assets.stages import each_repository, repository_asset
from codequarry.pipelines.workspace import Progress, repository_work
from codequarry.schemas.settings import RepositorySettings, Settings


@repository_asset("chunks.chunk_repository", kinds={"treesitter", "parquet"}, after="repository_snapshot")
def repository_chunks(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
    return each_repository(context, project, _chunks)


def _chunks(repository: RepositorySettings, settings: Settings, progress: Progress) -> Mapping[str, Any]:
    from codequarry.pipelines.chunks import chunk_repository

    report = chunk_repository(repository.name, settings, progress)
    chunks = repository_work(settings.paths.work, report.name).table("chunks")
    return {
        **table_metadata(chunks, ("path", "kind", "qualified_name", "start_line", "end_line")),
        "files": report.files,
        "parsed_files": report.parsed_files,
        "definitions": report.definitions,
        "files_with_syntax_errors": report.files_with_syntax_errors,
        "chunks_by_language": counts_table(report.chunks_by_language, "language"),
    }
