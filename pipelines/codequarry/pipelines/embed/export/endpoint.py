"""An encoder directory for a model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from codequarry.schemas.errors import EndpointError, InvalidArgumentError
from codequarry.schemas.settings.embedding import EncoderSettings
from codequarry.serving.encoders.client import Endpoint, patiently
from codequarry.serving.encoders.endpoint import PROBE_FILE, PROBE_TEXT, request_vectors
from codequarry.serving.encoders.spec import EncoderSpec


def export_endpoint(directory: Path, embedding: EncoderSettings) -> EncoderSpec:
    """Request a probe vector from the endpoint of the settings, and write the description of the encoder.

    The probe gives the dimension, and later tells whether the model is still the same.

    Args:
        directory: Folder of the encoder, created when missing.
        embedding: Settings with the endpoint.

    Returns:
        Description of the encoder.

    Raises:
        InvalidArgumentError: The settings name no endpoint.
        EndpointError: The endpoint does not answer as expected.
    """
    options = embedding.made_by
    if options is None:
        raise InvalidArgumentError(
            "the settings name no model server", suggestion=f"set {embedding.section} endpoint to its address"
        )
    endpoint = Endpoint(options)
    try:
        probe = patiently(lambda: request_vectors(endpoint, embedding.model, [PROBE_TEXT], None)[0], options.retries)
    except EndpointError as error:
        raise EndpointError(
            f"{options.url}: {error.message}",
            suggestion=f"{error.suggestion or 'start the server'}, or correct {embedding.section} endpoint and model",
        ) from error
    directory.mkdir(parents=True, exist_ok=True)
    np.save(directory / PROBE_FILE, probe, allow_pickle=False)
    query, document = embedding.prefixes
    return EncoderSpec.seal(
        directory,
        kind="endpoint",
        name=embedding.model,
        dim=len(probe),
        max_tokens=0,
        license="as the model's",
        source="an OpenAI-compatible endpoint",
        query_prefix=query,
        document_prefix=document,
        model=embedding.model,
        revision=embedding.revision or None,
    )
