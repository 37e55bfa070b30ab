"""Chunking in worker processes with a memory limit, so that a hostile file loses only its own syntax tree.

A tree-sitter step cannot be interrupted: 20 kB of ambiguous syntax can take gigabytes before any limit is checked. A
worker that dies on a file, or does not answer, is replaced, and the file is chunked by lines. The cause is recorded.
That answer is stored when it follows from the file: a fresh worker ran out of the same memory, crashed again, or took
more CPU time than any code needs. It is not stored when somebody ended the worker, or it only did not answer: another
run may bring a better one.

Protocol, one request at a time: a JSON line with language, sizes and byte count, then the bytes; a JSON line back.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import select
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from codequarry.pipelines.store.processes import limit_cpu_time, limit_memory, resident_bytes
from codequarry.pipelines.syntax.chunks.chunk import chunk_lines, chunk_source
from codequarry.schemas.errors import CodequarryError
from codequarry.schemas.records import AstNode, ChunkSpan, FileChunks, Import, ModuleFacts, References
from codequarry.schemas.resources import available_cores, collect_seldom

if TYPE_CHECKING:  # a worker starts in half the time without them
    from codequarry.pipelines.store.syntax import SyntaxStore
    from codequarry.schemas.settings.load import ChunkingSettings

_MEMORY_BYTES = 1 << 30
_WATCHED_BYTES = _MEMORY_BYTES + (256 << 20)
"""Limit of a worker's memory where the system has none: the same, and what the worker takes without a file."""
_LOOK_S = 0.25
"""Seconds between two checks of a worker that has not answered yet."""
_CPU_S = 60
"""CPU seconds for a file and each of its megabytes, twice what the worst known text takes: other limits apply first."""
_ANSWER_S = 1_200.0
"""Wall seconds after which a worker counts as hanging; generous, as CPU seconds take far longer on a loaded machine."""
_LOOK_AHEAD = 32
"""Files that are looked up in the store together."""
_EXIT_FAILED, _EXIT_NO_MEMORY = 1, 3
SourceFile = tuple[str, str, bytes]
"""(path, language, content)"""


class Chunked(NamedTuple):
    """A file and the result of chunking it."""

    file: SourceFile
    made: FileChunks
    known: bool
    """True when the store had it, and nothing was parsed."""
    fallen: bool
    """True when a worker was ended on it or did not answer: another run may bring a better answer."""


class _Death(NamedTuple):
    """End of a worker that did not answer."""

    reason: str
    settled: bool
    """The cause is the file: no run would bring another answer."""
    sure: bool = False
    """A fresh worker would end in the same way, and need not be tried."""


_NO_MEMORY = _Death("memory", settled=True)
_NO_CPU_TIME = _Death("cpu_time", settled=True, sure=True)
_CRASHED = _Death("crashed", settled=True)
_ENDED = _Death("worker_ended", settled=False)
_NO_ANSWER = _Death("no_answer", settled=False)
_CRASHES = {-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS, -signal.SIGILL, -signal.SIGFPE}


def _death(returncode: int) -> _Death:
    if returncode == _EXIT_NO_MEMORY:
        return _NO_MEMORY
    if returncode == -signal.SIGXCPU:
        return _NO_CPU_TIME
    return _CRASHED if returncode in _CRASHES else _ENDED


