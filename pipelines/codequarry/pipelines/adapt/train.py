"""Further training of the static encoder on one corpus, with an evaluation of the result.

The evaluation is a five-fold cross-validation over files: each fifth of the files is asked about with an encoder that
was trained on the other four. An encoder of all pairs is written only when its answers are significantly better, and
those about other code are not worse.
"""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from codequarry.pipelines.adapt.contrastive import Bags, Recipe, bags, train
from codequarry.pipelines.adapt.held_out import HeldOut, interval, questions, reciprocal_ranks, similarities
from codequarry.pipelines.adapt.pairs import COMMIT, Row, commit_pairs, pairs_of
from codequarry.pipelines.embed.export.static import export_static
from codequarry.pipelines.store.processes import limit_memory
from codequarry.pipelines.store.workspace import Progress, silent
from codequarry.pipelines.syntax.workers import SourceFile
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.languages import MODULE_LANGUAGES
from codequarry.serving.encoders.spec import Adaptation, EncoderSpec, open_tokenizer
from codequarry.serving.encoders.static import ROWS_FILE, SCALES_FILE, StaticEncoder, TokenIds
from codequarry.serving.files.arrays import read_array

NAME = "codequarry-static-adapted"
FOLDS = 5
PAIRS_PER_SECOND = 300
"""Pairs per second of the time budget: one core trains on them six times, with evaluation."""
_RECIPE = Recipe(epochs=4, batch=512, rate=0.005)
_MIN_QUERIES = 30
_BATCH = 32
_MEMORY_BYTES = 2 << 30
_MAX_FILE_BYTES = 1 << 20
_STANDARD_LIBRARY_FILES = 120


class FileChange(NamedTuple):
    """A file before and after a commit."""

    message: str
    path: str
    """Path as in the files."""
    lang: str
    old: bytes
    new: bytes


def adapt(
    files: Iterable[SourceFile],
    base: Path,
    target: Path,
    *,
    changes: Iterable[FileChange] = (),
    budget_s: float = 60.0,
    progress: Progress = silent,
) -> Adaptation:
    """Train a static encoder further on files and their history, and write the result if it is better.

    Args:
        files: Files whose paths begin with the name of the repository.
        base: Folder of the encoder to begin with.
        target: Folder of the new encoder; left alone when it is not better.
        changes: Changes of these files by commits; they are used for training, never for questions.
        budget_s: Seconds that training may take on one core; limits the number of pairs.
        progress: Called with (task, units done, units in all).

    Returns:
        Evaluation of the new encoder.

    Raises:
        InvalidArgumentError: The files hold too few documented definitions for an evaluation.
    """
    rows = _limited(list(_rows(files, changes, progress)), int(budget_s * PAIRS_PER_SECOND))
    asked = [questions(f"own {fold}", "", rows, asked=lambda row, own=fold: _fold(row) == own) for fold in range(FOLDS)]
    if (count := sum(len(one.queries) for one in asked)) < _MIN_QUERIES:
        raise InvalidArgumentError(
            f"{count} documented definitions to ask about, expected at least {_MIN_QUERIES}",
            suggestion="tune on more repositories; the shipped encoder serves meanwhile",
        )
    spec = EncoderSpec.load(base)
    tokenizer = open_tokenizer(base, spec)
    ids = TokenIds(tokenizer)
    table, weights = _unpacked(base)
    outside = questions("standard library", "python", _standard_library())

    def encoder(of: tuple[np.ndarray, np.ndarray]) -> StaticEncoder:
        return StaticEncoder(spec, *of, ids)

    def trained(left_out: int | None) -> tuple[np.ndarray, np.ndarray]:
        chosen = [(row.text, row.header, row.code) for row in rows if _fold(row) != left_out]
        pairs: Bags = bags(chosen, ids, tokenizer.get_vocab_size())
        return train(pairs, table, weights, _RECIPE)

    before, after = {}, {}
    for fold, package in enumerate(asked):
        if package.queries:
            before[package.name] = _ranks(encoder((table, weights)), package)
            after[package.name] = _ranks(encoder(trained(fold)), package)
        progress("training on four fifths, asking about the fifth", fold + 1, FOLDS)
    made = trained(None)
    outside_before, outside_after = ({"": _ranks(encoder(of), outside)} for of in ((table, weights), made))
    own_before, own_after = ({"": np.concatenate(list(ranks.values()))} for ranks in (before, after))
    verdict = Adaptation(
        base=spec.fingerprint,
        pairs=len(rows),
        commit_pairs=sum(row.kind == COMMIT for row in rows),
        queries=count,
        before=float(own_before[""].mean()),
        after=float(own_after[""].mean()),
        interval=interval(own_after, own_before),
        outside_queries=len(outside.queries),
        outside_before=float(outside_before[""].mean()),
        outside_after=float(outside_after[""].mean()),
        outside_interval=interval(outside_after, outside_before),
    )
    if verdict.better:
        source = f"codequarry tune encoder, from {spec.name} {spec.fingerprint[:12]}"
        export_static(target, tokenizer, *made, name=NAME, source=source, adapted=verdict)
    return verdict


