"""Events of webhooks: the branch or tag that moved, and of which repository."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from codequarry.schemas.git_urls import parse_git_url
from codequarry.schemas.settings.load import RepositorySettings

_EVENT_HEADERS = ("x-gitlab-event", "x-github-event", "x-gitea-event", "x-forgejo-event", "x-gogs-event")
_PUSHES = frozenset({"push", "tag_push", "Push Hook", "Tag Push Hook"})
_SYSTEM_HOOK = "System Hook"
_URL_KEYS = ("clone_url", "ssh_url", "git_url", "html_url", "url", "git_http_url", "git_ssh_url", "web_url")
_NESTING = "the body nests too deeply"


@dataclass(frozen=True, slots=True)
class PushEvent:
    """A push, as its sender tells it; only what is asked of the repository afterwards is believed."""

    places: frozenset[str]
    """Places of the repository, as `place_of` returns them."""
    ref: str
    """Full name of the branch or tag."""
    default_branch: str
    """Branch that HEAD names; "" where the sender does not say."""
    called: str
    """Name of the repository for people."""


def read_push(headers: Mapping[str, str], body: bytes) -> PushEvent | None:
    """Read a webhook.

    Args:
        headers: Headers of the request, by name in lower case.
        body: Its body: JSON, or a form with the field ``payload``.

    Returns:
        The push; None for another event, such as a ping.

    Raises:
        ValueError: It is no webhook of a code host that is known, with the reason.
    """
    event = next((headers[name] for name in _EVENT_HEADERS if name in headers), "")
    if not event:
        raise ValueError("no header says which event it is, as GitHub, GitLab, Gitea and Forgejo do")
    if event not in _PUSHES and event != _SYSTEM_HOOK:
        return None
    payload = _payload(headers.get("content-type", ""), body)
    if event == _SYSTEM_HOOK and payload.get("event_name") not in _PUSHES:
        return None
    repository = payload.get("project") or payload.get("repository")
    ref = payload.get("ref")
    if not isinstance(repository, dict) or not isinstance(ref, str):
        raise ValueError("a push without a ref or a repository")
    about = cast("dict[str, Any]", repository)
    urls = [about[key] for key in _URL_KEYS if isinstance(about.get(key), str)]
    return PushEvent(
        frozenset(filter(None, map(place_of, urls))),
        ref,
        _text(about, "default_branch"),
        _text(about, "path_with_namespace") or _text(about, "full_name") or _text(about, "name"),
    )


def _payload(content_type: str, body: bytes) -> dict[str, Any]:
    if content_type.partition(";")[0].strip().lower() == "application/x-www-form-urlencoded":
        body = parse_qs(body.decode("utf-8", "replace"), max_num_fields=8).get("payload", [""])[0].encode()
    try:
        found = json.loads(body)
    except RecursionError:
        raise ValueError(_NESTING) from None
    except ValueError:
        raise ValueError("the body is no JSON") from None
    if not isinstance(found, dict):
        raise ValueError("the body is no JSON object")
    return cast("dict[str, Any]", found)


def _text(about: dict[str, Any], key: str) -> str:
    found = about.get(key)
    return found if isinstance(found, str) else ""


def place_of(url: str) -> str:
    """Return what the URLs of one repository have in common, whatever the protocol: host and path.

    >>> place_of("https://me:token@Example.org:8443/Team/app.git"), place_of("git@example.org:team/app")
    ('example.org/team/app', 'example.org/team/app')

    Args:
        url: A URL for git or for a browser.

    Returns:
        Host and path in lower case, as the hosts compare them; "" for what is no URL.
    """
    if "://" not in url:
        try:
            url = "ssh://" + parse_git_url(url).public.replace(":", "/", 1)
        except ValueError:
            return ""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return ""
    path = parts.path.strip("/").lower().removesuffix(".git")
    return f"{host}/{path}" if path else ""


def concerned(push: PushEvent, repositories: Iterable[RepositorySettings]) -> tuple[str, ...]:
    """Return the repositories that a push concerns: those of its place that are read at the ref that moved.

    Args:
        push: The push.
        repositories: Repositories with names; those of folders are never meant.

    Returns:
        Their names.
    """
    return tuple(
        each.name
        for each in repositories
        if each.url and place_of(each.url) in push.places and _reads(each.ref, push.ref, push.default_branch)
    )


def _reads(wanted: str, moved: str, default_branch: str) -> bool:
    if not wanted:
        return not default_branch or moved == f"refs/heads/{default_branch}"
    return moved in (wanted, f"refs/{wanted}", f"refs/heads/{wanted}", f"refs/tags/{wanted}")