def chunk_files(
    files: Iterable[SourceFile], settings: ChunkingSettings, *, store: SyntaxStore | None = None, workers: int = 0
) -> Generator[Chunked]:
    """Chunk the files that the store does not know, in worker processes.

    Args:
        files: (path, language, content) of each file.
        settings: Settings of the chunker.
        store: Asked first; new answers are put into it every few files.
        workers: Number of processes, started when they are needed; 0 = one per core.

    Yields:
        Results in the order of the files.
    """
    with closing(_WorkerPool(settings, workers or available_cores())) as pool:
        remaining = iter(files)
        batch, before = _begin(remaining, pool, store, ()), dict[bytes, bytes | _Death]()
        while batch is not None:
            # The workers go on with the next files while the results of these are used.
            following = _begin(remaining, pool, store, batch.asked.keys() if store is not None else ())
            new = _finish(batch, pool, before)
            settled = [(key, answer) for key, answer in new.items() if isinstance(answer, bytes)]
            if store is not None and settled:
                store.put(settled)
            for file, key in zip(batch.files, batch.keys, strict=True):
                pool.turn()
                answer = batch.known.get(key) or new[key]
                if isinstance(answer, bytes):
                    yield Chunked(file, _from_json(answer), key in batch.known, fallen=False)
                else:
                    yield Chunked(file, _by_lines(file[2], settings, answer.reason), known=False, fallen=True)
            batch, before = following, new


@contextlib.contextmanager
def keeping_a_worker() -> Generator[None]:
    """Keep one worker between calls of `chunk_files`, because its start takes longer than most files."""
    kept = _WorkerPool.kept = []
    try:
        yield
    finally:
        _WorkerPool.kept = None
        for worker in kept:
            worker.close()


class _Batch(NamedTuple):
    """Some files, and what became of them so far."""

    files: list[SourceFile]
    keys: list[bytes]
    known: dict[bytes, bytes]
    """Answers of the store, or to files of the batch before."""
    asked: dict[bytes, SourceFile]
    """Files that the workers were given."""
    answers: _Answers
    """Answers to these, in their order."""
    waiting: dict[bytes, SourceFile]
    """Files with contents of the batch before."""


def _begin(
    remaining: Iterator[SourceFile], pool: _WorkerPool, store: SyntaxStore | None, before: Collection[bytes]
) -> _Batch | None:
    """Look the next files up, and ask the workers for those that are unknown.

    Args:
        remaining: Files that are left.
        pool: The workers.
        store: The store.
        before: Keys that the workers were asked for in the batch before.

    Returns:
        The batch; None when no file is left.
    """
    files = list(islice(remaining, _LOOK_AHEAD))
    if not files:
        return None
    keys = [syntax_key(language, hashlib.sha256(content).hexdigest()) for _, language, content in files]
    known = store.get(keys) if store is not None else {}
    unknown = {key: file for key, file in zip(keys, files, strict=True) if key not in known}
    waiting = {key: file for key, file in unknown.items() if key in before}
    asked = {key: file for key, file in unknown.items() if key not in before}
    return _Batch(files, keys, known, asked, pool.ask(list(asked.values())), waiting)


def _finish(batch: _Batch, pool: _WorkerPool, before: Mapping[bytes, bytes | _Death]) -> dict[bytes, bytes | _Death]:
    """Wait for the workers, and complete ``known`` of the batch.

    Args:
        batch: The batch.
        pool: The workers.
        before: New answers of the batch before.

    Returns:
        The new answers by key.
    """
    again: dict[bytes, SourceFile] = {}
    for key, file in batch.waiting.items():
        answer = before[key]
        if isinstance(answer, bytes):
            batch.known[key] = answer
        else:
            again[key] = file
    new = dict(zip(batch.asked, pool.wait_for(batch.answers), strict=True))
    return new | dict(zip(again, pool.answers(list(again.values())), strict=True))


def syntax_key(language: str, content_sha256: str) -> bytes:
    """Return the key of a file: the chunker's result depends on its language and bytes alone."""
    return hashlib.sha256(f"{language}\0{content_sha256}".encode()).digest()


class _Answers:
    """Files that workers were asked for, and the answers so far, by the places of the files."""

    def __init__(self, files: Sequence[SourceFile]) -> None:
        self.files = files
        self.found: dict[int, bytes | _Death] = {}


