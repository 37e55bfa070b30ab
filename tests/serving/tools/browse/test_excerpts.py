from __future__ import annotations

import pytest

from codequarry.serving.tools.browse.excerpts import Excerpt, Excerpts
from tests.serving.bundles.symbol_corpus import INDEX


@pytest.fixture
def file(symbol_engine) -> int:
    return symbol_engine.bundle.directory.paths.index("io/index.py")


def test_excerpts_of_a_file_that_meet_become_one(symbol_engine, file: int) -> None:
    excerpts = Excerpts(symbol_engine.bundle, 10_000)
    assert excerpts.add(Excerpt(file, 6, 7, "open"), 10_000)
    assert excerpts.add(Excerpt(file, 11, 12, "close"), 10_000)
    assert [(one.first, one.last, one.heading) for one in excerpts.shown] == [(6, 7, "open"), (11, 12, "close")]
    assert excerpts.add(Excerpt(file, 8, 8, "end"), 10_000)
    assert [(one.first, one.last, one.heading) for one in excerpts.shown] == [(6, 12, "open")]
    assert excerpts.code(excerpts.shown[0]) == INDEX.text.split("\n")[6:13]
    assert excerpts.holds(file, 9)
    assert not excerpts.holds(file, 5)


def test_the_same_lines_cost_nothing_again(symbol_engine, file: int) -> None:
    excerpts = Excerpts(symbol_engine.bundle, 10_000)
    excerpts.add(Excerpt(file, 3, 8, "Index"), 10_000)
    left = excerpts.left
    assert excerpts.add(Excerpt(file, 4, 6, "again"), 0)
    assert excerpts.left == left


def test_what_costs_too_much_is_not_shown(symbol_engine, file: int) -> None:
    excerpts = Excerpts(symbol_engine.bundle, 60)
    wanted = Excerpt(file, 0, 12, "all")
    assert excerpts.cost(wanted) > 60
    assert not excerpts.add(wanted, 10_000)
    assert not excerpts.add(wanted._replace(last=0), 10)
    assert excerpts.add(wanted._replace(last=0), 10_000)
    assert (excerpts.left >= 0, len(excerpts.shown)) == (True, 1)


def test_blank_lines_at_the_ends_go(symbol_engine, file: int) -> None:
    excerpts = Excerpts(symbol_engine.bundle, 10_000)
    trimmed = excerpts.trim(Excerpt(file, 9, 12, ""))
    assert (trimmed.first, trimmed.last) == (11, 12)
    assert excerpts.trim(Excerpt(file, 9, 10, ""))[1:3] == (9, 9)
