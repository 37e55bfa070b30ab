"""The version of the whole bundle: its indexes and views as they are written, its checks, its publication.

One step does it all, because nobody can verify or publish what was not staged. Whichever of its assets is chosen, it
builds, verifies and publishes a version; a version equal to CURRENT publishes nothing.
"""

from collections.abc import Generator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg

from codequarry.assets.metadata import bar_plot, bundle_metadata, markdown_table
from codequarry.assets.pieces import frontiers, piece_metadata, verdict_metadata, view_metadata
from codequarry.assets.project import Project
from codequarry.assets.rule_checks import check_results, check_specs, unchanged_results
from codequarry.assets.stages import OWNERS, POOL, described, gpu_check, gpu_result, logged, tried_names
from codequarry.pipelines.gates.version_rules import Rule, rules_of
from codequarry.pipelines.sources.carried import FailedReading, failed_reading
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.pipelines.store.library_versions import own_version
from codequarry.pipelines.store.workspace import Progress, repository_work
from codequarry.schemas.bundle.layout import DENSE_LEGS, BundlePaths, BundleRoot
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.errors import CodequarryError, SourceError
from codequarry.schemas.settings.automation import AutomationSettings
from codequarry.schemas.settings.load import Settings
from codequarry.serving.files.integrity import base_of, current_manifest

if TYPE_CHECKING:  # they bring DuckDB and FAISS, which the definitions do without
    from codequarry.pipelines.bundle.manifest import VersionPiece
    from codequarry.pipelines.bundle.stage import Staged
    from codequarry.serving.version.check import Check

ACCEPT_TAG = "codequarry/accept_regression"
"""Run tag whose value is the reason for accepting regressions against CURRENT, as with `codequarry index
--accept-regression`."""

_SHOWN_VERSIONS = 8
VIEWS: dict[str, tuple[str, tuple[str, ...]]] = {
    "v_faiss_join": (
        "Chunks beside the rows of the dense index, by full join: any NULL is an error.",
        ("faiss_idmap", "repository_chunks"),
    ),
    "modules": ("A row per source file: its name, what it imports, and who imports it.", ("repository_modules",)),
    "symbols_mat": (
        "A row per definition; those of SCIP and of the syntax are one where they name the same place.",
        ("repository_scip", "repository_syntax"),
    ),
    "occurrences_mat": (
        "A row per place that names something, definitions included.", ("repository_scip", "repository_syntax"),
    ),
}  # fmt: skip
"""Views and tables of the catalog that are assets: what each holds, and what it is made of."""


def index_version(settings: Settings) -> dg.AssetsDefinition:
    """Return the assets of a version that these settings make, and the checks of its rules."""
    rules = _rules(settings)
    gpu = _legs(settings) if settings.indexes.faiss_gpu else ()

    @dg.multi_asset(
        name="index_version",
        specs=_specs(settings),
        check_specs=[*check_specs(rules), *(gpu_check(leg) for leg in gpu)],
        pool=POOL,
        description="Builds, verifies and publishes a version. A version equal to CURRENT publishes nothing.",
    )
    def build(context: dg.AssetExecutionContext, project: Project) -> Generator[Any, None, None]:
        with project.step(context.retry_number) as now:
            yield from _index(context, now, rules, gpu)

    return build


def _rules(settings: Settings) -> tuple[Rule, ...]:
    return rules_of(_legs(settings), late_interaction=settings.late_interaction, learned_sparse=settings.learned_sparse)


def _legs(settings: Settings) -> tuple[str, ...]:
    return DENSE_LEGS[: 1 if settings.second_encoder is None else 2]


def _specs(settings: Settings) -> list[dg.AssetSpec]:
    """Return the assets; what the settings turn off does not exist."""
    indexes: dict[str, tuple[str, str, set[str]]] = {
        "bm25": ("repository_chunks", "Lexical index: which chunks hold a term, in path, name and text.", {"tantivy"}),
        **{
            leg: ("repository_embeddings", "Dense index: the nearest vectors, by the ids of their chunks.", {"faiss"})
            for leg in _legs(settings)
        },
    }
    if settings.late_interaction:
        indexes["warp"] = ("repository_token_codes", "Index for late interaction: token by token.", {"numpy"})
    if settings.learned_sparse:
        indexes["splade"] = ("repository_sparse_terms", "Index of the terms that a language model weighs.", {"numpy"})
    idmap = "Which row of the dense indexes is of which chunk, with its checksum in the catalog."
    return [
        *(_spec(name, "indexes", said, (source,), kinds) for name, (source, said, kinds) in indexes.items()),
        _spec("faiss_idmap", "catalog", idmap, (DENSE_LEGS[0],), {"parquet"}),
        *(_spec(name, "catalog", said, deps, {"duckdb"}) for name, (said, deps) in VIEWS.items()),
        _spec("manifest", "bundle", described("gates.verify.verify_staged"), (*indexes, *VIEWS), {"json"}),
        _spec(
            "published_bundle",
            "bundle",
            described("publish.publish.publish_verified"),
            ("manifest",),
            {"file"},
            _freshness(settings.automation),
        ),
    ]