def _ranks(encoder: StaticEncoder, package: HeldOut) -> np.ndarray:
    return reciprocal_ranks(similarities(encoder, package))


def _unpacked(base: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows as unit vectors, (v, d) float32, and their weights, (2, v) or (v,) float32, 1 on average."""
    rows = read_array(base / ROWS_FILE).astype(np.float32)
    norms = np.maximum(np.linalg.norm(rows, axis=1), np.float32(1e-6))
    weights = np.maximum(read_array(base / SCALES_FILE) * norms, np.float32(1e-6))
    return rows / norms[:, None], weights / weights.mean()


def _fold(row: Row) -> int:
    """Return the number of the fold that a row's file belongs to."""
    path = row.header.partition(" ")[0]
    return int.from_bytes(hashlib.sha256(path.encode("utf-8", "surrogatepass")).digest()[:4], "big") % FOLDS


def _limited(rows: list[Row], limit: int) -> list[Row]:
    """Return at most `limit` rows, chosen by a hash of their code, in their order."""
    if len(rows) <= limit:
        return rows

    def digest(row: Row) -> bytes:
        return hashlib.sha256(row.code.encode("utf-8", "surrogatepass")).digest()

    last = sorted(map(digest, rows))[limit - 1]
    return [row for row in rows if digest(row) <= last]


def _rows(files: Iterable[SourceFile], changes: Iterable[FileChange], progress: Progress) -> Iterator[Row]:
    """Yield the pairs of files and of changes.

    A worker with a memory limit finds them; input on which it dies is left out.
    """
    wanted = (file for file in files if file[1] in MODULE_LANGUAGES and len(file[2]) <= _MAX_FILE_BYTES)
    changed = (change for change in changes if change.lang in MODULE_LANGUAGES)
    seen: set[str] = set()
    worker = _worker()
    try:
        for what, finder, source in (("pairs", _of_files, wanted), ("pairs in history", _of_changes, changed)):
            done = 0
            while batch := list(islice(source, _BATCH)):
                done += len(batch)
                found, worker = _mine_pairs(worker, finder, batch)
                progress(f"finding {what}", done, done)
                for row in found:
                    if row.code not in seen:
                        seen.add(row.code)
                        yield row
    finally:
        worker.shutdown()


def _mine_pairs(
    worker: ProcessPoolExecutor, finder: Callable[[Sequence[Any]], list[Row]], batch: Sequence[Any]
) -> tuple[list[Row], ProcessPoolExecutor]:
    """Return the pairs of some files or changes, without those on which a worker dies, and the worker to use next."""
    try:
        return worker.submit(finder, batch).result(), worker
    except (BrokenProcessPool, MemoryError):
        worker.shutdown()
        worker = _worker()
    if len(batch) == 1:
        return [], worker
    first, worker = _mine_pairs(worker, finder, batch[: len(batch) // 2])
    second, worker = _mine_pairs(worker, finder, batch[len(batch) // 2 :])
    return first + second, worker


def _worker() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, get_context("spawn"), limit_memory, (_MEMORY_BYTES,))


def _of_files(files: Sequence[SourceFile]) -> list[Row]:
    return [
        Row(lang, pair.kind, pair.text, f"{path} {pair.qualified_name}".strip(), pair.code)
        for path, lang, data in files
        for pair in pairs_of(data, lang)
    ]


def _of_changes(changes: Sequence[FileChange]) -> list[Row]:
    return [
        Row(change.lang, pair.kind, pair.text, f"{change.path} {pair.qualified_name}".strip(), pair.code)
        for change in changes
        for pair in commit_pairs(change.message, change.old, change.new, change.lang)
    ]


def _standard_library() -> Iterator[Row]:
    """Yield pairs of Python's own library, which every user has and no corpus is about."""
    folder = Path(sysconfig.get_path("stdlib"))
    files = [(file.name, "python", file.read_bytes()) for file in sorted(folder.glob("*.py"))[:_STANDARD_LIBRARY_FILES]]
    yield from _of_files(files)
