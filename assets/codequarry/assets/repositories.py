"""The assets of each repository: its snapshot and what the stages make of it."""

import hashlib
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import dagster as dg

from codequarry.assets.metadata import (
    chunk_sizes_plot,
    counts_table,
    markdown_table,
    shares_plot,
    table_metadata,
    tables_sha256,
)
from codequarry.assets.project import Project
from codequarry.assets.stages import (
    chosen_repositories,
    content_version,
    device_metadata,
    each_repository,
    gpu_check,
    gpu_result,
    logged,
    once,
    repository_asset,
    repository_assets,
    together_for_each_repository,
    whole_asset,
)
from codequarry.pipelines.sources.carried import FailedReading, forget_failure, keep_failure
from codequarry.pipelines.store.device_use import DeviceUse, is_gpu
from codequarry.pipelines.store.workspace import Progress, repository_work, working
from codequarry.schemas.errors import RemoteError, SourceError
from codequarry.schemas.settings.load import RepositorySettings, Settings

READ_CHECK = "every_repository_is_read"
"""Name of the check of `repository_snapshot`."""


@repository_asset(
    "sources.snapshot.snapshot_repository",
    group="sources",
    kinds={"git", "parquet"},
    check_specs=[
        dg.AssetCheckSpec(
            READ_CHECK,
            asset="repository_snapshot",
            blocking=True,
            description="Each repository could be read. One that could not goes on with its snapshot of before, which "
            "is a warning until [automation] max_carried_hours have passed, and stops the run then. One that was never "
            "read is left out, and its run fails once the others are published.",
        )
    ],
)
def repository_snapshot(
    context: dg.AssetExecutionContext, project: Project
) -> Generator[dg.MaterializeResult | dg.AssetCheckResult, None, None]:
    with project.explained(context.retry_number) as settings:
        chosen = chosen_repositories(context, settings)
        versions, failures = _read(context, chosen, settings)
        if len([failure for failure in failures if not failure.carried]) == len(chosen):
            raise dg.Failure("; ".join(failure.line() for failure in failures), allow_retries=False)
        yield dg.MaterializeResult(data_version=content_version(versions))
        yield _readings(failures, settings.automation.max_carried_hours)


def _read(
    context: dg.AssetExecutionContext, chosen: Sequence[RepositorySettings], settings: Settings
) -> tuple[list[str], list[FailedReading]]:
    """Take the snapshots of repositories, and ask again for those alone whose remote did not answer.

    Other runs may use the work folder during a wait.

    Args:
        context: Context of the step.
        chosen: The repositories.
        settings: Settings of the run.

    Returns:
        The hashes of the trees that were read, and the failures of the others.
    """
    versions: dict[str, str] = {}
    failures: dict[str, FailedReading] = {}
    waiting, automation = list(chosen), settings.automation
    for tries in range(automation.remote_retries + 1):
        if tries:
            wait_s = automation.remote_wait_s * 2 ** (tries - 1)
            names = ", ".join(repository.name for repository in waiting)
            context.log.warning(f"{names}: no answer; asked again in {wait_s:.0f} seconds")
            time.sleep(wait_s)
        unanswered: list[RepositorySettings] = []
        with working(settings):
            for repository in waiting:
                try:
                    versions[repository.name] = _read_one(context, repository, settings)
                    failures.pop(repository.name, None)
                except SourceError as error:
                    work = repository_work(settings.paths.work, repository.name)
                    failures[repository.name] = _carried(context, keep_failure(work, error))
                    unanswered += [repository] if isinstance(error, RemoteError) else []
        if not (waiting := unanswered):
            break
    return list(versions.values()), list(failures.values())


def _read_one(context: dg.AssetExecutionContext, repository: RepositorySettings, settings: Settings) -> str:
    """Take the snapshot of a repository, and return the hash of its tree."""
    started = time.perf_counter()
    metadata = _snapshot(repository, settings, logged(context))
    forget_failure(repository_work(settings.paths.work, repository.name))
    seconds = round(time.perf_counter() - started, 3)
    context.add_asset_metadata({**metadata, "seconds": seconds}, "repository_snapshot", repository.name)
    return metadata["tree_sha256"]