def _freshness(automation: AutomationSettings) -> dg.FreshnessPolicy | None:
    """Return the age that the settings allow CURRENT; its daemon judges it at any time, without a run."""
    if not automation.freshness:
        return None
    return dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=automation.max_age_hours))


def _spec(
    name: str,
    group: str,
    description: str,
    deps: tuple[str, ...],
    kinds: set[str],
    freshness: dg.FreshnessPolicy | None = None,
) -> dg.AssetSpec:
    every = dg.AllPartitionMapping()
    return dg.AssetSpec(
        name,
        description=description,
        group_name=group,
        owners=OWNERS,
        kinds=kinds,
        code_version=own_version(),
        freshness_policy=freshness,
        # Without a change nothing is built, and what was built before is what there is.
        skippable=name != "published_bundle",
        deps=[
            dg.AssetDep(each, partition_mapping=every) if each.startswith("repository_") else dg.AssetDep(each)
            for each in deps
        ],
    )


def _index(
    context: dg.AssetExecutionContext, settings: Settings, rules: tuple[Rule, ...], gpu: tuple[str, ...]
) -> Generator[Any, None, None]:
    failures = _failures(settings)
    names = _readable(settings, failures)
    root, progress = BundleRoot(settings.bundle.root), logged(context)
    _require_news_of_delta(root, set(names) - _read_names(context, failures), settings)
    if (held := _unchanged(root, names, settings)) is not None:
        context.log.info(f"version {held.version} holds these repositories already: nothing is built")
        yield from unchanged_results(rules, held)
        yield from (gpu_result(leg, (), f"nothing changed: version {held.version} was not built again") for leg in gpu)
        metadata = {"unchanged": True, "path": dg.MetadataValue.path(root.version(held.version).path)}
        yield _published(settings, held, metadata, failures)
    else:
        yield from _build(context, settings, rules, gpu, names, progress, failures)
    if left_out := [failure for failure in failures if not failure.carried and failure.name in tried_names(context)]:
        raise dg.Failure(
            f"{'; '.join(failure.line() for failure in left_out)}; the others are published",
            {failure.name: failure.suggestion for failure in left_out},
            allow_retries=False,
        )


def _failures(settings: Settings) -> list[FailedReading]:
    works = [repository_work(settings.paths.work, name) for name in repositories_by_name(settings.sources.repositories)]
    return [failure for work in works if (failure := failed_reading(work)) is not None]


def _readable(settings: Settings, failures: list[FailedReading]) -> list[str]:
    """Return the repositories that have a snapshot.

    Args:
        settings: Settings of the run.
        failures: Repositories that could not be read.

    Returns:
        Names.

    Raises:
        SourceError: None has one.
    """
    gone = {failure.name for failure in failures if not failure.carried}
    names = [name for name in repositories_by_name(settings.sources.repositories) if name not in gone]
    if not names:
        raise SourceError("; ".join(failure.line() for failure in failures) or "the settings name no repository")
    return names


def _read_names(context: dg.AssetExecutionContext, failures: list[FailedReading]) -> set[str]:
    """Return the repositories that this run has read."""
    chosen = context.run.asset_selection
    if chosen and dg.AssetKey("repository_snapshot") not in chosen:
        return set()
    return tried_names(context) - {failure.name for failure in failures}


def _require_news_of_delta(root: BundleRoot, unread: set[str], settings: Settings) -> None:
    """Require that no repository goes back to its state before the delta version that CURRENT is.

    The work folder is that of the base: a repository that is not read again has the base's snapshot there.

    Args:
        root: Bundle root.
        unread: Repositories that go on with the snapshot of an earlier run.
        settings: Settings of the run.

    Raises:
        SourceError: A repository would go back.
    """
    from codequarry.pipelines.sources.snapshot import read_snapshot

    held = current_manifest(root)
    if held is None or held.stack is None:
        return
    base = {source.name: source.tree_sha256 for source in base_of(root, held).sources}
    changed = [each.name for each in held.sources if each.name in unread and each.tree_sha256 != base.get(each.name)]
    works = {name: repository_work(settings.paths.work, name) for name in changed}
    if older := [name for name, work in works.items() if read_snapshot(work).tree_sha256 == base.get(name)]:
        raise SourceError(
            f"the delta version {held.version} holds newer files of {', '.join(older)} than the snapshot that this run "
            "would go on with",
            suggestion="run REINDEX over all partitions, once every repository can be read; CURRENT is unchanged",
        )


