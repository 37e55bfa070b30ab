"""The examples in docstrings are executed."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import codequarry.assets
import codequarry.pipelines
import codequarry.schemas
import codequarry.serving

LAYERS = (codequarry.schemas, codequarry.pipelines, codequarry.serving, codequarry.assets)


def test_every_example_gives_what_its_docstring_says() -> None:
    attempted, failed = 0, {}
    for layer in LAYERS:
        names = [found.name for found in pkgutil.walk_packages(layer.__path__, f"{layer.__name__}.")]
        for name in (layer.__name__, *names):
            outcome = doctest.testmod(importlib.import_module(name))
            attempted += outcome.attempted
            if outcome.failed:
                failed[name] = outcome.failed
    assert failed == {}
    assert attempted > 10
