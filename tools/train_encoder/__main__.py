"""``python -m tools.train_encoder``: the shipped encoder, made again from its sources."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from codequarry.pipelines.adapt.contrastive import Recipe
from codequarry.pipelines.adapt.held_out import HeldOut, interval
from codequarry.pipelines.cli.progress import Bars
from codequarry.serving.encoders.spec import open_encoder
from tools.train_encoder import train
from tools.train_encoder.program_end import run_program
from tools.train_encoder.sources import PINNED


def train_encoder(
    out: Annotated[Path, typer.Option("--out", help="Folder of the encoder; its files are replaced.")],
    folder: Annotated[Path, typer.Option(help="Keeps packages and pairs, about 3 GB.")] = Path(".codequarry/training"),
    sources: Annotated[
        Path, typer.Option(help="A list of packages.", show_default="sources.toml beside this program")
    ] = PINNED,
    seed: Annotated[int, typer.Option(help="Of the choice of pairs and of the training.")] = 0,
    evaluate: Annotated[
        bool, typer.Option("--evaluate/--no-evaluate", help="Compare it with MiniLM on packages it never saw.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was made and measured as JSON.")] = False,
) -> None:
    """Train the static encoder of this version again, from pinned packages of PyPI, npm and Debian.

    Fetches what is not in the folder yet, finds pairs of documentation and code by syntax, and trains, in about a
    quarter of an hour. pip, npm and apt-get have to be there, the latter with source packages (deb-src) of Debian 12.
    The same list and seed give the same bytes on one machine. Needs the extras models and train.

    Examples:

      python -m tools.train_encoder --out my-encoder

      python -m tools.train_encoder --out my-encoder --sources my-sources.toml --seed 1 --no-evaluate
    """
    with Bars() as bars:
        trained = train.train_encoder(out, folder, sources=sources, recipe=Recipe(seed=seed), progress=bars.show)
        own, other = {}, {}
        if evaluate:
            own = train.measure_ranks(open_encoder(out), trained.packages, bars.show)
            other = train.measure_ranks(train.teacher(folder), trained.packages, bars.show)
    size = sum((out / name).stat().st_size for name in trained.spec.sha256)
    pairs: Counter[str] = Counter()
    for (lang, _), count in trained.pairs.items():
        pairs[lang] += count
    if as_json:
        per_package = {
            package.name: {
                "lang": package.lang,
                "queries": len(package.queries),
                "encoder": float(own[package.name].mean()),
                "minilm": float(other[package.name].mean()),
            }
            for package in trained.packages
            if evaluate
        }
        made = {"fingerprint": trained.spec.fingerprint, "bytes": size, "pairs": dict(pairs)}
        typer.echo(json.dumps({**made, "cpu_seconds": trained.cpu_seconds, "mrr@10": per_package}, indent=1))
        return
    answer = Console()
    answer.print(f"{out}: {size / 1e6:.1f} MB, fingerprint {trained.spec.fingerprint[:12]}", highlight=False)
    answer.print("pairs: " + ", ".join(f"{lang} {count:,}" for lang, count in pairs.most_common()), highlight=False)
    spent = ", ".join(f"{step} {seconds:.0f}" for step, seconds in trained.cpu_seconds.items())
    answer.print(f"CPU seconds: {spent}; {sum(trained.cpu_seconds.values()):.0f} in all", highlight=False)
    if evaluate:
        low, high = interval(own, other)
        answer.print(_compared(trained.packages, own, other))
        answer.print(f"encoder - MiniLM: 95 % interval {low:+.3f} to {high:+.3f}", highlight=False)


def _compared(packages: tuple[HeldOut, ...], own: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> Table:
    """Return MRR@10 by language, and over all packages."""
    table = Table("MRR@10", "packages", "queries", "encoder", "MiniLM", "difference", box=None, padding=(0, 2))
    languages = sorted({package.lang for package in packages})
    for lang in (*languages, "all"):
        chosen = [package for package in packages if lang in (package.lang, "all")]
        means = [sum(float(ranks[one.name].mean()) for one in chosen) / len(chosen) for ranks in (own, other)]
        queries = sum(len(one.queries) for one in chosen)
        figures = (f"{means[0]:.3f}", f"{means[1]:.3f}", f"{means[0] - means[1]:+.3f}")
        table.add_row(lang, str(len(chosen)), f"{queries:,}", *figures)
    return table


def main() -> None:
    """Run the command, see `run_program`."""
    run_program(train_encoder, "python -m tools.train_encoder")


if __name__ == "__main__":
    main()
