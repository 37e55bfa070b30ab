"""Fetching one commit of a remote repository into the store.

Each URL has a bare repository of ours below ``<store>/repositories``, named by a digest of the URL without its
credentials. It is made without a template, so it has no hooks; its configuration is git's default; the URL is handed to
git in the environment, so that no credential reaches the disk. Nothing is checked out: files are read from the objects.
Only the requested commit is fetched where the server allows it (``--depth=1``).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from codequarry.pipelines.git.process import OUTPUT_BYTES, GitResult, run_git
from codequarry.pipelines.git.trees import no_such_ref
from codequarry.pipelines.store.workspace import exclusive
from codequarry.schemas.errors import RemoteError, SourceError, SourceLimitError, UnavailableError
from codequarry.schemas.git_urls import GitUrl, parse_git_url, without_credentials

LIST_TIMEOUT_S = 60.0
FETCH_TIMEOUT_S = 1800.0
WAITS_S = (1.0, 4.0)
"""Pauses between the tries; a refusal by the server is not tried again."""
_REMOTE = "source"
_COMMIT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_NETWORK_ERROR = re.compile(
    r"could not resolve host|couldn't connect|connection (refused|reset|timed out|closed)|timed out"
    r"|network is unreachable|no route to host|early eof|remote end hung up|unexpected disconnect|rpc failed|gnutls"
    r"|ssl_read|returned error: (429|5\d\d)|temporary failure",
    re.IGNORECASE,
)
_REFUSAL = re.compile(r"permission denied|authentication failed|could not read username|not found", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Fetched:
    """A commit that lies in the store."""

    repository: Path
    """The bare repository that holds it."""
    commit: str


def clone_folder(url: str, store: Path) -> Path:
    """Return the folder of the repository of a URL without credentials."""
    return store / "repositories" / hashlib.sha256(url.encode()).hexdigest()[:32]


def fetch_commit(url: str, ref: str, store: Path) -> Fetched:
    """Fetch the commit of a ref into the store.

    Args:
        url: URL as given, credentials included.
        ref: Branch, tag, full ref name or full commit id; "" for HEAD. A tag wins over a branch of the same name.
        store: Folder of the store.

    Returns:
        The commit and the repository that holds it.

    Raises:
        RemoteError: The remote does not answer.
        SourceError: The remote refuses, or has no such ref.
        UnavailableError: The store cannot be written.
    """
    remote = _Remote(url, parse_git_url(url))
    folder = clone_folder(remote.url.public, store)
    with exclusive(folder.with_suffix(".lock"), f"fetching {remote.url.public}", wait=True):
        advertised = remote.advertised(folder.parent)
        name, oid = _choose(remote.url.public, ref, advertised)
        _make(folder, oid)
        # One ref per requested name: two entries of the settings may read two branches of one URL.
        kept = f"refs/codequarry/{hashlib.sha256(name.encode()).hexdigest()[:32]}"
        if run_git(folder, "rev-parse", "--verify", "--quiet", kept).output.decode().strip() != oid:
            _remove_abandoned(folder)
            remote.fetch(folder, f"+{name}:{kept}")
        found = run_git(folder, "rev-parse", "--verify", "--quiet", f"{kept}^{{commit}}")
    if not found.done:
        raise SourceError(
            f"{ref or 'HEAD'} of {remote.url.public} is not a commit", suggestion="name a branch, a tag or a commit id"
        )
    return Fetched(folder, found.output.decode().strip())


def remote_head(url: str, ref: str, folder: Path, timeout_s: float) -> str:
    """Return the commit that `fetch_commit` would fetch now, without fetching or retrying.

    A full commit id is itself the answer, whether the remote has it or not.

    Args:
        url: URL as given, credentials included.
        ref: Branch, tag, full ref name or full commit id; "" for HEAD.
        folder: Any folder that exists.
        timeout_s: Seconds the remote may take.

    Returns:
        The commit id.

    Raises:
        RemoteError: The remote does not answer.
        SourceError: The remote refuses, or has no such ref.
    """
    remote = _Remote(url, parse_git_url(url), waits_s=())
    advertised = remote.advertised(folder, timeout_s)
    name, oid = _choose(remote.url.public, ref, advertised)
    return advertised.get(f"{name}^{{}}", oid)  # an annotated tag counts as its commit


@dataclass(frozen=True, slots=True)
class _Remote:
    given: str
    url: GitUrl
    waits_s: tuple[float, ...] | None = None
    """Pauses between the tries; `WAITS_S` when None."""

    def advertised(self, folder: Path, timeout_s: float | None = None) -> dict[str, str]:
        """Return object ids by full ref name, HEAD among them."""
        outcome = self._ask(folder, timeout_s or LIST_TIMEOUT_S, "ls-remote", "--quiet", _REMOTE)
        if not outcome.done:
            raise self._failed("cannot be read", outcome)
        rows = (line.split("\t", 1) for line in outcome.output.decode("utf-8", "surrogateescape").splitlines())
        return {row[1]: row[0] for row in rows if len(row) == 2}

    def fetch(self, folder: Path, refspec: str) -> None:
        """Fetch what a refspec names, without its history where the server allows that."""
        command = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"]
        command += ["--no-auto-maintenance", "--force"]
        outcome = self._ask(folder, FETCH_TIMEOUT_S, *command, "--depth=1", _REMOTE, refspec)
        if not outcome.done and "shallow" in outcome.complaint:
            outcome = self._ask(folder, FETCH_TIMEOUT_S, *command, _REMOTE, refspec)
        if not outcome.done:
            raise self._failed("cannot be fetched", outcome)

    def _ask(self, folder: Path, timeout_s: float, *command: str) -> GitResult:
        settings = {
            f"remote.{_REMOTE}.url": self.given,
            "http.lowSpeedLimit": "1000",
            "http.lowSpeedTime": "60",
            "fetch.unpackLimit": "1",
        }
        for wait in (*(WAITS_S if self.waits_s is None else self.waits_s), None):
            try:
                outcome = run_git(
                    folder, *command, protocol=self.url.scheme, settings=settings, timeout_s=timeout_s
                )  # fmt: skip
            except TimeoutError:
                raise RemoteError(
                    f"{self.url.public} did not answer in {timeout_s:g} s",
                    suggestion="check the URL and the network, then run again",
                ) from None
            except SourceLimitError as error:
                raise SourceLimitError(
                    f"{self.url.public} answers git {command[0]} with more than {OUTPUT_BYTES:,} bytes",
                    limit=error.limit,
                    suggestion="clone it by yourself, and give the path",
                ) from None
            if outcome.done or not _is_transient(outcome) or wait is None:
                return outcome
            time.sleep(wait)
        raise AssertionError("unreachable")

    def _failed(self, what: str, outcome: GitResult) -> SourceError:
        said = without_credentials(outcome.complaint)
        for secret in self.url.secrets:
            said = said.replace(secret, "…")
        kind = RemoteError if _is_transient(outcome) else SourceError
        return kind(
            f"{self.url.public} {what}: {' '.join(said.split())[:300] or 'git says nothing'}",
            suggestion=f"`git ls-remote {self.url.public}` must work here without asking for a password",
        )


def _is_transient(outcome: GitResult) -> bool:
    """Return whether a failure comes from the network, and may be over soon, rather than from the server's answer."""
    return bool(_NETWORK_ERROR.search(outcome.complaint) and not _REFUSAL.search(outcome.complaint))


