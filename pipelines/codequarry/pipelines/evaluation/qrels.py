"""Questions that somebody gives: BEIR and CoIR folders, and a form of ours for a bundle that is served.

A BEIR folder holds ``corpus.jsonl`` ({_id, title, text}), ``queries.jsonl`` ({_id, text}) and ``qrels.tsv`` or
``qrels/test.tsv`` (query, document, score; a head line or none). A file of ours holds one JSON object a line::

    {"query": "where are sessions removed", "relevant": [{"path": "app/sessions.py", "start_line": 10, "end_line": 40}]}

``repo``, ``start_line``, ``end_line`` (from 1, inclusive) and ``class`` may be left out.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codequarry.pipelines.measure.questions import Question, Target
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.languages import BY_NAME, language_named
from codequarry.schemas.wire.search import MAX_QUERY_CHARS

CORPUS, QUERIES = "corpus.jsonl", "queries.jsonl"
QRELS = ("qrels.tsv", "qrels/test.tsv")
_DOCUMENTS_A_FOLDER = 1_000
_GIVEN = "given"
"""Class of questions that name none."""


@dataclass(frozen=True, slots=True)
class Collection:
    """A BEIR folder: the questions, and where its documents were written to."""

    questions: tuple[Question, ...]
    documents: int
    cut: int
    """Queries that were longer than a search takes."""


def is_collection(path: Path) -> bool:
    """Return whether a path is a BEIR folder."""
    return (path / CORPUS).is_file()


def read_questions(path: Path) -> tuple[Question, ...]:
    """Read questions in codequarry's own form.

    Args:
        path: File of JSON lines.

    Returns:
        The questions.

    Raises:
        InvalidArgumentError: The file is missing or empty, or a line is malformed.
    """
    if not path.is_file():
        raise InvalidArgumentError(
            f"{path}: found neither a file nor a folder with {CORPUS}, expected questions",
            suggestion=f"give a JSONL file of {{query, relevant}}, or a folder with {CORPUS}, {QUERIES} and {QRELS[0]}",
        )
    questions = tuple(
        _question(entry, f"Q{number:04d}", f"{path}, line {line}")
        for number, (line, entry) in enumerate(_objects(path), start=1)
    )
    if not questions:
        raise InvalidArgumentError(f"{path}: found no line, expected questions", suggestion="see docs/EVALUATION.md")
    return questions


def write_questions(path: Path, questions: Iterable[Question]) -> None:
    """Write questions in codequarry's own form, so that they can be asked again, also of another bundle."""
    with path.open("w", encoding="utf-8") as stream:
        for question in questions:
            relevant = [_format_target(target) for target in question.targets]
            entry = {"id": question.id, "class": question.kind, "query": question.query, "relevant": relevant}
            stream.write(json.dumps(entry, ensure_ascii=False) + "\n")


def read_collection(folder: Path, documents: Path) -> Collection:
    """Read a BEIR folder and write each of its documents as a file.

    Only queries with a relevant document are asked. A document that names its ``language`` gets a matching file name.

    Args:
        folder: The BEIR folder.
        documents: Folder for the documents.

    Returns:
        The questions, and counts of documents and of cut queries.

    Raises:
        InvalidArgumentError: A file is missing, or a line of one is malformed.
    """
    queries = {_text(entry, "_id", where): _text(entry, "text", where) for where, entry in _entries(folder / QUERIES)}
    relevant: dict[str, list[str]] = defaultdict(list)
    places = _write_documents(folder / CORPUS, documents)
    for query, document, where in _judged(_qrels_file(folder)):
        for held, name, file in ((queries, query, QUERIES), (places, document, CORPUS)):
            if name not in held:
                raise InvalidArgumentError(f"{where}: found {name!r}, expected an _id of {file}", suggestion=_REMEDY)
        relevant[query].append(places[document])
    if not relevant:
        raise InvalidArgumentError(f"{folder}: found no relevant document, expected some", suggestion=_REMEDY)
    questions = tuple(
        Question(name, _GIVEN, queries[name][:MAX_QUERY_CHARS], tuple(map(Target, dict.fromkeys(relevant[name]))))
        for name in queries
        if name in relevant
    )
    return Collection(questions, len(places), sum(len(queries[name]) > MAX_QUERY_CHARS for name in relevant))


_REMEDY = "see docs/EVALUATION.md for what each file holds"


def _write_documents(corpus: Path, documents: Path) -> dict[str, str]:
    """Write every document, and return their paths by id."""
    places: dict[str, str] = {}
    for number, (where, entry) in enumerate(_entries(corpus)):
        name = _text(entry, "_id", where)
        if name in places:
            raise InvalidArgumentError(f"{where}: found _id {name!r} again, expected another", suggestion=_REMEDY)
        title = entry.get("title") or ""
        text = "\n".join(filter(None, (title, _text(entry, "text", where))))
        path = f"{number // _DOCUMENTS_A_FOLDER:04d}/{number:07d}{_suffix(entry)}"
        file = documents / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", errors="replace", newline="")
        places[name] = path
    return places