class _WorkerPool:
    """Workers, started as they are needed; the first one may have been kept from the pool before."""

    kept: ClassVar[list[_Worker] | None] = None
    """At most one worker without work, for the next pool of this process; None where none is kept."""

    def __init__(self, settings: ChunkingSettings, size: int) -> None:
        self._settings = settings
        self._size = size
        self._idle: list[_Worker] = [self.kept.pop()] if self.kept else []
        self._busy: dict[_Worker, tuple[_Answers, int]] = {}
        """File that each works on: its place among those asked for."""
        self._waiting: deque[tuple[_Answers, int]] = deque()

    def ask(self, files: Sequence[SourceFile]) -> _Answers:
        """Give files to the workers, the longest first and behind those before; returns what `wait_for` takes.

        Each worker gets the longest file that is left as soon as it is free, so that they end at about one time.
        """
        asked = _Answers(files)
        self._waiting.extend((asked, at) for at in sorted(range(len(files)), key=lambda at: -len(files[at][2])))
        self.turn()
        return asked

    def wait_for(self, asked: _Answers) -> list[bytes | _Death]:
        """Return the answer to each file, in order: chunks by lines for one that ends every worker."""
        while len(asked.found) < len(asked.files):
            self.turn(_LOOK_S)
        return [asked.found[at] for at in range(len(asked.files))]

    def answers(self, files: Sequence[SourceFile]) -> list[bytes | _Death]:
        """Ask for files, and wait for the answers."""
        return self.wait_for(self.ask(files))

    def close(self) -> None:
        """End the workers, but for one that is kept."""
        if self.kept is not None and not self.kept and self._idle:
            self.kept.append(self._idle.pop())
        for worker in (*self._idle, *self._busy):
            worker.close()

    def turn(self, wait_s: float = 0.0) -> None:
        """Take the answers that are there, and give each free worker the next file.

        Args:
            wait_s: Seconds to wait for an answer; a worker that does not answer then is waited for, and watched, alone.
        """
        self._hand_out()
        if not self._busy:
            return
        for worker in select.select(self._busy, [], [], wait_s)[0] or (list(self._busy)[:1] if wait_s else ()):
            asked, at = self._busy[worker]
            asked.found[at] = self._answer(worker, asked.files[at])
            del self._busy[worker]
            self._idle.append(worker)
        self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting and len(self._busy) < self._size:
            worker = self._idle.pop() if self._idle else _Worker()
            asked, at = self._busy[worker] = self._waiting.popleft()
            self._send(worker, asked.files[at])

    def _send(self, worker: _Worker, file: SourceFile) -> None:
        worker.send(*file[1:], max_chars=self._settings.max_chars, merge_chars=self._settings.merge_chars)

    def _answer(self, worker: _Worker, file: SourceFile) -> bytes | _Death:
        """Wait for the answer to the file that a worker was sent."""
        answer = worker.receive()
        if isinstance(answer, _Death) and not answer.sure:
            # Somebody may have ended the worker, or the files before may have taken its memory.
            self._send(worker, file)
            answer = worker.receive()
        if isinstance(answer, _Death) and answer.settled:
            answer = _to_json(_by_lines(file[2], self._settings, answer.reason))
        return answer


def _by_lines(content: bytes, settings: ChunkingSettings, reason: str) -> FileChunks:
    return chunk_lines(content, max_chars=settings.max_chars, merge_chars=settings.merge_chars, reason=reason)


