"""The index of files and the ranking profile in real versions: built, checked, carried and used."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from codequarry.pipelines.run import index_repositories
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.ranking_profile import BUILT_IN
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.engine.engine import Engine
from codequarry.serving.files.file_index import FileIndex
from codequarry.serving.version.file_checks import check_version
from codequarry.serving.version.open import Bundle
from tests.pipelines.conftest import MakeSettings, Run
from tests.pipelines.corpus import write_shop
from tests.pipelines.repositories import commit

FILES = {
    "lib/mime.c": '#include "mime.h"\nint mime_size(void) { return 1; }\n',
    "lib/mime.h": "int mime_size(void);\n",
    "lib/main.c": '#include "mime.h"\nint main(void) { return mime_size(); }\n',
    "build/out.min.js": "var a=1;\n",
}


@pytest.fixture
def report(tmp_path: Path, make_settings: MakeSettings):
    commit(tmp_path / "app", FILES)
    return index_repositories(make_settings(tmp_path / "app"))


def test_it_knows_the_indexed_files_and_who_uses_them(report) -> None:
    paths = BundlePaths(report.path)
    facts = np.load(paths.files / "facts.npy")
    indexed = ["lib/main.c", "lib/mime.c", "lib/mime.h"]
    assert report.manifest.counts.files == len(indexed)
    index = FileIndex.open(paths.files, facts["row"], report.manifest.encoder.dim)
    assert index.facts["header"].tolist() == [False, False, True]
    assert index.facts["fan_in"].tolist() == [0, 2, 2]  # the implementation is used by what includes its header
    assert index.facts["code_lines"].min() > 0
    assert np.linalg.norm(index.cards[0].astype(np.float32), axis=1) == pytest.approx(1, abs=1e-3)
    assert all(check.passed for check in check_version(paths, report.manifest))


@pytest.mark.parametrize("damage", ["cards", "facts", "gone"])
def test_a_damaged_one_is_not_fit_to_publish(report, damage: str) -> None:
    paths = BundlePaths(report.path)
    if damage == "gone":
        (paths.files / "postings.npy").unlink()
    else:
        array = np.load(paths.files / f"{damage}.npy")
        array[0] = np.nan if damage == "cards" else 0
        array[:1] = array[-1:] if damage == "facts" else array[:1]
        (paths.files / f"{damage}.npy").unlink()
        np.save(paths.files / f"{damage}.npy", array)
    failed = [check.name for check in check_version(paths, report.manifest) if not check.passed]
    assert failed == ["index of files"]


def test_a_profile_of_ones_own_travels_in_the_version_and_ranks(tmp_path: Path, run: Run) -> None:
    shop = write_shop(tmp_path)
    own = BUILT_IN.model_copy(update={"name": "mine", "file": BUILT_IN.file.model_copy(update={"card": 7.0})})
    (tmp_path / "mine.json").write_text(own.model_dump_json())
    (tmp_path / "settings.toml").write_text('[ranking]\nprofile = "mine.json"\n')
    root = tmp_path / "bundles"
    assert run("index", shop, "--root", root).returncode == 0
    first = (root / "CURRENT").read_text()
    done = run("index", shop, "--root", root, "--settings", tmp_path / "settings.toml")
    assert done.returncode == 0, done.stderr
    assert (root / "CURRENT").read_text() != first  # another profile is another version
    assert json.loads((Path(done.stdout.strip()) / "ranking.json").read_bytes())["name"] == "mine"
    engine = Engine(Bundle.open_current(root), ServingSettings())
    try:
        answer = engine.search(SearchRequest(query="how are orders kept", explain=True))
    finally:
        engine.close()
    assert answer.results[0].metadata.explain.scoring.file["card"].weight == 7.0


def test_a_profile_that_is_none_is_refused_before_anything_is_published(tmp_path: Path, run: Run) -> None:
    shop = write_shop(tmp_path)
    (tmp_path / "settings.toml").write_text('[ranking]\nprofile = "mine.json"\n')
    for content in (None, "{}"):
        if content is not None:
            (tmp_path / "mine.json").write_text(content)
        done = run("index", shop, "--root", tmp_path / "bundles", "--settings", tmp_path / "settings.toml")
        assert (done.returncode > 0, "profile" in done.stderr) == (True, True)
        assert not (tmp_path / "bundles" / "CURRENT").exists()
