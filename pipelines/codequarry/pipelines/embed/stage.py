"""Stage 5: compute a vector of every chunk for each dense index, through the content-addressed store.

Chunks' vectors by a static encoder are not kept there: making them again is about as cheap.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from codequarry.pipelines.embed.devices import Documents, SharedEncoder, device_names
from codequarry.pipelines.embed.encoders import encoder_directories, encoder_settings, keeps_vectors
from codequarry.pipelines.embed.half import HalfDocuments, has_half
from codequarry.pipelines.embed.overlap import WriteBehind, read_ahead
from codequarry.pipelines.embed.sparse_encoders import sparse_directories
from codequarry.pipelines.embed.token_encoders import token_encoder_directory
from codequarry.pipelines.embed.torch import TorchDocuments, gpu_memory_mb
from codequarry.pipelines.store.device_use import DeviceUse, is_gpu, peak_memory_mb
from codequarry.pipelines.store.parts import EMBEDDED, RELEASED, Part, break_seal, hashed, plan_parts, put_seal, sealed
from codequarry.pipelines.store.vectors import Vector, VectorStore, open_vector_store, text_key
from codequarry.pipelines.store.workspace import Progress, replacing, repository_work, silent
from codequarry.pipelines.syntax.stage import restore_chunks
from codequarry.schemas.bundle.layout import embeddings_table, leg_suffix
from codequarry.schemas.bundle.tables import embeddings_schema, read_table, write_table
from codequarry.schemas.resources import available_cores, trim_memory
from codequarry.schemas.settings.embedding import EncoderSettings
from codequarry.schemas.settings.load import Settings
from codequarry.serving.encoders.spec import EncoderSpec, open_encoder
from codequarry.serving.text.lexical import dense_text

_NO_DEVICE = "none"
_SAVE_EVERY, _SAVE_EVERY_ON_GPU = 256, 4_096
TEXT_COLUMNS = ("path", "qualified_name", "symbols", "signature", "text")
"""Columns of a chunk that the dense encoder reads."""


@dataclass(frozen=True, slots=True)
class LegReport:
    """Result of the embedding stage for a dense index of a repository."""

    channel: str
    encoder: str
    """Name of the encoder."""
    embedded: int
    """Distinct texts of each part that went through the encoder."""
    reused: int
    """Vectors of the other chunks: of parts that stayed as they are, in the store, or of a text that comes again."""
    dim: int
    fingerprint: str
    seconds: float
    """Wall-clock seconds in the encoder."""
    use: DeviceUse
    """Device of the encoder; "none" when every vector was there."""


@dataclass(frozen=True, slots=True)
class EmbeddingReport:
    """Result of the embedding stage for a repository."""

    name: str
    chunks: int
    legs: tuple[LegReport, ...]
    """The first one first."""
    peak_memory_mb: float = 0.0
    """Most memory of this process so far."""
    gpu_memory_mb: float | None = None
    """Most GPU memory that torch took so far; None where it took none."""

    @property
    def embedded(self) -> int:
        """Number of texts that went through an encoder, over all dense indexes."""
        return sum(leg.embedded for leg in self.legs)

    @property
    def reused(self) -> int:
        """Number of vectors that did not have to be computed, over all dense indexes."""
        return sum(leg.reused for leg in self.legs)

    @property
    def texts_per_second(self) -> float:
        """Texts that went through an encoder by second in it; 0 when none did."""
        seconds = sum(leg.seconds for leg in self.legs)
        return round(self.embedded / seconds, 1) if seconds else 0.0


def require_encoders(settings: Settings) -> None:
    """Require that every encoder of the settings is available; raises what the stages would."""
    encoder_directories(settings)
    if settings.late_interaction:
        token_encoder_directory(settings)
    if settings.learned_sparse:
        sparse_directories(settings)


def embed_repository(
    name: str, settings: Settings, progress: Progress = silent, *, whole: bool = True
) -> EmbeddingReport:
    """Write ``embeddings`` of every part: one unit-norm float32 vector per chunk, in the order of its chunks.

    In tier standard ``embeddings2`` as well, by the second encoder. Parts with the chunks and encoder of the last run
    stay as they are. Finished vectors are stored every few hundred texts, unless the encoder is a static one, so that a
    killed run resumes where it stopped.

    Args:
        name: Name of the repository.
        settings: Settings of the run.
        progress: Called with (task, chunks done, chunks in all).
        whole: Also make again what `release_rows` removed of parts that are as in the last run.

    Returns:
        Counts of vectors.

    Raises:
        SourceError: The chunk stage has not run.
        CodequarryError: As `encoder_directories` does.
    """
    return RepositoryEmbedding(name, settings).finish(progress, whole=whole)


class RepositoryEmbedding:
    """The embedding stage of a repository, of which a part may be done while later parts are chunked.

    Args:
        name: Name of the repository.
        settings: Settings of the run.

    Raises:
        CodequarryError: As `encoder_directories` does.
    """

    def __init__(self, name: str, settings: Settings) -> None:
        self._settings = settings
        self._work = repository_work(settings.paths.work, name)
        folders = encoder_directories(settings)
        self._legs = tuple(_Leg(channel, folder, settings) for channel, folder in folders.items())
        self.early_cpu_s = 0.0
        """CPU seconds of `embed_early` so far."""

    def embed_early(self, parts: Sequence[Part]) -> None:
        """Write the vectors of some parts by static encoders, in one thread.

        Other encoders use all cores, a GPU or a server: they wait for `finish`.

        Args:
            parts: Parts whose chunks are complete.
        """
        started = time.thread_time()
        for leg in self._legs:
            if not keeps_vectors(leg.spec.kind):  # such as a static one
                leg.embed(parts, silent)
        self.early_cpu_s += time.thread_time() - started

    def finish(self, progress: Progress, *, whole: bool) -> EmbeddingReport:
        """Write the vectors that are missing; arguments, result and errors are those of `embed_repository`."""
        parts = plan_parts(self._work, self._settings)
        for leg in self._legs:
            leg.embed(parts, progress, () if whole else RELEASED)
        chunks = sum(part.chunk_count() for part in parts)
        memory = peak_memory_mb(), gpu_memory_mb(sys.modules.get("torch"))
        return EmbeddingReport(self._work.path.name, chunks, tuple(leg.report(chunks) for leg in self._legs), *memory)


def restore_vectors(parts: Sequence[Part], channels: Iterable[str], settings: Settings) -> None:
    """Make the vectors of parts again where `release_rows` removed them.

    Args:
        parts: Parts whose chunks are there.
        channels: Dense indexes.
        settings: Settings of the run.

    Raises:
        CodequarryError: As `encoder_directories` does.
    """
    for channel in channels:
        gone = [part for part in parts if not part.table(embeddings_table(channel)).exists()]
        if not gone:
            continue
        leg, seal = _Leg(channel, encoder_directories(settings)[channel], settings), embedded_seal(channel)
        for part in gone:
            if sealed(part.folder, seal, embedding_key(part, leg.spec.fingerprint), may_lack=RELEASED) is not None:
                leg.embed([part], silent)


class _Leg:
    """Vectors of a repository for one dense index.

    Args:
        channel: The dense index.
        folder: Folder of its encoder.
        settings: Settings of the run.
    """

    def __init__(self, channel: str, folder: Path, settings: Settings) -> None:
        self.spec = EncoderSpec.load(folder)
        self._channel = channel
        self._settings = settings
        self._encoding = _Encoding(folder, settings)

    def embed(self, all_parts: Sequence[Part], progress: Progress, may_lack: Collection[str] = ()) -> None:
        """Write the vectors of those parts that lack them.

        Args:
            all_parts: Parts of one repository whose chunks are complete.
            progress: Called with (task, chunks done, chunks in all).
            may_lack: Tables that a complete part may be without.
        """
        if not all_parts:
            return
        settings, spec, channel, encoding = self._settings, self.spec, self._channel, self._encoding
        what = f"{all_parts[0].work.path.name}: embedding{f' ({spec.name})' if leg_suffix(channel) else ''}"
        parts = [(part, embedding_key(part, spec.fingerprint)) for part in all_parts]
        seal = embedded_seal(channel)
        todo = [(part, key) for part, key in parts if sealed(part.folder, seal, key, may_lack=may_lack) is None]
        restore_chunks((part for part, _ in todo), settings)
        rows = {part.number: part.chunk_count() for part, _ in parts}
        total = sum(rows.values())
        done = total - sum(rows[part.number] for part, _ in todo)
        progress(what, done, total)
        overlap = encoding.elsewhere
        with _kept_vectors(settings, spec) as store, WriteBehind(overlap=overlap) as behind:
            vectors = _Vectors(store, behind)
            for (part, key), read in read_ahead(lambda each: _read_texts(each[0]), todo, overlap=overlap):

                def show(left: int, upto: int = done + rows[part.number]) -> None:
                    progress(what, upto - left, total)

                known = _known_vectors(read, vectors, encoding, show)
                behind.put(partial(_write_part, part, key, channel, read, known, spec.dim))
                done += rows[part.number]
                show(0)
        trim_memory()

    def report(self, chunks: int) -> LegReport:
        """Return what was done so far.

        Args:
            chunks: Chunks of the repository.

        Returns:
            The report.
        """
        spec, seconds, use = self.spec, self._encoding.seconds, self._encoding.use(self.spec)
        embedded = self._encoding.embedded
        reused = chunks - embedded
        return LegReport(self._channel, spec.name, embedded, reused, spec.dim, spec.fingerprint, seconds, use)


def embedding_key(part: Part, fingerprint: str) -> str:
    """Return a hash of all that decides a part's vectors.

    Args:
        part: The part.
        fingerprint: Fingerprint of the encoder.

    Returns:
        The hash.

    Raises:
        SourceError: The part's chunks are missing, or of another state.
    """
    return hashed([part.chunked()["files"]["chunks.parquet"], fingerprint])


def embedded_seal(channel: str) -> str:
    """Return the name of the completion marker of a dense index's vectors."""
    return f"{EMBEDDED}{leg_suffix(channel)}"