def _carried(context: dg.AssetExecutionContext, failure: FailedReading) -> FailedReading:
    context.log.error(failure.line())
    metadata = {"problem": failure.message, "remedy": failure.suggestion, "carried_forward": failure.carried}
    context.add_asset_metadata(metadata, "repository_snapshot", failure.name)
    return failure


def _readings(failures: list[FailedReading], hours: float) -> dg.AssetCheckResult:
    """Return the result of `READ_CHECK`: a warning about what goes on with an earlier snapshot, for some hours."""
    expired = [failure for failure in failures if failure.carried and failure.hours > hours]
    oldest = max((failure.hours for failure in failures), default=0.0)
    return dg.AssetCheckResult(
        passed=not failures,
        check_name=READ_CHECK,
        severity=dg.AssetCheckSeverity.ERROR if expired else dg.AssetCheckSeverity.WARN,
        description="; ".join(failure.line() for failure in failures) or "every repository of the run was read",
        metadata={"found": len(failures), "allowed": 0, "hours": round(oldest, 2), "hours_allowed": hours},
    )


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


SCIP_CHECK = "scip_indexers_ran"
"""Name of the check of `repository_scip`."""


@repository_asset(
    "scip.stage.scip_repository",
    group="symbols",
    kinds={"scip", "parquet"},
    after=("repository_snapshot",),
    check_specs=[
        dg.AssetCheckSpec(
            SCIP_CHECK,
            asset="repository_scip",
            description="An indexer ran for each language that has one. Where none did, definitions and references "
            "come from the syntax alone: a warning.",
        )
    ],
)
def repository_scip(
    context: dg.AssetExecutionContext, project: Project
) -> Generator[dg.MaterializeResult | dg.AssetCheckResult, None, None]:
    problems: list[str] = []

    def stage(repository: RepositorySettings, settings: Settings, progress: Progress) -> Mapping[str, Any]:
        metadata, missing = _scip(repository, settings, progress)
        problems.extend(missing)
        return metadata

    yield each_repository(context, project, stage)
    yield dg.AssetCheckResult(
        passed=not problems,
        check_name=SCIP_CHECK,
        severity=dg.AssetCheckSeverity.WARN,
        description="; ".join(problems) or "every indexer that has something to read ran",
        metadata={"found": len(problems), "allowed": 0},
    )


def _scip(
    repository: RepositorySettings, settings: Settings, progress: Progress
) -> tuple[Mapping[str, Any], list[str]]:
    """Run the indexers; return the metadata, and a line for each indexer that gave nothing."""
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
    }, [
        f"{report.name}: {entry.indexer}: {entry.reason or entry.status}"
        for entry in report.indexers
        if entry.status != "ok"
    ]


@repository_asset("modules.stage.module_repository", group="syntax", kinds={"parquet"}, after=("repository_syntax",))
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
            "members": report.members,
            "references": report.references,
            "leaf_kinds": report.leaf_kinds,
            "languages": markdown_table(languages, ("language", "files", "parsed", "syntax_errors", "definitions")),
        },
    }


