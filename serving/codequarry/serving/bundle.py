"""An open version of the bundle: what is mapped, and what could not be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from codequarry.schemas.encoder import OnnxEncoder
from codequarry.schemas.errors import IntegrityError, UnavailableError
from codequarry.schemas.integrity import read_manifest, verify
from codequarry.schemas.layout import BundlePaths, BundleRoot
from codequarry.schemas.lexical import lexical_fingerprint
from codequarry.schemas.manifest import Manifest
from codequarry.schemas.tools import BundleInfo
from codequarry.serving.bm25 import Bm25Channel
from codequarry.serving.catalog import Catalog
from codequarry.serving.channels import Channel
from codequarry.serving.dense import FaissChannel, QueryEncoder
from codequarry.serving.directory import ChunkDirectory
from codequarry.serving.symbol_channel import SymbolChannel
from codequarry.serving.symbol_tables import SymbolTables

SERVED_CHANNELS = ("faiss", "bm25", "symbol")
"""In this order they are opened: symbol uses bm25 where that is open."""


@dataclass(frozen=True)
class Bundle:
    """Everything a request reads. Never changes while open; a newer version is another `Bundle`."""

    manifest: Manifest
    catalog: Catalog
    directory: ChunkDirectory
    channels: dict[str, Channel]
    closed: dict[str, str]
    """Channels that could not be opened, and why."""

    @classmethod
    def open_current(cls, root: Path, *, channels: Iterable[str] = SERVED_CHANNELS) -> Self:
        """Open the version CURRENT names.

        channels: what to map; a reader that only fetches needs none.

        Raises NoBundleError, FormatError, or IntegrityError: the version is not what its manifest says and stays shut.
        """
        bundle_root = BundleRoot(root)
        current = bundle_root.read_current()
        paths = bundle_root.version(current.version)
        if paths.path.is_symlink():
            raise IntegrityError(
                f"version {current.version} is a symbolic link, expected a folder", suggestion="publish again"
            )
        manifest = read_manifest(paths, expected_sha256=current.manifest_sha256)
        verify(paths, manifest, deep=False)
        return cls.open(paths, manifest, channels=channels)

    @classmethod
    def open(cls, paths: BundlePaths, manifest: Manifest, *, channels: Iterable[str] = SERVED_CHANNELS) -> Self:
        """Open a version that was compared with its manifest. Raises IntegrityError: the catalog cannot be read."""
        catalog = Catalog.open(paths)
        try:
            directory = catalog.directory()
        except IntegrityError:
            catalog.close()
            raise
        if len(directory.chunk_ids) != manifest.counts.chunks:
            catalog.close()
            raise IntegrityError(
                f"the catalog of {manifest.version} holds {len(directory.chunk_ids)} chunks, "
                f"its manifest promises {manifest.counts.chunks}",
                suggestion="do not serve this version; publish again",
            )
        opened: dict[str, Channel] = {}
        closed: dict[str, str] = {}
        for name in channels:
            try:
                opened[name] = _OPENERS[name](paths, manifest, catalog, opened)
            except UnavailableError as error:
                closed[name] = error.message.replace(f"{paths.path}/", "")
        return cls(manifest, catalog, directory, opened, closed)

    @cached_property
    def symbols(self) -> SymbolTables:
        """Definitions and the places that name them."""
        return SymbolTables(self.catalog)

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

    def close(self) -> None:
        """Give every map, file and thread back. Requests still running on the bundle fail."""
        for channel in self.channels.values():
            channel.close()
        self.catalog.close()


Opened = Mapping[str, Channel]
Opener = Callable[[BundlePaths, Manifest, Catalog, Opened], Channel]


def _open_faiss(paths: BundlePaths, manifest: Manifest, _catalog: Catalog, _opened: Opened) -> Channel:
    return FaissChannel.open(paths, manifest, _start_encoder(paths, manifest))


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


_OPENERS: dict[str, Opener] = {
    "faiss": _open_faiss,
    "bm25": _open_bm25,
    "symbol": _open_symbol,
}


def _start_encoder(paths: BundlePaths, manifest: Manifest) -> Future[QueryEncoder]:
    """Open the query encoder on a thread of its own: it takes longer than everything else together."""

    def load() -> QueryEncoder:
        try:
            encoder = OnnxEncoder.open(paths.encoder, threads=1)
        except IntegrityError as error:
            raise IntegrityError(error.message.replace(f"{paths.path}/", ""), suggestion=error.suggestion) from error
        found, expected = (encoder.fingerprint, encoder.dim), (manifest.encoder.fingerprint, manifest.encoder.dim)
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
    future: Future[QueryEncoder] = pool.submit(load)
    pool.shutdown(wait=False)
    return future