@dataclass(frozen=True, slots=True)
class _PartTexts:
    """Texts of a part's chunks."""

    chunk_ids: pa.ChunkedArray
    keys: list[bytes]
    texts: dict[bytes, str]
    """Distinct texts by key."""


@contextmanager
def _kept_vectors(settings: Settings, spec: EncoderSpec) -> Iterator[VectorStore | None]:
    """Open the stored vectors of an encoder; yields None for one whose vectors are not kept."""
    if not keeps_vectors(spec.kind):
        yield None
        return
    with open_vector_store(settings.paths.store, spec.fingerprint, spec.dim) as store:
        yield store


class _Vectors:
    """Vectors of a store, if there is one, and those that are still to be written to it."""

    def __init__(self, store: VectorStore | None, behind: WriteBehind) -> None:
        self._store = store
        self._behind = behind
        self._unwritten: dict[bytes, Vector] = {}

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        """Return the vectors that are present, (d,) float32 each."""
        if self._store is None:
            return {}
        # Copied first: what is written between the two look-ups is found by either.
        unwritten = self._unwritten.copy()
        found = self._store.get(keys)
        return found | {key: unwritten[key] for key in keys if key in unwritten and key not in found}

    def put(self, entries: Sequence[tuple[bytes, Vector]]) -> None:
        """Add vectors, which a thread writes."""
        if self._store is not None:
            self._unwritten.update(entries)
            self._behind.put(partial(self._write, self._store, entries))

    def _write(self, store: VectorStore, entries: Sequence[tuple[bytes, Vector]]) -> None:
        store.put(entries)
        for key, _ in entries:
            self._unwritten.pop(key)


