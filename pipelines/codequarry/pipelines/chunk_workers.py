"""Chunking in worker processes with a memory limit, so that a hostile file costs its own syntax tree and nothing else.

A tree-sitter step cannot be interrupted: 20 kB of ambiguous syntax can take gigabytes before any time budget is asked.
A worker that dies on a file, or does not answer in time, is replaced, and the file is chunked by lines; that answer is
not kept, because another day may bring a better one.

Protocol, one request at a time: a JSON line with language, sizes and byte count, then the bytes; a JSON line back.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import select
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from codequarry.pipelines.chunking import chunk_source
from codequarry.schemas.errors import CodequarryError
from codequarry.schemas.garbage import collect_seldom
from codequarry.schemas.records import AstNode, ChunkSpan, FileChunks, Import, ModuleFacts, Reference

if TYPE_CHECKING:  # a worker starts in half the time without them
    from codequarry.pipelines.syntax_store import SyntaxStore
    from codequarry.schemas.settings import ChunkingSettings

_MEMORY_BYTES = 1 << 30
_ANSWER_S = 30.0
_LOOK_AHEAD = 32
"""Files that are looked up in the store together."""
_EXIT_FAILED, _EXIT_NO_MEMORY = 1, 3
SourceFile = tuple[str, str, bytes]
"""(path, language, content)"""


class Chunked(NamedTuple):
    """A file and what the chunker made of it."""

    file: SourceFile
    made: FileChunks
    known: bool
    """True when the store had it, and nothing was parsed."""
    fallen: bool
    """True when a worker died over it or did not answer in time: another day may bring a better answer."""


def chunk_files(
    files: Iterable[SourceFile], settings: ChunkingSettings, *, store: SyntaxStore | None = None, workers: int = 0
) -> Generator[Chunked]:
    """Chunk the files that the store does not know, in worker processes; results come in the order of the files.

    store: asked first; new answers are put into it every few files.
    workers: number of processes, started when they are needed; 0 = one per core.
    """
    with ExitStack() as stack:
        pool = _Pool(settings, workers or os.cpu_count() or 1, stack)
        remaining = iter(files)
        while batch := list(islice(remaining, _LOOK_AHEAD)):
            keys = [syntax_key(language, hashlib.sha256(content).hexdigest()) for _, language, content in batch]
            known = store.get(keys) if store is not None else {}
            unknown = [(key, file) for file, key in zip(batch, keys, strict=True) if key not in known]
            answered = zip((key for key, _ in unknown), pool.answers([file for _, file in unknown]), strict=True)
            new = [(key, answer) for key, answer in answered if answer is not None]
            if store is not None and new:
                store.put(new)
            answers = known | dict(new)
            for file, key in zip(batch, keys, strict=True):
                answer = answers.get(key)
                made = _by_lines(file[2], settings) if answer is None else _from_json(answer)
                yield Chunked(file, made, key in known, answer is None)


def syntax_key(language: str, content_sha256: str) -> bytes:
    """Key of a file: what the chunker makes of it depends on its language and bytes alone."""
    return hashlib.sha256(f"{language}\0{content_sha256}".encode()).digest()


class _Pool:
    """Workers, started as they are needed."""

    def __init__(self, settings: ChunkingSettings, size: int, stack: ExitStack) -> None:
        self._settings = settings
        self._size = size
        self._stack = stack
        self._workers: list[_Worker] = []

    def answers(self, files: Sequence[SourceFile]) -> Iterator[bytes | None]:
        """The answer to each file, in order; None for one that no worker could answer."""
        for start in range(0, len(files), self._size):
            batch = files[start : start + self._size]
            while len(self._workers) < len(batch):
                self._workers.append(self._stack.enter_context(_Worker(self._settings)))
            for worker, (_, language, content) in zip(self._workers, batch, strict=False):
                worker.send(language, content)
            for worker, _ in zip(self._workers, batch, strict=False):
                yield worker.receive()


def _by_lines(content: bytes, settings: ChunkingSettings) -> FileChunks:
    return chunk_source(content, "text", max_chars=settings.max_chars, merge_chars=settings.merge_chars)


class _Worker:
    """One process, started again after it died."""

    def __init__(self, settings: ChunkingSettings) -> None:
        self._settings = settings
        self._process = self._start()

    def __enter__(self) -> _Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    def send(self, language: str, content: bytes) -> None:
        """Hand over a file; a worker that is gone is noticed by ``receive``."""
        sizes = {"max_chars": self._settings.max_chars, "merge_chars": self._settings.merge_chars}
        header = json.dumps({"language": language, "bytes": len(content), **sizes})
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(header.encode() + b"\n" + content)
            self._process.stdin.flush()

    def receive(self) -> bytes | None:
        """The answer to the file sent last; None when the worker was killed over it or did not answer in time.

        Raises CodequarryError: the worker failed by itself, which is a bug; its traceback is on standard error.
        """
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _ANSWER_S)
        line = self._process.stdout.readline() if ready else b""
        if line.endswith(b"\n"):
            return line
        if ready and self._process.wait() == _EXIT_FAILED:
            raise CodequarryError(
                "a chunk worker failed; its traceback is above", suggestion="report it, with the file that caused it"
            )
        self._stop()
        self._process = self._start()
        return None

    def _start(self) -> subprocess.Popen[bytes]:
        # -P: the current folder may be a repository that is being indexed, and its json.py is not ours to run.
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "codequarry.pipelines.chunk_workers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C is this process's to handle; the workers end when their input does
        )

    def _stop(self) -> None:
        self._process.kill()
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()


def _from_json(line: bytes) -> FileChunks:
    answer = json.loads(line)
    return FileChunks(
        tuple(
            ChunkSpan(*values[:-2], symbols=tuple(values[-2]), leaf_kinds=tuple(map(tuple, values[-1])))
            for values in answer["spans"]
        ),
        parsed=answer["parsed"],
        has_syntax_errors=answer["errors"],
        ast_nodes=tuple(map(AstNode._make, answer["nodes"])),
        references=tuple(map(Reference._make, answer["references"])),
        module=_facts(answer["module"]),
    )


def _facts(values: list[Any] | None) -> ModuleFacts | None:
    if values is None:
        return None
    facts = ModuleFacts(*values)
    imports = (Import(source, tuple((there, here) for there, here in names)) for source, names in facts.imports)
    return facts._replace(imports=tuple(imports), exports=tuple(facts.exports), defined=tuple(facts.defined))


def _work() -> None:
    """Answer requests from standard input until it ends."""
    collect_seldom()
    limit = _address_space() + _MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin.buffer:
        request = json.loads(line)
        content = sys.stdin.buffer.read(request["bytes"])
        sizes = {"max_chars": request["max_chars"], "merge_chars": request["merge_chars"]}
        made = chunk_source(content, request["language"], **sizes)
        answer = {
            "spans": made.spans,
            "nodes": made.ast_nodes,
            "references": made.references,
            "module": made.module,
            "parsed": made.parsed,
            "errors": made.has_syntax_errors,
        }
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


def _address_space() -> int:
    """Bytes of address space in use; libraries reserve far more than they touch."""
    try:
        with open("/proc/self/statm", encoding="ascii") as stream:
            return int(stream.read().split()[0]) * resource.getpagesize()
    except FileNotFoundError:  # no procfs: assume a generous base
        return 4 << 30


if __name__ == "__main__":
    try:
        _work()
    except MemoryError:
        sys.exit(_EXIT_NO_MEMORY)
