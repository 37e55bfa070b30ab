"""The assets of each repository: its snapshot and what the stages make of it."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import dagster as dg

from codequarry.assets.metadata import chunk_sizes_plot, counts_table, markdown_table, shares_plot, table_metadata
from codequarry.assets.project import Project
from codequarry.assets.stages import (
    bundle_asset,
    each_repository,
    once,
    repository_asset,
    repository_assets,
    together_for_each_repository,
)
from codequarry.pipelines.store.workspace import Progress, repository_work
from codequarry.schemas.settings.load import RepositorySettings, Settings


@repository_asset("sources.snapshot.snapshot_repository", kinds={"git", "parquet"})
def repository_snapshot(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
    return each_repository(context, project, _snapshot)


def _snapshot(repository: RepositorySettings, settings: Settings, progress: Progress) -> Mapping[str, Any]:
    from codequarry.pipelines.sources.snapshot import snapshot_repository

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


@repository_asset("scip.stage.scip_repository", kinds={"scip", "parquet"}, after=("repository_snapshot",))
def repository_scip(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
    return each_repository(context, project, _scip)


def _scip(repository: RepositorySettings, settings: Settings, progress: Progress) -> Mapping[str, Any]:
    from codequarry.pipelines.scip.stage import scip_repository

    report = scip_repository(repository.name, settings, progress)
    work = repository_work(settings.paths.work, report.name)
    indexers = [{**entry.model_dump(), "coverage": f"{entry.coverage:.3f}"} for entry in report.indexers]
    return {
        **table_metadata(work, "scip_occurrences", ("path", "symbol", "start_line", "start_column", "is_definition")),
        "indexers": markdown_table(indexers, ("indexer", "status", "coverage", "documents", "files", "reason")),
        "definitions": report.definitions,
        "symbols": report.symbols,
        "dropped": report.dropped,
        "cached": report.cached,
    }


@repository_asset("modules.stage.module_repository", kinds={"parquet"}, after=("repository_syntax",))
def repository_modules(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
    return each_repository(context, project, _modules)


def _modules(repository: RepositorySettings, settings: Settings, progress: Progress) -> Mapping[str, Any]:
    from codequarry.pipelines.modules.stage import module_repository

    report = module_repository(repository.name, settings, progress)
    work = repository_work(settings.paths.work, report.name)
    return {
        **table_metadata(work, "modules", ("path", "module", "tags", "branches", "fan_in", "fan_out")),
        "modules": report.modules,
        "imports": report.imports,
        "imports_resolved": report.resolved,
        "imports_external": report.imports - report.resolved,
        "modules_by_language": counts_table(report.modules_by_language, "language"),
        "tags": counts_table(report.tags, "tag"),
        "most_imported": counts_table(dict(report.most_imported), "path"),
    }


@repository_assets(
    "syntax.stage.chunk_repository",
    kinds={"repository_chunks": {"parquet"}, "repository_syntax": {"treesitter", "parquet"}},
    after="repository_snapshot",
)
def repository_pass(context: dg.AssetExecutionContext, project: Project) -> tuple[dg.MaterializeResult, ...]:
    return together_for_each_repository(context, project, _pass)


def _pass(repository: RepositorySettings, settings: Settings, progress: Progress) -> Mapping[str, Mapping[str, Any]]:
    from codequarry.pipelines.syntax.stage import chunk_repository

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


@repository_asset(
    "embed.stage.embed_repository", kinds={"onnx", "parquet"}, after=("repository_chunks", "fitted_encoder")
)
def repository_embeddings(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
    return each_repository(context, project, _embeddings)


def _embeddings(repository: RepositorySettings, settings: Settings, progress: Progress) -> Mapping[str, Any]:
    from codequarry.pipelines.embed.stage import embed_repository

    report = embed_repository(repository.name, settings, progress)
    tokens: Mapping[str, Any] = {}
    if settings.late_interaction:
        from codequarry.pipelines.indexes.warp.stage import embed_tokens

        read = embed_tokens(repository.name, settings, progress)
        tokens = {"token_texts_encoded": read.encoded, "token_encoder_fingerprint": read.fingerprint}
    sparse: Mapping[str, Any] = {}
    if settings.learned_sparse:
        from codequarry.pipelines.indexes.splade.stage import embed_sparse

        made = embed_sparse(repository.name, settings, progress)
        sparse = {"sparse_texts_encoded": made.encoded, "sparse_encoder_fingerprint": made.fingerprint}
    return {
        **tokens,
        **sparse,
        **table_metadata(repository_work(settings.paths.work, report.name), "embeddings", ("chunk_id", "vector")),
        "embedded": report.embedded,
        "reused": report.reused,
        "dimensions": report.legs[0].dim,
        "encoder_fingerprint": report.legs[0].fingerprint,
        "legs": markdown_table([asdict(leg) for leg in report.legs], ("channel", "encoder", "embedded", "reused")),
    }


_EVERY_SNAPSHOT = (dg.AssetDep("repository_snapshot", partition_mapping=dg.AllPartitionMapping()),)


# With the repositories, whose vectors it makes: groups that need each other are drawn in a circle.
@bundle_asset("adapt.stage.adapt_encoder", kinds={"numpy"}, after=_EVERY_SNAPSHOT, group="repository")
def fitted_encoder(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
    return once(context, project, _adapt)


def _adapt(settings: Settings, progress: Progress) -> Mapping[str, Any]:
    from codequarry.pipelines.adapt.stage import adapt_encoder
    from codequarry.pipelines.embed.encoders import encoder_folders
    from codequarry.serving.encoders.spec import EncoderSpec

    report = adapt_encoder(settings, progress)
    first = next(iter(encoder_folders(settings).values()))
    off = "not wanted: [embedding] adapt is false"
    return {
        "verdict": report.said if report is not None else off,
        "kept": report is not None and report.kept,
        "digest": EncoderSpec.load(first).fingerprint if (first / "encoder.json").is_file() else first.name,
    }