def _suffix(entry: Mapping[str, Any]) -> str:
    metadata = entry.get("metadata")
    named = entry.get("language") or (metadata.get("language") if isinstance(metadata, dict) else None)
    language = language_named(str(named))
    return BY_NAME[language].suffixes[0] if language is not None else ".txt"


def _qrels_file(folder: Path) -> Path:
    for name in QRELS:
        if (folder / name).is_file():
            return folder / name
    raise InvalidArgumentError(f"{folder}: found no {' or '.join(QRELS)}, expected one of them", suggestion=_REMEDY)


def _judged(file: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (query, document, where it is written) of every judgement above 0."""
    for number, line in enumerate(_lines(file), start=1):
        fields = line.rstrip("\r").split("\t")
        where = f"{file}, line {number}"
        if number == 1 and not _is_number(fields[-1]):
            continue  # the head
        if not line.strip():
            continue
        if len(fields) == 4:  # as TREC has it, with a column that means nothing
            fields = [fields[0], *fields[2:]]
        if len(fields) != 3 or not _is_number(fields[2]):
            raise InvalidArgumentError(
                f"{where}: found {line[:80]!r}, expected query, document and score, with tabs between",
                suggestion=_REMEDY,
            )
        if float(fields[2]) > 0:
            yield fields[0], fields[1], where


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _question(entry: dict[str, Any], number: str, where: str) -> Question:
    relevant = entry.get("relevant")
    if not isinstance(relevant, list) or not relevant:
        found = "an empty list" if relevant == [] else type(relevant).__name__
        raise InvalidArgumentError(
            f"{where}: relevant: found {found}, expected a list of at least one {{path}}", suggestion=_REMEDY
        )
    query = _text(entry, "query", where)
    if not query.strip() or len(query) > MAX_QUERY_CHARS:
        raise InvalidArgumentError(
            f"{where}: query: found {len(query)} characters, expected 1 to {MAX_QUERY_CHARS}", suggestion=_REMEDY
        )
    targets = tuple(_target(one, where) for one in relevant)
    return Question(str(entry.get("id") or number), str(entry.get("class") or _GIVEN), query, targets)


def _target(entry: object, where: str) -> Target:
    if not isinstance(entry, dict):
        raise InvalidArgumentError(
            f"{where}: relevant: found {type(entry).__name__}, expected {{path, repo, start_line, end_line}}",
            suggestion=_REMEDY,
        )
    path, repo = _text(entry, "path", where), str(entry.get("repo") or "")
    first, last = (entry.get(name) for name in ("start_line", "end_line"))
    if first is None and last is None:
        return Target(path, repo)
    last = first if last is None else last
    if not (isinstance(first, int) and isinstance(last, int) and 1 <= first <= last):
        raise InvalidArgumentError(
            f"{where}: {path}: found lines {first} to {last}, expected whole numbers from 1, the first not after the "
            "last",
            suggestion=_REMEDY,
        )
    return Target(path, repo, first - 1, last - 1)


def _format_target(target: Target) -> dict[str, object]:
    place: dict[str, object] = {"path": target.path}
    if target.repo:
        place["repo"] = target.repo
    if target.start_line >= 0:
        place |= {"start_line": target.start_line + 1, "end_line": target.end_line + 1}
    return place


def _entries(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for line, entry in _objects(file):
        yield f"{file}, line {line}", entry


def _objects(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line from 1, object) of a file of JSON lines; blank lines count and are skipped."""
    for number, line in enumerate(_lines(file), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except json.JSONDecodeError as error:
            raise InvalidArgumentError(
                f"{file}, line {number}: found {line[:80]!r}, expected a JSON object ({error.msg})", suggestion=_REMEDY
            ) from None
        if not isinstance(entry, dict):
            raise InvalidArgumentError(
                f"{file}, line {number}: found {type(entry).__name__}, expected a JSON object", suggestion=_REMEDY
            )
        yield number, entry


def _lines(file: Path) -> Iterator[str]:
    try:
        with file.open(encoding="utf-8", newline="\n") as stream:
            for line in stream:
                yield line.rstrip("\n")
    except FileNotFoundError:
        raise InvalidArgumentError(f"{file}: found no such file, expected it there", suggestion=_REMEDY) from None
    except UnicodeDecodeError:
        raise InvalidArgumentError(f"{file}: found bytes that are no UTF-8 text", suggestion=_REMEDY) from None


def _text(entry: Mapping[str, Any], key: str, where: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str):
        found = "nothing" if value is None else type(value).__name__
        raise InvalidArgumentError(f"{where}: {key}: found {found}, expected text", suggestion=_REMEDY)
    return value
