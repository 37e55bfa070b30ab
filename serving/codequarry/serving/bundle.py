"""An open version of the bundle: what is mapped, and what could not be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Self

from codequarry.schemas.encoder import open_encoder
from codequarry.schemas.errors import CodequarryError, IntegrityError, UnavailableError
from codequarry.schemas.holds import Hold, hold_version
from codequarry.schemas.integrity import read_manifest, verify
from codequarry.schemas.layout import BundlePaths, BundleRoot, Current
from codequarry.schemas.lexical import lexical_fingerprint
from codequarry.schemas.manifest import Manifest
from codequarry.schemas.tools import BundleInfo
from codequarry.serving.bm25 import Bm25Channel
from codequarry.serving.catalog import Catalog, ChunkRow
from codequarry.serving.channels import Channel, ShutChannel
from codequarry.serving.dense import FaissChannel, QueryEncoder
from codequarry.serving.directory import ChunkDirectory
from codequarry.serving.symbol_channel import SymbolChannel
from codequarry.serving.symbol_tables import SymbolTables
from codequarry.serving.warp_channel import WarpChannel

SERVED_CHANNELS = ("faiss", "bm25", "symbol", "warp")
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
    def open_current(cls, root: Path, *, channels: Iterable[str] = SERVED_CHANNELS, warp_threads: int = 1) -> Self:
        """Open the version CURRENT names.

        channels: what to map; a reader that only fetches needs none. warp_threads: of one search by late interaction.

        Raises NoBundleError, FormatError, or IntegrityError: the version is not what its manifest says and stays shut.
        """
        bundle_root = BundleRoot(root)
        while True:
            current = bundle_root.read_current()
            try:
                return cls.open_version(bundle_root, current, channels=channels, warp_threads=warp_threads)
            except CodequarryError:
                # Replaced and pruned meanwhile, perhaps; a version that is still current is a broken one.
                if bundle_root.read_current() == current:
                    raise

    @classmethod
    def open_version(
        cls,
        root: BundleRoot,
        current: Current,
        *,
        channels: Iterable[str] = SERVED_CHANNELS,
        warp_threads: int = 1,
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
        try:
            with ExitStack() as undo:
                hold = undo.enter_context(hold_version(paths))
                manifest = read_manifest(paths, expected_sha256=current.manifest_sha256)
                verify(paths, manifest, deep=after_block is not None, after_block=after_block)
                catalog = undo.enter_context(closing(Catalog.open(paths)))
                directory = _directory(catalog, manifest)
                opened: dict[str, Channel] = {}
                closed: dict[str, str] = {}
                openers = {**_OPENERS, "warp": partial(_open_warp, warp_threads)}
                for name in channels:
                    if name == "warp" and manifest.warp is None:
                        continue
                    try:
                        opened[name] = undo.enter_context(closing(openers[name](paths, manifest, catalog, opened)))
                    except UnavailableError as error:
                        closed[name] = error.message.replace(f"{paths.path}/", "")
                bundle = cls(paths, current, manifest, catalog, directory, opened, closed, hold)
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


Opened = Mapping[str, Channel]
Opener = Callable[[BundlePaths, Manifest, Catalog, Opened], Channel]


def _open_faiss(paths: BundlePaths, manifest: Manifest, _catalog: Catalog, _opened: Opened) -> Channel:
    encoder = _start_encoder(paths, manifest)
    try:
        return FaissChannel.open(paths, manifest, encoder)
    except BaseException:
        encoder.exception()  # what it holds open goes with the version that is not opened
        raise


def _open_bm25(paths: BundlePaths, manifest: Manifest, _catalog: Catalog, _opened: Opened) -> Channel:
    built = manifest.compatibility
    if built is not None and built.analyzer != lexical_fingerprint():
        raise UnavailableError("the index was built with another text analyzer; build the bundle again")
    channel = Bm25Channel.open(paths.bm25)
    if channel.count != manifest.counts.chunks:
        raise UnavailableError(f"the index holds {channel.count} documents, expected {manifest.counts.chunks}")
    return channel


def _open_symbol(_paths: BundlePaths, _manifest: Manifest, catalog: Catalog, opened: Opened) -> Channel:
    lexical = opened.get("bm25")
    return SymbolChannel(catalog, lexical if isinstance(lexical, Bm25Channel) else None)


def _open_warp(threads: int, paths: BundlePaths, manifest: Manifest, _catalog: Catalog, _opened: Opened) -> Channel:
    assert manifest.warp is not None
    return WarpChannel.open(paths.warp, manifest.warp, manifest.counts.chunks, threads=threads)


_OPENERS: dict[str, Opener] = {
    "faiss": _open_faiss,
    "bm25": _open_bm25,
    "symbol": _open_symbol,
}


def _start_encoder(paths: BundlePaths, manifest: Manifest) -> Future[QueryEncoder]:
    """Open the query encoder on a thread of its own: it takes longer than everything else together."""

    def load() -> QueryEncoder:
        try:
            encoder = open_encoder(paths.encoder)
        except IntegrityError as error:
            raise IntegrityError(error.message.replace(f"{paths.path}/", ""), suggestion=error.suggestion) from error
        found, expected = (
            (encoder.spec.fingerprint, encoder.spec.dim),
            (manifest.encoder.fingerprint, manifest.encoder.dim),
        )
        if found != expected:
            raise IntegrityError(
                f"the encoder is {found[0][:12]}… of dimension {found[1]}, "
                f"the vectors were made by {expected[0][:12]}… of dimension {expected[1]}",
                suggestion="build the bundle again",
            )
        # The first run allocates and picks kernels; better here than under the first request.
        encoder.encode_query("warm up")
        return encoder

    pool = ThreadPoolExecutor(1, thread_name_prefix="open-encoder")
    try:
        future: Future[QueryEncoder] = pool.submit(load)
    except RuntimeError as error:
        raise UnavailableError("there is no thread left to open the query encoder on") from error
    finally:
        pool.shutdown(wait=False)
    return future