def _read_texts(part: Part) -> _PartTexts:
    """Read the texts of a part that the dense encoder reads."""
    chunks = read_table(part.table("chunks"), ["chunk_id", *TEXT_COLUMNS])
    texts = [dense_text(**row) for row in chunks.select(TEXT_COLUMNS).to_pylist()]
    keys = [text_key(text) for text in texts]
    return _PartTexts(chunks["chunk_id"], keys, dict(zip(keys, texts, strict=True)))


def _known_vectors(
    read: _PartTexts, vectors: _Vectors, encoding: _Encoding, show: Callable[[int], None]
) -> dict[bytes, Vector]:
    """Return the vector of every text of a part; those that are missing are computed."""
    known = vectors.get(list(read.texts))
    for entries in encoding.of({key: text for key, text in read.texts.items() if key not in known}):
        vectors.put(entries)
        known.update(entries)
        if left := sum(key not in known for key in read.keys):
            show(left)  # the end is shown once the part is written: a run that is killed before makes it again
    return known


def _write_part(part: Part, key: str, channel: str, read: _PartTexts, known: Mapping[bytes, Vector], dim: int) -> None:
    """Write the table of a part's vectors, and its completion marker."""
    seal, name = embedded_seal(channel), embeddings_table(channel)
    flat = pa.array(np.concatenate([known[each] for each in read.keys]), pa.float32())
    schema = embeddings_schema(dim)
    vectors = pa.FixedSizeListArray.from_arrays(flat, dim)
    break_seal(part.folder, seal)
    with replacing(part.table(name)) as temporary:
        write_table(temporary, pa.table([read.chunk_ids, vectors], schema=schema), schema)
    put_seal(part.folder, seal, key, [f"{name}.parquet"], {})


