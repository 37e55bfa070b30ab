"""Open version as a caller sees it who may not see every repository.

It is the version itself, in which other repositories are hidden before anything is asked: the directory has no names of
their files, the catalog no chunks and no definitions, and every channel gets the chunks that are left as its filter,
as it gets those of ``filters`` and of a ``scope_id``. Tools need not know of it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field, fields
from functools import cached_property

from codequarry.schemas.bundle.manifest import Counts, Manifest
from codequarry.schemas.ranking_profile import RankingProfile
from codequarry.serving.catalog.explanation_facts import ChunkFacts
from codequarry.serving.catalog.file_imports import FileImports
from codequarry.serving.catalog.symbols import SymbolTables
from codequarry.serving.channels.bm25 import Bm25Channel
from codequarry.serving.channels.symbol import SymbolChannel
from codequarry.serving.ranking.chunk_evidence import RankedChunks
from codequarry.serving.ranking.file_evidence import RankedFiles
from codequarry.serving.request.repository_scope import RepositoryScope
from codequarry.serving.stack.stacked_files import StackedFacts
from codequarry.serving.version.open import Bundle
from codequarry.serving.visible.visible_catalog import VisibleCatalog
from codequarry.serving.visible.visible_directory import VisibleDirectory, visible_directory
from codequarry.serving.visible.visible_files import VisibleFileIndex

_MOST_SCOPES = 32
"""Scopes of a version that are remembered; of others the parts are made anew, in milliseconds."""
_LOCK = threading.Lock()


class VisibleParts:
    """Parts of a version that are the same for every request of a scope."""

    def __init__(self, whole: Bundle, scope: RepositoryScope) -> None:
        """Restrict a version.

        Args:
            whole: The version.
            scope: Repositories that may be seen.
        """
        self.directory: VisibleDirectory = visible_directory(whole.directory, scope.sees)
        self.catalog = VisibleCatalog(whole.catalog, self.directory)
        self.manifest = _visible_manifest(whole.manifest, scope)
        self._symbols: SymbolTables | None = None
        self._files: tuple[RankedFiles, RankedFiles] | None = None

    def symbols(self, whole: Bundle) -> SymbolTables:
        """Return the symbol tables of the visible files."""
        if self._symbols is None:
            self._symbols = whole.symbols.within(self.directory.seen)
        return self._symbols

    def files(self, whole: Bundle) -> RankedFiles:
        """Return the visible files for the ranking; raises as `Bundle.files`."""
        files, known = whole.files, self._files
        if known is None or known[0] is not files:  # its profile may have changed
            index = VisibleFileIndex(files.index, self.directory.seen)
            self._files = known = (files, RankedFiles(index, self.directory, files.profile))
        return known[1]


@dataclass(eq=False)
class VisibleBundle(Bundle):
    """A version for one request. Closing it is left to the version."""

    whole: Bundle = field(kw_only=True)
    parts: VisibleParts = field(kw_only=True)

    @cached_property
    def symbols(self) -> SymbolTables:
        """Symbol tables of the visible files."""
        return self.parts.symbols(self.whole)

    @cached_property
    def imports(self) -> FileImports:
        """Imports between the files of the caller's repositories."""
        return self.whole.imports.within(self.parts.directory.seen)

    @cached_property
    def profile(self) -> RankingProfile:
        """Ranking profile of the version."""
        return self.whole.profile

    @cached_property
    def files(self) -> RankedFiles:
        """Visible files for the ranking; raises as `Bundle.files`."""
        return self.parts.files(self.whole)

    @cached_property
    def chunks(self) -> RankedChunks:
        """Chunks of the version for the ranking."""
        return self.whole.chunks

    @cached_property
    def facts(self) -> ChunkFacts | StackedFacts:
        """Facts for explanations; raises as `Bundle.facts`."""
        return self.whole.facts

    def close(self) -> None:
        """Close nothing."""


def visible_bundle(whole: Bundle, scope: RepositoryScope) -> Bundle:
    """Return a version as if it held the repositories of a scope alone.

    Args:
        whole: The version.
        scope: Repositories that the caller may see.

    Returns:
        The version itself where it has no others.
    """
    if scope.whole or all(
        map(scope.sees, {*whole.directory.repo_names, *(one.name for one in whole.manifest.sources)})
    ):
        return whole
    parts = _parts_of(whole, scope)
    channels = dict(whole.channels)
    if isinstance(channels.get("symbol"), SymbolChannel):
        lexical = channels.get("bm25")
        channels["symbol"] = SymbolChannel(parts.catalog, lexical if isinstance(lexical, Bm25Channel) else None)
    given = {each.name: getattr(whole, each.name) for each in fields(Bundle) if each.init}
    # Why a channel is closed may be told in numbers of the whole version.
    closed = dict.fromkeys(whole.closed, "it could not be opened; the server's operator can ask healthz")
    given |= {"manifest": parts.manifest, "catalog": parts.catalog, "directory": parts.directory}
    return VisibleBundle(**{**given, "channels": channels, "closed": closed}, whole=whole, parts=parts)


def _parts_of(whole: Bundle, scope: RepositoryScope) -> VisibleParts:
    with _LOCK:
        known: OrderedDict[tuple[str, ...], VisibleParts] = whole.restricted
        parts = known.get(scope.globs)
        if parts is not None:
            known.move_to_end(scope.globs)
            return parts
    parts = VisibleParts(whole, scope)
    with _LOCK:
        known[scope.globs] = parts
        while len(known) > _MOST_SCOPES:
            known.popitem(last=False)
    return parts


def _visible_manifest(whole: Manifest, scope: RepositoryScope) -> Manifest:
    """Return the manifest as if it named the visible repositories alone."""
    sources = tuple(one for one in whole.sources if scope.sees(one.name))
    counts = Counts(
        files=sum(one.files for one in sources),
        skipped_files=sum(sum(one.skipped.values()) for one in sources),
        chunks=sum(one.chunks for one in sources),
    )
    return whole.model_copy(update={"sources": sources, "counts": counts})
