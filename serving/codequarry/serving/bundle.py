"""An open version of the bundle: what is mapped, and what could not be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Self

import numpy as np

from codequarry.schemas.chunk_facts import ChunkFacts
from codequarry.schemas.errors import CodequarryError, IntegrityError, UnavailableError
from codequarry.schemas.file_index import FileIndex, FileRow
from codequarry.schemas.holds import Hold, hold_version
from codequarry.schemas.integrity import file_sha256, read_manifest, verify
from codequarry.schemas.layout import DENSE_LEGS, BundlePaths, BundleRoot, Current
from codequarry.schemas.lexical import lexical_fingerprint
from codequarry.schemas.manifest import LegEntry, Manifest
from codequarry.schemas.ranking import BUILT_IN, RankingProfile, read_profile
from codequarry.schemas.settings import ServingSettings
from codequarry.schemas.tools import BundleInfo
from codequarry.serving.bm25 import Bm25Channel
from codequarry.serving.catalog import Catalog, ChunkRow
from codequarry.serving.channels import Channel, ShutChannel
from codequarry.serving.dense import FaissChannel
from codequarry.serving.directory import ChunkDirectory
from codequarry.serving.file_evidence import RankedFiles
from codequarry.serving.query_encoder import LazyEncoder, begin_opening, open_later
from codequarry.serving.splade_channel import SpladeChannel
from codequarry.serving.symbol_channel import SymbolChannel
from codequarry.serving.symbol_tables import SymbolTables
from codequarry.serving.warp_channel import WarpChannel

SERVED_CHANNELS = (*DENSE_LEGS, "bm25", "symbol", "warp", "splade")
"""In this order they are opened, as far as the version has them: symbol uses bm25 where that is open."""


@dataclass(frozen=True)
class Bundle:
    """Everything a request reads, from one version. A newer version is another `Bundle`."""

    paths: BundlePaths
    current: Current
    """What CURRENT held when the version was opened."""
    manifest: Manifest
    catalog: Catalog
    directory: ChunkDirectory
    channels: dict[str, Channel]
    closed: dict[str, str]
    """Channels that could not be opened, and why."""
    hold: Hold

    @classmethod
    def open_current(
        cls,
        root: Path,
        settings: ServingSettings | None = None,
        *,
        channels: Iterable[str] = SERVED_CHANNELS,
    ) -> Self:
        """Open the version CURRENT names.

        settings: threads, endpoint and GPU of its channels; the defaults when None.
        channels: what to map; a reader that only fetches needs none.

        Raises NoBundleError, FormatError, or IntegrityError: the version is not what its manifest says and stays shut.
        """
        bundle_root = BundleRoot(root)
        while True:
            current = bundle_root.read_current()
            try:
                return cls.open_version(bundle_root, current, settings, channels=channels)
            except CodequarryError:
                # Replaced and pruned meanwhile, perhaps; a version that is still current is a broken one.
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
        """Hold, check and open the version that CURRENT was found to name; raises as `open_current`.

        after_block: given to read every file and compare its sha256 first; see `integrity.file_sha256`.
        """
        paths = root.version(current.version)
        if paths.path.is_symlink():
            raise IntegrityError(
                f"version {current.version} is a symbolic link, expected a folder", suggestion="publish again"
            )
        return cls.open_paths(paths, current, settings, channels=channels, after_block=after_block)

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
        """As `open_version`, of a version wherever it lies: one that is staged is opened as it will be served."""
        settings = settings or ServingSettings()
        try:
            with ExitStack() as undo:
                hold = undo.enter_context(hold_version(paths))
                manifest = read_manifest(paths, expected_sha256=current.manifest_sha256)
                read = partial(file_sha256, after_block=after_block)
                verify(paths, manifest, deep=after_block is not None, sha256=read)
                catalog = undo.enter_context(closing(Catalog.open(paths)))
                directory = _directory(catalog, manifest)
                opened: dict[str, Channel] = {}
                closed: dict[str, str] = {}
                openers = {**_OPENERS, "warp": partial(_open_warp, settings.warp_threads)}
                legs = {leg.channel: leg for leg in manifest.legs}
                optional = {"warp": manifest.warp, "splade": manifest.splade}
                absent = set(DENSE_LEGS) - set(legs) | {name for name, entry in optional.items() if entry is None}
                for name in channels:
                    if name in absent:
                        continue
                    try:
                        if name in legs:
                            channel = _open_dense(paths.leg(name), legs[name], manifest, settings)
                        else:
                            channel = openers[name](paths, manifest, catalog, opened)
                        opened[name] = undo.enter_context(closing(channel))
                    except UnavailableError as error:
                        closed[name] = error.message.replace(f"{paths.path}/", "")
                bundle = cls(paths, current, manifest, catalog, directory, opened, closed, hold)
                if opened:
                    _ = bundle.files, bundle.facts  # not under the first request
                undo.pop_all()
                return bundle
        except (OSError, MemoryError) as error:
            raise UnavailableError(
                f"version {current.version} cannot be opened: {getattr(error, 'strerror', None) or 'out of memory'}",
                suggestion="free memory, raise the limit of open files, or mend the disk",
            ) from error

    @cached_property
    def symbols(self) -> SymbolTables:
        """Definitions and the places that name them."""
        return SymbolTables(self.catalog, self.directory.by_row if self.manifest.format_version >= 3 else None)

    @cached_property
    def profile(self) -> RankingProfile:
        """How this version ranks."""
        return _profile(self.paths)

    @cached_property
    def files(self) -> RankedFiles:
        """What the ranking knows of each file; of versions before format 4 only its name.

        Raises UnavailableError: it is there and cannot be opened; results would come in another order.
        """
        directory = self.directory
        rows = np.flatnonzero(np.diff(directory.row_starts))
        if self.paths.files.is_dir():
            index = FileIndex.open(self.paths.files, rows, self.manifest.encoder.dim)
        else:
            found = [FileRow(row, directory.repos[row], directory.paths[row], 0, 0) for row in rows.tolist()]
            index = FileIndex.build(found, np.zeros((len(found), 0), np.float32))
        return RankedFiles(index, directory, self.profile)

    @cached_property
    def facts(self) -> ChunkFacts | None:
        """What explanations tell besides; None of versions that have none. Raises IntegrityError: it is damaged."""
        if not self.paths.facts.is_dir():
            return None
        return ChunkFacts.open(self.paths.facts, len(self.directory.chunk_ids), len(self.directory.paths))

    def bytes_before(self, row: ChunkRow) -> int:
        """Bytes of a chunk's first line that belong to the chunks before it."""
        place = self.directory.find(row.repo, row.path)
        if place is None or not self.directory.torn[place]:
            return 0
        return self.catalog.bytes_before(row)

    @property
    def info(self) -> BundleInfo:
        """What answers say of the version."""
        commits = {source.name: source.revision for source in self.manifest.sources}
        return BundleInfo(version=self.manifest.version, created=self.manifest.created, commits=commits)

    def problems(self) -> dict[str, str]:
        """Channels that cannot answer now, and why."""
        found = dict(self.closed)
        for name, channel in self.channels.items():
            if (problem := channel.problem()) is not None:
                found[name] = problem
        return found

    def rank_by(self, profile: RankingProfile) -> None:
        """Answer by another profile from now on; requests that run may be answered by parts of both."""
        self.__dict__.update(profile=profile, files=self.files.by(profile))
        lexical = self.channels.get("bm25")
        if isinstance(lexical, Bm25Channel):
            lexical.profile = profile

    def shut(self, name: str, reason: str) -> None:
        """Stop asking a channel whose files turned out to be damaged; requests that run on it may still end."""
        self.channels[name] = ShutChannel(self.channels[name], reason)

    def close(self) -> None:
        """Give every map, file, thread and the hold back. Requests still running on the bundle fail."""
        for channel in self.channels.values():
            channel.close()
        self.catalog.close()
        self.hold.release()


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
    """The version's; the built-in one where it has none, or none that this program knows. Raises OSError."""
    try:
        return read_profile(paths.ranking.read_bytes()) if paths.ranking.is_file() else BUILT_IN
    except IntegrityError:
        return BUILT_IN


