"""Given questions: what is read, and what is said of a file that is not what it should be."""

from __future__ import annotations

from pathlib import Path

import pytest

from codequarry.pipelines.evaluation.qrels import (
    is_collection,
    read_collection,
    read_questions,
    write_questions,
)
from codequarry.pipelines.measure.questions import Question, Target
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.wire.search import MAX_QUERY_CHARS

CORPUS = (
    '{"_id": "d1", "title": "sums", "text": "def total(xs): return sum(xs)", "language": "python"}\n'
    '{"_id": "d/2", "title": "", "text": "func Open() {}", "metadata": {"language": "Go"}}\n'
    "\n"
    '{"_id": "d3", "text": "plain words"}\n'
)
QUERIES = '{"_id": "q1", "text": "add numbers"}\n{"_id": "q2", "text": "open it"}\n{"_id": "q3", "text": "unasked"}\n'
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td3\t2\nq2\td/2\t1\nq3\td1\t0\n"


def collection(folder: Path, corpus: str = CORPUS, queries: str = QUERIES, qrels: str = QRELS) -> Path:
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(corpus)
    (folder / "queries.jsonl").write_text(queries)
    (folder / "qrels" / "test.tsv").write_text(qrels)
    return folder


def test_a_collection_becomes_files_and_questions(tmp_path: Path) -> None:
    folder = collection(tmp_path / "beir")
    assert is_collection(folder)
    found = read_collection(folder, tmp_path / "files")
    assert found.documents == 3
    assert found.questions == (
        Question("q1", "given", "add numbers", (Target("0000/0000000.py"), Target("0000/0000002.txt"))),
        Question("q2", "given", "open it", (Target("0000/0000001.go"),)),
    )
    assert (tmp_path / "files/0000/0000000.py").read_text() == "sums\ndef total(xs): return sum(xs)"
    assert (tmp_path / "files/0000/0000001.go").read_text() == "func Open() {}"


def test_judgements_of_trec_without_a_head_and_a_file_beside_the_corpus(tmp_path: Path) -> None:
    folder = collection(tmp_path / "beir")
    (folder / "qrels" / "test.tsv").unlink()
    (folder / "qrels.tsv").write_text("q2\t0\td/2\t1\r\n")
    assert [question.id for question in read_collection(folder, tmp_path / "files").questions] == ["q2"]


def test_a_query_that_is_too_long_is_cut_and_counted(tmp_path: Path) -> None:
    long = '{"_id": "q1", "text": "%s"}\n' % ("word " * 2_000)
    folder = collection(tmp_path / "beir", queries=long, qrels="q1\td1\t1\n")
    found = read_collection(folder, tmp_path / "files")
    assert (found.cut, len(found.questions[0].query)) == (1, MAX_QUERY_CHARS)


@pytest.mark.parametrize(
    ("part", "text", "message"),
    [
        ("qrels", QRELS + "q1 d1 1\n", r"test.tsv, line 6: found 'q1 d1 1', expected query, document and score"),
        ("qrels", QRELS + "q1\td1\tyes\n", r"line 6: found 'q1\\td1\\tyes'"),
        ("qrels", "q9\td1\t1\n", r"line 1: found 'q9', expected an _id of queries.jsonl"),
        ("qrels", "q1\td9\t1\n", r"line 1: found 'd9', expected an _id of corpus.jsonl"),
        ("qrels", "q1\td1\t0\n", r"found no relevant document"),
        ("corpus", CORPUS + "not json\n", r"corpus.jsonl, line 5: found 'not json', expected a JSON object"),
        ("corpus", CORPUS + '{"_id": "d1", "text": ""}\n', r"line 5: found _id 'd1' again"),
        ("corpus", '{"_id": 7, "text": ""}\n', r"line 1: _id: found int, expected text"),
        ("queries", '["q1"]\n', r"queries.jsonl, line 1: found list, expected a JSON object"),
        ("queries", '{"_id": "q1"}\n', r"line 1: text: found nothing, expected text"),
    ],
)
def test_a_malformed_collection(tmp_path: Path, part: str, text: str, message: str) -> None:
    folder = collection(tmp_path / "beir", **{part: text})
    with pytest.raises(InvalidArgumentError, match=message) as raised:
        read_collection(folder, tmp_path / "files")
    assert raised.value.suggestion


def test_a_collection_without_judgements(tmp_path: Path) -> None:
    folder = collection(tmp_path / "beir")
    (folder / "qrels" / "test.tsv").unlink()
    with pytest.raises(InvalidArgumentError, match=r"found no qrels.tsv or qrels/test.tsv"):
        read_collection(folder, tmp_path / "files")


def test_questions_are_read_as_they_were_written(tmp_path: Path) -> None:
    questions = (
        Question("A1", "A doc", 'say "when"', (Target("a.py", "app", 0, 4), Target("b.py"))),
        Question("B1", "B commit", "größer", (Target("c.py", "app", 9, 9),)),
    )
    write_questions(tmp_path / "q.jsonl", questions)
    assert read_questions(tmp_path / "q.jsonl") == questions


def test_what_may_be_left_out(tmp_path: Path) -> None:
    file = tmp_path / "q.jsonl"
    file.write_text('\n{"query": "where", "relevant": [{"path": "a.py", "start_line": 3}]}\n')
    assert read_questions(file) == (Question("Q0001", "given", "where", (Target("a.py", "", 2, 2),)),)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"line 2: found '\{', expected a JSON object"),
        ('{"query": "q"}', r"line 2: relevant: found NoneType, expected a list of at least one"),
        ('{"query": "q", "relevant": []}', r"relevant: found an empty list"),
        ('{"query": "q", "relevant": ["a.py"]}', r"relevant: found str, expected \{path"),
        ('{"query": "q", "relevant": [{"repo": "app"}]}', r"path: found nothing, expected text"),
        ('{"query": " ", "relevant": [{"path": "a"}]}', r"query: found 1 characters, expected 1 to 4096"),
        (
            '{"query": "q", "relevant": [{"path": "a", "start_line": 5, "end_line": 2}]}',
            r"found lines 5 to 2, expected whole numbers from 1",
        ),
        ('{"query": "q", "relevant": [{"path": "a", "start_line": 0}]}', r"found lines 0 to 0"),
    ],
)
def test_malformed_questions(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "q.jsonl").write_text('{"query": "fine", "relevant": [{"path": "a.py"}]}\n' + line + "\n")
    with pytest.raises(InvalidArgumentError, match=message):
        read_questions(tmp_path / "q.jsonl")


def test_no_questions(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="found neither a file nor a folder"):
        read_questions(tmp_path / "missing")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(InvalidArgumentError, match="found no line"):
        read_questions(tmp_path / "empty.jsonl")
