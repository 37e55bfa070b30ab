"""``codequarry tune faiss`` and an effort of one's own, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

from tests.pipelines.conftest import Run
from tests.pipelines.indexes.test_faiss import write_app


def test_the_published_index_and_others_are_measured_and_nothing_is_changed(tmp_path: Path, run: Run) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text(
        "[indexes]\nfaiss_graph_from = 10\nfaiss_lists_from = 20\nfaiss_recall = 0.5\n[chunking]\nmerge_chars = 1\n"
        "[scip]\nenabled = false\n"
    )
    where = ("--settings", settings, "--root", tmp_path / "bundles")
    assert run("tune", "faiss", *where).returncode == 2
    done = run("index", write_app(tmp_path, 20), *where)
    assert done.returncode == 0, done.stderr
    version = Path(done.stdout.strip())
    before = {file: file.stat().st_mtime_ns for file in version.rglob("*")}
    told = run("tune", "faiss", "--factory", "Flat", "--factory", "HNSW16,SQ8", "--recall", "0.9", "--json", *where)
    assert told.returncode == 0, told.stderr
    published, flat, graph = json.loads(told.stdout)
    assert [one["index"] for one in (published, flat, graph)] == ["published", "Flat", "HNSW16,SQ8"]
    kept = json.loads((version / "faiss.tuning.json").read_text())
    points = [{key: point[key] for key in ("parameters", "recall", "comparisons")} for point in published["frontier"]]
    assert (points, published["bounds"]) == (kept["frontier"], kept["bounds"])
    assert kept["chosen"]["recall"] < 0.9 <= published["chosen"]["recall"]
    assert flat["chosen"]["recall"] == 1.0
    assert all(point["ms"] > 0 for one in (published, flat, graph) for point in one["frontier"])
    shown = run("tune", "faiss", "--factory", "Flat", "--recall", "1", *where)
    assert "nprobe=" in shown.stdout
    assert "faiss_factory = 'Flat'" in shown.stdout or "the published index is the fastest" in shown.stdout
    assert {file: file.stat().st_mtime_ns for file in version.rglob("*")} == before
    refused = run("tune", "faiss", "--factory", "Nonsense7", *where)
    assert refused.returncode == 2
    assert "Nonsense7" in refused.stderr
    other = run("tune", "faiss", "--channel", "faiss2", *where)
    assert "the version has faiss" in " ".join(other.stderr.split())

    def limits(*effort: str) -> list[str]:
        answer = run("search", "merge the session", "--channel", "faiss", "--json", *effort, *where)
        return json.loads(answer.stdout)["limits"]

    most = kept["bounds"]["nprobe"][1]
    assert limits("--nprobe", str(most)) == limits() == []
    assert limits("--nprobe", "100000") == [f"nprobe clamped to {most}"]
