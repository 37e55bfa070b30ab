"""Retention over delta versions: what lies over a base keeps it, whatever was removed, held or refused before."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codequarry.pipelines.publish import retention
from codequarry.pipelines.publish.publish import publishing
from codequarry.pipelines.publish.retention import prune
from codequarry.schemas.bundle.layout import BundleRoot, Current
from codequarry.schemas.bundle.refs import RefName, left_versions, ref_file
from codequarry.schemas.settings.load import BundleSettings
from codequarry.serving.files.integrity import is_whole
from codequarry.serving.files.lease import hold_version
from tests.faults.scenes.scene import NEW, OLD, OLDEST, Scene
from tests.faults.scenes.stacked import BASE

days = st.integers(0, 30)


@settings(max_examples=60)
@given(complete=st.sets(days, min_size=1, max_size=4), over=st.dictionaries(days, st.integers(0), max_size=8),
       current=st.integers(0), refs=st.lists(st.integers(0), max_size=2), left=st.sets(days), held=st.sets(days),
       keep=st.integers(2, 4))  # fmt: skip
def test_no_prune_takes_the_base_of_a_version_that_stays(
    complete: set[int], over: dict[int, int], current: int, refs: list[int], left: set[int], held: set[int],
    keep: int,
) -> None:  # fmt: skip
    """Versions exist in name only; some of them readers hold, so that they outlive what retention decides."""
    name = {
        age: f"{datetime(2026, 11, 22, tzinfo=UTC) - timedelta(days=age):%Y%m%dT%H%M%SZ}-0000000a" for age in range(31)
    }
    bases, every = sorted(complete), sorted(complete | set(over))
    base_of = {name[age]: name[bases[at % len(bases)]] for age, at in over.items() if age not in complete}
    named = [name[every[at % len(every)]] for at in (current, *refs)]

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        root = BundleRoot(Path(folder))
        root.refs.mkdir()
        for age in every:
            root.version(name[age]).path.mkdir(parents=True)
        for age in left:
            (root.refs / f".left-{name[age]}").touch()
        root.current.write_text(Current(named[0], "0" * 64).line())
        for number, version in enumerate(named[1:]):
            ref_file(root, RefName("app", f"branch{number}")).write_text(Current(version, "0" * 64).line())
        remove, kept = retention.remove_version, set[str]()
        patch.setattr(retention, "is_whole", lambda paths: paths.path.is_dir())
        patch.setattr(
            retention, "bases_of", lambda _root, names: {one: base_of[one] for one in names if one in base_of}
        )
        patch.setattr(retention, "remove_version", lambda at, one, dry_run: one not in kept and remove(at, one))
        for ages in (held, ()):
            kept = {name[age] for age in ages}
            pruned = prune(root, BundleSettings(root=root.path, keep_versions=keep))
            stay = set(root.version_names())
            assert not set(pruned.removed) & stay
            assert set(named) <= stay
            assert {base_of[one] for one in stay if one in base_of} <= stay
        free = {one for one in stay if one not in named and one not in base_of.values()}
        assert len(free) <= keep, "nothing keeps these"
        assert [one for one in left_versions(root) if one in named or one not in stay] == []


def test_a_base_goes_after_the_last_version_over_it(leaving_template: Scene, tmp_path: Path) -> None:
    scene = leaving_template.copy(tmp_path / "base")
    with hold_version(scene.root.version(OLDEST)):
        pruned = scene.publish().pruned
        assert pruned is not None and set(pruned.held) == {BASE, OLDEST}
        assert is_whole(scene.root.version(OLDEST))
    with publishing(scene.root):
        assert prune(scene.root, scene.settings.bundle).removed == (OLDEST, BASE)
    assert scene.root.version_names() == [OLD, NEW]
    assert scene.check(allowed=(NEW,)) == NEW
