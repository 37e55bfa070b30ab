"""Isolated runs of SCIP indexers, and a cache of their indexes.

An indexer reads a private copy of a repository. Neither the indexed code nor its size is trusted: the run has no
network, and no process outlives it (namespaces, where ``unshare`` may make them). Memory, file size and time are
limited, and the environment holds nothing of the user's. An unchanged tree is not indexed again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pyarrow as pa

from codequarry.pipelines.scip.indexers import PYTHON, TYPESCRIPT, Installed
from codequarry.pipelines.scip.positions import as_utf8
from codequarry.pipelines.scip.python_roots import source_roots
from codequarry.pipelines.store.processes import start_group, stop_group
from codequarry.pipelines.store.workspace import replacing
from codequarry.schemas.errors import ScipIndexError
from codequarry.schemas.settings.load import ScipSettings
from codequarry.schemas.trust.programs import find_program

if TYPE_CHECKING:
    from codequarry.pipelines.scip.index_file import ScipIndex


_LARGEST_FILE_BYTES = 1 << 30
_LOG_TAIL_BYTES = 4096
# Without a project file scip-typescript leaves out JavaScript as soon as there is TypeScript.
_TSCONFIG = '{"compilerOptions": {"allowJs": true, "jsx": "preserve"}}\n'
# No module and no tool chain is fetched, and no C compiler is started.
_GO = {"GOPROXY": "off", "GOSUMDB": "off", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
_NAMESPACES = ("--net", "--pid", "--fork", "--kill-child")


@dataclass(frozen=True, slots=True)
class IndexerRun:
    """Result of a run."""

    data: bytes
    """Bytes of its index; empty for none."""
    problem: str
    """Reason of a failure; empty for success. Without paths and times, so that equal runs give equal reasons."""
    timed_out: bool
    log: str
    """The end of what it printed."""


def run_indexer(
    installed: Installed, name: str, files: Iterable[tuple[str, bytes]], settings: ScipSettings
) -> IndexerRun:
    """Run an indexer over files.

    Args:
        installed: The indexer.
        name: Project name, which becomes the package of the symbols.
        files: (path, content); also files of other languages that the indexer may read.
        settings: Limits of the run.

    Returns:
        The index, or the problem.
    """
    if installed.indexer.builds and not _isolation():
        return IndexerRun(b"", "it runs the build, and this system cannot cut that off the network", False, "")
    try:
        with _private_folder() as private:
            return _run_in(private, installed, name, files, settings)
    except OSError as error:
        return IndexerRun(b"", f"it could not be run: {error.strerror or type(error).__name__}", False, "")


def _run_in(
    private: Path, installed: Installed, name: str, files: Iterable[tuple[str, bytes]], settings: ScipSettings
) -> IndexerRun:
    copy = private / "copy" / name  # scip-typescript takes the folder's name for the package's
    copy.mkdir(parents=True)
    sources = dict(files)
    for path, content in sources.items():
        _write(copy, path, content)
    if installed.indexer is PYTHON and (roots := source_roots(sources)):
        (copy / "pyrightconfig.json").write_text(json.dumps({"extraPaths": roots}), encoding="ascii")
    index, log = private / "index.scip", private / "log"
    if installed.indexer is PYTHON:
        (private / "environment.json").write_text("[]", encoding="ascii")
    project_file = copy / "tsconfig.json" if installed.indexer is TYPESCRIPT else None
    if project_file is not None and not project_file.exists():
        project_file.write_text(_TSCONFIG, encoding="ascii")
    values = {"index": index, "project": name, "private": private}
    command = [str(installed.executable), *(each.format(**values) for each in installed.indexer.arguments)]
    environment = _environment(private, installed, settings)
    status = _run(command, copy, environment, log, settings)
    if status and not index.exists() and project_file is not None and project_file.read_text("utf-8") != _TSCONFIG:
        # A project file may extend one of a package, and packages are missing here: ours reads every file.
        project_file.write_text(_TSCONFIG, encoding="ascii")
        status = _run(command, copy, environment, log, settings)
    data = index.read_bytes() if index.is_file() and not index.is_symlink() else b""
    return IndexerRun(data, _problem(status, settings), status is None, _tail(log))


def _run(command: list[str], copy: Path, environment: dict[str, str], log: Path, settings: ScipSettings) -> int | None:
    """Return the exit status; None when it ran out of time. All processes of the run have ended afterwards."""
    limits = (
        f"ulimit -c 0; ulimit -d {settings.memory_mb * 1024}; "
        f'ulimit -f {_LARGEST_FILE_BYTES // 512}; exec "$@"'  # POSIX: blocks of 512 bytes
    )
    # RLIMIT_DATA, not the address space: V8 reserves many gigabytes that it never touches.
    with log.open("ab") as stream:
        process = start_group(
            lambda: subprocess.Popen(
                ["/bin/sh", "-c", limits, "sh", *_isolation(), *command],
                cwd=copy,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        )
        try:
            return process.wait(settings.timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            stop_group(process)
            process.wait()


def _environment(private: Path, installed: Installed, settings: ScipSettings) -> dict[str, str]:
    """Return the environment of a run: the programs that the indexer needs, and nothing of the user's.

    One that runs the build gets the user's PATH and the folders of tool chains, for a build finds nothing without them.
    """
    programs, home = private / "bin", private / "home"
    programs.mkdir()
    home.mkdir()
    for name, program in installed.programs.items():
        (programs / name).symlink_to(program)
    environment = {
        "PATH": str(programs),
        "HOME": str(home),
        "TMPDIR": str(home),
        "LANG": "C.UTF-8",
        "NODE_OPTIONS": f"--max-old-space-size={settings.memory_mb * 3 // 4}",
        "npm_config_offline": "true",
    }
    if "go" in installed.programs:
        environment |= {**_GO, "GOMODCACHE": _module_cache()}
    if installed.indexer.builds:
        tools = {name: value for name, value in os.environ.items() if name.endswith(("_HOME", "_ROOT"))}
        user = {"PATH": installed.search_path, "HOME": os.path.expanduser("~"), "CARGO_NET_OFFLINE": "true"}
        environment |= tools | user
    return environment


def _module_cache() -> str:
    """Return the folder of the Go modules that the user has downloaded: a run has no network, and reads them there."""
    if (cache := os.environ.get("GOMODCACHE", "")) and os.path.isabs(cache):
        return cache
    paths = [path for path in os.environ.get("GOPATH", "").split(os.pathsep) if os.path.isabs(path)]
    return str(Path(paths[0] if paths else os.path.expanduser("~/go")) / "pkg" / "mod")


@lru_cache(maxsize=1)
def _isolation() -> tuple[str, ...]:
    """Return a command prefix that cuts off the network and ends all descendants; empty if not permitted."""
    unshare = find_program("unshare")
    for user in ((), ("--map-root-user",)) if unshare is not None else ():
        prefix = (str(unshare), *user, *_NAMESPACES)
        if subprocess.run([*prefix, "/bin/sh", "-c", ":"], capture_output=True, check=False).returncode == 0:
            return prefix
    return ()


@contextmanager
def _private_folder() -> Iterator[Path]:
    """Yield a folder outside every repository: indexers look for configuration and packages in the folders above."""
    folder = tempfile.mkdtemp(prefix="codequarry-scip-")
    try:
        yield Path(os.path.realpath(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write(copy: Path, path: str, content: bytes) -> None:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts:
        return
    file = copy / pure
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(as_utf8(content))


def _problem(status: int | None, settings: ScipSettings) -> str:
    if status is None:
        return f"stopped after {settings.timeout_s:g} s ([scip] timeout_s)"
    if status < 0:
        return f"killed by signal {-status}"
    return f"exit status {status}" if status else ""


def _tail(log: Path) -> str:
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - _LOG_TAIL_BYTES))
        return stream.read().decode("utf-8", "replace")


_RUN = "with source roots"
"""Settings with which indexers are run: what else than the files and the version an index follows from."""
KEPT = 3
"""Number of last used indexes that are kept per repository and indexer."""


def cache_file(store: Path, name: str, tree_sha256: str, installed: Installed) -> Path:
    """Return the file of the index of this tree by this indexer; the repository's name is part of every symbol."""
    key = hashlib.sha256(f"{tree_sha256}\0{installed.version}\0{_RUN}".encode()).hexdigest()[:32]
    return store / "scip" / name / installed.indexer.name / f"{key}.scip.zst"


def read_kept(kept: Path) -> ScipIndex | None:
    """Return a cached index; None when it is missing or damaged."""
    if not kept.is_file():
        return None
    from codequarry.pipelines.scip.index_file import read_scip

    try:
        with pa.input_stream(str(kept), compression="zstd") as stream:
            index = read_scip(stream.read())
        os.utime(kept)
    except (OSError, ScipIndexError):  # the indexer runs again
        return None
    return index


def keep(kept: Path, data: bytes) -> None:
    """Cache an index, and remove those beside it that were not used last.

    Args:
        kept: File of the cache.
        data: Bytes of the index.

    Raises:
        UnavailableError: The file cannot be written.
    """
    with replacing(kept) as temporary:
        with pa.output_stream(str(temporary), compression="zstd") as stream:
            stream.write(data)
    others = sorted(kept.parent.glob("*.scip.zst"), key=lambda file: (file.stat().st_mtime_ns, file.name))
    for old in [file for file in others if file != kept][: -(KEPT - 1)]:
        old.unlink()
