"""Secrets become asterisks: found by format, masked in place, kept by content, and nothing else is touched."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.pipelines.secrets import redaction
from codequarry.pipelines.secrets.redaction import Redacted, open_redactor
from codequarry.pipelines.secrets.scanner import ALLOWED, find_secrets
from codequarry.schemas.errors import SettingsError
from codequarry.schemas.settings.load import PathsSettings, Settings
from tests.pipelines.secrets.canaries import AWS, GITHUB, IN_BASE64, KEY_LINES, LINES, PASSWORD, PRIVATE_KEY


def settings(folder: Path, **secrets: object) -> Settings:
    return Settings.model_validate({"secrets": secrets}).model_copy(update={"paths": PathsSettings(store=folder)})


def redact(folder: Path, content: bytes | str, path: str = "app.py", **secrets: object) -> Redacted:
    data = content.encode() if isinstance(content, str) else content
    with open_redactor(settings(folder, **secrets)) as redactor:
        return redactor.redact([(path, data)])[0]


@pytest.mark.parametrize("kind", LINES)
def test_secrets_of_known_formats_are_found_where_they_are(kind: str, tmp_path: Path) -> None:
    line = LINES[kind]
    content, secrets = redact(tmp_path, f"# größe → 日本\r\n\n{line}\nx = 1\n")
    assert secrets == ((2, kind),)
    masked = content.decode().split("\n")[2]
    assert len(masked.encode()) == len(line.encode()) and "****" in masked
    assert masked.replace("*", "") and masked.split("*")[0] == line[: masked.index("*")]


def test_a_private_key_keeps_its_armour_its_lines_and_the_syntax_around_it(tmp_path: Path) -> None:
    plain = redact(tmp_path, f"{PRIVATE_KEY}\nx = 1\n").content.decode()
    assert plain.split("\n")[1:3] == ["*" * len(line) for line in KEY_LINES]
    assert plain.split("\n")[0] == PRIVATE_KEY.split("\n")[0] and plain.endswith("-----\nx = 1\n")
    quoted = 'KEY = (\n  "' + PRIVATE_KEY.replace("\n", '\\n"\n  "') + '"\n)\n'
    made = redact(tmp_path, quoted).content.decode()
    assert [line.count('"') for line in made.split("\n")] == [line.count('"') for line in quoted.split("\n")]
    compile(made, "made.py", "exec")
    assert not any(line in made for line in KEY_LINES)


@pytest.mark.parametrize("lines", [1, 2, 5])
def test_a_key_that_was_taken_out_is_none_again_however_short_it_is(lines: int, tmp_path: Path) -> None:
    body = [base64.b64encode(hashlib.sha256(b"%d" % number).digest()).decode() for number in range(lines)]
    margin = "\n" + 10 * " "
    key = margin.join(["decode(", "-----BEGIN RSA PRIVATE KEY-----", *body, "-----END RSA PRIVATE KEY-----", ")"])
    content, secrets = redact(tmp_path, key)
    assert [secret.kind for secret in secrets] == ["private-key"]
    assert find_secrets("key.kt", content) == []


def test_a_secret_in_base64_and_one_that_is_repeated_are_found_too(tmp_path: Path) -> None:
    content, secrets = redact(tmp_path, f"data: {IN_BASE64}\n")
    assert IN_BASE64[8:-8].encode() not in content and len(secrets) == 1
    content, secrets = redact(tmp_path, f'{LINES["generic-credential-uri"]}\nadmin = "{PASSWORD}"\n')
    assert PASSWORD.encode() not in content and [line for line, _ in secrets] == [0, 1]


@pytest.mark.parametrize(
    "line",
    [
        'sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"',
        '["@sentry/core", "11.12.0", "8b2aa99fd900831ee3a9b01271e795037f6e2f2abd3926f9ad0d0339060eed4b"]',
        '"integrity": "sha384-H8BRh8j48O9oYatfu5AZzq6A9RINhZO5H16dQZngK7T62em8MUt1FLm52t+eX6xO"',
        'aws_secret_access_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"',
        'secret_access_key = "EllipticCurvePrivateKeyWithSerialization"',
        'proxy = "http://user:pass@proxy.example.com:8080"',
        "token = os.environ['GITHUB_TOKEN']  # ghp_…",
        '-----BEGIN PRIVATE KEY-----\\n" "XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX" "\\n-----END PRIVATE KEY-----',
        'curl -H "Authorization: Bearer YOUR_TOKEN_HERE" https://example.org',
        "curl -u username:password https://example.org",
    ],
)  # fmt: skip
def test_digests_examples_and_words_are_no_secrets(line: str, tmp_path: Path) -> None:
    assert redact(tmp_path, f"{line}\n") == Redacted(f"{line}\n".encode(), ())


@pytest.mark.parametrize(
    "disguise", [b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\0\0", b"\0", b"\xef\xbb\xbf", b"\xe9 latin \xff "]
)
def test_no_encoding_that_a_file_pretends_to_have_hides_a_secret(disguise: bytes, tmp_path: Path) -> None:
    data = disguise + b"x" * 101 + b"\n" + LINES["github-pat"].encode() + b"\n"
    content, secrets = redact(tmp_path, data)
    assert content == data.replace(GITHUB.encode(), b"*" * len(GITHUB)) and [kind for _, kind in secrets] == [
        "github-pat"
    ]


def test_comments_and_settings_say_what_is_none(tmp_path: Path) -> None:
    line = LINES["github-pat"]
    assert not redact(tmp_path, f"{line}  # {ALLOWED}: of the tests\n").secrets
    assert not redact(tmp_path, f"// {ALLOWED}\n{line}\n").secrets
    assert redact(tmp_path, f"# {ALLOWED}\n\n\n{line}\n").secrets
    assert not redact(tmp_path, line, "tests/fixtures/app.py", allow=["tests/fixtures/"]).secrets
    assert redact(tmp_path, line, "src/app.py", allow=["tests/fixtures/"]).secrets
    assert not redact(tmp_path, line, scan=False).secrets
    with pytest.raises(SettingsError, match=r"\[secrets\] allow"):
        redact(tmp_path, line, allow=["!"])


def test_no_file_is_scanned_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = LINES["github-pat"]
    first = [redact(tmp_path, line, "a/app.py"), redact(tmp_path, "x = 1\n")]
    scanned: list[str] = []
    monkeypatch.setattr(redaction, "find_secrets", lambda name, *_: scanned.append(name) or [])
    assert [redact(tmp_path, line, "b/app.py"), redact(tmp_path, "x = 1\n")] == first and scanned == []
    redact(tmp_path, line, "other.py")
    monkeypatch.setattr(redaction, "scanner_version", lambda: "another")
    redact(tmp_path, line)
    assert scanned == ["other.py", "app.py"]


def test_texts_of_no_file_are_redacted_alike(tmp_path: Path) -> None:
    with open_redactor(settings(tmp_path)) as redactor:
        assert redactor.text(f"fix: use {AWS} as secret_key={AWS} \udc80") == (
            f"fix: use {'*' * 40} as secret_key={'*' * 40} \udc80"
        )
        assert redactor.text("größe") == "größe"


def test_the_store_holds_no_secret(tmp_path: Path) -> None:
    redact(tmp_path, "\n".join(LINES.values()))
    kept = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"github-pat" in kept and GITHUB.encode() not in kept
    assert hashlib.sha256(GITHUB.encode()).digest() not in kept


@given(
    st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([line.encode() for line in LINES.values()])), max_size=6)
)
def test_bytes_and_lines_keep_their_places(pieces: list[bytes]) -> None:
    data = b"\n".join(pieces)
    masked = bytearray(data)
    for start, end, kind in find_secrets("a.py", data):
        masked[start:end] = redaction._masked(data[start:end], kind)  # pyright: ignore[reportPrivateUsage]
    assert len(masked) == len(data)
    assert [at for at, byte in enumerate(masked) if byte == 10] == [at for at, byte in enumerate(data) if byte == 10]
    assert all(new in (old, 42) for new, old in zip(masked, data, strict=True))
    for start, end, _ in find_secrets("a.py", bytes(masked)):
        assert b"*" in masked[start:end]