def embed_texts(texts: Sequence[str], folder: Path, settings: Settings) -> NDArray[np.float32]:
    """Embed texts that are not chunks, through the store: those of all files are asked for in each run.

    A version holds them in float16, and so does the store.

    Args:
        texts: Texts to embed.
        folder: Folder of the encoder.
        settings: Settings of the run.

    Returns:
        Vectors (n, d), rounded to float16.
    """
    spec = EncoderSpec.load(folder)
    keys = [text_key(text) for text in texts]
    encoding = _Encoding(folder, settings)
    with open_vector_store(settings.paths.store, spec.fingerprint, spec.dim) as store:
        known = store.get(list(dict.fromkeys(keys)), rounded=True)
        for entries in encoding.of({key: text for key, text in zip(keys, texts, strict=True) if key not in known}):
            store.put(entries, rounded=True)
            known.update(entries)
    found = np.array([known[key] for key in keys], np.float16)  # the same, whether the store had them or not
    return found.astype(np.float32).reshape(len(keys), spec.dim)


class _Encoding:
    """The encoder of a run, opened when the first text needs it."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        fingerprint = EncoderSpec.load(folder).fingerprint
        self._settings = encoder_settings(settings, folder)
        own = self._settings.model_dump_json(include=set(EncoderSettings.model_fields))
        self._open = partial(_open_encoder, folder, fingerprint, own)
        self._device = _NO_DEVICE
        self.embedded = 0
        """Texts encoded so far."""
        self.seconds = 0.0
        """Wall-clock seconds of encoding so far."""

    def of(self, texts: dict[bytes, str]) -> Iterator[list[tuple[bytes, Vector]]]:
        """Yield vectors by key, a few hundred at a time; on a GPU a few thousand, those of the longest texts first."""
        if not texts:
            return
        encoder = self._open()
        self._device = "a server" if self._settings.endpoint else getattr(encoder, "device", "cpu")
        items, size = list(texts.items()), _SAVE_EVERY
        if self._on_gpu:  # a CPU gains nothing by the order: the shipped encoder took a twentieth longer
            items.sort(key=lambda item: -len(item[1]))
            size = _SAVE_EVERY_ON_GPU * len(self._device.split(","))
        for start in range(0, len(items), size):
            part = items[start : start + size]
            started = time.perf_counter()
            vectors = encoder.encode_documents([text for _, text in part])
            self.seconds += time.perf_counter() - started
            yield [(key, vector) for (key, _), vector in zip(part, vectors, strict=True)]
            self.embedded += len(part)

    @property
    def elsewhere(self) -> bool:
        """True when a server or a GPU is asked for, so that this machine's CPU can read and write meanwhile."""
        return bool(self._settings.endpoint) or is_gpu(self._settings.device)

    @property
    def _on_gpu(self) -> bool:
        return not self._settings.endpoint and is_gpu(self._device) and self._device != _NO_DEVICE

    def use(self, spec: EncoderSpec) -> DeviceUse:
        """Return the device that encoded, and why it is not the GPU that the settings ask for."""
        asked = is_gpu(self._settings.device)
        reason = _cpu_reason(spec, self._settings) if asked and not self._on_gpu else ""
        return DeviceUse(f"embedding by {spec.name}", self._device, asked, reason if self.embedded else "")


def _cpu_reason(spec: EncoderSpec, embedding: EncoderSettings) -> str:
    """Return why an encoder makes no use of a GPU."""
    if embedding.endpoint:
        return "a server makes the vectors, on a device of its own"
    if spec.kind == "static":
        return "a static encoder adds up rows of a table, which NumPy does"
    return (
        f"{spec.name} is run as an ONNX graph of int8 weights, one text at a time, which is made for CPUs; minilm and "
        "models of sentence-transformers run on a GPU"
    )


@lru_cache(maxsize=1)
def _open_encoder(folder: Path, _fingerprint: str, settings: str) -> Documents[Vector]:
    """Return an encoder; the last one is cached, because chunks and file summaries need the same.

    Args:
        folder: Folder of the encoder.
        _fingerprint: Fingerprint of the encoder, part of the cache key.
        settings: Settings of the encoder, as JSON.

    Returns:
        The opened encoder.
    """
    embedding, spec = EncoderSettings.model_validate_json(settings), EncoderSpec.load(folder)
    if has_half(spec):
        return HalfDocuments.open(folder, spec, embedding.device)
    if spec.documents is not None and embedding.by_transformers:
        names = device_names(embedding.device)
        each = [TorchDocuments.open(spec, embedding.model_copy(update={"device": name})) for name in names]
        return each[0] if len(each) == 1 else SharedEncoder(each, names)
    return open_encoder(folder, threads=embedding.threads or available_cores(), endpoint=embedding.made_by)
