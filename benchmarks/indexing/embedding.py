"""Cost of the embedding stage beside its encoder: a repository's vectors by both, alternately, in this process."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.corpus import HOME, package_folder
from benchmarks.report import Figure, at_most, percentile, print_figures
from codequarry.pipelines.embed.encoders import encoder_directories
from codequarry.pipelines.embed.stage import TEXT_COLUMNS, embed_repository
from codequarry.pipelines.sources.snapshot import snapshot_repository
from codequarry.pipelines.store.parts import plan_parts
from codequarry.pipelines.store.vectors import vector_file
from codequarry.pipelines.store.workspace import repository_work
from codequarry.pipelines.syntax.stage import chunk_repository
from codequarry.schemas.bundle.tables import read_table
from codequarry.schemas.settings.load import (
    EmbeddingSettings,
    PathsSettings,
    RepositorySettings,
    Settings,
    SourcesSettings,
)
from codequarry.serving.encoders.spec import open_encoder
from codequarry.serving.text.lexical import dense_text

REPOSITORY = "mcp"
_ROUNDS = 3


def run() -> None:
    """Measure and print."""
    home = HOME / "embedding"
    repository = RepositorySettings(path=package_folder(REPOSITORY), name=REPOSITORY)
    settings = Settings(
        sources=SourcesSettings(repositories=(repository,)),
        paths=PathsSettings(work=home / "work", store=home / "store"),
        embedding=EmbeddingSettings(model="minilm", threads=1),
    )
    snapshot_repository(repository, settings)
    chunk_repository(REPOSITORY, settings)
    folder = next(iter(encoder_directories(settings).values()))
    work = repository_work(settings.paths.work, REPOSITORY)
    tables = [read_table(part.table("chunks"), list(TEXT_COLUMNS)) for part in plan_parts(work, settings)]
    texts = list(dict.fromkeys(dense_text(**row) for table in tables for row in table.to_pylist()))
    encoder = open_encoder(folder, threads=1)
    encoder.encode_documents(texts[:32])

    def stage() -> None:
        report = embed_repository(REPOSITORY, settings)
        assert report.embedded == len(texts), (report.embedded, len(texts))

    bare: list[float] = []
    staged: list[float] = []
    for _ in range(_ROUNDS):
        bare.append(_cpu_seconds(lambda: encoder.encode_documents(texts)))
        vector_file(settings.paths.store, encoder.spec.fingerprint).unlink(missing_ok=True)
        for table in work.parts.glob("*/embeddings*.parquet"):
            table.unlink()
        staged.append(_cpu_seconds(stage))
    rate = len(texts) / percentile(bare, 0.5)
    figures = [
        Figure(f"MiniLM alone, {len(texts):,} chunks of {REPOSITORY}", f"{rate:.0f} per CPU-s"),
        at_most("the stage / the encoder alone, CPU", percentile(staged, 0.5) / percentile(bare, 0.5), 1.1, "", 2),
    ]
    print_figures("Embedding a repository", figures)


def _cpu_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started
