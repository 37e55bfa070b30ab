"""A staged version is asked before it is published: what is worse is named, CURRENT stays, the verdict tells."""

from __future__ import annotations

import base64
import errno
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from codequarry.assets.metadata import SHOWN_CHARS
from codequarry.assets.pieces import frontiers, verdict_metadata
from codequarry.pipelines.cli.root import build_app
from codequarry.pipelines.gates.answers.asked import ann_recall
from codequarry.pipelines.gates.answers.comparison import (
    _ask_questions,
    _ratio,
    delays,
    gate_questions,
    losses,
    question_checks,
    same_files,
)
from codequarry.pipelines.gates.answers.verdict import Comparison, Verdict, markdown, read_verdict, verdict_names
from codequarry.pipelines.gates.live_rows import indexed_files
from codequarry.pipelines.measure.questions import Hit, Question, Target
from codequarry.pipelines.measure.results import Run, difference, summary_of_run
from codequarry.pipelines.run import index_repositories
from codequarry.pipelines.store.row_groups import arrays
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.bundle.tables import read_table, write_vectors
from codequarry.schemas.errors import PublishError
from codequarry.schemas.settings.gates import RetrievalSettings
from codequarry.schemas.settings.load import RepositorySettings, Settings
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.channels.dense import FaissChannel
from codequarry.serving.page.version_history import read_gate_verdict
from codequarry.serving.version.check import Check
from codequarry.serving.version.open import Bundle
from tests.endpoint_server import endpoint_server
from tests.pipelines.indexes.test_faiss import LISTS, functions, write_app
from tests.pipelines.repositories import commit


def settings_of(tmp_path: Path, **sections: dict[str, object]) -> Settings:
    return Settings.model_validate(
        {
            "paths": {"store": tmp_path / "store", "work": tmp_path / "work"},
            "bundle": {"root": tmp_path / "bundles"},
            "sources": {"repositories": [RepositorySettings(path=tmp_path / "app")]},
            "chunking": {"merge_chars": 1},
            "scip": {"enabled": False},
            **sections,
        }
    )


def test_an_honest_edit_is_published_with_a_verdict_that_compares(tmp_path: Path) -> None:
    write_app(tmp_path, 20)
    made = settings_of(tmp_path)
    first = index_repositories(made)
    root = BundleRoot(made.bundle.root)
    assert "| recall@10 of faiss against exact search | passed | 1.000" in read_verdict(root)
    assert "Answers against" not in read_verdict(root)
    commit(tmp_path / "app", {"pkg0/new.py": functions(77)})
    second = index_repositories(made)
    assert root.read_current().version == second.manifest.version
    page = read_verdict(root)
    assert page.startswith(f"# {second.manifest.version}: passed")
    assert f"## Answers against {first.manifest.version}" in page
    assert "| NDCG@10 of python against CURRENT | passed | +0." in page.replace("\\", "")
    assert {file.name for file in (root.verdicts / second.manifest.version).iterdir()} == {
        "verdict.md", "verdict.json", "ndcg_10.svg", "recall_4k.svg", "latency.svg",
    }  # fmt: skip
    alike = same_files(*(indexed_files(BundlePaths(each.path), each.manifest) for each in (second, first)))
    asked = gate_questions(BundlePaths(second.path), alike, 40)
    assert len(asked) == 40
    assert {question.kind for question in asked} == {"python"}
    assert not any(target.path == "pkg0/new.py" for question in asked for target in question.targets)

    written = read_gate_verdict(root, second.manifest.version)
    assert written is not None and written.passed and written.against == first.manifest.version
    assert written.figure("ndcg_10") is not None and written.kinds()[0] == "all"
    shown = verdict_metadata(root, second.manifest.version)
    assert ".svg)" not in shown["verdict"].value
    assert shown["latency"].value.startswith("![Time of a search](data:image/svg+xml;base64,")
    told = CliRunner().invoke(build_app(), ["verdict", "--root", str(root.path)])
    assert (told.exit_code, told.stdout.strip()) == (0, page.strip())
    named = CliRunner().invoke(build_app(), ["verdict", first.manifest.version, "--json", "--root", str(root.path)])
    assert '"passed": true' in named.stdout


