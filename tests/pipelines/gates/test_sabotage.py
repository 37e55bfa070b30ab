"""Broken builds are stopped by the gate that names the cause, and CURRENT stays; honest ones are published.

What is broken here is what the checks of tables, indexes, secrets and drift judge; recall is broken where its gate is
tested, with the gate on.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from codequarry.pipelines.bundle import manifest as manifest_module
from codequarry.pipelines.embed import encoders
from codequarry.pipelines.gates import secrets as secret_gate
from codequarry.pipelines.gates.answers import latency
from codequarry.pipelines.gates.verify import verify_staged
from codequarry.pipelines.indexes import faiss_stage
from codequarry.pipelines.secrets import redaction
from codequarry.pipelines.store.library_versions import tool_versions
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.errors import IntegrityError, PublishError
from tests.pipelines.embed.encoders import garbled_encoder, small_encoder
from tests.pipelines.gates.sabotage import (
    Edit,
    Scene,
    added,
    corpus,
    first,
    python,
    replaced,
    reseal,
    scip_index,
    vectors,
)
from tests.pipelines.repositories import git
from tests.pipelines.secrets.canaries import GITHUB

FIELD_OF_NOTHING = pa.list_(pa.string())


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, shared_store: Path) -> Scene:
    """A published version, then a change whose stages have run up to the embeddings. Not to be changed: copy it."""
    scene = Scene(tmp_path_factory.mktemp("base"), shared_store)
    (scene.folder / "given.scip").write_bytes(scip_index())
    scene.commit(corpus())
    scene.index()
    scene.commit({"src/new.py": "def brand_new():\n    return 1\n"})
    scene.run_stages()
    return scene


@pytest.fixture
def scene(base: Scene, tmp_path: Path) -> Scene:
    return base.copy(tmp_path / "scene")


def nowhere(table: pa.Table) -> pa.Table:
    return replaced(table, "resolved", pa.array([["no/where.py"]] * len(table), FIELD_OF_NOTHING))


def half_alike(rows: list[list[float]]) -> list[list[float]]:
    return [rows[0] if number % 2 else row for number, row in enumerate(rows)]


def constant(rows: list[list[float]]) -> list[list[float]]:
    return [[len(row) ** -0.5] * len(row) if number == 0 else row for number, row in enumerate(rows)]


WRONG_STAGES: dict[str, tuple[str, Edit, str]] = {
    "a chunk is missing": ("chunks", lambda table: table.slice(1), "whose chunks do not reach the end"),
    "a chunk is there twice": ("chunks", lambda table: pa.concat_tables([table, table.slice(0, 1)]), "same ids"),
    "ranges are off by one": ("chunks", added("start_byte", 1), "covered not exactly once"),
    "chunks reach too far": ("chunks", added("end_byte", 1), "chunks that reach outside of their file"),
    "lines are turned around": ("chunks", first("end_line", -1), "chunks whose lines are out of order"),
    "a text is empty": ("chunks", first("text", ""), "chunks without text"),
    "a chunk is of another language": ("chunks", first("lang", "klingon"), "of another language than their file"),
    "chunks of another file": ("chunks", first("path", "elsewhere.py"), "chunks of files that are not indexed"),
    "a file of an unknown language": ("files", first("lang", "klingon"), "files of an unknown language"),
    "a file is listed twice": ("files", lambda t: pa.concat_tables([t.slice(0, 1), t]), "files listed twice"),
    "a file lost its checksum": ("files", first("sha256", ""), "indexed files without a sha256"),
    "a vector is missing": ("embeddings", lambda table: table.slice(1), "do not hold the same ids"),
    "half the vectors are missing": ("embeddings", lambda t: t.slice(len(t) // 2), "do not hold the same ids"),
    "vectors are twice as long": (
        "embeddings", vectors(lambda rows: [[2 * x for x in row] for row in rows]), "not of unit norm"
    ),
    "a vector is not a number": (
        "embeddings", vectors(lambda rows: [[float("nan")] * len(rows[0]), *rows[1:]]), "not finite"
    ),
    "vectors are too short": ("embeddings", vectors(lambda rows: [row[:8] for row in rows]), "ixed.?.ize.?.ist"),
    "a vector is constant": ("embeddings", vectors(constant), "whose numbers are all the same"),
    "half the vectors are alike": ("embeddings", vectors(half_alike), "equal those of other files"),
    "definitions in other chunks": ("ast_nodes", added("chunk_id", 1), "do not start in their chunk"),
    "a definition without an end": ("ast_nodes", added("end_byte", 1 << 20), "reach outside of their file"),
    "a definition is lost": ("ast_nodes", lambda table: table.slice(1), "symbols of chunks that differ"),
    "a definition without a name": ("ast_nodes", first("name", ""), "definitions without a name or a kind"),
    "references beyond their chunk": ("ast_references", added("start_byte", 9999), "references that do not lie"),
    "leaves of no chunk": ("cst_nodes", added("chunk_id", 1), "leaf kinds of no chunk"),
    "leaves counted twice": ("cst_nodes", lambda t: pa.concat_tables([t, t.slice(0, 1)]), "counted twice in a chunk"),
    "a module is lost": ("modules", lambda table: table.slice(1), "source files without a module"),
    "imports lead nowhere": ("modules", nowhere, "imports that resolve to what is no module"),
    "an import is imagined": ("modules", added("fan_in", 1), "fan-in and fan-out differ"),
    "modules of older files": ("modules", added("definitions", 9), "count other lines and definitions"),
    "SCIP positions are shifted": ("scip_occurrences", added("end_byte", 1 << 20), "outside of the indexed files"),
    "SCIP roles are mixed up": ("scip_occurrences", added("roles", 2), "whose roles contradict each other"),
    "SCIP symbols are lost": ("scip_symbols", lambda table: table.slice(0, 0), "whose symbol nothing describes"),
    "SCIP symbols of another tree": ("scip_symbols", first("path", "elsewhere.py"), "SCIP symbols of files that are"),
}  # fmt: skip
"""What a stage does wrong: the table, what happens to it, and what the gate says."""


def stopped(scene: Scene, cause: str, sabotage: Callable[[Scene], None]) -> None:
    before = scene.state()
    with pytest.raises((PublishError, IntegrityError), match=cause):
        sabotage(scene)
    assert scene.state() == before


@pytest.mark.parametrize("what", WRONG_STAGES)
def test_a_stage_that_is_wrong_is_stopped(scene: Scene, what: str) -> None:
    table, edit, cause = WRONG_STAGES[what]

    def sabotage(scene: Scene) -> None:
        scene.edit(table, edit)
        scene.publish(scene.stage())

    stopped(scene, cause, sabotage)


def stale(name: str) -> Callable[[BundlePaths, Scene], None]:
    """A file or folder is that of the version before."""

    def sabotage(staged: BundlePaths, scene: Scene) -> None:
        old, new = scene.root.version(scene.current.version).path / name, staged.path / name
        if new.is_dir():
            shutil.rmtree(new)
            shutil.copytree(old, new)
        else:
            new.unlink()
            shutil.copyfile(old, new)

    return sabotage


def cut(name: str, share: float) -> Callable[[BundlePaths, Scene], None]:
    """A file ends early."""

    def sabotage(staged: BundlePaths, _scene: Scene) -> None:
        data = (staged.path / name).read_bytes()
        (staged.path / name).unlink()  # it may be a link to that of CURRENT
        (staged.path / name).write_bytes(data[: int(share * len(data))])

    return sabotage


def other_encoder(staged: BundlePaths, scene: Scene) -> None:
    shutil.rmtree(staged.encoder)
    small_encoder(staged.encoder)


def evil_statement(staged: BundlePaths, _scene: Scene) -> None:
    staged.open_sql.unlink()
    staged.open_sql.write_text(".shell touch /evil\n")


def leftover(staged: BundlePaths, _scene: Scene) -> None:
    (staged.path / "core.dump").write_bytes(bytes(20 << 20))


WRONG_STAGING: dict[str, tuple[Callable[[BundlePaths, Scene], None], str]] = {
    "the vectors are those of the version before": (
        stale("tables/embeddings.parquet"),
        "ids of FAISS that are not those",
    ),
    "the BM25 index is that of the version before": (stale("bm25"), "ids of BM25 that are not those"),
    "the catalog is that of the version before": (stale("catalog.duckdb"), "chunks that the catalog holds otherwise"),
    "the texts are those of the version before": (
        stale("rows/text_pages.npy"),
        "shards whose texts are found otherwise",
    ),
    "the id map is that of the version before": (stale("faiss.idmap.parquet"), "v_faiss_join with a missing side"),
    "a table is truncated": (cut("tables/modules.parquet", 0.5), r"cannot be read .*modules\.parquet"),
    "a table is empty": (cut("tables/chunks.parquet", 0), r"cannot be read .*chunks\.parquet"),
    "the query encoder is another": (other_encoder, "fingerprint of the query encoder"),
    "the statement for DuckDB shells is another": (evil_statement, "open.sql that is not this program's"),
    "something large was left inside": (leftover, "bytes per chunk"),
}


@pytest.mark.parametrize("what", WRONG_STAGING)
def test_a_staging_that_is_wrong_is_stopped(scene: Scene, what: str) -> None:
    wrong, cause = WRONG_STAGING[what]

    def sabotage(scene: Scene) -> None:
        staged = scene.stage()
        wrong(BundlePaths(staged.path), scene)
        reseal(BundlePaths(staged.path))
        scene.publish(staged)

    stopped(scene, cause, sabotage)


def test_an_id_map_of_another_order_is_stopped(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = faiss_stage.write_idmap
    monkeypatch.setattr(faiss_stage, "write_idmap", lambda path, ids: honest(path, [each[::-1] for each in ids]))

    def sabotage(scene: Scene) -> None:
        scene.publish(scene.stage())

    stopped(scene, "ids in FAISS that differ from its id map", sabotage)


def half_gone(scene: Scene) -> None:
    scene.remove("src/m0*.py", "web/view0*.ts")
    scene.index()


def language_gone(scene: Scene) -> None:
    scene.remove("web")
    scene.index()


def only_tests(scene: Scene) -> None:
    scene.remove("src", "web", "docs")
    scene.commit({f"tests/test_more{number}.py": f"def test_{number}():\n    pass\n" for number in range(30)})
    scene.index()


def vendored(scene: Scene) -> None:
    scene.commit(
        {f"copied/lib{number:03}.py": f"def copied_{number}():\n    return {number}\n" for number in range(90)}
    )
    scene.index()


def all_generated(scene: Scene) -> None:
    header = "# Code generated by tool. DO NOT EDIT.\n"
    scene.commit({f"src/m{number:02}.py": header + python(number) for number in range(10)})
    scene.index()


def exploded(scene: Scene) -> None:
    scene.commit({f"src/m{number:02}.py": python(number, functions=5) for number in range(12)})
    scene.index()


def credentials(scene: Scene) -> None:
    lines = "".join(f'token{n} = "{GITHUB[:-2]}{n:02}"\n' for n in range(11))
    scene.commit({"src/vault.py": lines})
    scene.index()


def too_many_secrets(scene: Scene) -> None:
    scene.commit({"src/vault.py": f'token = "{GITHUB}"\n'})
    replace(scene, more=(("checks", {"max_secrets": 0}),)).index()


def too_large(scene: Scene) -> None:
    replace(scene, more=(("checks", {"max_bundle_mb": 1}),)).index()


def almost_empty(scene: Scene) -> None:
    replace(scene, more=(("checks", {"min_chunks": 10_000}),)).index()


WRONG_SOURCES: dict[str, tuple[Callable[[Scene], None], str]] = {
    "half the files are gone": (half_gone, r"indexed files that went: field: 35 -> \d+ files"),
    "a language is gone": (language_gone, "files of a language that went: field typescript: 14 -> 0 files"),
    "only tests are left": (only_tests, "share of a path class"),
    "copies of others came in": (vendored, "indexed files that came"),
    "sources are taken for generated": (all_generated, "share of files skipped for a reason: field generated"),
    "files fall into many more chunks": (exploded, "chunks per file"),
    "a file of credentials came in": (
        credentials,
        r"secrets that came: field: 0 -> 11 secrets \(\+11\), .* at most \+10",
    ),
    "there may be no secret": (too_many_secrets, "secrets found: 1, expected at most 0 .*field: 1"),
    "the version is over its budget": (too_large, "size budget"),
    "the version is almost empty": (almost_empty, "chunks: .* at least 10000"),
}


@pytest.mark.parametrize("what", WRONG_SOURCES)
def test_a_corpus_that_is_not_what_it_was_is_stopped(scene: Scene, what: str) -> None:
    sabotage, cause = WRONG_SOURCES[what]
    stopped(scene, cause, sabotage)


def test_a_secret_that_was_not_taken_out_is_stopped(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "find_secrets", lambda name, content: [])

    def sabotage(scene: Scene) -> None:
        scene.commit({"src/vault.py": f'def opens():\n    token = "{GITHUB}"\n    return token\n'})
        scene.index()

    stopped(scene, r"secrets in texts: 1, expected 0 \(for example field/src/vault\.py:2 github-pat\)", sabotage)
    with pytest.raises(PublishError) as caught:
        scene.index()
    assert GITHUB not in str(caught.value)
    assert replace(scene, more=(("secrets", {"allow": ["vault.py"]}),)).index().accepted == ()


def test_a_scanner_that_finds_nothing_is_stopped(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (redaction, secret_gate):
        monkeypatch.setattr(module, "find_secrets", lambda name, content: [])
    stopped(scene, "scanner of secrets: does not find", lambda scene: scene.index() and None)


def test_another_model_with_the_same_settings_is_stopped_and_may_be_accepted(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_encoder(tmp_path / "encoder")
    monkeypatch.setattr(encoders, "SHIPPED", tmp_path / "encoder")
    stopped(scene, "encoders that changed: 1, expected 0 .*faiss: ", lambda scene: scene.index() and None)
    allowed = replace(scene, more=(("drift", {"encoders_may_change": True}),))
    assert allowed.index().accepted == ()


def test_another_program_may_bring_another_model(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = scene.index().encoder.fingerprint
    small_encoder(tmp_path / "encoder")
    monkeypatch.setattr(encoders, "SHIPPED", tmp_path / "encoder")
    monkeypatch.setattr(manifest_module, "tool_versions", lambda: {**tool_versions(), "codequarry": "99"})
    made = scene.index()
    assert made.encoder.fingerprint != before
    assert made.accepted == ()


def test_another_model_that_the_settings_ask_for_is_stopped_by_its_answers(scene: Scene, tmp_path: Path) -> None:
    """Words answer as before, so that vectors are asked alone as well."""
    asked = {**dict(ASKED), "embedding": {"folder": str(garbled_encoder(tmp_path / "encoder"))}}
    worse = replace(scene, more=tuple(asked.items()))
    stopped(worse, "NDCG@10 by vectors of all languages against CURRENT: -0", lambda scene: scene.index() and None)
    assert worse.index(accept="it will be trained").accepted


def test_a_regression_is_accepted_for_a_reason_that_is_kept(scene: Scene) -> None:
    stopped(scene, "--accept-regression", language_gone)
    accepted = scene.index(accept="the views moved to a repository of their own").accepted
    assert "files of a language that went" in {each.check for each in accepted}
    assert scene.current.accepted == accepted
    scene.commit({"src/after.py": "def after():\n    return 1\n"})
    assert scene.index().accepted == (), "the next version is compared with the accepted one"


def test_no_reason_lets_past_a_check_of_what_the_files_hold(scene: Scene) -> None:
    scene.edit("modules", nowhere)
    staged = scene.stage()
    with pytest.raises(PublishError, match="imports that resolve to what is no module"):
        verify_staged(staged, scene.settings, accept="I want it")


HONEST: Mapping[str, Callable[[Scene], None]] = {
    "the change of the base": lambda scene: None,
    "a line is edited": lambda scene: scene.commit({"src/new.py": "def brand_new():\n    return 2\n"}),
    "a comment is added": lambda scene: scene.commit({"src/m01.py": "# Parts.\n" + python(1)}),
    "a file is added": lambda scene: scene.commit({"src/extra.py": "def extra():\n    return 3\n"}),
    "a file of a new language": lambda scene: scene.commit({"run.go": "package run\n\nfunc Run() int { return 1 }\n"}),
    "a file is deleted": lambda scene: scene.remove("src/extra.py"),
    "a file is renamed": lambda scene: moved(scene, "src/new.py", "src/newer.py"),
    "a folder is renamed": lambda scene: moved(scene, "web", "frontend"),
    "sources become a package": lambda scene: moved(scene, "src", "lib"),
    "a test is added": lambda scene: scene.commit({"tests/test_new.py": "def test_new():\n    assert True\n"}),
    "a page is added": lambda scene: scene.commit({"docs/more.md": "# More\n\nWords.\n"}),
    "an image is added": lambda scene: scene.commit({"docs/image.png": b"\x89PNG\r\n"}),
    "a large function": lambda scene: scene.commit({"lib/large.py": python(0, functions=6)}),
    "files are copied": lambda scene: scene.commit({f"lib/copy{number}.py": python(3) for number in range(3)}),
    "an empty file": lambda scene: scene.commit({"lib/__init__.py": ""}),
    "a file that is not UTF-8": lambda scene: scene.commit({"latin.c": b"/* caf\xe9 */\nint one() { return 1; }\n"}),
    "a broken file": lambda scene: scene.commit({"lib/broken.py": "def broken(:\n  class\n"}),
    "a generated file": lambda scene: scene.commit({"lib/gen.py": "# Code generated by x. DO NOT EDIT.\nA = 1\n"}),
    "some views go": lambda scene: scene.remove("frontend/view00.ts", "frontend/view01.ts"),
    "uncommitted changes": lambda scene: drafted(scene),
    "ten files more": lambda scene: scene.commit({f"lib/more{n}.py": python(n) for n in range(20, 30)}),
}  # fmt: skip
"""One after the other, each on the version before."""


def drafted(scene: Scene) -> None:
    (scene.repo / "lib" / "draft.py").write_text("DRAFT = 1\n")


def moved(scene: Scene, old: str, new: str) -> None:
    git(scene.repo, "mv", old, new)
    git(scene.repo, "commit", "-qm", "move")


ASKED = (("retrieval", {"enabled": True, "min_changed_share": 0, "questions": 16, "ann_queries": 16}),)
"""Every version is asked, and compared with CURRENT."""


def test_no_honest_rebuild_is_stopped(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "_ROUNDS", 1)  # twenty versions are timed, each of them again where it seems slow
    scene = replace(scene, more=ASKED)
    assert len(HONEST) > 20
    digests = [scene.current.digest]
    for what, change in HONEST.items():
        change(scene)
        made = scene.index()
        assert made.accepted == (), what
        digests.append(made.digest)
    assert len(set(digests)) == len(digests), "every rebuild published something new"


def test_there_are_enough_ways_to_fail() -> None:
    assert len(WRONG_STAGES) + len(WRONG_STAGING) + len(WRONG_SOURCES) + 2 >= 50
