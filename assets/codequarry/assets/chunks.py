"""Stage 2 as assets: each repository's chunks, and what its syntax trees say; one pass makes both."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from codequarry.assets.metadata import counts_table, markdown_table, table_metadata
from codequarry.assets.plots import chunk_sizes_plot, shares_plot
from codequarry.assets.project import Project
from codequarry.assets.stages import repository_assets, together_for_each_repository
from codequarry.pipelines.workspace import Progress, repository_work
from codequarry.schemas.settings import RepositorySettings, Settings


@repository_assets(
    "chunks.chunk_repository",
    kinds={"repository_chunks": {"parquet"}, "repository_syntax": {"treesitter", "parquet"}},
    after="repository_snapshot",
)
def repository_pass(context: dg.AssetExecutionContext, project: Project) -> tuple[dg.MaterializeResult, ...]:
    return together_for_each_repository(context, project, _pass)


def _pass(repository: RepositorySettings, settings: Settings, progress: Progress) -> Mapping[str, Mapping[str, Any]]:
    from codequarry.pipelines.chunks import chunk_repository

    report = chunk_repository(repository.name, settings, progress)
    work = repository_work(settings.paths.work, report.name)
    by_language = {language: counts.chunks for language, counts in report.by_language.items()}
    languages = [
        {"language": language, **{column: getattr(counts, column) for column in counts.__slots__}}
        for language, counts in report.by_language.items()
    ]
    return {
        "repository_chunks": {
            **table_metadata(work, "chunks", ("path", "kind", "qualified_name", "start_line", "end_line")),
            "files": report.files,
            "reused_files": report.reused_files,
            "parts": report.parts,
            "reused_parts": report.reused_parts,
            "chunks": report.chunks,
            "chunks_by_language": counts_table(by_language, "language"),
            "chunk_sizes": chunk_sizes_plot(work.tables("chunks")),
            "language_shares": shares_plot("Chunks by language", by_language),
        },
        "repository_syntax": {
            **table_metadata(work, "ast_nodes", ("path", "kind", "qualified_name", "signature")),
            "files": report.files,
            "parsed_files": report.parsed_files,
            "files_with_syntax_errors": report.files_with_syntax_errors,
            "definitions": report.definitions,
            "references": report.references,
            "leaf_kinds": report.leaf_kinds,
            "languages": markdown_table(languages, ("language", "files", "parsed", "syntax_errors", "definitions")),
        },
    }
