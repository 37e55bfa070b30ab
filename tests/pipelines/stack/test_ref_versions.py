"""Versions of further refs: what they answer, what retention keeps, and what becomes of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from fastmcp import Client

from codequarry.pipelines.publish.publish import publishing
from codequarry.pipelines.publish.ref_files import drop_ref
from codequarry.pipelines.publish.retention import prune
from codequarry.pipelines.publish.rollback import roll_back
from codequarry.pipelines.run import index_repositories
from codequarry.pipelines.sources.earlier import remember
from codequarry.pipelines.sources.further_refs import FurtherRef, RefPlan
from codequarry.pipelines.stack.ref_versions import RefReport, index_refs
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.bundle.refs import RefName, list_refs, read_ref, ref_file
from codequarry.schemas.errors import IntegrityError, InvalidArgumentError, SourceError
from codequarry.schemas.settings.load import RepositorySettings, ServingSettings, Settings
from codequarry.schemas.wire.describe import DescribeRequest
from codequarry.schemas.wire.grep import CodeSearchRequest
from codequarry.schemas.wire.search import FetchRequest, SearchFilters, SearchRequest
from codequarry.serving.engine.doctor import examine
from codequarry.serving.engine.engine import Engine
from codequarry.serving.engine.working_tree import WorkingTree
from codequarry.serving.files.version_order import versions_before
from codequarry.serving.server.mcp import build_server
from codequarry.serving.tools.describe import describe_index
from codequarry.serving.version import open as opening
from codequarry.serving.version.open import Bundle
from tests.pipelines.conftest import MakeSettings
from tests.pipelines.repositories import commit, git
from tests.pipelines.stack.alike import differing
from tests.pipelines.stack.test_answers import text_of, tree
from tests.pipelines.stack.test_changes import with_any_share

ONLY_THERE = "def only_on_the_branch(value):\n    return value\n"
OURS = RefName("app", "feature/one")


def at(settings: Settings, name: RefName) -> FurtherRef:
    path = settings.sources.repositories[0].path
    return FurtherRef(name, RepositorySettings(name=name.repository, path=path, ref=name.ref))


def indexed(settings: Settings, *names: RefName) -> list[RefReport]:
    return index_refs(settings, RefPlan(tuple(at(settings, name) for name in names), {}, {}), asked=names)


@pytest.fixture
def settings(tmp_path: Path, make_settings: MakeSettings) -> Settings:
    """Settings of a repository on `main`, with a complete version of it; `feature/one` differs in three files."""
    repo = tmp_path / "app"
    commit(repo, tree(20))
    git(repo, "checkout", "-q", "-b", OURS.ref)
    commit(repo, {"pkg1/mod1.py": text_of("a.py", 77), "pkg9/new.py": ONLY_THERE})
    git(repo, "rm", "-q", "pkg2/mod2.py")
    commit(repo, {})
    git(repo, "checkout", "-q", "main")
    made = with_any_share(make_settings(repo))
    index_repositories(made)
    remember(made)
    return made


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    """An engine over CURRENT and the ref."""
    indexed(settings, OURS)
    with closing(Engine.open(settings.bundle.root, ServingSettings())) as opened:
        yield opened


def grep(engine: Engine, ref: str = "", **filters: list[str]) -> tuple[int, str | None]:
    asked = CodeSearchRequest(pattern="only_on_the_branch", filters=SearchFilters(ref=ref, **filters))  # type: ignore[arg-type]
    answer = engine.search_code(asked)
    return answer.total, answer.bundle.ref


def test_a_ref_is_a_delta_over_the_base_of_current(settings: Settings) -> None:
    (report,) = indexed(settings, OURS)
    root = BundleRoot(settings.bundle.root)
    current, named = root.read_current(), read_ref(root, OURS)
    assert report.index is not None and report.index.stacked is not None and not report.reason
    assert named is not None and named.version == report.index.manifest.version
    assert report.index.manifest.stack is not None and report.index.manifest.stack.base == current.version
    assert report.index.manifest.sources[0].ref == OURS.ref
    (again,) = indexed(settings, OURS)
    assert again.index is not None and again.index.unchanged


def test_its_answers_are_those_of_a_complete_version(
    tmp_path: Path, settings: Settings, make_settings: MakeSettings
) -> None:
    indexed(settings, OURS)
    git(tmp_path / "app", "checkout", "-q", OURS.ref)
    complete = make_settings(tmp_path / "app", home=tmp_path / "other")
    listed = (RepositorySettings(name="app", path=tmp_path / "app", ref=OURS.ref),)
    sources = complete.sources.model_copy(update={"repositories": listed})
    index_repositories(complete.model_copy(update={"sources": sources}))
    root = BundleRoot(settings.bundle.root)
    named = read_ref(root, OURS)
    assert named is not None
    texts = [file.read_text() for file in sorted((tmp_path / "app").glob("pkg*/*"))]
    paths = [f"app/{file.relative_to(tmp_path / 'app')}" for file in sorted((tmp_path / "app").glob("pkg*/*"))]
    with (
        closing(Engine(Bundle.open_version(root, named), ServingSettings())) as stacked,
        closing(Engine.open(complete.bundle.root, ServingSettings())) as whole,
    ):
        assert differing(stacked, whole, texts[::4], paths[::4]) == []


def test_a_request_is_answered_from_one_version(engine: Engine) -> None:
    assert grep(engine) == (0, None)
    assert grep(engine, OURS.ref) == (1, OURS.ref)
    assert grep(engine, "main") == (0, None)
    answer = engine.search(SearchRequest(query="only on the branch", filters=SearchFilters(ref=OURS.ref)))
    assert answer.results[0].metadata.uri == "app/pkg9/new.py"
    assert answer.bundle.base == engine.bundle.manifest.version
    assert "only_on_the_branch" in engine.fetch(FetchRequest(id="pkg9/new.py", ref=OURS.ref)).model_dump_json()
    described = engine.answer("describe_index", describe_index, DescribeRequest()).refs
    assert [(each.repo, each.ref, each.version) for each in described] == [("app", OURS.ref, answer.bundle.version)]


def test_clients_name_it_in_filters(engine: Engine) -> None:
    async def ask(ref: str) -> str:
        async with Client(build_server(engine, version="0")) as client:
            arguments = {"pattern": "only_on_the_branch", "filters": {"ref": ref}}
            return str((await client.call_tool("search_code", arguments)).content)

    assert "pkg9/new.py" in anyio.run(ask, OURS.ref)


def test_an_unknown_ref_is_refused_with_the_known_ones(engine: Engine) -> None:
    with pytest.raises(InvalidArgumentError, match=r"app#feature/one, app#main"):
        grep(engine, "nope")
    with pytest.raises(InvalidArgumentError):
        grep(engine, "../../CURRENT")


def test_it_follows_its_file(tmp_path: Path, settings: Settings, engine: Engine) -> None:
    assert grep(engine, OURS.ref)[0] == 1
    git(tmp_path / "app", "checkout", "-q", OURS.ref)
    commit(tmp_path / "app", {"pkg9/more.py": ONLY_THERE})
    git(tmp_path / "app", "checkout", "-q", "main")
    before = read_ref(BundleRoot(settings.bundle.root), OURS)
    indexed(settings, OURS)
    assert grep(engine, OURS.ref)[0] == 2
    drop_ref(BundleRoot(settings.bundle.root), OURS)
    assert before is not None and before.version not in versions_before(BundleRoot(settings.bundle.root), "9" * 8)
    with pytest.raises(InvalidArgumentError):
        grep(engine, OURS.ref)


def test_refs_over_one_base_open_it_once(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [RefName("app", f"branch{number}") for number in range(3)]
    for number, name in enumerate(names):
        git(tmp_path / "app", "checkout", "-q", "-b", name.ref, "main")
        commit(tmp_path / "app", {f"pkg9/file{number}.py": ONLY_THERE})
    git(tmp_path / "app", "checkout", "-q", "main")
    indexed(settings, *names)
    opened: list[str] = []
    real = opening.Bundle.open_paths.__func__  # type: ignore[attr-defined]

    def counting(cls: type[Bundle], paths: object, *arguments: object, **more: object) -> Bundle:
        opened.append(paths.path.name)  # type: ignore[attr-defined]
        return real(cls, paths, *arguments, **more)

    monkeypatch.setattr(opening.Bundle, "open_paths", classmethod(counting))
    with closing(Engine.open(settings.bundle.root, ServingSettings())) as engine:
        served = engine.bundle.manifest.version
        assert [grep(engine, name.ref) for name in names] == [(1, name.ref) for name in names]
    assert opened.count(served) <= 2, "once for CURRENT, and once for all refs"
    assert len(set(opened)) == 4


def test_retention_and_rollback_leave_refs_alone(settings: Settings, tmp_path: Path) -> None:
    indexed(settings, OURS)
    root = BundleRoot(settings.bundle.root)
    first, named = root.read_current(), read_ref(root, OURS)
    assert named is not None
    for number in range(3):
        commit(tmp_path / "app", {"pkg1/mod1.py": text_of("a.py", number)})
        index_repositories(settings)
    with publishing(root):
        prune(root, settings.bundle.model_copy(update={"keep_versions": 2}))
    assert {first.version, named.version} <= set(root.version_names())
    back = roll_back(root)
    assert back.manifest.version != named.version
    assert read_ref(root, OURS) == named
    drop_ref(root, OURS)
    assert named.version not in root.version_names()
    assert list_refs(root) == []


def test_it_moves_to_the_base_of_the_next_current(settings: Settings, tmp_path: Path) -> None:
    indexed(settings, OURS)
    root = BundleRoot(settings.bundle.root)
    before = read_ref(root, OURS)
    commit(tmp_path / "app", {"pkg1/mod1.py": text_of("a.py", 5)})
    index_repositories(settings)
    (report,) = indexed(settings, OURS)
    assert report.index is not None and report.index.manifest.stack is not None
    assert report.index.manifest.stack.base == root.read_current().version
    assert before is not None and before.version not in root.version_names()


def test_a_complete_version_where_no_delta_can_be(settings: Settings) -> None:
    small = settings.model_copy(update={"bundle": settings.bundle.model_copy(update={"delta_share": 0.01})})
    current = BundleRoot(settings.bundle.root).read_current()
    (report,) = indexed(small, OURS)
    assert report.index is not None and report.index.manifest.stack is None
    assert "more than 1%" in report.reason
    assert BundleRoot(settings.bundle.root).read_current() == current
    assert not indexed(settings, OURS)[0].reason, "the work folder is still that of the base"


def test_a_ref_that_is_gone_leaves_and_one_that_was_asked_for_is_an_error(settings: Settings, tmp_path: Path) -> None:
    indexed(settings, OURS)
    git(tmp_path / "app", "branch", "-q", "-D", OURS.ref)
    with pytest.raises(SourceError):
        indexed(settings, OURS)
    (report,) = index_refs(settings, RefPlan((at(settings, OURS),), {}, {}))
    assert report.left
    assert list_refs(BundleRoot(settings.bundle.root)) == []


def test_damaged_files_of_refs_are_found(settings: Settings) -> None:
    indexed(settings, OURS)
    root = BundleRoot(settings.bundle.root)
    file = ref_file(root, OURS)
    assert [each.level for each in examine(settings) if each.area == "refs"] == ["ok"]
    line = file.read_text()
    file.unlink()
    os.symlink(root.current, file)
    with pytest.raises(IntegrityError, match="symbolic link"):
        read_ref(root, OURS)
    assert [each.level for each in examine(settings) if each.area == "refs"] == ["error"]
    with publishing(root), pytest.raises(IntegrityError):
        prune(root, settings.bundle)
    file.unlink()
    file.write_text(line.replace(line[-3], "0" if line[-3] != "0" else "1"))
    with closing(Engine.open(settings.bundle.root, ServingSettings())) as engine, pytest.raises(IntegrityError):
        grep(engine, OURS.ref)
    assert grep_main(settings) == 0


def grep_main(settings: Settings) -> int:
    with closing(Engine.open(settings.bundle.root, ServingSettings())) as engine:
        return grep(engine)[0]


def test_the_working_folder_decides_and_another_tree_is_named(settings: Settings, tmp_path: Path) -> None:
    repo, root = tmp_path / "app", settings.bundle.root
    git(repo, "worktree", "add", "-q", "-b", "beside", str(tmp_path / "beside"))
    with closing(Engine.open(root, ServingSettings())) as engine:
        assert engine.refs is not None
        engine.refs.tree = WorkingTree(root, tmp_path / "beside" / "pkg1")
        asked = CodeSearchRequest(pattern="only_on_the_branch")
        assert any("at beside" in limit for limit in engine.search_code(asked).limits)
        (tmp_path / "beside/pkg1/unsaved.py").write_text(ONLY_THERE)
        name = RefName("app", "beside")
        work = FurtherRef(name, RepositorySettings(name="app", path=tmp_path / "beside"))
        index_refs(settings, RefPlan((work,), {}, {}))
        answer = engine.search_code(asked)
        assert (answer.total, answer.bundle.ref, answer.limits) == (1, "beside", [])
        engine.refs.tree = WorkingTree(root, repo)
        assert engine.search_code(asked).limits == []
        git(repo, "checkout", "-q", OURS.ref)
        assert any(f"at {OURS.ref}" in limit for limit in engine.search_code(asked).limits)
        indexed(settings, OURS)
        assert engine.search_code(asked).bundle.ref == OURS.ref
        engine.refs.tree = WorkingTree(root, tmp_path)
        assert engine.search_code(asked).limits == []
