"""Pages about versions, quality and requests: what they show, and to whom."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.settings.load import ServingSettings
from codequarry.serving.engine.engine import Engine
from codequarry.serving.http.app import Service
from codequarry.serving.http.auth import build_auth
from codequarry.serving.page.version_history import difference_between
from codequarry.serving.version.version_differences import compare_chunks, read_chunks
from tests.serving.bundles.bundle_factory import Piece, write_bundle
from tests.serving.bundles.versions import MARKER, until
from tests.serving.live import request, running
from tests.serving.page.conftest import FIRST, SECOND, STOPPED, verdict
from tests.serving.page.test_page import page_of
from tests.serving.test_who_may_see_what import CLERK, HIDDEN, OWNER, SEEN, auth_of, with_password, write

PAGES = ("/versions", f"/versions/difference?before={FIRST}&after={SECOND}", "/asked")


def text_of(page: bytes) -> str:
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", page.decode()).split()))


def test_versions_are_listed_with_what_the_gate_found_and_quality_is_drawn(kept_port: int) -> None:
    status, page = page_of(kept_port, "/versions")
    text = text_of(page)
    assert status == 200
    assert text.index(f"{SECOND} current") < text.index(f"{FIRST} ") < text.rindex(STOPPED)
    assert "0.875 (0.775 to 0.925)" in text and "stopped rows: 7, expected 8" in text
    assert len(re.findall("<circle", page.decode())) == 6
    links = re.findall(r'href="(/versions/difference[^"]+)"', page.decode())
    assert [html.unescape(link) for link in links] == [PAGES[1]]
    index = page_of(kept_port, "/index")[1].decode()
    assert 'href="/versions"' in index and 'href="/asked"' in index


def test_a_difference_names_files_definitions_and_questions(kept_port: int, kept_root: BundleRoot) -> None:
    status, page = page_of(kept_port, "/versions/difference", before=FIRST, after=SECOND)
    text = text_of(page)
    assert status == 200
    for expected in ("1 added quarry/marks/v2.py", "1 removed quarry/marks/v1.py", f"1 added {MARKER}"):
        assert expected in text
    assert "where is the <b>marker</b> 3 not found" in text
    assert "The same files" in text_of(page_of(kept_port, "/versions/difference", before=SECOND, after=SECOND)[1])
    assert "were not asked" in text_of(page_of(kept_port, "/versions/difference", before=SECOND, after=FIRST)[1])
    # Chunks of the files that differ are all that differs between all chunks.
    before, after = (read_chunks(kept_root.published(name)) for name in (FIRST, SECOND))
    whole = compare_chunks(before, after)
    found = difference_between(kept_root, FIRST, SECOND).definitions
    assert found is not None
    assert {each.chunk_id for each in found.added} == {each.chunk_id for each in whole.added}
    assert {each.chunk_id for each in found.removed} == {each.chunk_id for each in whole.removed}


def test_a_definition_with_another_text_is_changed(tmp_path: Path) -> None:
    root = BundleRoot(tmp_path / "bundles")
    write_versions(root, "def kept():\n    return 1\n", "def kept():\n    return 2\n")
    found = difference_between(root, *sorted(root.version_names()))
    assert [each.path for each in found.files.changed] == ["a.py"]
    assert found.definitions is not None
    assert [each.qualified_name for each in found.definitions.changed] == ["kept"]
    assert found.definitions.added == found.definitions.removed == ()


def write_versions(root: BundleRoot, *texts: str) -> None:
    for number, text in enumerate(texts):
        write_bundle(root.path, [Piece("a.py", text, "kept", ("kept",))], version=f"20260101T00000{number}Z-0123abcd")


def test_searches_of_the_pool_log_are_listed(kept_port: int) -> None:
    assert page_of(kept_port, "/", q="open <the> gate")[0] == 200
    until(lambda: "open <the> gate" in text_of(page_of(kept_port, "/asked")[1]))
    text = text_of(page_of(kept_port, "/asked")[1])
    assert re.search(rf"open <the> gate {SECOND} bm25(, symbol)? \d+", text)


def test_where_no_log_is_kept_the_page_says_how_to_keep_one(kept_root: BundleRoot) -> None:
    engine = Engine.open(kept_root.path, ServingSettings())
    with running(Service(engine, "0", root=kept_root)) as port:
        assert "[telemetry] pools = true" in text_of(page_of(port, "/asked")[1])
    engine.close()


def test_a_service_without_a_root_has_no_such_pages(kept_root: BundleRoot) -> None:
    engine = Engine.open(kept_root.path, ServingSettings())
    with running(Service(engine, "0")) as port:
        assert [request(port, "GET", path)[0] for path in PAGES] == [404, 404, 404]
        assert b"/versions" not in page_of(port, "/index")[1]
    engine.close()


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=st.text(max_size=40) | st.sampled_from([FIRST, "../..", f"../versions/{FIRST}"]), after=st.text(max_size=40)
)
def test_row_37_any_version_named_gets_an_answer(kept_port: int, before: str, after: str) -> None:
    assert page_of(kept_port, "/versions/difference", before=before, after=after)[0] == 404


def test_row_36_pages_about_all_repositories_are_for_who_may_see_all(tmp_path: Path) -> None:
    root = BundleRoot(write(tmp_path / "whole", (*SEEN, *HIDDEN)))
    current = root.read_current().version
    engine = Engine.open(root.path, ServingSettings())
    with running(Service(engine, "0", build_auth(auth_of(tmp_path)), root=root)) as port:
        for path in ("/versions", f"/versions/difference?before={current}&after={current}", "/asked"):
            assert request(port, "GET", path)[0] == 401
            status, page = request(port, "GET", path, headers=with_password(CLERK))
            assert status == 404 and current.encode() not in page
            assert request(port, "GET", path, headers=with_password(OWNER))[0] == 200
        assert b"/versions" not in request(port, "GET", "/index", headers=with_password(CLERK))[1]
        assert b"/versions" in request(port, "GET", "/index", headers=with_password(OWNER))[1]
    engine.close()


def test_a_page_of_many_versions_stays_small(tmp_path: Path) -> None:
    root = BundleRoot(tmp_path / "bundles")
    write_versions(root, "def kept():\n    return 1\n")
    for number in range(100):
        name = f"20250101T0000{number:02d}Z-0123abcd"[:25]
        folder = root.verdicts / name
        folder.mkdir(parents=True)
        (folder / "verdict.json").write_text(json.dumps(verdict(name, mean=number / 100, passed=number % 2 == 0)))
    (root.verdicts / "20250101T000000Z-0000bad0").mkdir()
    (root.verdicts / "20250101T000000Z-0000bad0" / "verdict.json").write_text("{")
    newest = f"20250101T0000{99:02d}Z-0123abcd"
    broken = verdict(newest, mean=0.5) | {"runs": {"staged": {"figures": {"all": {"ndcg_10": {"mean": "?"}}}}}}
    (root.verdicts / newest / "verdict.json").write_text(json.dumps(broken))
    engine = Engine.open(root.path, ServingSettings())
    with running(Service(engine, "0", root=root)) as port:
        status, page = page_of(port, "/versions")
        assert status == 200 and page.count(b"<tr>") == 61 and page.count(b"not asked") == 2
    engine.close()


def test_a_version_that_goes_while_it_is_read_is_no_fault_of_the_server(
    kept_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def removed(*_: object) -> None:
        raise FileNotFoundError("chunks.parquet")

    monkeypatch.setattr("codequarry.serving.page.version_history.read_files", removed)
    status, page = page_of(kept_port, "/versions/difference", before=FIRST, after=SECOND)
    assert status == 503 and "load the page again" in text_of(page)
