"""Stage 2b as an asset: the encoder fitted to the repositories, where the settings want that."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from codequarry.assets.project import Project
from codequarry.assets.stages import bundle_asset, once
from codequarry.pipelines.workspace import Progress
from codequarry.schemas.settings import Settings

_EVERY_SNAPSHOT = (dg.AssetDep("repository_snapshot", partition_mapping=dg.AllPartitionMapping()),)


# With the repositories, whose vectors it makes: groups that need each other are drawn in a circle.
@bundle_asset("adaptation.adapt_encoder", kinds={"numpy"}, after=_EVERY_SNAPSHOT, group="repository")
def fitted_encoder(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
    return once(context, project, _adapt)


def _adapt(settings: Settings, progress: Progress) -> Mapping[str, Any]:
    from codequarry.pipelines.adaptation import adapt_encoder
    from codequarry.pipelines.encoders import encoder_folders
    from codequarry.schemas.encoder import EncoderSpec

    report = adapt_encoder(settings, progress)
    first = next(iter(encoder_folders(settings).values()))
    off = "not wanted: [embedding] adapt is false"
    return {
        "verdict": report.said if report is not None else off,
        "kept": report is not None and report.kept,
        "digest": EncoderSpec.load(first).fingerprint if (first / "encoder.json").is_file() else first.name,
    }
