"""Export of a sparse model of any kind to encoder directories: for documents, and for queries where those differ."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np

from codequarry.pipelines.embed.export.bert import write_model
from codequarry.pipelines.embed.export.minilm_tokens import sample_pieces
from codequarry.pipelines.embed.export.sparse_graph import pooled_graph
from codequarry.pipelines.embed.export.sparse_model import SparseModel
from codequarry.pipelines.embed.export.sparse_torch import write_graph
from codequarry.schemas.bundle.splade import MAX_IMPACT
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.serving.encoders.onnx import open_session
from codequarry.serving.encoders.sparse import MODEL_FILE, STEP_FILE, TERM_WEIGHTS_FILE, WEIGHTS_FILE
from codequarry.serving.encoders.spec import TOKENIZER_FILE, EncoderSpec, Kind

DOCUMENTS, QUERIES = "documents", "queries"
_SAMPLED = 40
"""Number of pieces of the sample that the quantization step is computed from."""
_HEADROOM = 1.25
"""Ratio of the largest impact to the heaviest term of the sample."""


def export_sparse(model: SparseModel, directory: Path, *, max_tokens: int) -> EncoderSpec:
    """Write ``documents/`` below a directory, and ``queries/`` where queries are inference-free.

    Args:
        model: Model to export.
        directory: Folder of the encoders, replaced when it exists.
        max_tokens: Longest text in tokens, unless the model reads less.

    Returns:
        Description of the encoder of documents.

    Raises:
        MissingExtraError: A library is not installed.
        InvalidArgumentError: The model cannot be used.
        IntegrityError: The model is damaged.
    """
    shutil.rmtree(directory, ignore_errors=True)
    documents = directory / DOCUMENTS
    documents.mkdir(parents=True)
    tokens = min(max_tokens, model.positions)
    with tempfile.TemporaryDirectory(dir=directory, prefix="graph-") as scratch:
        graph = model.graph
        if graph is None:
            graph = Path(scratch) / MODEL_FILE
            write_graph(model.documents, graph, tokens)
        pooled, terms = pooled_graph(graph, model.pooling, model.activation)
    write_model(pooled, documents)
    (documents / WEIGHTS_FILE).touch()  # a small model has no large weights
    shutil.copyfile(model.documents / TOKENIZER_FILE, documents / TOKENIZER_FILE)
    np.save(documents / STEP_FILE, _step(documents, model, terms, tokens), allow_pickle=False)

    def seal(folder: Path, kind: Kind, name: str) -> EncoderSpec:
        return EncoderSpec.seal(
            folder, kind=kind, name=name, dim=terms, max_tokens=tokens, license=model.license, source=model.name,
            query_prefix=model.query_prefix, document_prefix=model.document_prefix,
        )  # fmt: skip

    if model.queries is not None:
        queries = directory / QUERIES
        queries.mkdir()
        np.save(queries / TERM_WEIGHTS_FILE, model.query_weights(terms), allow_pickle=False)
        shutil.copyfile(model.queries / TOKENIZER_FILE, queries / TOKENIZER_FILE)
        seal(queries, "term_weights", f"{model.name} (queries)")
    # Written last: this description marks both as complete.
    return seal(documents, "sparse", model.name)


def _step(documents: Path, model: SparseModel, terms: int, tokens: int) -> np.ndarray:
    """Return the weight of an impact of 1, (1,) float32, so that the heaviest term of a constant text fits."""
    from tokenizers import Tokenizer

    session = open_session(documents / MODEL_FILE, (terms,))
    tokenizer = Tokenizer.from_file(str(documents / TOKENIZER_FILE))
    tokenizer.no_padding()
    tokenizer.enable_truncation(tokens)
    largest = 0.0
    for piece in sample_pieces()[:_SAMPLED]:
        ids = np.array([tokenizer.encode(piece).ids], np.int64)
        largest = max(largest, float(np.asarray(session.run(None, {"input_ids": ids})[0]).max()))
    if not 0 < largest < float("inf"):
        raise InvalidArgumentError(
            f"{model.name}: its heaviest term of a sample of code weighs {largest}, expected a positive number",
            suggestion="take a model that was trained for sparse retrieval",
        )
    return np.array([largest * _HEADROOM / MAX_IMPACT], np.float32)