def test_questions_are_judged_like_every_table(tmp_path: Path) -> None:
    write_app(tmp_path, 3)
    report = index_repositories(settings_of(tmp_path, retrieval={"enabled": False}))
    paths = BundlePaths(report.path)
    files = indexed_files(paths, report.manifest)
    alike = same_files(files, files)
    asked = gate_questions(paths, alike, 20)
    assert len(asked) == 20
    assert [check.name for check in question_checks(paths, asked) if not check.passed] == []
    (repo, path), target = next(iter(alike)), asked[0].targets[0]
    strange = [
        asked[0],
        asked[0],
        Question("empty", "python", "", (target,)),
        Question("gone", "python", "what", (target._replace(path="gone.py"),)),
        Question("beyond", "python", "what", (Target(path, repo, 3, 10_000),)),
    ]
    found = {check.name: (check.found, check.examples[:1]) for check in question_checks(paths, strange)}
    assert [count for count, _ in found.values()] == ["2", "1", "1", "1"]
    assert "id=beyond" in found["questions about lines outside of their file"][1][0]


def test_few_files_more_are_asked_about_only_when_they_have_become_many(tmp_path: Path) -> None:
    write_app(tmp_path, 20)
    made = settings_of(tmp_path, retrieval={"min_changed_share": 0.15})
    files = index_repositories(made).manifest.counts.files
    root = BundleRoot(made.bundle.root)
    asked = [len(verdict_names(root))]
    changed = 0
    while len(asked) < 8:
        commit(tmp_path / "app", {"pkg0/new.py": functions(100 + changed)})
        changed += 1
        files = index_repositories(made).manifest.counts.files
        asked.append(len(verdict_names(root)))
    quiet = int(0.15 * files)
    assert 1 <= quiet < 7
    assert asked[: quiet + 2] == [1] * (quiet + 1) + [2]
    other = settings_of(tmp_path, retrieval={"min_changed_share": 0.9}, chunking={"merge_chars": 50})
    index_repositories(other)
    assert len(verdict_names(root)) == asked[-1] + 1, "another chunking is asked, whatever changed"


def test_what_was_stopped_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_app(tmp_path, 20)
    made = settings_of(tmp_path, retrieval={"min_changed_share": 0.15})
    files = index_repositories(made).manifest.counts.files
    note = made.paths.work / "asked.json"
    note.write_text(json.dumps({"changed": files}))  # many small changes came before this one
    commit(tmp_path / "app", {"pkg0/new.py": functions(100)})
    worse = Check("answers", False, "worse", "as good", regression=True)
    with monkeypatch.context() as patch:
        patch.setattr("codequarry.pipelines.gates.answers.asked.ask_staged", lambda *_: (worse,))
        for _ in range(2):
            with pytest.raises(PublishError, match="answers: worse"):
                index_repositories(made)
    index_repositories(made)
    assert json.loads(note.read_text()) == {"changed": 0}


def test_an_index_that_reads_too_little_is_stopped_by_its_recall(tmp_path: Path) -> None:
    write_app(tmp_path, 30)
    index_repositories(made := settings_of(tmp_path))
    root = BundleRoot(made.bundle.root)
    before = root.read_current()
    # An operating point that may be any is the cheapest one: a single list.
    with pytest.raises(PublishError, match=r"recall@10 of faiss against exact search: 0\.\d+ \(IVF.*at least 0\.95"):
        index_repositories(settings_of(tmp_path, indexes={**LISTS, "faiss_recall": 0.0}))
    assert root.read_current() == before
    stopped = verdict_names(root)[-1]
    assert stopped not in root.version_names()
    page = read_verdict(root)
    assert "stopped by 1 of" in page
    assert "## Operating points of faiss" in page
    allowed = {"min_ann_recall": 0.0}
    made = index_repositories(settings_of(tmp_path, indexes={**LISTS, "faiss_recall": 0.0}, retrieval=allowed))
    assert root.read_current() != before
    drawn = frontiers(BundlePaths(made.path), made.manifest)["recall_faiss"].value
    svg = base64.b64decode(drawn.rpartition(",")[2].rstrip(")")).decode()
    assert len(drawn) < SHOWN_CHARS
    assert "nprobe=1: recall@10 0." in svg and "vectors compared" in svg


