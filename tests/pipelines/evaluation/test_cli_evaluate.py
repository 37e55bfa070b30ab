"""``codequarry evaluate`` as a person runs it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from codequarry.pipelines.measure.results import COMPARED, RESULTS
from tests.endpoint_server import endpoint_server
from tests.pipelines.conftest import MAIN, Run
from tests.pipelines.evaluation.test_qrels import collection

Evaluated = tuple[Path, "subprocess.CompletedProcess[str]"]


def test_mined_questions_are_asked_in_every_way_and_reported(evaluated: Evaluated, library: Path, run: Run) -> None:
    report, done = evaluated
    summary = json.loads((report / "summary.json").read_text())
    assert set(summary["runs"]) == {"faiss", "bm25", "symbol", "hybrid"}
    assert summary["questions"]["A doc"] == 4
    assert summary["questions"]["B commit"] == 2
    overall = summary["runs"]["hybrid"]["figures"]["all"]
    assert overall["questions"] == sum(summary["questions"].values())
    for name in ("ndcg_10", "mrr_10", "recall_50", "token_gain"):
        assert 0 <= overall[name]["low"] <= overall[name]["mean"] <= overall[name]["high"] <= 1
    # So small a repository: whatever is asked for by name is found.
    assert summary["runs"]["bm25"]["figures"]["C identifier"]["recall_10"]["mean"] == 1.0
    assert overall["recall_50"]["mean"] > 0.8
    stages = summary["runs"]["hybrid"]["stages_ms"]
    assert {"bm25", "faiss", "faiss_encode", "fusion", "hydration"} <= set(stages)
    assert all(0 < each["p50"] <= each["p95"] for each in stages.values())
    assert set(summary["runs"]["bm25"]["stages_ms"]) == {"bm25", "fusion", "hydration"}
    rungs = {rung["rung"]: rung for rung in summary["ladder"]}
    assert (rungs["A"]["run"], rungs["D"]["run"], rungs["D"]["against"]) == ("faiss", "hybrid", "faiss")
    assert rungs["B"]["reason"] == "the bundle has no channel warp"
    assert rungs["E"]["reason"]
    against = {one["against"] for one in summary["differences"] if one["run"] == "hybrid"}
    assert against == {"faiss", "bm25", "symbol"}
    assert {one["metric"] for one in summary["differences"]} == set(COMPARED)
    for shown in ("NDCG@10", "A doc (4)", "cannot run", "hybrid - bm25", "p95 ms", "report.md"):
        assert shown in done.stdout

    table = pq.read_table(report / "results.parquet")
    assert table.schema.names == RESULTS.names
    assert table.num_rows == 4 * overall["questions"]
    text = (report / "report.md").read_text()
    assert "## Ablation" in text
    for plot in ("ndcg_10", "recall_4k", "latency"):
        assert f"plots/{plot}.svg" in text
        assert (report / "plots" / f"{plot}.svg").read_text().startswith("<svg")

    # The same again, of the bundle that is there: the same bytes but for the latencies.
    root = Path(done.stderr.split("--root ")[1].split()[0])
    again = run("evaluate", "--qrels", report / "questions.jsonl", "--root", root, "--out", report / "again")
    assert again.returncode == 0, again.stderr
    assert (report / "again" / "results.parquet").read_bytes() == (report / "results.parquet").read_bytes()
    assert (report / "again" / "questions.jsonl").read_bytes() == (report / "questions.jsonl").read_bytes()


def test_the_last_rung_is_a_language_model(library: Path, run: Run, tmp_path: Path) -> None:
    assert run("index", library).returncode == 0
    questions, settings = tmp_path / "mine.jsonl", tmp_path / "settings.toml"
    questions.write_text('{"query": "extend a loan", "relevant": [{"path": "library/loans.py"}]}\n')
    with endpoint_server() as server:
        server.chat = lambda payload: json.dumps([payload["messages"][1]["content"].count(" :: ") // 2])
        settings.write_text(
            f'[serving]\nreranker_endpoint = "{server.url}"\nreranker_model = "m"\nreranker_budget_ms = 20000\n'
            f'[bundle]\nroot = "{tmp_path / "cwd/.codequarry/bundles"}"\n'
        )
        asked = ("--qrels", questions, "--settings", settings, "--channels", "hybrid,hybrid+rerank", "--json")
        done = run("evaluate", *asked)
        assert done.returncode == 0, done.stderr
        assert len(server.requests) > 1
    summary = json.loads(done.stdout)
    assert set(summary["runs"]) == {"hybrid", "hybrid+rerank"}
    last = summary["ladder"][-1]
    assert (last["rung"], last["run"], last["against"], last["reason"]) == ("E", "hybrid+rerank", "hybrid", "")
    compared = [one for one in summary["differences"] if one["run"] == "hybrid+rerank"]
    assert {one["against"] for one in compared} == {"hybrid"}
    assert not any("did not rerank" in limit for limit in summary["runs"]["hybrid+rerank"]["limits"])


def test_the_served_bundle_with_questions_of_ones_own(library: Path, run: Run, tmp_path: Path) -> None:
    assert run("index", library).returncode == 0
    questions = tmp_path / "mine.jsonl"
    questions.write_text(
        '{"query": "find_place", "relevant": [{"path": "library/loans.py"}], "class": "names"}\n'
        '{"query": "saturday_hours", "relevant": [{"path": "config.toml", "repo": "library"}]}\n'
        '{"query": "gone", "relevant": [{"path": "gone.py"}]}\n'
    )
    done = run("evaluate", "--qrels", questions, "--channels", "bm25,hybrid", "--compare", "current", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert set(summary["runs"]) == {"bm25", "hybrid", "bm25 (compared)", "hybrid (compared)"}
    assert summary["questions"] == {"given": 2, "names": 1}
    assert summary["runs"]["bm25"]["figures"]["names"]["ndcg_10"]["mean"] == 1.0
    assert summary["runs"]["bm25"]["figures"]["given"]["recall_10"]["mean"] == 0.5
    assert "1 of 3 targets are no file of the bundle, e.g. gone.py" in summary["notes"]
    itself = [one for one in summary["differences"] if one["against"] == "hybrid (compared)"]
    assert {(one["difference"], one["low"], one["high"]) for one in itself} == {(0.0, 0.0, 0.0)}
    assert Path(tmp_path / "cwd" / ".codequarry" / "evaluation" / "report.md").is_file()

    other = tmp_path / "other.toml"
    other.write_text("[serving]\nweight_bm25 = 0.0\n")
    compared = run("evaluate", "--qrels", questions, "--compare", other, "--channels", "hybrid", "--json")
    assert compared.returncode == 0, compared.stderr

    (tmp_path / "lost.jsonl").write_text('{"query": "x", "relevant": [{"path": "nowhere.py"}]}\n')
    lost = run("evaluate", "--qrels", tmp_path / "lost.jsonl")
    assert lost.returncode == 2
    assert "none of the 1 targets is a file of the bundle" in lost.stderr
    unknown = run("evaluate", "--qrels", questions, "--compare", "20200101T000000Z-00000000")
    assert unknown.returncode == 1
    assert "no such version" in unknown.stderr


def test_a_collection_is_indexed_by_itself(run: Run, tmp_path: Path) -> None:
    folder = collection(tmp_path / "beir")
    done = run("evaluate", "--qrels", folder, "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["questions"] == {"given": 2}
    assert summary["notes"] == ["3 documents"]
    assert summary["runs"]["bm25"]["figures"]["all"]["recall_10"]["mean"] > 0
    assert not (tmp_path / "cwd" / ".codequarry" / "bundles").exists()


def test_two_settings_over_mined_questions(library: Path, run: Run, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text("[chunking]\nmax_chars = 200\nmerge_chars = 100\n")
    arguments = ("evaluate", library, "--queries", "4", "--channels", "bm25")
    done = run(*arguments, "--compare", other, "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert set(summary["runs"]) == {"bm25", "bm25 (compared)"}
    versions = {side["version"] for side in summary["bundles"].values()}
    assert len(versions) == 2
    of_a_version = run(*arguments, "--compare", "previous")
    assert of_a_version.returncode == 2
    assert "expected a settings file: mined questions have bundles of their own" in of_a_version.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--channels", "bm25,dense"], 2, "--channels: found dense, expected some of faiss"),
        (["--qrels", "nowhere"], 2, "nowhere: found neither a file nor a folder with corpus.jsonl"),
        (["--qrels", "q.jsonl"], 2, "no bundle is published under"),
        (["/nowhere/at/all"], 2, "/nowhere/at/all does not exist"),
    ],
)
def test_a_mistake_is_one_clear_message(
    run: Run, tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    (tmp_path / "cwd" / "q.jsonl").write_text('{"query": "q", "relevant": [{"path": "a.py"}]}\n')
    done = run("evaluate", *arguments)
    assert done.returncode == code, done.stderr
    assert message in done.stderr.replace("\n", " ")
    assert "try: " in done.stderr
    assert "Traceback" not in done.stderr


def test_it_runs_without_dagster(library: Path, run: Run, tmp_path: Path) -> None:
    """The commands of this layer start no orchestrator."""
    shutil.copytree(library, tmp_path / "cwd" / "library")
    program = "import sys; sys.modules['dagster'] = None\n" + MAIN
    done = run("evaluate", "library", "--queries", "1", "--channels", "bm25", program=program)
    assert done.returncode == 0, done.stderr
