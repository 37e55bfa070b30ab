"""Late interaction through the doors: index, search, explain, doctor, and what happens when a part is missing."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from codequarry.pipelines.cli import root as cli
from codequarry.pipelines.run import IndexReport, index_repositories
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.errors import PublishError, UnavailableError
from codequarry.schemas.settings.load import (
    BundleSettings,
    PathsSettings,
    RepositorySettings,
    ServingSettings,
    Settings,
    SourcesSettings,
    WarpSettings,
)
from codequarry.schemas.wire.search import SearchFilters, SearchRequest, to_wire
from codequarry.serving.channels.base import ChannelQuery
from codequarry.serving.channels.warp.channel import WarpChannel
from codequarry.serving.channels.warp.explain import MAX_BYTES, MAX_PAIRS
from codequarry.serving.engine.engine import Engine
from codequarry.serving.text.query_classes import analyze_query
from codequarry.serving.tools.search import WEAK_MATCH
from codequarry.serving.version.file_checks import check_version
from codequarry.serving.version.open import Bundle
from tests.serving.scores import recomputed

SESSIONS = '''"""Sessions of visitors."""


class SessionStore:
    """Keeps sessions until they expire."""

    def remove_expired(self, now):
        größe = "日本語 é"; outdated = [key for key, one in self.entries.items() if one.until < now]
        for key in outdated:
            del self.entries[key]
        return größe
'''
FILES = {
    "web/sessions.py": SESSIONS,
    "web/colors.py": "def blend(red, green, blue):\n    return (red + green + blue) / 3\n",
    "io/csv_reader.py": "def read_rows(path):\n    with open(path) as file:\n        return file.read().split(',')\n",
    "io/retry.go": "package io\n\nfunc Retry(call func() error, attempts int) error {\n\treturn call()\n}\n",
}
QUERY = "where are expired sessions removed"
ASKED = ChannelQuery(analyze_query(QUERY), 10)


def warp_settings(home: Path, **changes: object) -> Settings:
    return Settings(
        paths=PathsSettings(store=home / "store", work=home / "work"),
        sources=SourcesSettings(repositories=(RepositorySettings(path=home / "app", name="app"),)),
        warp=WarpSettings.model_validate({"enabled": True, **changes}),
        bundle=BundleSettings(root=home / "bundles"),
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("late")
    for name, text in FILES.items():
        (folder / "app" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "app" / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def report(home: Path) -> IndexReport:
    return index_repositories(warp_settings(home))


@pytest.fixture(scope="module")
def engine(home: Path, report: IndexReport):
    opened = Engine(Bundle.open_current(home / "bundles"), ServingSettings(warp_threads=2))
    yield opened
    opened.close()


def channel_of(bundle: Bundle) -> WarpChannel:
    channel = bundle.channels["warp"]
    assert isinstance(channel, WarpChannel)
    return channel


def test_the_version_describes_its_index(report: IndexReport) -> None:
    entry = report.manifest.warp
    assert entry is not None
    assert (entry.profile, entry.bits, entry.documents) == ("standard", 4, report.manifest.counts.chunks)
    assert entry.tokens > entry.centroids > 0
    checks = check_version(BundlePaths(report.path), report.manifest)
    names = {check.name for check in checks if check.passed}
    assert {"ids of WARP that are not those of the chunks", "fingerprint of the token encoder"} <= names
    assert [check for check in checks if not check.passed] == []


def test_a_search_finds_and_explains(engine: Engine) -> None:
    answer = engine.search(SearchRequest(query=QUERY, channel="warp", top_k=3, explain=True))
    first = answer.results[0]
    assert answer.limits == []
    assert first.metadata.uri == "app/web/sessions.py"
    assert first.source == "warp_standard"
    explain = first.metadata.explain
    assert "late_interaction:maxsim" in explain.hit_reason
    pairs = explain.tokens
    assert 0 < len(pairs) <= MAX_PAIRS
    assert [pair.score for pair in pairs] == sorted((pair.score for pair in pairs), reverse=True)
    assert len(json.dumps([pair.model_dump() for pair in pairs], ensure_ascii=False).encode()) <= MAX_BYTES
    assert {pair.query_token for pair in pairs} <= set(QUERY.split())
    lines = [line.encode() for line in SESSIONS.split("\n")]
    placed = [pair for pair in pairs if pair.line >= 0]
    assert placed
    for pair in placed:
        before, after = lines[pair.line][: pair.column], lines[pair.line][pair.column :]
        assert after.startswith(pair.token.encode())
        # A whole identifier, no piece of one.
        whole = re.match(rb"\w*", after)[0]
        assert pair.token.encode() == whole or not whole
        assert not whole or not re.search(rb"\w$", before)
    assert {"remove_expired", "sessions"} & {pair.token for pair in placed}
    assert any(pair.symbol.endswith("remove_expired") for pair in pairs)


def test_in_hybrid_it_is_asked_where_there_is_doubt(engine: Engine) -> None:
    late: list[str] = []
    for query in (QUERY, "the mean of three numbers", "a b c", "remove_expired"):
        answer = engine.search(SearchRequest(query=query, explain=True))
        assert set(answer.limits) <= {WEAK_MATCH}
        for result in to_wire(answer)["results"]:
            explain = result["metadata"]["explain"]
            assert recomputed(explain) == pytest.approx(result["score"], rel=1e-9)
            assert len(json.dumps(explain, ensure_ascii=False).encode()) <= MAX_BYTES
            assert ("warp" in explain["channels"]) == bool(explain.get("tokens"))
        late.append(answer.results[0].metadata.explain.scoring.late)
        assert ("warp" in answer.results[0].metadata.explain.channels) == late[-1].startswith("ran: ")
    assert {one.split(":")[0] for one in late} == {"ran", "skipped"}
    assert late[-1] == "skipped: it has no weight"


def test_places_count_bytes_behind_characters_of_many(engine: Engine) -> None:
    answer = engine.search(SearchRequest(query="outdated", channel="warp", top_k=1, explain=True))
    (pair,) = [each for each in answer.results[0].metadata.explain.tokens if each.query_token == "outdated"]
    line = SESSIONS.split("\n")[pair.line].encode()
    assert pair.token == "outdated"
    assert line[pair.column :].startswith(b"outdated")


def test_filters_and_order(engine: Engine) -> None:
    everything = engine.search(SearchRequest(query=QUERY, channel="warp", top_k=50, explain=True)).results
    assert len(everything) == len(engine.bundle.directory.chunk_ids)
    go = engine.search(SearchRequest(query=QUERY, channel="warp", filters=SearchFilters(lang=["go"]), explain=True))
    assert {result.metadata.uri for result in go.results} == {"app/io/retry.go"}
    channel = channel_of(engine.bundle)
    ids = np.array([int(result.id) for result in everything])
    scores = channel.rescore(ASKED, ids)
    assert scores.tolist() == [result.metadata.explain.channels["warp"].score for result in everything]
    assert (np.diff(scores) <= 0).all()
    assert scores.max() <= channel.query_tokens(ASKED.query)
    unknown = channel.rescore(ASKED, np.array([ids[0], 17]))
    assert unknown[0] == scores[0] and np.isnan(unknown[1])


def test_a_long_query_is_cut_and_the_answer_says_so(engine: Engine) -> None:
    answer = engine.search(SearchRequest(query="expired session " * 40, channel="warp", explain=True))
    assert answer.limits == ["late interaction read the first 32 tokens of the query"]
    assert answer.results


def test_the_command_line_explains(
    home: Path, report: IndexReport, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(home / "bundles")
    monkeypatch.setattr(sys, "argv", ["codequarry", "search", QUERY, "--channel", "warp", "--explain", "--root", root])
    with pytest.raises(SystemExit) as left:
        cli.main()
    shown = capsys.readouterr().out
    assert not left.value.code
    assert "web/sessions.py" in shown
    assert "expired ~ remove_expired" in shown and "column" in shown


def test_the_same_sources_take_the_index_over_and_a_change_makes_it_anew(home: Path, report: IndexReport) -> None:
    copied = home.with_name("again")
    shutil.copytree(home, copied, symlinks=True)
    settings = warp_settings(copied)
    before = BundlePaths(index_repositories(settings, force=True).path)
    (copied / "app" / "web" / "colors.py").write_text("def mix(red, green):\n    return red or green\n")
    changed = index_repositories(settings)
    after = BundlePaths(changed.path)
    model = "encoder/model.onnx.data"
    assert (before.warp / model).stat().st_ino == (after.warp / model).stat().st_ino
    assert (before.warp / "doc_codes.npy").stat().st_ino != (after.warp / "doc_codes.npy").stat().st_ino
    again = index_repositories(settings, force=True)
    assert again.unchanged or (BundlePaths(again.path).warp / "pids.npy").stat().st_nlink > 1
    assert again.manifest.warp == changed.manifest.warp
    without = index_repositories(settings.model_copy(update={"warp": WarpSettings()}))
    assert without.manifest.warp is None
    assert not BundlePaths(without.path).warp.exists()
    with pytest.raises(KeyError):
        channel_of(Bundle.open_current(copied / "bundles"))


def test_a_damaged_index_is_not_fit_to_publish(home: Path, report: IndexReport, tmp_path: Path) -> None:
    paths = BundlePaths(Path(shutil.copytree(report.path, tmp_path / report.path.name)))
    pids = np.load(paths.warp / "pids.npy")
    pids[3] = len(pids) + 10
    np.save(paths.warp / "pids.npy", pids)
    failed = [check for check in check_version(paths, report.manifest) if not check.passed]
    assert [(check.name, check.found) for check in failed] == [
        ("postings and tokens of late interaction that lead nowhere", "1")
    ]
    (paths.warp / "levels.npy").unlink()
    failed = [check for check in check_version(paths, report.manifest) if not check.passed]
    assert [check.name for check in failed] == ["late-interaction index"]
    with pytest.raises(UnavailableError, match=r"levels\.npy"):
        WarpChannel.open(paths.warp, report.manifest.warp, report.manifest.counts.chunks)  # pyright: ignore[reportArgumentType]


def test_without_numba_the_channel_is_off_and_rescoring_is_not(
    home: Path, report: IndexReport, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "codequarry.serving.channels.warp.kernels", raising=False)
    from codequarry.serving.channels import warp

    monkeypatch.delattr(warp, "kernels", raising=False)
    bundle = Bundle.open_current(home / "bundles")
    ids = np.array([int(one) for one in bundle.directory.chunk_ids])
    found = channel_of(bundle).rescore(ASKED, ids)
    assert found.tobytes() == channel_of(engine.bundle).rescore(ASKED, ids).tobytes()
    plain = Engine(bundle, ServingSettings())
    answer = plain.search(SearchRequest(query=QUERY, channel="warp", explain=True))
    assert answer.results == []
    assert answer.limits == [
        "channel warp is off: a wide search by late interaction needs the extra 'warp' (numba is not installed); "
        "run: pip install 'codequarry[warp]'"
    ]
    plain.close()


def test_without_onnx_runtime_the_channel_is_off(
    home: Path, report: IndexReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    plain = Engine(Bundle.open_current(home / "bundles"), ServingSettings())
    answer = plain.search(SearchRequest(query=QUERY, channel="warp", explain=True))
    assert answer.results == []
    assert "channel warp is off: " in answer.limits[0] and "onnxruntime is not installed" in answer.limits[0]
    assert plain.search(SearchRequest(query=QUERY, explain=True)).results  # the others answer
    plain.close()


def test_compact_and_two_bits_through_the_same_doors(home: Path, report: IndexReport) -> None:
    copied = home.with_name("compact")
    shutil.copytree(home, copied, symlinks=True)
    made = index_repositories(warp_settings(copied, profile="compact", bits=2, punctuation=True))
    assert made.manifest.warp is not None and report.manifest.warp is not None
    assert made.manifest.warp.tokens > 1.3 * report.manifest.warp.tokens
    engine = Engine(Bundle.open_current(copied / "bundles"), ServingSettings())
    answer = engine.search(SearchRequest(query=QUERY, channel="warp", top_k=1, explain=True))
    assert answer.results[0].metadata.uri == "app/web/sessions.py"
    assert answer.results[0].source == "warp_compact"
    assert answer.results[0].metadata.explain.tokens
    engine.close()


def test_a_publish_with_other_documents_is_refused(home: Path, report: IndexReport, tmp_path: Path) -> None:
    from codequarry.pipelines.gates.required_content import check_contents

    paths = BundlePaths(Path(shutil.copytree(report.path, tmp_path / report.path.name)))
    ids = np.load(paths.warp / "chunk_ids.npy")
    ids[0] -= 1
    np.save(paths.warp / "chunk_ids.npy", ids)
    with pytest.raises(PublishError, match="ids of WARP that are not those of the chunks: 2, expected 0"):
        check_contents(paths, report.manifest, warp_settings(home).checks)
