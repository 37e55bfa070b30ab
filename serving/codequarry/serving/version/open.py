"""Open version of the bundle: mapped files, and the channels that could not be opened."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from codequarry.schemas.bundle.layout import DENSE_LEGS, BundlePaths, BundleRoot, Current
from codequarry.schemas.bundle.manifest import LegEntry, Manifest
from codequarry.schemas.errors import CodequarryError, IntegrityError, UnavailableError
from codequarry.schemas.ranking_profile import BUILT_IN, RankingProfile, read_profile
from codequarry.schemas.resources import raise_if_exhausted
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import BundleInfo
from codequarry.serving.catalog.catalog import Catalog, ChunkRow
from codequarry.serving.catalog.directory import ChunkDirectory
from codequarry.serving.catalog.explanation_facts import ChunkFacts
from codequarry.serving.catalog.file_imports import FileImports
from codequarry.serving.catalog.symbols import SymbolTables
from codequarry.serving.channels.base import Channel, ShutChannel
from codequarry.serving.channels.bm25 import Bm25Channel
from codequarry.serving.channels.dense import FaissChannel
from codequarry.serving.channels.query_encoder import LazyEncoder, begin_opening, open_later
from codequarry.serving.channels.splade import SpladeChannel
from codequarry.serving.channels.symbol import SymbolChannel
from codequarry.serving.channels.vector_table import VectorTable
from codequarry.serving.channels.warp.channel import WarpChannel
from codequarry.serving.files.file_index import FileIndex, IndexedFiles
from codequarry.serving.files.file_watch import FileWatch
from codequarry.serving.files.integrity import file_sha256, read_manifest, verify
from codequarry.serving.files.lease import Hold, hold_version
from codequarry.serving.ranking.chunk_evidence import RankedChunks
from codequarry.serving.ranking.file_evidence import RankedFiles
from codequarry.serving.stack.overlay import StackArrays, VersionArrays
from codequarry.serving.stack.stacked_catalog import StackedCatalog
from codequarry.serving.stack.stacked_channels import StackedSplade, StackedWarp
from codequarry.serving.stack.stacked_dense import StackedDense
from codequarry.serving.stack.stacked_files import StackedFacts, StackedFileIndex
from codequarry.serving.stack.stacked_symbols import StackedSymbols
from codequarry.serving.text.lexical import lexical_fingerprint
from codequarry.serving.version.shared_bases import Place, SharedBases

ChannelT = TypeVar("ChannelT", bound=Channel)


@dataclass(frozen=True, slots=True)
class _Opening:
    """Files, settings and open parts from which a channel is opened."""

    paths: BundlePaths
    manifest: Manifest
    settings: ServingSettings
    catalog: Catalog
    opened: Mapping[str, Channel]
    """Channels that are open already."""
    base: Bundle | None = None
    """The base of a delta version."""


def _open_dense(name: str, opening: _Opening) -> Channel | None:
    """Open a dense index.

    The encoder of the first one is opened at once; the others may never be queried and are large.
    """
    manifest, settings = opening.manifest, opening.settings
    leg = next((one for one in manifest.legs if one.channel == name), None)
    if leg is None:
        return None
    if opening.base is not None:
        return _open_dense_stack(name, leg, opening, opening.base)
    paths, endpoint = opening.paths.leg(name), settings.queries_go_to
    if name == DENSE_LEGS[0]:
        encoder = LazyEncoder.started(begin_opening(paths, leg.encoder, endpoint))
    else:
        encoder = open_later(paths, leg.encoder, endpoint)
    try:
        return FaissChannel.open(paths, leg, manifest, opening.catalog.id_map(), encoder, gpu=settings.faiss_gpu)
    except BaseException:
        encoder.wait()  # what it holds open goes with the version that is not opened
        raise


def _open_dense_stack(name: str, leg: LegEntry, opening: _Opening, base: Bundle) -> Channel:
    below = _channel_below(name, FaissChannel, base)
    vectors = VectorTable.open(opening.paths.leg(name), opening.manifest, leg.encoder.dim)
    return StackedDense(below, vectors, _stack_of(opening.catalog))


def _channel_below(name: str, kind: type[ChannelT], base: Bundle) -> ChannelT:
    below = base.channels.get(name)
    if not isinstance(below, kind):
        raise UnavailableError(base.closed.get(name) or f"the base has no channel {name}")
    return below


def _open_bm25(opening: _Opening) -> Channel:
    manifest = opening.manifest
    if manifest.compatibility.analyzer != lexical_fingerprint():
        raise UnavailableError("the index was built with another text analyzer; build the bundle again")
    base = opening.base
    if base is None:
        channel = Bm25Channel.open(opening.paths.bm25, profile=_profile(opening.paths))
    else:
        folders, over = (base.paths.bm25, opening.paths.bm25), _stack_of(opening.catalog).hidden_chunks
        channel = Bm25Channel.open(*folders, profile=_profile(opening.paths), over=over)
    found = channel.counts()["documents"]
    if found != manifest.counts.chunks:
        raise UnavailableError(f"the index holds {found} documents, expected {manifest.counts.chunks}")
    return channel


def _stack_of(catalog: Catalog) -> StackArrays:
    assert isinstance(catalog, StackedCatalog)
    return catalog.stack


def _open_symbol(opening: _Opening) -> Channel:
    lexical = opening.opened.get("bm25")
    return SymbolChannel(opening.catalog, lexical if isinstance(lexical, Bm25Channel) else None)


def _open_warp(opening: _Opening) -> Channel | None:
    entry, folder, threads = opening.manifest.warp, opening.paths.warp, opening.settings.warp_threads
    if entry is None:
        return None
    if opening.base is None:
        return WarpChannel.open(folder, entry, opening.manifest.counts.chunks, threads=threads)
    below, stack = _channel_below("warp", WarpChannel, opening.base), _stack_of(opening.catalog)
    own = WarpChannel.open(folder, entry, stack.own.chunks, threads=threads, beside=below)
    return StackedWarp(below, own, stack)


def _open_splade(opening: _Opening) -> Channel | None:
    entry, folder = opening.manifest.splade, opening.paths.splade
    if entry is None:
        return None
    if opening.base is None:
        return SpladeChannel.open(folder, entry, opening.manifest.counts.chunks)
    below, stack = _channel_below("splade", SpladeChannel, opening.base), _stack_of(opening.catalog)
    return StackedSplade(below, SpladeChannel.open(folder, entry, stack.own.chunks, beside=below), stack)


CHANNELS: Mapping[str, Callable[[_Opening], Channel | None]] = {
    **{name: partial(_open_dense, name) for name in DENSE_LEGS},
    "bm25": _open_bm25,
    "symbol": _open_symbol,
    "warp": _open_warp,
    "splade": _open_splade,
}
"""Openers of all channels, in the order in which they are called: symbol uses bm25 if that is open.

