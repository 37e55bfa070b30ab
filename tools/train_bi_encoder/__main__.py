"""``python -m tools.train_bi_encoder``: MiniLM, fine-tuned on pairs of documentation and code."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from codequarry.pipelines.adapt.held_out import interval, mean
from codequarry.pipelines.cli.progress import Bars
from codequarry.schemas.install_hints import missing_extra
from codequarry.serving.encoders.spec import open_encoder
from tools.train_bi_encoder.bi_encoder_recipe import BiEncoderRecipe
from tools.train_encoder.program_end import run_program
from tools.train_encoder.sources import PINNED
from tools.train_encoder.train import measure_ranks, teacher

_DEFAULTS = BiEncoderRecipe()


def train_bi_encoder(
    out: Annotated[Path, typer.Option("--out", help="Folder of the encoder; its files are replaced.")],
    folder: Annotated[
        Path, typer.Option(help="Keeps packages, pairs and checkpoints, about 4 GB; that of tools.train_encoder.")
    ] = Path(".codequarry/training"),
    sources: Annotated[
        Path, typer.Option(help="A list of packages.", show_default="sources.toml of tools.train_encoder")
    ] = PINNED,
    pairs: Annotated[int, typer.Option(min=1, help="Pairs to train on, each once.")] = _DEFAULTS.pairs,
    batch: Annotated[int, typer.Option(min=2, help="Pairs of a step.")] = _DEFAULTS.batch,
    rate: Annotated[float, typer.Option(help="Largest learning rate.")] = _DEFAULTS.rate,
    seed: Annotated[int, typer.Option(help="Of the choice of pairs and of their order.")] = _DEFAULTS.seed,
    evaluate: Annotated[
        bool, typer.Option("--evaluate/--no-evaluate", help="Compare it with MiniLM on packages it never saw.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was measured as JSON.")] = False,
) -> None:
    """Fine-tune all-MiniLM-L6-v2 on the pairs of pinned packages, and export it in int8.

    About 30 pairs a second on two cores with bfloat16 instructions. A run that was ended goes on from its last
    checkpoint. The encoder is used with `[embedding.second] folder`, beside the static one. Needs the extras models and
    transformers, and MiniLM's weights.

    Examples:

      python -m tools.train_bi_encoder --out code-small

      python -m tools.train_bi_encoder --out code-small --pairs 20000 --no-evaluate
    """
    for module in ("torch", "safetensors"):
        if find_spec(module) is None:
            raise missing_extra("training a bi-encoder", "transformers", missing=module)
    from tools.train_bi_encoder.program import train

    recipe = BiEncoderRecipe(pairs=pairs, batch=batch, rate=rate, seed=seed)
    with Bars() as bars:
        spec, packages = train(out, folder, sources, recipe, bars.show)
        own, other = {}, {}
        if evaluate:
            own = measure_ranks(open_encoder(out), packages, bars.show)
            other = measure_ranks(teacher(folder), packages, bars.show)
    if as_json:
        ranks = {name: {"encoder": float(own[name].mean()), "minilm": float(other[name].mean())} for name in own}
        typer.echo(json.dumps({"fingerprint": spec.fingerprint, "mrr@10": ranks}, indent=1))
        return
    answer = Console()
    answer.print(f"{out}: fingerprint {spec.fingerprint[:12]}", highlight=False)
    if evaluate:
        low, high = interval(own, other)
        answer.print(
            f"MRR@10 over {len(own)} held-out packages: {mean(own):.3f}, MiniLM {mean(other):.3f}, "
            f"difference {low:+.3f} to {high:+.3f}",
            highlight=False,
        )


def main() -> None:
    """Run the command, see `run_program`."""
    run_program(train_bi_encoder, "python -m tools.train_bi_encoder")


if __name__ == "__main__":
    main()