def embedding_assets(settings: Settings) -> list[dg.AssetsDefinition]:
    """Return the assets that hold vectors and terms of chunks; what the settings turn off does not exist."""
    first = ("repository_chunks", *(("fitted_encoder",) if settings.embedding.adapt else ()))
    asks = _asks_for_gpu(settings)

    @repository_asset(
        "embed.stage.embed_repository",
        group="vectors",
        kinds={"onnx", "parquet"},
        after=first,
        check_specs=[gpu_check("repository_embeddings")] if asks else [],
    )
    def repository_embeddings(
        context: dg.AssetExecutionContext, project: Project
    ) -> Generator[dg.MaterializeResult | dg.AssetCheckResult, None, None]:
        uses: list[DeviceUse] = []

        def stage(repository: RepositorySettings, settings: Settings, progress: Progress) -> Mapping[str, Any]:
            metadata, own = _embeddings(repository, settings, progress)
            uses.extend(own)
            return metadata

        yield each_repository(context, project, stage)
        for sentence in dict.fromkeys(use.sentence() for use in uses if use.fell_back):
            context.log.warning(sentence)
        if asks:
            yield gpu_result("repository_embeddings", uses, "no repository of this run was embedded")

    @repository_asset(
        "indexes.warp.stage.embed_tokens", group="vectors", kinds={"onnx", "numpy"}, after=("repository_chunks",)
    )
    def repository_token_codes(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
        return each_repository(context, project, _token_codes)

    @repository_asset(
        "indexes.splade.stage.embed_sparse", group="vectors", kinds={"onnx", "numpy"}, after=("repository_chunks",)
    )
    def repository_sparse_terms(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
        return each_repository(context, project, _sparse_terms)

    return [
        *([fitted_encoder] if settings.embedding.adapt else []),
        repository_embeddings,
        *([repository_token_codes] if settings.late_interaction else []),
        *([repository_sparse_terms] if settings.learned_sparse else []),
    ]


def _asks_for_gpu(settings: Settings) -> bool:
    """Return whether an encoder of the settings is to run on a GPU."""
    second = settings.second_encoder
    return is_gpu(settings.embedding.device) or (second is not None and is_gpu(second.device))


def _embeddings(
    repository: RepositorySettings, settings: Settings, progress: Progress
) -> tuple[Mapping[str, Any], list[DeviceUse]]:
    """Embed a repository; return the metadata, and the device of each encoder."""
    from codequarry.pipelines.embed.stage import embed_repository

    report = embed_repository(repository.name, settings, progress)
    legs = [{**asdict(leg), "device": leg.use.device} for leg in report.legs]
    uses = [leg.use for leg in report.legs]
    return {
        **table_metadata(repository_work(settings.paths.work, report.name), "embeddings", ("chunk_id", "vector")),
        **device_metadata(uses),
        "texts_per_second": report.texts_per_second,
        "peak_memory_mb": report.peak_memory_mb,
        **({"gpu_memory_mb": report.gpu_memory_mb} if report.gpu_memory_mb is not None else {}),
        "embedded": report.embedded,
        "reused": report.reused,
        "dimensions": report.legs[0].dim,
        "encoder_fingerprint": report.legs[0].fingerprint,
        "legs": markdown_table(legs, ("channel", "encoder", "embedded", "reused", "device")),
    }, uses


def _token_codes(repository: RepositorySettings, settings: Settings, progress: Progress) -> Mapping[str, Any]:
    from codequarry.pipelines.indexes.warp.stage import embed_tokens

    read = embed_tokens(repository.name, settings, progress)
    return _derived(repository, settings, read.encoded, read.fingerprint)


def _sparse_terms(repository: RepositorySettings, settings: Settings, progress: Progress) -> Mapping[str, Any]:
    from codequarry.pipelines.indexes.splade.stage import embed_sparse

    made = embed_sparse(repository.name, settings, progress)
    return _derived(repository, settings, made.encoded, made.fingerprint)


def _derived(repository: RepositorySettings, settings: Settings, texts: int, fingerprint: str) -> Mapping[str, Any]:
    """Return the metadata of what an encoder made of chunks; both together tell one content from another."""
    chunks = tables_sha256(repository_work(settings.paths.work, repository.name).tables("chunks"))
    return {
        "texts_encoded": texts,
        "encoder_fingerprint": fingerprint,
        "sha256": hashlib.sha256(f"{fingerprint}\n{chunks}".encode()).hexdigest(),
    }


EVERY_SNAPSHOT = (dg.AssetDep("repository_snapshot", partition_mapping=dg.AllPartitionMapping()),)


@whole_asset("adapt.stage.adapt_encoder", group="vectors", kinds={"numpy"}, after=EVERY_SNAPSHOT)
def fitted_encoder(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
    return once(context, project, _adapt)


def _adapt(settings: Settings, progress: Progress) -> Mapping[str, Any]:
    from codequarry.pipelines.adapt.stage import adapt_encoder
    from codequarry.pipelines.embed.encoders import encoder_folders
    from codequarry.serving.encoders.spec import EncoderSpec

    report = adapt_encoder(settings, progress)
    first = next(iter(encoder_folders(settings).values()))
    return {
        "verdict": report.said if report is not None else "nothing to learn from",
        "kept": report is not None and report.kept,
        "digest": EncoderSpec.load(first).fingerprint if (first / "encoder.json").is_file() else first.name,
    }