class _Worker:
    """One process, restarted after it died."""

    def __init__(self) -> None:
        self._process = self._start()

    def fileno(self) -> int:
        """Return the descriptor of the pipe that answers come through."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def send(self, language: str, content: bytes, **sizes: int) -> None:
        """Send a file and the sizes of chunks to the worker; ``receive`` notices when the worker has died."""
        header = json.dumps({"language": language, "bytes": len(content), **sizes})
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(header.encode() + b"\n" + content)
            self._process.stdin.flush()

    def receive(self) -> bytes | _Death:
        """Return the answer to the last file, or the reason for having none, after which the worker is a fresh one.

        Returns:
            A JSON line, or the worker's death.

        Raises:
            CodequarryError: The worker failed by itself, which is a bug; its traceback is on standard error.
        """
        assert self._process.stdout is not None
        death = self._await_answer()
        line = self._process.stdout.readline() if death is None else b""
        if line.endswith(b"\n"):
            return line
        death = death or _death(self._process.wait())
        if self._process.returncode == _EXIT_FAILED:
            raise CodequarryError(
                "a chunk worker failed; its traceback is above", suggestion="report it, with the file that caused it"
            )
        self.close()
        self._process = self._start()
        return death

    def _await_answer(self) -> _Death | None:
        """Wait for an answer or for the worker's end; return the reason when the worker has to be ended."""
        assert self._process.stdout is not None
        until = time.monotonic() + _ANSWER_S
        while (left := until - time.monotonic()) > 0:
            if select.select([self._process.stdout], [], [], min(left, _LOOK_S))[0]:
                return None
            # Where the kernel enforces the limit, a worker stays far below this one.
            if resident_bytes(self._process.pid) > _WATCHED_BYTES:
                return _NO_MEMORY
        return _NO_ANSWER

    def _start(self) -> subprocess.Popen[bytes]:
        # -P: the current folder may be a repository that is being indexed, and its json.py is not ours to run.
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "codequarry.pipelines.syntax.workers", str(_MEMORY_BYTES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C is this process's to handle; the workers end when their input does
        )

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()


def _from_json(line: bytes) -> FileChunks:
    answer = json.loads(line)
    leaves = zip(answer["leaf_kinds"], answer["leaf_counts"], strict=True)
    return FileChunks(
        tuple(
            ChunkSpan(*values[:-2], symbols=tuple(values[-2]), leaf_kinds=tuple(islice(leaves, values[-1])))
            for values in answer["spans"]
        ),
        parsed=answer["parsed"],
        has_syntax_errors=answer["errors"],
        ast_nodes=tuple(map(AstNode._make, answer["nodes"])),
        members=tuple(map(AstNode._make, answer["members"])),
        references=References(*map(tuple, answer["references"])),
        module=_facts(answer["module"]),
        fallback=answer["fallback"],
    )


def _to_json(made: FileChunks) -> bytes:
    """Return a line that `_from_json` reads: references by column, and the leaf kinds of all spans in two lists."""
    found = made.references
    answer = {
        "spans": [(*span[:-1], len(span.leaf_kinds)) for span in made.spans],
        "leaf_kinds": [kind for span in made.spans for kind, _ in span.leaf_kinds],
        "leaf_counts": [count for span in made.spans for _, count in span.leaf_kinds],
        "nodes": made.ast_nodes,
        "members": made.members,
        "references": (found.names, found.roles, found.start_bytes, found.start_lines, found.start_columns),
        "module": made.module,
        "parsed": made.parsed,
        "errors": made.has_syntax_errors,
        "fallback": made.fallback,
    }
    return json.dumps(answer).encode() + b"\n"


def _facts(values: list[Any] | None) -> ModuleFacts | None:
    if values is None:
        return None
    facts = ModuleFacts(*values)
    imports = (Import(source, tuple((there, here) for there, here in names)) for source, names in facts.imports)
    return facts._replace(imports=tuple(imports), exports=tuple(facts.exports), defined=tuple(facts.defined))


def _work(memory_bytes: int) -> None:
    """Answer requests from standard input until it ends, within a limit of memory."""
    limit_memory(memory_bytes)
    collect_seldom()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        limit_cpu_time(_CPU_S * (1 + request["bytes"] // 2**20))
        content = sys.stdin.buffer.read(request["bytes"])
        sizes = {"max_chars": request["max_chars"], "merge_chars": request["merge_chars"]}
        made = chunk_source(content, request["language"], **sizes)
        sys.stdout.buffer.write(_to_json(made))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    try:
        _work(int(sys.argv[1]))
    except MemoryError:
        sys.exit(_EXIT_NO_MEMORY)
