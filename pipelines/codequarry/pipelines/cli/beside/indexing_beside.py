"""First index in a process of its own, beside a server that answers meanwhile.

The two talk through pipes. The server reads one JSON object a line: a step, the end, or a failure. It writes nothing:
its end of the other pipe closes when it ends, however that happens, and then the process that indexes ends too.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from codequarry.pipelines.cli.index import publish
from codequarry.pipelines.cli.progress import console
from codequarry.pipelines.cli.repositories import over
from codequarry.pipelines.sources.earlier import selected
from codequarry.pipelines.store.processes import start_group, stop_group
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.errors import BusyError, CodequarryError, NoBundleError, UnavailableError
from codequarry.schemas.settings.load import Settings, load_settings
from codequarry.schemas.wording import counted
from codequarry.serving.cli.terminal import for_terminal
from codequarry.serving.engine.first_version import FirstVersion, Step

_WRITING = "writing the index"
_STEPS = {
    "reading": ("reading files", "file", 0.0, 0.1),
    "chunking": ("cutting files into chunks", "file", 0.1, 0.42),
    "modules": ("resolving imports", "", 0.52, 0.02),
    "embedding": ("embedding chunks", "chunk", 0.54, 0.06),
    "shards": (_WRITING, "", 0.6, 0.2),
    "tables": (_WRITING, "", 0.8, 0.02),
    "faiss": (_WRITING, "", 0.82, 0.02),
    "files": (_WRITING, "", 0.84, 0.02),
    "catalog": (_WRITING, "", 0.86, 0.03),
    "checksums": (_WRITING, "", 0.89, 0.01),
    "verifying": ("checking the index", "", 0.9, 0.1),
    "asking": ("asking it test questions", "", 0.92, 0.08),
}
"""Text, unit, share of the work before, and own share, of the stages of a run, as 1,000 files of Python took."""
_ABSOLUTE = re.compile(r"(?<![\w~/.:-])/[^\s'\",;:()]+")
_LATEST_S = 0.2
_PRINTED_S = 10.0
_AGAIN_S = 1.0
_STOP_S = 5.0


@contextmanager
def indexing_beside(folder: Path) -> Iterator[FirstVersion]:
    """Index a repository in another process, which ends when the block does.

    Args:
        folder: Folder to work in: the top of a git work tree, or one with a settings file.

    Yields:
        Its progress.
    """
    first = FirstVersion(folder.name)
    # -P: the current folder is a repository, and may hold packages of the same names.
    process = start_group(
        lambda: subprocess.Popen(
            [sys.executable, "-P", "-m", "codequarry.pipelines.cli.beside.indexing_beside"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C is the server's to handle
        )
    )
    _print(f"nothing is indexed here yet: indexing {folder} beside the server")
    assert process.stdin is not None and process.stdout is not None
    threading.Thread(target=_listen, args=(process, first, folder), name="first-index", daemon=True).start()
    try:
        yield first
    finally:
        process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)
        stop_group(process)
        process.wait()


def _listen(process: subprocess.Popen[bytes], first: FirstVersion, folder: Path) -> None:
    """Note what the process says, until it says no more."""
    printed, text = 0.0, ""
    for message in _messages(process.stdout or ()):
        if "step" in message:
            step = Step(*message["step"])
            first.note(step)
            now = time.monotonic()
            if step.text != text or now >= printed + _PRINTED_S:
                printed, text = now, step.text
                _print(first.sentence())
        elif "published" in message:
            first.publish()
            _print(f"indexed {message['published']}; `codequarry index` brings it up to date")
            return
        else:
            _print_failure(first, folder, str(message.get("failed")), str(message.get("suggestion", "")))
            return
    code = process.wait()
    # The server itself ends it with its input.
    if process.stdin is not None and not process.stdin.closed:
        _print_failure(
            first, folder, f"the process ended unexpectedly ({code})", "run `codequarry index` in the repository"
        )


def _print_failure(first: FirstVersion, folder: Path, message: str, suggestion: str) -> None:
    """Note and print a failure. Clients may be elsewhere, so they read no path of this machine."""
    _print(f"the first index failed: {message}" + (f"; {suggestion}" if suggestion else ""))
    remedy = suggestion or "run `codequarry index` in the repository"
    first.fail(without_paths(message, folder), without_paths(remedy, folder))


def without_paths(text: str, folder: Path) -> str:
    """Return a text in which paths of the repository are relative, and others are their last names.

    >>> without_paths("/src/app/a.py, /var/cache/x.bin and https://a.b/c", Path("/src/app"))
    'a.py, x.bin and https://a.b/c'

    Args:
        text: Message for the user of this machine.
        folder: Folder of the repository.

    Returns:
        The message for anybody.
    """
    inside = text.replace(f"{folder}/", "").replace(str(folder), folder.name)
    return _ABSOLUTE.sub(lambda found: found[0].rstrip("/").rpartition("/")[2], inside)


def _print(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
        console.print(for_terminal(text), highlight=False, soft_wrap=not console.is_terminal, markup=False)


def _messages(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        with contextlib.suppress(ValueError):
            yield json.loads(line)


class _Reporter:
    """Progress of a run, written for the server a few times a second."""

    def __init__(self, out: Any) -> None:
        self._out = out
        self._stage, self._next = "", 0.0

    def show(self, what: str, done: int, total: int) -> None:
        stage = what.rpartition(": ")[2]
        now = time.monotonic()
        if stage == self._stage and now < self._next:
            return
        self._stage, self._next = stage, now + _LATEST_S
        text, unit, before, share = _STEPS.get(stage, ("", "", 0.0, 0.0))
        whole = before + share * done / total if total and share else before
        counts = (done, total) if unit else (0, 0)
        self.send(step=[text or f"running {stage}", *counts, unit, round(whole, 3)])

    def send(self, **message: Any) -> None:
        try:
            self._out.write(json.dumps(message).encode() + b"\n")
            self._out.flush()
        except OSError:  # the server has ended, and the other pipe says so
            pass


def _end_with_input() -> None:
    """End this process, as a signal does, when the server ends."""
    while os.read(sys.stdin.fileno(), 4_096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _index(settings: Settings, reporter: _Reporter) -> str:
    """Index what the settings list, and return what was indexed; waits while another process indexes it."""
    listed = settings.sources.repositories
    selection = selected(over(settings, []), listed, whole=bool(listed), only=False)
    while True:
        try:
            report = publish(selection.settings, progress=reporter.show)
        except BusyError:
            reporter.send(step=["another process is indexing it"])
            with contextlib.suppress(NoBundleError):
                BundleRoot(settings.bundle.root).read_current()
                return "by another process"
            time.sleep(_AGAIN_S)
        else:
            counts = report.manifest.counts
            what = f"{counted(counts.files, 'file')}, {counted(counts.chunks, 'chunk')}"
            return f"{what} in {sum(report.seconds.values()):.0f} s"


def main() -> None:
    """Index the current folder for the server that started this process."""
    reporter = _Reporter(os.fdopen(os.dup(sys.stdout.fileno()), "wb"))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    threading.Thread(target=_end_with_input, daemon=True).start()
    try:
        reporter.send(published=_index(load_settings(None), reporter))
    except CodequarryError as error:
        reporter.send(failed=error.message, suggestion=error.suggestion)
        sys.exit(error.exit_code)
    except OSError as error:
        reporter.send(failed=f"{error.filename or 'a file'} cannot be used: {error.strerror or error}")
        sys.exit(UnavailableError.exit_code)


if __name__ == "__main__":
    main()
