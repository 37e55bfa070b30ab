"""``codequarry index --adapt``: the encoder is fitted before chunks are embedded; kept with its verdict, or not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codequarry.pipelines.adapt.stage import adapt_encoder, adapted_folders
from codequarry.pipelines.adapt.tuning import histories
from codequarry.pipelines.embed.encoders import SHIPPED, read_adapted
from codequarry.pipelines.run import index_repositories
from codequarry.pipelines.sources.snapshot import snapshot_repository
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.schemas.bundle.manifest import Manifest, from_json
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings.load import Settings
from codequarry.serving.encoders.spec import EncoderSpec
from tests.pipelines.adapt.test_tuning import jargon, write
from tests.pipelines.conftest import MakeSettings, Run
from tests.pipelines.gates.test_tiers import own_store
from tests.pipelines.repositories import commit

BASE = EncoderSpec.load(SHIPPED).fingerprint


def manifest_of(version: Path) -> Manifest:
    return from_json((version / "manifest.json").read_bytes())


@pytest.mark.slow
def test_an_encoder_that_is_better_goes_into_the_bundle_with_its_verdict(tmp_path: Path, run: Run) -> None:
    app, root = write(tmp_path / "app", jargon(60, learnable=True)), ("--root", tmp_path / "bundles")
    done = run("index", app, "--adapt", *root)
    assert done.returncode == 0, done.stderr
    version = Path(done.stdout.strip())
    encoder = manifest_of(version).encoder
    assert encoder.fingerprint != BASE
    assert encoder.adaptation.startswith("kept: own code ")
    assert f"fitted to the repositories: {encoder.adaptation}" in " ".join(done.stderr.split())
    verdict = EncoderSpec.load(version / "encoder").adapted
    assert verdict is not None
    assert (verdict.base, str(verdict)) == (BASE, encoder.adaptation)
    found = json.loads(run("search", "harvest and winnow", "--channel", "faiss", "--json", *root).stdout)
    assert "zorb" in found["results"][0]["snippet"]
    assert run("index", app, "--adapt", *root).stdout.strip() == str(version)
    again = run("index", app, "--adapt", "--force", *root)
    assert manifest_of(Path(again.stdout.strip())).digest == manifest_of(version).digest
    back = run("index", app, "--no-adapt", *root)
    assert (manifest_of(Path(back.stdout.strip())).encoder.fingerprint, back.returncode) == (BASE, 0)


@pytest.mark.slow
def test_an_encoder_that_is_not_better_is_not_used_and_the_bundle_says_so(
    tmp_path: Path, make_settings: MakeSettings
) -> None:
    app = write(tmp_path / "app", jargon(30, learnable=False))
    made = own_store(make_settings(app, embedding={"adapt": True}), tmp_path)
    report = index_repositories(made)
    assert report.adaptation is not None
    assert (report.adaptation.kept, report.adaptation.reused) == (False, False)
    assert report.manifest.encoder.fingerprint == BASE
    assert report.manifest.encoder.adaptation == report.adaptation.said
    assert report.adaptation.said.startswith("not kept: own code ")
    assert index_repositories(made).unchanged
    repeated = index_repositories(made, force=True)
    assert repeated.adaptation is not None
    assert repeated.adaptation.reused


def small(tmp_path: Path, make_settings: MakeSettings) -> Settings:
    """Too little to tell anything."""
    app = write(tmp_path / "app", jargon(2, learnable=True))
    return own_store(make_settings(app, embedding={"adapt": True}), tmp_path)


def test_too_little_to_tell_stops_nothing(tmp_path: Path, make_settings: MakeSettings) -> None:
    made = small(tmp_path, make_settings)
    report = index_repositories(made)
    assert report.manifest.encoder.fingerprint == BASE
    assert report.manifest.encoder.adaptation == (
        "not tried: 8 documented definitions to ask about, expected at least 30"
    )
    assert report.adaptation is not None
    assert not report.adaptation.kept


def test_what_a_killed_run_or_a_bad_disk_left_is_made_again(tmp_path: Path, make_settings: MakeSettings) -> None:
    made = small(tmp_path, make_settings)
    index_repositories(made)
    for repository in repositories_by_name(made.sources.repositories).values():
        snapshot_repository(repository, made)  # as each run does first: a publish removes the contents
    (result,) = adapted_folders(made).glob("[!.]*/result.json")
    for damage in (b"", b"{}", b"[]", result.read_bytes().replace(b"false", b"true")):
        result.write_bytes(damage)
        report = adapt_encoder(made)
        assert report is not None
        assert (report.reused, report.kept) == (False, False)
    assert adapt_encoder(made) is not None
    assert read_adapted(made) is not None
    without = made.model_copy(update={"embedding": made.embedding.model_copy(update={"adapt": False})})
    assert adapt_encoder(without) is None
    assert read_adapted(made) is None


def test_what_cannot_be_fitted_is_refused_before_any_work(tmp_path: Path, make_settings: MakeSettings) -> None:
    app = write(tmp_path / "app", jargon(2, learnable=True))
    made = make_settings(app, embedding={"adapt": True, "model": "minilm"})
    with pytest.raises(InvalidArgumentError, match="model is minilm, expected static"):
        index_repositories(made)
    assert not list((made.paths.work / "repositories").glob("*/parts/*"))


def test_history_is_read_where_there_is_some(tmp_path: Path, make_settings: MakeSettings) -> None:
    app, plain = tmp_path / "app", write(tmp_path / "plain", jargon(2, learnable=True))
    commit(app, {"a.py": "def load(path):\n    return open(path)\n"})
    commit(app, {"a.py": "def load(path):\n    with open(path) as stream:\n        return stream.read()\n"})
    made = own_store(make_settings(app, plain, embedding={"adapt": True}), tmp_path)
    index_repositories(made)
    found = {history.name: history.commits for history in histories(made)}
    assert [[change.path for change in one.changes] for one in found["app"]] == [["a.py"]]
    assert found["plain"] == ()
    result = read_adapted(made)
    assert result is not None
    commit(app, {"a.py": "def load(path):\n    return path.read_text(encoding='utf-8')\n"})
    index_repositories(made)
    later = read_adapted(made)
    assert later is not None
    assert later.result != result.result
