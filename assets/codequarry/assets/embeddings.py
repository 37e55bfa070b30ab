"""Stage 5 as an asset: a vector for each chunk."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import dagster as dg

from codequarry.assets.metadata import markdown_table, table_metadata
from codequarry.assets.project import Project
from codequarry.assets.stages import each_repository, repository_asset
from codequarry.pipelines.workspace import Progress, repository_work
from codequarry.schemas.settings import RepositorySettings, Settings


@repository_asset(
    "embeddings.embed_repository", kinds={"onnx", "parquet"}, after=("repository_chunks", "fitted_encoder")
)
def repository_embeddings(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
    return each_repository(context, project, _embeddings)


def _embeddings(repository: RepositorySettings, settings: Settings, progress: Progress) -> Mapping[str, Any]:
    from codequarry.pipelines.embeddings import embed_repository

    report = embed_repository(repository.name, settings, progress)
    tokens: Mapping[str, Any] = {}
    if settings.late_interaction:
        from codequarry.pipelines.warp_stage import embed_tokens

        read = embed_tokens(repository.name, settings, progress)
        tokens = {"token_texts_encoded": read.encoded, "token_encoder_fingerprint": read.fingerprint}
    sparse: Mapping[str, Any] = {}
    if settings.learned_sparse:
        from codequarry.pipelines.splade_stage import embed_sparse

        made = embed_sparse(repository.name, settings, progress)
        sparse = {"sparse_texts_encoded": made.encoded, "sparse_encoder_fingerprint": made.fingerprint}
    return {
        **tokens,
        **sparse,
        **table_metadata(repository_work(settings.paths.work, report.name), "embeddings", ("chunk_id", "vector")),
        "embedded": report.embedded,
        "reused": report.reused,
        "dimensions": report.legs[0].dim,
        "encoder_fingerprint": report.legs[0].fingerprint,
        "legs": markdown_table([asdict(leg) for leg in report.legs], ("channel", "encoder", "embedded", "reused")),
    }