Opened = Mapping[str, Channel]
Opener = Callable[[BundlePaths, Manifest, Catalog, Opened], Channel]


def _open_dense(paths: BundlePaths, leg: LegEntry, manifest: Manifest, settings: ServingSettings) -> Channel:
    """A dense leg. The first one's encoder is opened at once; the others may never be asked and are large."""
    first = leg.channel == DENSE_LEGS[0]
    endpoint = settings.queries_go_to
    if first:
        encoder = LazyEncoder.started(begin_opening(paths, leg.encoder, endpoint))
    else:
        encoder = open_later(paths, leg.encoder, endpoint)
    try:
        return FaissChannel.open(paths, leg, manifest.counts.chunks, encoder, gpu=settings.faiss_gpu)
    except BaseException:
        encoder.wait()  # what it holds open goes with the version that is not opened
        raise


def _open_bm25(paths: BundlePaths, manifest: Manifest, _catalog: Catalog, _opened: Opened) -> Channel:
    built = manifest.compatibility
    if built is not None and built.analyzer != lexical_fingerprint():
        raise UnavailableError("the index was built with another text analyzer; build the bundle again")
    channel = Bm25Channel.open(paths.bm25, _profile(paths))
    if channel.count != manifest.counts.chunks:
        raise UnavailableError(f"the index holds {channel.count} documents, expected {manifest.counts.chunks}")
    return channel


def _open_symbol(_paths: BundlePaths, _manifest: Manifest, catalog: Catalog, opened: Opened) -> Channel:
    lexical = opened.get("bm25")
    return SymbolChannel(catalog, lexical if isinstance(lexical, Bm25Channel) else None)


def _open_warp(threads: int, paths: BundlePaths, manifest: Manifest, _catalog: Catalog, _opened: Opened) -> Channel:
    assert manifest.warp is not None
    return WarpChannel.open(paths.warp, manifest.warp, manifest.counts.chunks, threads=threads)


def _open_splade(paths: BundlePaths, manifest: Manifest, _catalog: Catalog, _opened: Opened) -> Channel:
    assert manifest.splade is not None
    return SpladeChannel.open(paths.splade, manifest.splade, manifest.counts.chunks)


_OPENERS: dict[str, Opener] = {
    "splade": _open_splade,
    "bm25": _open_bm25,
    "symbol": _open_symbol,
}