def test_questions_are_embedded_where_the_chunks_are_and_none_pass_when_nobody_does(tmp_path: Path) -> None:
    write_app(tmp_path, 20)
    with endpoint_server() as server:
        made = settings_of(tmp_path, embedding={"endpoint": server.url, "model": "any", "endpoint_retries": 0})
        first = index_repositories(made).manifest.version
        root = BundleRoot(made.bundle.root)
        assert "| recall@10 of faiss against exact search | passed | 1.000" in read_verdict(root)
        commit(tmp_path / "app", {"README.md": "Reads files.\n"})
        server.plan = lambda request: (
            None if all("\n" in text for text in request.payload["input"]) else (500, b"", {})  # no question has lines
        )
        with pytest.raises(PublishError, match="recall@10 of faiss against exact search: not measured: the model serv"):
            index_repositories(made)
        assert root.read_current().version == first


def test_ids_of_other_chunks_and_vectors_of_others_have_no_recall(tmp_path: Path) -> None:
    write_app(tmp_path, 10)
    made = settings_of(tmp_path, retrieval={"enabled": False})
    report = index_repositories(made)
    assert not BundleRoot(made.bundle.root).verdicts.exists()
    paths = BundlePaths(report.path)
    queries = ["merge the session before its window", "parse a price"]

    def recall() -> float:
        bundle = Bundle.open_paths(paths, BundleRoot(made.bundle.root).read_current())
        channel = bundle.channels["faiss"]
        assert isinstance(channel, FaissChannel)
        found, _ = ann_recall(channel, paths, report.manifest.encoder.dim, queries)
        bundle.close()
        return found

    assert recall() == 1.0
    file = paths.table_files("embeddings")[0]
    ids, vectors = arrays(read_table(file), report.manifest.encoder.dim)
    file.unlink()
    write_vectors(file, np.roll(ids, len(ids) // 2), vectors)
    assert recall() < 0.6


def compared(found: int, questions: int = 20) -> Comparison:
    """Of CURRENT, which answers everything, and a version that answers the first ``found`` of each language."""
    asked = [
        Question(f"{kind}{n}", kind, f"ask {kind} {n}", (Target("a.py", "app", n, n),))
        for kind in ("go", "python") for n in range(questions)
    ]  # fmt: skip
    right = [(Hit("app", "a.py", n, n, 100, str(n)),) for _ in range(2) for n in range(questions)]
    own = [hits if n % questions < found else () for n, hits in enumerate(right)]
    runs = [
        Run("staged", tuple(own), (20.0,) * len(asked), {}, frozenset()),
        Run("CURRENT", tuple(right), (10.0,) * len(asked), {}, frozenset()),
    ]
    summaries = {run.name: summary_of_run(asked, run) for run in runs}
    differences = tuple(difference(asked, *runs))
    return Comparison("new", "old", tuple(asked), *runs, summaries, differences)


def test_lost_answers_are_named_by_language_and_may_be_accepted() -> None:
    limits = RetrievalSettings()
    worse = [*losses(compared(found=14), limits), *delays((20.0, 10.0), (20.0, 10.0), limits)]
    failed = [check for check in worse if not check.passed]
    assert {check.name for check in failed} == {
        f"{metric} of {kind} against CURRENT"
        for metric in ("NDCG@10", "R@4k")
        for kind in ("all languages", "go", "python")
    }
    assert all(check.regression for check in worse)
    assert failed[0].examples[0].startswith("'ask go 1")
    page = markdown(Verdict("new", tuple(worse), compared(found=14), {}))
    assert page.startswith("# new: stopped by 6 of 8 checks")


def test_what_chance_explains_or_is_small_passes() -> None:
    limits = RetrievalSettings()
    for found in (20, 19):
        assert all(check.passed for check in losses(compared(found), limits))
    lenient = limits.model_copy(update={"max_drop": 0.5})
    assert all(check.passed for check in losses(compared(found=14), lenient))
    few = losses(compared(found=0, questions=8), limits)
    assert {check.name for check in few if not check.passed} == {"NDCG@10 of all languages against CURRENT",
                                                                "R@4k of all languages against CURRENT"}  # fmt: skip
    assert losses(compared(found=0, questions=7), limits) == [], "too few to say anything"


class Answering:
    """An engine that answers everything with a chunk of a file that came, then with one that was there."""

    class bundle:
        class catalog:
            @staticmethod
            def texts(ids: list[int]) -> dict[int, tuple[str, str]]:
                return dict.fromkeys(ids, ("", "x" * 100))

    def search(self, request: SearchRequest) -> SimpleNamespace:
        def result(number: int, name: str) -> SimpleNamespace:
            explain = SimpleNamespace(channels={"bm25": None})
            metadata = SimpleNamespace(uri=f"app/{name}", start_line=1, end_line=2, explain=explain)
            return SimpleNamespace(id=str(number), metadata=metadata)

        return SimpleNamespace(results=[result(1, "came.py"), result(2, "a.py")], limits=[])


def test_what_only_one_version_holds_is_no_answer() -> None:
    asked = [Question("1", "python", "what", (Target("a.py", "app", 1, 2),))]
    run = _ask_questions("staged", Answering(), "hybrid", asked, {("app", "a.py")})
    assert [[hit.path for hit in hits] for hits in run.hits] == [["a.py"]]


def test_what_takes_longer_is_a_ratio_and_noise_is_none() -> None:
    assert not _ratio("time", (90.0, 20.0), 4.0).passed
    assert _ratio("time", (79.0, 20.0), 4.0).passed
    assert _ratio("time", (4.9, 0.1), 4.0).passed
    slow = delays((20.0, 10.0), (50.0, 10.0), RetrievalSettings())
    assert [check.name for check in slow if not check.passed] == ["time of a search against CURRENT"]


def test_the_page_says_examples_as_text() -> None:
    check = Check("recall", False, "0.1", "1", ("'[x](http://example.invalid)' 0.0",))
    assert "\\[x\\](http" in markdown(Verdict("new", (check,), None, {}))


class FullDisk:
    """Refuses to write one file below the verdicts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, code: int) -> None:
        real = Path.write_text
        self.refused = 0

        def write_text(path: Path, *arguments: Any, **options: Any) -> int:
            if path.name == name:
                self.refused += 1
                real(path, "half")
                raise OSError(code, os.strerror(code), str(path))
            return real(path, *arguments, **options)

        monkeypatch.setattr(Path, "write_text", write_text)


@pytest.mark.parametrize("name", ["verdict.md", "verdict.json"])
def test_a_verdict_that_cannot_be_written_is_warned_of_and_the_version_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write_app(tmp_path, 5)
    made = settings_of(tmp_path)
    with monkeypatch.context() as patch:
        disk = FullDisk(patch, name, errno.ENOSPC)
        report = index_repositories(made)
    root = BundleRoot(made.bundle.root)
    assert disk.refused == 1
    assert root.read_current().version == report.manifest.version
    assert [warning.count("No space left") for warning in report.warnings] == [1]
    assert [path.name for path in root.versions.iterdir()] == [report.manifest.version], "nothing staged"
    assert verdict_names(root) == [], "half a page is none"


def test_a_verdict_folder_that_may_not_be_written_to_is_a_warning_of_the_command(tmp_path: Path) -> None:
    write_app(tmp_path, 5)
    root = BundleRoot(tmp_path / "bundles")
    root.path.mkdir()
    root.verdicts.write_text("in the way")
    settings = tmp_path / "settings.toml"
    settings.write_text("[retrieval]\nenabled = true\n[scip]\nenabled = false\n")
    place = ["--root", str(root.path), "--settings", str(settings)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CODEQUARRY__PATHS__STORE", str(tmp_path / "store"))
        patch.setenv("CODEQUARRY__PATHS__WORK", str(tmp_path / "work"))
        patch.setenv("CODEQUARRY__RETRIEVAL__ENABLED", "true")
        told = CliRunner().invoke(build_app(), ["index", str(tmp_path / "app"), *place])
    assert told.exit_code == 0, told.output
    assert "warning:" in told.output
    assert root.version_names() == [root.read_current().version]


def test_a_disk_that_refuses_while_answers_are_asked_leaves_nothing_staged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_app(tmp_path, 5)
    made = settings_of(tmp_path)

    def refused(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("codequarry.pipelines.gates.answers.due.write_json", refused)
    with pytest.raises(PublishError, match="Input/output"):
        index_repositories(made)
    assert list(BundleRoot(made.bundle.root).versions.iterdir()) == []
