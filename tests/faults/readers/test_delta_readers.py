"""F8, F17: readers of a delta version whose files, or whose base's, are changed, cut short or gone."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from codequarry.pipelines.cli.root import build_app
from codequarry.pipelines.publish.rollback import roll_back
from codequarry.schemas.errors import CodequarryError, IntegrityError, UnavailableError
from codequarry.schemas.wire.search import SearchFilters, SearchRequest
from codequarry.serving.engine.served_refs import ServedRefs
from codequarry.serving.files.integrity import list_files
from codequarry.serving.version.open import Bundle
from tests.faults.scenes.moving import flip
from tests.faults.scenes.scene import OLD, OLDEST, Scene
from tests.faults.scenes.stacked import BASE, REF, Naming, Stacked, line_of
from tests.serving.bundles.versions import followed

ASKED = SearchRequest(query="other1", channel="symbol")
LAYERS = pytest.mark.parametrize("layer", [BASE, OLD], ids=["base", "delta"])


@pytest.fixture
def stacked(stacked_template: Stacked, tmp_path: Path) -> Stacked:
    return stacked_template.copy(tmp_path / "base")


def files_of(scene: Scene, version: str) -> list[Path]:
    """Every file of a version, the manifest too."""
    folder = scene.root.version(version).path
    found = [folder / name for name in list_files(folder)]
    assert len(found) > 40
    return found


@LAYERS
@pytest.mark.parametrize("how", ["missing", "short", "long"])
def test_a_file_that_is_gone_or_of_another_size_is_named_and_nothing_is_opened(
    stacked: Stacked, layer: str, how: str
) -> None:
    for file in files_of(stacked, layer):
        data = file.read_bytes()
        if how == "missing":
            file.unlink()
        else:
            file.write_bytes(data[:-1] if how == "short" else data + b"\0")
        if file.exists() and file.read_bytes() == data:
            continue  # an empty file cannot be shorter
        with pytest.raises(IntegrityError) as refusal:
            Bundle.open_current(stacked.root.path)
        assert file.name in refusal.value.message, refusal.value.message
        assert (BASE if layer == BASE else OLD) in refusal.value.message
        assert "again" in refusal.value.suggestion, refusal.value.suggestion
        file.write_bytes(data)
    assert stacked.check(allowed=(OLD,)) == OLD


@LAYERS
def test_a_flipped_bit_in_any_file_is_found_by_all_that_read_every_byte(stacked: Stacked, layer: str) -> None:
    dice = random.Random(layer)
    for file in files_of(stacked, layer):
        data = bytearray(file.read_bytes())
        if not data:
            continue
        place = dice.randrange(len(data))
        data[place] ^= 1 << place % 8
        file.write_bytes(data)
        with pytest.raises(CodequarryError) as refusal:
            roll_back(stacked.root, OLD)
        assert file.relative_to(stacked.root.version(layer).path).as_posix() in str(refusal.value)
        data[place] ^= 1 << place % 8
        file.write_bytes(data)
    assert stacked.check(allowed=(OLD,)) == OLD


@LAYERS
def test_every_command_says_what_is_damaged_and_what_to_do(stacked: Stacked, layer: str) -> None:
    flip(stacked.root.version(layer).catalog)
    deep = CliRunner().invoke(build_app(), ["verify", "--deep", "--root", str(stacked.root.path)])
    stacked.root.version(layer).catalog.unlink()
    asked = CliRunner().invoke(build_app(), ["search", "other1", "--root", str(stacked.root.path)])
    for done in (deep, asked):
        said = f"{done.output} {done.exception}"
        assert done.exit_code == 1
        assert layer in said and "catalog.duckdb" in said and "again" in said and "Traceback" not in said, said


@pytest.mark.parametrize("how", ["flipped", "short"])
def test_a_server_whose_base_is_damaged_serves_no_other_delta_over_it(stacked: Stacked, how: str) -> None:
    """Prevents the regression in which versions before it were opened over the same base, which was not read again."""
    engine, follower = followed(stacked.root.path)
    try:
        follower.check()
        assert follower.verified and len(engine.search(ASKED).results) == 1
        catalog = stacked.root.version(BASE).catalog
        if how == "flipped":
            flip(catalog)
        else:
            os.truncate(catalog, 4096)
        follower.check()
        follower.watch()
        with pytest.raises(UnavailableError, match=r"catalog\.duckdb"):
            engine.search(ASKED)
    finally:
        engine.served.close()


def test_a_delta_over_a_damaged_base_that_is_open_is_refused(stacked: Stacked) -> None:
    """The server goes on with what it has, without the damaged channel."""
    engine, follower = followed(stacked.root.path)
    try:
        flip(stacked.root.version(BASE).bm25 / "meta.json")
        follower.check()
        before = engine.search(ASKED)
        assert any("meta.json" in limit for limit in before.limits)
        stacked.root.current.write_text(line_of(stacked.root.version(OLDEST)).line())
        follower.look()
        assert engine.bundle.manifest.version == OLD
        assert follower.refusal is not None and "meta.json" in follower.refusal.reason
        assert engine.search(ASKED).results == before.results
    finally:
        engine.served.close()


def test_a_base_that_was_open_before_it_was_read_is_read_with_the_next_delta(stacked: Stacked) -> None:
    engine, follower = followed(stacked.root.path)
    try:
        flip(stacked.root.version(BASE).rows / "chunks.npy")
        stacked.root.current.write_text(line_of(stacked.root.version(OLDEST)).line())
        follower.look()
        assert engine.bundle.manifest.version == OLD
        assert follower.refusal is not None and "rows/chunks.npy" in follower.refusal.reason
    finally:
        engine.served.close()


@pytest.mark.parametrize("damaged", ["bm25/meta.json", "catalog.duckdb"])
def test_a_ref_is_refused_once_the_base_that_it_shares_is_damaged(naming: Naming, damaged: str) -> None:
    engine, follower = followed(naming.root.path)
    engine.refs = follower.refs = ServedRefs(naming.root.path, engine.settings)
    asked = ASKED.model_copy(update={"filters": SearchFilters(ref=REF.ref)})
    try:
        assert len(engine.search(asked).results) == 1
        flip(naming.root.version(BASE).path / damaged)
        follower.check()
        with pytest.raises(IntegrityError, match=f"lies over {BASE}, which cannot be opened.*{damaged}"):
            engine.search(asked)
        flip(naming.root.version(BASE).path / damaged)
        assert len(engine.search(asked).results) == 1, "the base is whole again"
    finally:
        engine.served.close()
        engine.refs.close()