def _choose(place: str, ref: str, advertised: dict[str, str]) -> tuple[str, str]:
    """Return the ref to fetch, and the object id it must have."""
    if not ref:
        if "HEAD" in advertised:
            return "HEAD", advertised["HEAD"]
        if not advertised:
            raise SourceError(f"{place} has no commits", suggestion="push something first, then index again")
        raise SourceError(f"{place} has no HEAD", suggestion=f"give a ref, e.g. {_short(sorted(advertised)[0])}")
    for name in (ref, f"refs/{ref}", f"refs/tags/{ref}", f"refs/heads/{ref}"):
        if name in advertised:
            return name, advertised[name]
    if _COMMIT_ID.fullmatch(ref):
        return ref, ref
    raise no_such_ref(place, ref, (_short(name) for name in advertised if not name.endswith("^{}")))


def _short(name: str) -> str:
    return name.removeprefix("refs/heads/").removeprefix("refs/tags/")


def _make(folder: Path, oid: str) -> None:
    """Make an empty bare repository, complete or not at all; the caller holds its lock."""
    if (folder / "HEAD").is_file():
        return
    prefix = f".new-{folder.name}-"
    for abandoned in folder.parent.glob(f"{prefix}*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    temporary = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    try:
        kind = "sha256" if len(oid) == 64 else "sha1"
        made = run_git(temporary, "init", "--quiet", "--bare", "--template=", f"--object-format={kind}")
        if not made.done:
            raise UnavailableError(f"{folder} cannot be made: {made.complaint}", suggestion="check [paths] store")
        os.rename(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _remove_abandoned(folder: Path) -> None:
    """Remove leftovers of a killed fetch; git would wait for its locks forever.

    The caller holds the repository's lock.
    """
    packs = folder / "objects" / "pack"
    for file in (*folder.glob("*.lock"), *(folder / "refs").rglob("*.lock"), *packs.glob("tmp_*")):
        file.unlink(missing_ok=True)
