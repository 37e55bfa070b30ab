"""A model of sentence-transformers as an ONNX encoder, in int8 if that agrees with the original.

The graph takes the tokens of one text and gives its pooled, normalized vector, as `codequarry.serving.encoders.onnx`
runs it. Weights get one int8 scale per output channel. The agreement of the vectors with the original's is measured on
pieces of real code and written into the description. It decides which weights are kept.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

import sysconfig
import tempfile
import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np

from codequarry.pipelines.embed.export.bert import write_model
from codequarry.pipelines.embed.torch import TorchEncoder, load_model
from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.install_hints import missing_extra
from codequarry.schemas.settings.embedding import EncoderSettings
from codequarry.serving.encoders.spec import TOKENIZER_FILE, Agreement, EncoderSpec, open_encoder

LEAST_COSINE = 0.99
"""Least mean cosine of int8 and original vectors; below it the original weights are kept."""
MEASURED_ON = 1_000
_PIECE_LINES = 24
_OPSET = 17


def export_model(directory: Path, embedding: EncoderSettings, *, measured_on: int | None = None) -> EncoderSpec:
    """Write the model of the settings into a directory as an encoder.

    Args:
        directory: Folder of the encoder, created when missing.
        embedding: Settings with the model.
        measured_on: Pieces of code by which int8 is compared with the original; 1,000 when left out.

    Returns:
        Description of the encoder.

    Raises:
        MissingExtraError: As `load_model` does.
        UnavailableError: As `load_model` does; or torch cannot export the model.
    """
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ModuleNotFoundError as error:
        raise missing_extra(f"exporting {embedding.model}", "models", missing=error.name) from None
    model = load_model(embedding, device="cpu", plain=True)
    texts = code_pieces(measured_on or MEASURED_ON)
    original = TorchEncoder(model).encode([embedding.prefixes.document + text for text in texts])
    directory.mkdir(parents=True, exist_ok=True)
    model.tokenizer.backend_tokenizer.save(str(directory / TOKENIZER_FILE))
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".exporting-") as temporary:
        plain, small = Path(temporary) / "float32.onnx", Path(temporary) / "int8.onnx"
        _trace(model, plain, embedding.model)
        _quantize(plain, small)
        ways: tuple[tuple[Path, Literal["int8", "float32"]], ...] = ((small, "int8"), (plain, "float32"))
        for graph, weights in ways:
            write_model(_one_text(graph, original.shape[1]), directory)
            spec = _sealed(directory, embedding, model, None)
            agreement = measure_agreement(weights, original, open_encoder(directory).encode_documents(texts))
            if agreement.mean >= LEAST_COSINE:
                return _sealed(directory, embedding, model, agreement)
    raise UnavailableError(
        f"the exported graph of {spec.name} agrees with the model at a mean cosine of {agreement.mean:.3f} alone",
        suggestion="run the model behind a server, and set [embedding] endpoint",
    )


def code_pieces(count: int) -> list[str]:
    """Return up to ``count`` evenly drawn pieces of Python's standard library, which is available everywhere."""
    pieces: list[str] = []
    for file in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        pieces += ["\n".join(lines[at : at + _PIECE_LINES]) for at in range(0, len(lines), _PIECE_LINES)]
    pieces = [piece for piece in pieces if piece.strip()]
    step = max(1, len(pieces) // count)
    return pieces[::step][:count]


def _trace(model: Any, file: Path, name: str) -> None:
    import torch

    class OneText(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stages = torch.nn.ModuleList(list(model))

        def forward(self, input_ids: Any) -> Any:
            found: dict[str, Any] = {"input_ids": input_ids, "attention_mask": torch.ones_like(input_ids)}
            for each in self.stages:
                found = each(found)
            return torch.nn.functional.normalize(found["sentence_embedding"], dim=-1)

    ids = torch.tensor([model.tokenizer("def open_file(path):\n    return open(path)")["input_ids"]])
    try:
        with warnings.catch_warnings(), torch.inference_mode():
            warnings.simplefilter("ignore")  # the tracer warns about code that is not ours
            torch.onnx.export(
                OneText().eval(),
                (ids,),
                str(file),
                input_names=["input_ids"],
                output_names=["vector"],
                dynamic_axes={"input_ids": {1: "t"}},
                opset_version=_OPSET,
                dynamo=False,
            )
    except Exception as error:  # torch's exporter raises whatever the model's code does
        raise UnavailableError(
            f"torch cannot export {name}: {(str(error).strip().splitlines() or [type(error).__name__])[0]}",
            suggestion="run the model behind a server, and set [embedding] endpoint",
        ) from error


def _quantize(source: Path, target: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(source, target, per_channel=True, reduce_range=True, weight_type=QuantType.QInt8)


def _one_text(file: Path, dim: int) -> Any:
    """Return the graph with its output declared as the vector of one text: a tracer may leave either size open."""
    import onnx

    graph = onnx.load(str(file))
    for size, length in zip(graph.graph.output[0].type.tensor_type.shape.dim, (1, dim), strict=True):
        size.Clear()
        size.dim_value = length
    return graph


def _sealed(directory: Path, embedding: EncoderSettings, model: Any, agreement: Agreement | None) -> EncoderSpec:
    query, document = embedding.prefixes
    return EncoderSpec.seal(
        directory,
        kind="onnx",
        name=Path(embedding.model).name if Path(embedding.model).is_dir() else embedding.model,
        dim=int(model.get_embedding_dimension()),
        max_tokens=model.max_seq_length,
        license=_license(model),
        source=embedding.model if not Path(embedding.model).is_dir() else "a local folder",
        query_prefix=query,
        document_prefix=document,
        model=embedding.model if not Path(embedding.model).is_dir() else Path(embedding.model).name,
        revision=embedding.revision or None,
        documents=f"torch on {embedding.device.partition(':')[0]}" if embedding.device else None,
        agreement=agreement,
    )


def _license(model: Any) -> str:
    return str(getattr(model.model_card_data, "license", None) or "as the model's")


def measure_agreement(weights: Literal["int8", "float32"], original: np.ndarray, exported: np.ndarray) -> Agreement:
    """Return how far the vectors of an export agree with those of its model.

    Args:
        weights: Type of the weights of the export.
        original: (n, d) float32 vectors of norm one, by the model.
        exported: The same by the export.

    Returns:
        Mean and least cosine.
    """
    cosines = (original * exported).sum(axis=1)
    mean, least = (round(float(value), 4) for value in (cosines.mean(), cosines.min()))
    return Agreement(weights=weights, texts=len(cosines), mean=mean, least=least)
