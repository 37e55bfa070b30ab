"""A version whose catalog needs more memory than the limit is built and checked without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from codequarry.pipelines.bundle import catalog
from codequarry.pipelines.run import index_repositories
from codequarry.serving.version import file_checks
from tests.pipelines.conftest import MakeSettings
from tests.pipelines.corpus import write_shop


def test_a_limit_that_is_too_small_costs_nothing_but_the_attempt(
    make_settings: MakeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = write_shop(tmp_path)
    expected = index_repositories(make_settings(shop, home=tmp_path / "one")).manifest.digest
    asked: list[int] = []

    def limit_far_too_much(_spill: str, table_bytes: int) -> list[str]:
        asked.append(table_bytes)
        return ["SET memory_limit = '1MB'", "SET temp_directory = ''"]

    for module in (catalog, file_checks):
        monkeypatch.setattr(module, "limit_memory", limit_far_too_much)
    found = index_repositories(make_settings(shop, home=tmp_path / "two"))
    assert found.manifest.digest == expected
    assert len(asked) == 2, "the catalog and the checks were tried within the limit"
    assert [each.name for each in found.path.parent.iterdir()] == [found.path.name]