An opener returns None when the version lacks the channel, and raises UnavailableError when it cannot be opened.
"""
SERVED_CHANNELS = tuple(CHANNELS)


@dataclass(eq=False)
class Bundle:
    """Everything that a request reads, from one version. A newer version is another `Bundle`."""

    paths: BundlePaths
    current: Current
    """Content of CURRENT when the version was opened."""
    manifest: Manifest
    catalog: Catalog
    directory: ChunkDirectory
    channels: dict[str, Channel]
    closed: dict[str, str]
    """Channels that could not be opened, and why."""
    hold: Hold
    watch: FileWatch
    base: Bundle | None = None
    """The base of a delta version, which other delta versions over it share."""
    ref: str = ""
    """Further ref that it is of; "" for what CURRENT names."""
    restricted: OrderedDict[tuple[str, ...], Any] = field(default_factory=OrderedDict[tuple[str, ...], Any], init=False)
    """Its parts for callers who may not see every repository, see `visible_bundle`; the one used last is last."""

    @classmethod
    def open_current(
        cls,
        root: Path,
        settings: ServingSettings | None = None,
        *,
        channels: Iterable[str] = SERVED_CHANNELS,
    ) -> Self:
        """Open the version CURRENT names.

        Args:
            root: Bundle root.
            settings: Threads, endpoint and GPU of its channels; the defaults when None.
            channels: Channels to map; a reader that only fetches needs none.

        Returns:
            The open version.

        Raises:
            NoBundleError: No version is published.
            FormatError: The version has a newer format.
            IntegrityError: The version does not match its manifest and is not opened.
        """
        bundle_root = BundleRoot(root)
        while True:
            current = bundle_root.read_current()
            try:
                return cls.open_version(bundle_root, current, settings, channels=channels)
            except CodequarryError:
                # It may have been replaced and pruned meanwhile; a version that is still current is broken.
                if bundle_root.read_current() == current:
                    raise

    @classmethod
    def open_version(
        cls,
        root: BundleRoot,
        current: Current,
        settings: ServingSettings | None = None,
        *,
        channels: Iterable[str] = SERVED_CHANNELS,
        after_block: Callable[[], None] | None = None,
    ) -> Self:
        """Hold, check and open a version that CURRENT named; raises as `open_current`.

        Args:
            root: Bundle root.
            current: Content of CURRENT.
            settings: See `open_current`.
            channels: See `open_current`.
            after_block: If given, every file is read and its sha256 compared first; see `integrity.file_sha256`.

        Returns:
            The open version.
        """
        paths = root.version(current.version)
        if paths.path.is_symlink():
            raise IntegrityError(
                f"version {current.version} is a symbolic link, expected a folder", suggestion="publish again"
            )
        settings, channels = settings or ServingSettings(), tuple(channels)
        bundle = cls.open_paths(paths, current, settings, channels=channels, after_block=after_block)
        if bundle.base is None:
            _BASES.offer(bundle, settings, channels)
        return bundle

    @classmethod
    def open_paths(
        cls,
        paths: BundlePaths,
        current: Current,
        settings: ServingSettings | None = None,
        *,
        channels: Iterable[str] = SERVED_CHANNELS,
        after_block: Callable[[], None] | None = None,
    ) -> Self:
        """Open a version in any folder, like `open_version`; a staged one is opened in the way it will be served."""
        settings, channels = settings or ServingSettings(), tuple(channels)
        after_block = _BASES.reading((paths.path, current.manifest_sha256), after_block)
        try:
            with ExitStack() as undo:
                hold = undo.enter_context(hold_version(paths))
                manifest = read_manifest(paths, expected_sha256=current.manifest_sha256)
                read = partial(file_sha256, after_block=after_block)
                watch = undo.enter_context(closing(FileWatch.open(paths, manifest)))
                verify(paths, manifest, deep=after_block is not None, sha256=read)
                if after_block is not None:
                    _BASES.trust((paths.path, current.manifest_sha256))
                base = None
                if manifest.stack is not None:
                    base = _BASES.lease(paths, manifest.stack, settings, channels, after_block)
                    undo.callback(_BASES.release, base)
                catalog = undo.enter_context(closing(_open_catalog(paths, base)))
                directory = _directory(catalog, manifest)
                opened: dict[str, Channel] = {}
                closed: dict[str, str] = {}
                opening = _Opening(paths, manifest, settings, catalog, opened, base)
                for name in channels:
                    try:
                        channel = CHANNELS[name](opening)
                        if channel is not None:
                            opened[name] = undo.enter_context(closing(channel))
                    except UnavailableError as error:
                        raise_if_exhausted(error, f"channel {name} of version {current.version} cannot be opened now")
                        closed[name] = error.message.replace(f"{paths.path}/", "")
                bundle = cls(paths, current, manifest, catalog, directory, opened, closed, hold, watch, base)
                if opened:
                    _ = bundle.files, bundle.chunks, bundle.facts  # not under the first request
                undo.pop_all()
                return bundle
        except (OSError, MemoryError, CodequarryError) as error:
            raise_if_exhausted(error, f"version {current.version} cannot be opened now")
            if isinstance(error, CodequarryError):
                raise
            raise UnavailableError(
                f"version {current.version} cannot be opened: {getattr(error, 'strerror', None) or error}",
                suggestion="mend the disk, or roll back to another version",
            ) from error

    @cached_property
    def cut_words(self) -> np.ndarray:
        """Files of which a chunk begins inside a word, so that the lexical index lacks that word: (files,) bool."""
        directory, catalog = self.directory, self.catalog
        cut = np.zeros(len(directory.paths), np.bool_)
        for file in np.flatnonzero(directory.torn & directory.indexed).tolist():
            rows = directory.rows_in(file)
            cut[file] = catalog.stored_texts.cuts_words(catalog.index.chunks[rows.start : rows.stop])
        return cut

    @cached_property
    def symbols(self) -> SymbolTables:
        """Symbol tables: definitions and the places that name them."""
        if isinstance(self.catalog, StackedCatalog):
            return StackedSymbols(self.catalog, self.directory)
        return SymbolTables(self.catalog, self.directory)

    @cached_property
    def imports(self) -> FileImports:
        """Imports between the files of the version; read when they are first asked for."""
        return FileImports.read([layer.paths for layer in self.layers], self.directory)

    @cached_property
    def profile(self) -> RankingProfile:
        """Ranking profile of this version."""
        return _profile(self.paths)

    @cached_property
    def files(self) -> RankedFiles:
        """Files of the version for the ranking.

        Returns:
            The files.

        Raises:
            UnavailableError: The index of files cannot be opened; without it, results would be ranked differently.
        """
        stack = None if self.base is None else _stack_of(self.catalog)
        own = self.directory if stack is None else stack.own.directory
        index: IndexedFiles = FileIndex.open(self.paths.files, np.flatnonzero(own.indexed), self.manifest.encoder.dim)
        if self.base is not None and stack is not None:
            index = StackedFileIndex(self.base.files.index, index, stack)
        return RankedFiles(index, self.directory, self.profile)

    @cached_property
    def chunks(self) -> RankedChunks:
        """Chunks of the version for the ranking."""
        return RankedChunks(self.catalog.index, self.profile.chunk)

    @cached_property
    def facts(self) -> ChunkFacts | StackedFacts:
        """Facts for explanations.

        Returns:
            The facts.

        Raises:
            IntegrityError: The facts are damaged.
        """
        if self.base is None:
            return ChunkFacts.open(self.paths.facts, len(self.directory.chunk_ids), len(self.directory.paths))
        stack, below = _stack_of(self.catalog), self.base.facts
        assert isinstance(below, ChunkFacts)
        return StackedFacts(below, ChunkFacts.open(self.paths.facts, stack.own.chunks, stack.own.files), stack)

    def was_read(self) -> None:
        """Remember that every byte of the version, and of its base, was compared with its manifest."""
        for layer in self.layers:
            _BASES.trust(layer.place)

    def was_damaged(self) -> None:
        """Distrust the version and its base: they are read before anything is opened from them again."""
        _BASES.distrust(layer.place for layer in self.layers)

    @property
    def place(self) -> Place:
        """Folder of the version, and sha256 of its manifest."""
        return self.paths.path, self.current.manifest_sha256

    @property
    def layers(self) -> tuple[Bundle, ...]:
        """The base of a delta version and itself; of a complete version itself alone."""
        return (self,) if self.base is None else (self.base, self)

    def require_whole(self) -> None:
        """Raise IntegrityError when a file that requests read was shortened or lengthened; see `FileWatch`."""
        for layer in self.layers:
            layer.watch.require_whole()

    def bytes_before(self, row: ChunkRow) -> int:
        """Return the number of bytes of a chunk's first line that belong to the chunks before it."""
        place = self.directory.find(row.repo, row.path)
        if place is None or not self.directory.torn[place]:
            return 0
        return self.catalog.bytes_before(row)

    @property
    def info(self) -> BundleInfo:
        """Description of the version in answers."""
        commits = {source.name: source.revision for source in self.manifest.sources}
        given = {} if self.manifest.stack is None else {"base": self.manifest.stack.base}
        given |= {"ref": self.ref} if self.ref else {}
        info = BundleInfo(version=self.manifest.version, created=self.manifest.created, commits=commits)
        return info.model_copy(update=given)

    def problems(self) -> dict[str, str]:
        """Return the channels that cannot answer now, with the reasons."""
        found = dict(self.closed)
        for name, channel in self.channels.items():
            if (problem := channel.problem()) is not None:
                found[name] = problem
        return found

    def rank_by(self, profile: RankingProfile) -> None:
        """Use another profile from now on; running requests may use parts of both."""
        self.profile, self.files, self.chunks = profile, self.files.by(profile), self.chunks.by(profile.chunk)
        lexical = self.channels.get("bm25")
        if isinstance(lexical, Bm25Channel):
            lexical.profile = profile

    def shut(self, name: str, reason: str) -> None:
        """Disable a channel whose files turned out to be damaged; requests that run on it may still finish."""
        self.channels[name] = ShutChannel(self.channels[name], reason)
        if name == "bm25" and "symbol" in self.channels:
            self.channels["symbol"] = SymbolChannel(self.catalog, None)  # it reads that index, too

    def close(self) -> None:
        """Release every map, file, thread and the hold, once no version lies over this one any more.

        Requests still running on the bundle fail.
        """
        if _BASES.is_free(self):
            self.close_now()

    def close_now(self) -> None:
        """Close like `close`, whoever uses the bundle."""
        self.restricted.clear()
        for channel in self.channels.values():
            channel.close()
        self.catalog.close()
        self.watch.close()
        self.hold.release()
        if self.base is not None:
            _BASES.release(self.base)


_BASES = SharedBases(Bundle.open_paths)


def _open_catalog(paths: BundlePaths, base: Bundle | None) -> Catalog:
    """Open the catalog of a version, or that of a delta version and its base."""
    if base is None:
        return Catalog.open(paths)
    return StackedCatalog.open_stack(base.catalog, VersionArrays.of(base.catalog.index, base.directory), paths)


def _directory(catalog: Catalog, manifest: Manifest) -> ChunkDirectory:
    directory = catalog.directory()
    if len(directory.chunk_ids) != manifest.counts.chunks:
        raise IntegrityError(
            f"the catalog of {manifest.version} holds {len(directory.chunk_ids)} chunks, "
            f"its manifest promises {manifest.counts.chunks}",
            suggestion="do not serve this version; publish again",
        )
    return directory


def _profile(paths: BundlePaths) -> RankingProfile:
    """Read the version's profile.

    Args:
        paths: Paths of the version.

    Returns:
        The profile; the built-in one when the version has none, or one that this program does not know.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        return read_profile(paths.ranking.read_bytes()) if paths.ranking.is_file() else BUILT_IN
    except IntegrityError:
        return BUILT_IN
