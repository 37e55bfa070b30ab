"""The decision that CURRENT holds already what a run would build."""

from __future__ import annotations

from codequarry.pipelines.bundle.tools_in_use import tools_in_use
from codequarry.pipelines.embed.encoders import same_encoders
from codequarry.pipelines.embed.sparse_encoders import sparse_fingerprints
from codequarry.pipelines.embed.token_encoders import token_fingerprint
from codequarry.pipelines.indexes.ranking_profile import profile_sha256
from codequarry.pipelines.scip.given import given_files, given_identity
from codequarry.pipelines.sources.snapshot import Snapshot
from codequarry.schemas.bundle.layout import RANKING_FILE
from codequarry.schemas.bundle.manifest import Manifest, SourceEntry
from codequarry.schemas.settings.load import Settings


def is_current(current: Manifest, snapshots: tuple[Snapshot, ...], settings: Settings) -> bool:
    """Return whether the same sources, read with the same settings and tools, made this version."""
    held = {source.name: (_identity(source), _list_given_indexes(source)) for source in current.sources}
    read = {
        snapshot.name: (_identity(snapshot), given_identity(given_files(snapshot.name, settings)))
        for snapshot in snapshots
    }
    made_alike = current.settings_sha256 == settings.index_hash() and current.tools == tools_in_use(settings)
    ranked_alike = (RANKING_FILE, profile_sha256(settings)) in {(entry.path, entry.sha256) for entry in current.files}
    return (
        held == read
        and made_alike
        and ranked_alike
        and same_encoders(current, settings)
        and _same_tokens(current, settings)
        and _same_sparse(current, settings)
    )


def _same_tokens(current: Manifest, settings: Settings) -> bool:
    """Return whether the named model of the settings made a version's late-interaction index.

    Without a name it is MiniLM, whose contents settings and tools decide.
    """
    if not (settings.late_interaction and settings.warp.model):
        return True
    return current.warp is not None and current.warp.encoder.fingerprint == token_fingerprint(settings)


def _same_sparse(current: Manifest, settings: Settings) -> bool:
    """Return whether the encoders of the settings made a version's learned sparse index."""
    held = current.splade
    made = None if held is None else (held.encoder.fingerprint, held.query_encoder)
    return made == (sparse_fingerprints(settings) if settings.learned_sparse else None)


def _identity(source: SourceEntry | Snapshot) -> tuple[object, ...]:
    return (
        source.url,
        source.ref,
        source.commit,
        source.dirty,
        source.tree_sha256,
        source.classes,
        source.skipped,
        source.secrets,
    )


def _list_given_indexes(source: SourceEntry) -> list[tuple[str, str]]:
    return [(entry.given, entry.sha256) for entry in source.scip if entry.given]
