"""The golden oracle pack: its corpus, an encoder that makes the vectors it promises, and a bundle of both."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from codequarry.pipelines.embed.export.static import export_static
from codequarry.pipelines.run import index_repositories
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.settings.embedding import EmbeddingSettings
from codequarry.schemas.settings.gates import RetrievalSettings
from codequarry.schemas.settings.indexes import IndexesSettings
from codequarry.schemas.settings.load import (
    BundleSettings,
    ChunkingSettings,
    PathsSettings,
    RepositorySettings,
    ScipSettings,
    Settings,
    SourcesSettings,
)

PACK = Path(__file__).with_name("golden")
REPOSITORY = "golden"
FACTORIES = ("Flat", "HNSW8,Flat")
"""An exact index, and an approximate one whose candidates are scored again from the stored vectors."""
_WHOLE_FILE = 2_000
_FAINT = 1e-7
"""Weight of words that are not an axis, such as those of a path: the encoder needs a vector for them, and they must not
turn the others."""


@dataclass(frozen=True, slots=True)
class GoldenQuery:
    """A query and every document whose angle to it is less than 90 degrees."""

    query: str
    nearest: tuple[tuple[float, frozenset[str]], ...]
    """(cosine, paths that have it), best first."""


@dataclass(frozen=True, slots=True)
class GoldenPack:
    """Contents and promises of the pack."""

    axes: tuple[str, ...]
    vectors: dict[str, np.ndarray]
    """By path: (axes + 1,) float64, unit norm; the last component is that of other words."""
    texts: dict[str, str]
    """By path."""
    queries: tuple[GoldenQuery, ...]


def read_pack(folder: Path = PACK) -> GoldenPack:
    """Read the pack that ships with the program."""
    told = tomllib.loads((folder / "golden.toml").read_text(encoding="utf-8"))
    vectors = {
        f"{name}.js": np.array([*parts, 0.0]) / length for name, (*parts, length) in told["vectors"].items()
    }  # fmt: skip
    queries = tuple(
        GoldenQuery(
            entry["query"],
            tuple((cosine, frozenset(f"{name}.js" for name in names)) for cosine, names in entry["nearest"]),
        )
        for entry in told["queries"]
    )
    texts = {file.name: file.read_text(encoding="utf-8") for file in sorted((folder / "corpus").glob("*.js"))}
    return GoldenPack(tuple(told["axes"]), vectors, texts, queries)


def build_golden(pack: GoldenPack, folder: Path, factory: str) -> BundlePaths:
    """Index the pack's corpus with the pack's encoder below a folder.

    Args:
        pack: The pack.
        folder: Empty folder.
        factory: FAISS factory string of the index.

    Returns:
        Paths of the published version.

    Raises:
        CodequarryError: As `index_repositories` does.
    """
    _write_encoder(pack, folder / "encoder")
    corpus = folder / "corpus"
    corpus.mkdir()
    for path, text in pack.texts.items():
        (corpus / path).write_text(text, encoding="utf-8")
    settings = Settings(
        paths=PathsSettings(store=folder / "store", work=folder / "work"),
        sources=SourcesSettings(repositories=(RepositorySettings(name=REPOSITORY, path=corpus),)),
        chunking=ChunkingSettings(max_chars=_WHOLE_FILE, merge_chars=_WHOLE_FILE),
        scip=ScipSettings(enabled=False),
        embedding=EmbeddingSettings(folder=folder / "encoder"),
        indexes=IndexesSettings(faiss_factory=factory),
        retrieval=RetrievalSettings(enabled=False),
        bundle=BundleSettings(root=folder / "bundles"),
    )
    return BundlePaths(index_repositories(settings).path)


def _write_encoder(pack: GoldenPack, folder: Path) -> None:
    """Write a static encoder whose row for each word is its axis."""
    from tokenizers import Tokenizer, models

    words = ("[UNK]", *pack.axes)
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    table = np.roll(np.eye(len(words), dtype=np.float32), -1, axis=1)  # the unknown one comes first and turns last
    weights = np.ones(len(words), np.float32)
    weights[0] = _FAINT
    export_static(folder, tokenizer, table, weights, name="golden", source="the golden oracle pack")
