"""Questions that two versions can be asked alike: about files that are the same in both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import cache
from itertools import islice
from typing import Any

import pyarrow as pa

from codequarry.pipelines.measure.doc_questions import sentence_of
from codequarry.pipelines.measure.name_questions import is_telling_name
from codequarry.pipelines.measure.questions import Question, Target
from codequarry.pipelines.measure.sampling import CandidateKey, spread
from codequarry.pipelines.sources.path_classes import SOURCE, path_class
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.tables import read_table
from codequarry.schemas.gates.expectation import build_frames, run_suite
from codequarry.schemas.gates.suites import QRELS
from codequarry.serving.version.file_checks import Check, as_check

_NODE = ("repo", "path", "name", "doc", "start_line", "end_line")


def gate_questions(staged: BundlePaths, alike: Mapping[tuple[str, str], str], count: int) -> list[Question]:
    """Return questions, half by documentation, half by name, each of the class of its language.

    A definition is asked for by the first sentence of its documentation, or by its name, when no other has the same.
    Both versions index the documentation. These questions tell whether answers are as good as before;
    `codequarry evaluate` measures how good they are. A larger count gives the same questions and more.

    Args:
        staged: Paths of the staged version.
        alike: Files in both versions, by `same_files`.
        count: Most questions.

    Returns:
        The questions.
    """
    classes = cache(path_class)
    nodes = [node for node in _rows(staged, "ast_nodes", _NODE) if classes(node["path"]) == SOURCE]
    said = [(node, sentence_of(node["doc"], node["name"])) for node in nodes if node["doc"]]
    named = [(node, node["name"]) for node in nodes if is_telling_name(node["name"])]
    found: list[Question] = []
    for asked, share in ((said, count - count // 2), (named, count // 2)):
        texts = Counter(text for _, text in asked)
        drawn = spread(
            (
                (CandidateKey(node["repo"], node["path"], f"{node['start_line']}:{text}"), (node, text))
                for node, text in asked
                if text and texts[text] == 1 and (node["repo"], node["path"]) in alike
            ),
            0,
        )
        for node, text in islice(drawn, share):
            target = Target(node["path"], node["repo"], node["start_line"], node["end_line"])
            kind = alike[node["repo"], node["path"]]
            found.append(Question(f"G{len(found) + 1:04d}", kind, text, (target,)))
    return found


def question_checks(staged: BundlePaths, questions: Sequence[Question]) -> list[Check]:
    """Run the suite of questions over those that a staged version is asked."""
    import duckdb

    rows = [
        {"id": each.id, "query": each.query, **target._asdict()} for each in questions for target in each.targets
    ]  # fmt: skip
    files = _rows(staged, "files", ("repo", "path", "lines", "skip_reason"))
    with closing(duckdb.connect()) as connection:
        for name, table in (("qrels", rows), ("files", files)):
            connection.register(name, pa.Table.from_pylist(table))
        build_frames(connection, (QRELS,))
        return [as_check(outcome) for outcome in run_suite(connection, QRELS)]


def same_files(staged: BundlePaths, current: BundlePaths) -> dict[tuple[str, str], str]:
    """Return the language, by repository and path, of the indexed files that both versions hold with the same bytes."""
    columns = ("repo", "path", "lang", "sha256", "skip_reason")
    held, before = (
        {(row["repo"], row["path"]): row for row in _rows(paths, "files", columns) if not row["skip_reason"]}
        for paths in (staged, current)
    )
    return {
        place: row["lang"]
        for place, row in held.items()
        if place in before and before[place]["sha256"] == row["sha256"]
    }


def _rows(paths: BundlePaths, name: str, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    return [row for file in paths.table_files(name) for row in read_table(file, list(columns)).to_pylist()]
