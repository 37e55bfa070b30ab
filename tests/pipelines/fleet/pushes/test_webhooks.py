"""Webhooks of code hosts: which are trusted, what they say, and whom they concern."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.testclient import TestClient

from codequarry.pipelines.fleet.pushes.push_event import PushEvent, concerned, place_of, read_push
from codequarry.pipelines.fleet.pushes.webhook_server import webhook_app
from codequarry.pipelines.fleet.pushes.webhook_signature import why_untrusted
from codequarry.schemas.settings.load import RepositorySettings

SECRET = "It's a Secret to Everybody"
KEY = b"32 bytes that nobody may know ..."
SIGNING_TOKEN = f"whsec_{base64.b64encode(KEY).decode()}"
NOW = 1_764_316_800.0


def hex_of(body: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, "sha256").hexdigest()


def standard(body: bytes, time: float = NOW, identifier: str = "evt-1") -> dict[str, str]:
    signed = f"{identifier}.{time:.0f}.".encode() + body
    digest = base64.b64encode(hmac.new(KEY, signed, "sha256").digest()).decode()
    return {"webhook-id": identifier, "webhook-timestamp": f"{time:.0f}", "webhook-signature": f"v1,{digest}"}


def headers_of(kind: str, body: bytes) -> dict[str, str]:
    """Headers that each code host sends with a body."""
    return {
        "github": {"x-hub-signature-256": f"sha256={hex_of(body)}", "x-github-event": "push"},
        "gitea": {"x-gitea-signature": hex_of(body), "x-gitea-event": "push"},
        "forgejo": {"x-forgejo-signature": hex_of(body), "x-forgejo-event": "push"},
        "gitlab": {**standard(body), "x-gitlab-event": "Push Hook"},
        "gitlab token": {"x-gitlab-token": SECRET, "x-gitlab-event": "Push Hook"},
    }[kind]


NAMES = st.sampled_from(["ref", "repository", "project", "clone_url", "default_branch", "name"])
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner),
)
KINDS = ("github", "gitea", "forgejo", "gitlab", "gitlab token")


def test_the_example_of_githubs_documentation_is_trusted() -> None:
    digest = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert not why_untrusted({"x-hub-signature-256": f"sha256={digest}"}, b"Hello, World!", [SECRET], NOW)


@pytest.mark.parametrize("kind", KINDS)
@given(body=st.binary(max_size=60), other=st.binary(max_size=60))
def test_a_webhook_is_trusted_as_it_was_signed_and_not_otherwise(kind: str, body: bytes, other: bytes) -> None:
    headers = headers_of(kind, body)
    secrets = ["an older one", SECRET, SIGNING_TOKEN]
    assert why_untrusted(headers, body, secrets, NOW) == ""
    assert "another secret" in why_untrusted(headers, body, ["an older one"], NOW)
    if other != body and kind != "gitlab token":
        assert "another secret" in why_untrusted(headers, other, secrets, NOW)


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, "bears no signature"),
        ({"x-hub-signature": "sha1=0000"}, "bears no signature"),
        ({"x-hub-signature-256": "sha256="}, "another secret"),
        ({"x-hub-signature-256": "sha256=ü"}, "another secret"),
        ({"x-gitlab-token": ""}, "another secret"),
        # A good signature does not make up for a bad one of a stronger kind.
        ({"x-hub-signature-256": "sha256=00", "x-gitlab-token": SECRET}, "another secret"),
        ({**standard(b"{}"), "webhook-signature": "v0,abc"}, "no signature v1"),
        ({**standard(b"{}"), "webhook-timestamp": "yesterday"}, "is no time"),
        ({**standard(b"{}"), "webhook-timestamp": "9" * 40}, "is no time"),
        ({**standard(b"{}"), "webhook-id": "evt-2"}, "another secret"),
        (standard(b"{}", time=NOW - 301), "compare the clocks"),
        (standard(b"{}", time=NOW + 301), "compare the clocks"),
    ],
)
def test_what_is_not_signed_well_is_refused(headers: dict[str, str], reason: str) -> None:
    assert reason in why_untrusted(headers, b"{}", [SECRET, SIGNING_TOKEN], NOW)


def test_a_second_signature_of_a_changing_key_is_found() -> None:
    headers = standard(b"{}")
    headers["webhook-signature"] = f"v1,AAAA {headers['webhook-signature']}"
    assert not why_untrusted(headers, b"{}", [SIGNING_TOKEN], NOW)


GITHUB = {
    "ref": "refs/heads/main",
    "repository": {
        "full_name": "Team/App",
        "clone_url": "https://code.example.org/Team/App.git",
        "ssh_url": "git@code.example.org:Team/App.git",
        "html_url": "https://code.example.org/Team/App",
        "default_branch": "main",
    },
}
GITLAB = {
    "object_kind": "push",
    "event_name": "push",
    "ref": "refs/heads/main",
    "project": {
        "path_with_namespace": "team/app",
        "git_http_url": "https://code.example.org/team/app.git",
        "git_ssh_url": "ssh://git@code.example.org:2222/team/app.git",
        "default_branch": "main",
    },
    "repository": {"name": "app"},
}
LISTED = [
    RepositorySettings(name="app", url="https://me:token@code.example.org/team/app"),
    RepositorySettings(name="app-ssh", url="git@code.example.org:team/app", ref="main"),
    RepositorySettings(name="stable", url="https://code.example.org/team/app.git", ref="release/2"),
    RepositorySettings(name="fork", url="https://code.example.org/other/app.git"),
    RepositorySettings(name="tagged", url="https://code.example.org/team/app.git", ref="v1.0"),
]


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("github", GITHUB),
        ("gitea", GITHUB),
        ("gitlab", GITLAB),
    ],
)
@pytest.mark.parametrize(
    ("ref", "wanted"),
    [
        ("refs/heads/main", ("app", "app-ssh")),
        ("refs/heads/release/2", ("stable",)),
        ("refs/heads/feature", ()),
        ("refs/tags/v1.0", ("tagged",)),
    ],
)
def test_a_push_concerns_what_is_read_at_the_ref_that_moved(
    kind: str, payload: dict[str, Any], ref: str, wanted: tuple[str, ...]
) -> None:
    body = json.dumps({**payload, "ref": ref}).encode()
    push = read_push(headers_of(kind, body), body)
    assert push is not None and push.called.lower() == "team/app"
    assert concerned(push, LISTED) == wanted


def test_a_form_and_a_system_hook_are_read_too() -> None:
    form = f"payload={quote(json.dumps(GITHUB))}".encode()
    headers = {"x-github-event": "push", "content-type": "application/x-www-form-urlencoded; charset=utf-8"}
    push = read_push(headers, form)
    assert push is not None and concerned(push, LISTED) == ("app", "app-ssh")
    hook = {"x-gitlab-event": "System Hook"}
    assert read_push(hook, json.dumps(GITLAB).encode()) == read_push(
        {"x-gitlab-event": "Push Hook"}, json.dumps(GITLAB).encode()
    )
    assert read_push(hook, json.dumps({**GITLAB, "event_name": "user_create"}).encode()) is None


@pytest.mark.parametrize(
    ("headers", "body", "reason"),
    [
        ({}, b"{}", "no header says"),
        ({"x-github-event": "push"}, b"{", "is no JSON"),
        ({"x-github-event": "push"}, b"\xff", "is no JSON"),
        ({"x-github-event": "push"}, b"[]", "no JSON object"),
        ({"x-github-event": "push"}, b"{}", "without a ref"),
        ({"x-github-event": "push"}, b'{"ref": "refs/heads/main", "repository": "app"}', "without a ref"),
        ({"x-github-event": "push"}, b"[" * 100_000 + b"]" * 100_000, "nests too deeply"),
    ],
)
def test_what_is_no_push_is_refused(headers: dict[str, str], body: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_push(headers, body)


@given(ANY_JSON)
def test_any_json_is_read_or_refused(payload: Any) -> None:
    try:
        push = read_push({"x-github-event": "push"}, json.dumps(payload).encode())
    except ValueError:
        return
    assert push is not None and concerned(push, LISTED) == ()


@given(st.text(max_size=40))
def test_any_text_has_a_place_or_none(url: str) -> None:
    assert place_of(url) == place_of(url).lower()


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def app(told: list[str]) -> Starlette:
    def queue(push: PushEvent) -> tuple[str, ...]:
        told.append(push.ref)
        return concerned(push, LISTED)

    return webhook_app([SECRET], queue, told.append, lambda: {"status": "ok"})


@pytest.fixture
def client(app: Starlette) -> Iterator[TestClient]:
    with TestClient(app) as client:
        yield client


def test_the_address_queues_what_is_trusted_and_says_little_otherwise(client: TestClient, told: list[str]) -> None:
    body = json.dumps(GITHUB).encode()
    good = client.post("/webhook", content=body, headers=headers_of("github", body))
    assert (good.status_code, good.json()) == (202, {"queued": 2})
    ping = client.post("/webhook", content=body, headers={**headers_of("github", body), "x-github-event": "ping"})
    assert (ping.status_code, ping.json()) == (200, {"queued": 0})
    bad = client.post("/webhook", content=body + b" ", headers=headers_of("github", body))
    assert bad.status_code == 401 and "secret" in bad.json()["error"]
    odd = client.post("/webhook", content=b"{", headers=headers_of("github", b"{"))
    assert odd.status_code == 400 and "JSON" in odd.json()["error"]
    assert told == ["refs/heads/main", "its signature is of another secret", "the body is no JSON"]
    assert client.get("/webhook").status_code == 405
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/").status_code == 404


def test_a_body_that_is_too_large_is_not_read(client: TestClient, told: list[str]) -> None:
    body = b" " * ((25 << 20) + 1)
    assert client.post("/webhook", content=body, headers=headers_of("github", body)).status_code == 413
    assert told == []
