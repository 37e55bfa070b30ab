"""Who may call over HTTP: bearer tokens, JWTs, and what is refused without either."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from fastmcp.server.auth.providers.jwt import RSAKeyPair
from joserfc import jwk
from joserfc.jwk import RSAKey
from joserfc.jwt import encode

from codequarry.schemas.errors import SettingsError
from codequarry.schemas.settings.load import ServingSettings, load_settings
from codequarry.schemas.settings.service import AuthSettings
from codequarry.serving.cli.clients import new_token
from codequarry.serving.engine.engine import Engine
from codequarry.serving.http.app import Service
from codequarry.serving.http.auth import build_auth
from codequarry.serving.http.door import Crowd
from codequarry.serving.request.admission import Gate
from tests.serving.live import raw, request, running, serving, tool_call
from tests.serving.server.test_mcp import ERAS

TOKEN, DIGEST = new_token()
KEYS = RSAKeyPair.generate()
ISSUER, AUDIENCE = "https://login.example.org", "codequarry"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> AuthSettings:
    key = tmp_path_factory.mktemp("keys") / "public.pem"
    key.write_text(KEYS.public_key)
    return AuthSettings(tokens=(f"alice:{DIGEST}",), public_key=key, issuer=ISSUER, audience=AUDIENCE)


@pytest.fixture(scope="module")
def engine(lexical_engine) -> Engine:
    return Engine(lexical_engine.bundle, ServingSettings())


@pytest.fixture(scope="module")
def port(engine, settings: AuthSettings) -> Iterator[int]:
    with running(Service(engine, "0", build_auth(settings))) as port:
        yield port


def jwt(**changed: object) -> str:
    return KEYS.create_token(**{"subject": "bob", "issuer": ISSUER, "audience": AUDIENCE, **changed})


def search(port: int, token: str | None, era: str = ERAS[0], path: str = "/mcp") -> int:
    body, headers = tool_call("search", {"query": "open"}, era)
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    status, answer = request(port, "POST", path, body, headers)
    assert b"Traceback" not in answer
    if status == 200:
        assert json.loads(answer)["result"]["structuredContent"]["results"]
    return status


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("path", ["/mcp", "/chatgpt/mcp"])
def test_a_known_token_and_a_jwt_let_in(port: int, era: str, path: str) -> None:
    assert search(port, TOKEN, era, path) == 200
    assert search(port, jwt(), era, path) == 200


REFUSED = {
    "none": None,
    "empty": "",
    "short": "x",
    "one_character_more": TOKEN + "x",
    "one_character_less": TOKEN[:-1],
    "digest_of_the_token": DIGEST,
    "long": "A" * 10_000,
    "not_ascii": "é",
    "three_parts": "a.b.c",
    "another_issuer": jwt(issuer="https://evil.example.com"),
    "another_audience": jwt(audience="another"),
    "expired": jwt(expires_in_seconds=-60),
    "another_key": RSAKeyPair.generate().create_token(subject="bob", issuer=ISSUER, audience=AUDIENCE),
    "no_signature": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJib2IifQ.",
}


@pytest.mark.parametrize("token", REFUSED.values(), ids=REFUSED.keys())  # names: tokens are others in each process
@pytest.mark.parametrize("path", ["/mcp", "/chatgpt/mcp"])
def test_anything_else_is_refused(port: int, token: str | None, path: str) -> None:
    if token is not None and not token.isascii():
        token = token.encode().decode("latin-1")
    assert search(port, token, path=path) == 401


def test_nobody_without_a_token_has_a_body_read(port: int) -> None:
    """Prevents 256 bodies of a mebibyte in memory before anybody is known."""
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 900000\r\n\r\n"
    with raw(port, head + b"{") as connection:
        assert connection.recv(65_536).startswith(b"HTTP/1.1 401")


def signed(**claims: object) -> str:
    """A JWT with these claims alone, besides who issued it to whom for what."""
    key = RSAKey.import_key(KEYS.private_key.get_secret_value())
    return encode({"alg": "RS256"}, {"sub": "bob", "iss": ISSUER, "aud": AUDIENCE, **claims}, key)


def test_a_jwt_that_never_ends_or_has_not_begun_is_refused(port: int) -> None:
    now = int(time.time())
    assert search(port, signed(exp=now + 600, nbf=now - 5, iat=now + 5)) == 200
    for times in (
        {}, {"exp": None}, {"exp": "never"}, {"exp": float("inf")}, {"exp": now + 600, "nbf": now + 300},
        {"exp": now + 600, "nbf": "soon"}, {"exp": now + 600, "iat": now + 300},
    ):  # fmt: skip
        assert search(port, signed(**times)) == 401, times


@pytest.mark.slow
def test_row_20_a_claim_forges_no_line_of_the_log(lexical_root: Path, tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text(KEYS.public_key)
    auth = f'[auth]\npublic_key = "{tmp_path}/key.pem"\nissuer = "{ISSUER}"\naudience = "{AUDIENCE}"\n'
    forged = "bob\nERROR forged\r\x1b[2J\u2028ERROR\u202e"
    with serving(lexical_root, tmp_path, settings=auth) as served:
        announced = served.log.read_text()
        for claims in ({"sub": forged}, {"client_id": forged}, {"azp": forged}, {"scope": forged}):
            assert search(served.port, signed(exp=int(time.time()) + 600, **{**claims, "aud": forged})) == 401
        lines = served.log.read_text().removeprefix(announced).splitlines()
    assert len(lines) == 4
    assert all(line.startswith("WARNING ") and line.isprintable() for line in lines)


def test_without_a_token_health_tells_the_status_alone_and_metrics_nothing(port: int) -> None:
    assert json.loads(request(port, "GET", "/healthz")[1]) == {"status": "degraded"}
    assert request(port, "GET", "/metrics")[0] == 401
    known = {"Authorization": f"Bearer {TOKEN}"}
    assert "bundle" in json.loads(request(port, "GET", "/healthz", headers=known)[1])


def test_plain_doors_need_the_token_too(port: int) -> None:
    for name in ("list", "search", "nothing"):
        for known in ({}, {"Authorization": "Bearer of bad news"}):
            status, raw = request(port, "POST", f"/mcp/tools/{name}", '{"query": "open"}', known)[:2]
            assert status == 401 and b"search" not in raw
    status, raw = request(port, "POST", "/mcp/tools/search", '{"query": "open"}', {"Authorization": f"Bearer {TOKEN}"})[
        :2
    ]
    assert status == 200 and json.loads(raw)["results"]


@pytest.mark.parametrize("full", [False, True])
def test_clients_are_told_apart_by_their_tokens(engine, port: int, monkeypatch, full: bool) -> None:
    """All of them come from one address here, as they do behind a proxy; full: they are admitted at the door."""
    monkeypatch.setattr(Crowd, "full", full)
    clients: list[str] = []
    real = Gate.enter

    async def enter(self: Gate, client: str = "") -> object:
        clients.append(client)
        return await real(self, client)

    monkeypatch.setattr(Gate, "enter", enter)
    assert (search(port, TOKEN), search(port, jwt())) == (200, 200)
    assert len(set(clients)) == 2
    assert all(client.startswith("token ") for client in clients)
    assert not any(TOKEN in client for client in clients)


@contextmanager
def provider(status: int = 200, **headers: str) -> Iterator[tuple[str, list[str]]]:
    """An identity provider: where its keys are, and the paths it was asked for so far."""
    key = jwk.import_key(KEYS.public_key, "RSA", {"use": "sig", "kid": "one"}).as_dict(private=False)
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(json.dumps({"keys": [key]}).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/jwks.json", asked
        server.shutdown()


def test_keys_of_an_identity_provider_are_fetched_from_the_address_of_the_settings(engine, monkeypatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    stranger = RSAKeyPair.generate().create_token(subject="bob", issuer=ISSUER, audience=AUDIENCE, kid="one")
    with provider() as (uri, asked):
        auth = build_auth(AuthSettings(jwks_uri=uri, issuer=ISSUER, audience=AUDIENCE))
        with running(Service(engine, "0", auth)) as port:
            assert [search(port, jwt(kid="one"), era) for era in ERAS] == [200, 200]
            assert search(port, stranger) == 401
            assert search(port, jwt(kid="one", audience="another")) == 401
    assert set(asked) == {"/jwks.json"}


def test_no_redirect_leads_to_other_keys(engine) -> None:
    with provider() as (elsewhere, asked), provider(302, Location=elsewhere) as (uri, _):
        auth = build_auth(AuthSettings(jwks_uri=uri, issuer=ISSUER, audience=AUDIENCE))
        with running(Service(engine, "0", auth)) as port:
            assert search(port, jwt(kid="one")) == 401
    assert asked == []


def test_nobody_needs_a_token_where_the_settings_name_none() -> None:
    assert build_auth(AuthSettings()) is None


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("tokens", ["alice:secret"], "NAME:SHA256"),
        ("tokens", ["not a name:" + "0" * 64], "NAME:SHA256"),
        ("jwks_uri", "http://login.example.org/keys", "https"),
        ("jwks_uri", "http://127.0.0.1.example.org/keys", "https"),
        ("jwks_uri", "http://localhost@example.org/keys", "https"),
        ("algorithm", 3, "string"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(tmp_path: Path, key: str, value: object, message: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f"[auth]\n{key} = {json.dumps(value)}\n")
    with pytest.raises(SettingsError, match=message):
        load_settings(file, env={})


def test_a_key_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        build_auth(AuthSettings(public_key=tmp_path / "none.pem"))


def test_an_unknown_algorithm_is_said(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_text(KEYS.public_key)
    with pytest.raises(SettingsError, match=r"\[auth\] cannot be used"):
        build_auth(AuthSettings(public_key=key, algorithm="none"))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "code.example.org", ""])
def test_an_open_door_beyond_loopback_is_refused(run, lexical_root: Path, host: str) -> None:
    code, _, err = run("serve", "--host", host, "--port", "0", "--root", lexical_root)
    assert code == 2
    assert "nobody needs a token" in err
    assert "codequarry token" in err


def test_a_door_that_was_meant_to_be_open_is(run, lexical_root: Path, monkeypatch) -> None:
    monkeypatch.setattr("codequarry.serving.http.app.serve_http", lambda *_: None)
    assert run("serve", "--host", "0.0.0.0", "--allow-unauthenticated", "--root", lexical_root)[0] == 0


def test_a_door_with_a_lock_may_be_anywhere(run, lexical_root: Path, monkeypatch) -> None:
    services: list[Service] = []
    monkeypatch.setattr("codequarry.serving.http.app.serve_http", lambda service, *_: services.append(service))
    monkeypatch.setenv("CODEQUARRY__AUTH__TOKENS", json.dumps([f"alice:{DIGEST}"]))
    assert run("serve", "--host", "0.0.0.0", "--root", lexical_root)[0] == 0
    assert services[0].auth is not None


def test_the_command_makes_a_token_that_the_settings_accept(run) -> None:
    code, out, _ = run("token", "alice")
    assert code == 0
    token = out.splitlines()[1].strip()
    entry = out.partition('["')[2].partition('"]')[0]
    assert entry.startswith("alice:")
    assert token not in entry
    assert AuthSettings(tokens=(entry,)).required
    assert run("token", "no name")[0] == 2