def _unchanged(root: BundleRoot, names: list[str], settings: Settings) -> Manifest | None:
    """Return the manifest of CURRENT if it holds what would be built."""
    from codequarry.pipelines.bundle.manifest import is_current
    from codequarry.pipelines.publish.publish import acknowledge_current
    from codequarry.pipelines.sources.snapshot import read_snapshot

    held = current_manifest(root)
    snapshots = tuple(read_snapshot(repository_work(settings.paths.work, name)) for name in names)
    # A complete version is built over a delta version though the sources are the same: it takes the place of both.
    if held is None or held.stack is not None or not is_current(held, snapshots, settings):
        return None
    acknowledge_current(root)
    return held


def _build(
    context: dg.AssetExecutionContext,
    settings: Settings,
    rules: tuple[Rule, ...],
    gpu: tuple[str, ...],
    names: list[str],
    progress: Progress,
    failures: list[FailedReading],
) -> Generator[Any, None, None]:
    from codequarry.pipelines.bundle.stage import stage_pieces
    from codequarry.pipelines.gates.accept import checked_reason
    from codequarry.pipelines.gates.verify import verify_staged
    from codequarry.pipelines.publish.publish import publish_verified
    from codequarry.pipelines.publish.remote.push import push_published

    reason = checked_reason(context.run.tags.get(ACCEPT_TAG))
    staged = yield from _pieces(context, stage_pieces(names, settings, progress), gpu)
    checks: list[Check] = []
    try:
        verified = verify_staged(staged, settings, progress, accept=reason, report=checks.extend)
    except CodequarryError:
        yield from check_results(rules, checks, ())
        raise
    yield from check_results(rules, checks, verified.accepted)
    manifest = staged.manifest
    milliseconds = sorted(((part, 1000 * one) for part, one in staged.seconds.items()), key=lambda part: -part[1])
    yield dg.MaterializeResult(
        "manifest",
        metadata={
            **verdict_metadata(BundleRoot(settings.bundle.root), verified.version),
            **frontiers(BundlePaths(verified.path), manifest),
            "time_by_part": bar_plot("Time of staging by part", dict(milliseconds), unit=" ms"),
            "reused_shards": staged.reused_shards,
            "accepted": _accepted(verified.accepted),
            **bundle_metadata(manifest),
        },
        data_version=dg.DataVersion(manifest.digest),
    )
    published = publish_verified(verified, settings.bundle)
    pushed = push_published(settings, progress)
    metadata = {
        **({"pushed_to": settings.bundle.push_to, "pushed_bytes": pushed.sent_bytes} if pushed is not None else {}),
        "unchanged": published.unchanged,
        "linked_bytes": published.linked_bytes,
        "removed_versions": list(published.pruned.removed) if published.pruned else [],
        "path": dg.MetadataValue.path(published.path),
    }
    yield _published(settings, published.manifest, metadata, failures)


def _accepted(accepted: Any) -> Any:
    rows = [each.model_dump() for each in accepted]
    return markdown_table(rows, ("check", "found", "expected", "reason"), cell_chars=1_000) if rows else "nothing"


def _pieces(
    context: dg.AssetExecutionContext, pieces: "Generator[VersionPiece, None, Staged]", gpu: tuple[str, ...]
) -> "Generator[dg.MaterializeResult | dg.AssetCheckResult, None, Staged]":
    """Yield the asset of each piece as it is completed, and the views with the catalog; return the staged version.

    Behind each dense index of ``gpu`` comes the result of its `GPU_CHECK`.
    """
    while True:
        try:
            piece = next(pieces)
        except StopIteration as end:
            return end.value
        if piece.name == "catalog":
            made = {view: view_metadata(piece, view) for view in VIEWS}
        else:
            made = {piece.name: piece_metadata(piece)}
        for name, metadata in made.items():
            yield dg.MaterializeResult(name, metadata=metadata, data_version=dg.DataVersion(metadata["sha256"]))
        if piece.use is not None and piece.use.fell_back:
            context.log.warning(piece.use.sentence())
        if piece.name in gpu:
            yield gpu_result(piece.name, [piece.use] if piece.use is not None else [], "nothing was built")


def _published(
    settings: Settings, manifest: Manifest, metadata: Mapping[str, Any], failures: list[FailedReading]
) -> dg.MaterializeResult:
    carried = [failure.line() for failure in failures if failure.carried]
    return dg.MaterializeResult(
        "published_bundle",
        metadata={
            **metadata,
            **({"carried_forward": carried} if carried else {}),
            "created": manifest.created,
            "chunks_by_version": bar_plot("Chunks by version", _chunks_by_version(settings)),
            **bundle_metadata(manifest),
        },
        data_version=dg.DataVersion(manifest.digest),
    )


def _chunks_by_version(settings: Settings) -> dict[str, float]:
    """Return the chunk counts of the newest readable versions by month, day and time of their build, newest first."""
    from codequarry.serving.sql.registry import read_registry

    rows = read_registry(BundleRoot(settings.bundle.root))["manifests"].to_pylist()
    newest = reversed(rows[-_SHOWN_VERSIONS:])
    whole = [row for row in newest if not row["problem"]]
    return {f"{row['created']:%m-%d %H:%M}" if row["created"] else row["version"]: row["chunks"] for row in whole}
