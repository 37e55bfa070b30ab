"""The settings loader: precedence, refusals that name the remedy, and what the hash depends on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from codequarry.schemas.errors import SettingsError
from codequarry.schemas.settings.load import Settings, load_settings


def written(folder: Path, text: str) -> Path:
    file = folder / "dagster_project.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_defaults_need_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings(env={})
    assert settings.chunking == Settings().chunking
    assert settings.bundle.root == tmp_path / ".codequarry" / "bundles"


def test_the_file_overrides_the_defaults_and_the_environment_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, "[serving]\nport = 9000\ncandidates = 50\n")
    settings = load_settings(file, env={"CODEQUARRY__SERVING__PORT": "9001", "UNRELATED": "x"})
    assert settings.serving.port == 9001
    assert settings.serving.candidates == 50


def test_lists_in_the_environment_are_json(tmp_path: Path) -> None:
    file = written(tmp_path, "")
    settings = load_settings(file, env={"CODEQUARRY__SOURCES__EXCLUDE": '["docs/**", "*.md"]'})
    assert settings.sources.exclude == ("docs/**", "*.md")
    with pytest.raises(SettingsError, match="CODEQUARRY__SOURCES__EXCLUDE: not JSON"):
        load_settings(file, env={"CODEQUARRY__SOURCES__EXCLUDE": "docs"})


def test_paths_start_at_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, '[[sources.repositories]]\npath = "code"\n[bundle]\nroot = "out"\n')
    settings = load_settings(file, env={})
    assert settings.sources.repositories[0].path == tmp_path / "code"
    assert settings.bundle.root == tmp_path / "out"
    assert settings.paths.store == tmp_path / ".codequarry" / "store"


@pytest.mark.parametrize(
    ("text", "message", "suggestion"),
    [
        ("[servng]\nport = 1\n", "unknown setting 'servng'", "did you mean 'serving'?"),
        ("[serving]\nprot = 1\n", "unknown setting 'serving.prot'", "did you mean 'serving.port'?"),
        ("serving = 3\n", r"\[serving\] is int, expected a table", r"write \[serving\] on its own line"),
        ("[serving]\nport = 'high'\n", "serving.port: found 'high'", "codequarry settings"),
        ("[serving]\nport = 70000\n", "serving.port: found 70000", "codequarry settings"),
        ("[[sources.repositories]]\npaht = 'x'\n", "did you mean 'path'", "codequarry settings"),
        ("[schedule]\ncron = 'daily'\n", "expected five fields", "codequarry settings"),
        ("[chunking]\nmerge_chars = 1601\n", "merge_chars 1601 must not exceed max_chars 1600", "codequarry settings"),
        ("[schedule]\ntimezone = 'Mars/Olympus'\n", "schedule.timezone: found 'Mars/Olympus'", "codequarry settings"),
        (
            "[embedding]\nmodel = 'big'\n",
            "model 'big': expected static or minilm, an id",
            "codequarry settings",
        ),
        ("[embedding]\nendpoint = 'http://h/v1'\n", "model is what the server there calls", "codequarry settings"),
        ("[embedding]\nendpoint = 'h:80'\n", "embedding.endpoint: found 'h:80'.* http://127", "codequarry settings"),
        ("[serving]\nquery_endpoint_key = 'a b'\n", "query_endpoint_key: found 'a b'", "codequarry settings"),
        (f"[sources]\nmax_file_bytes = {10**30}\n", "max_file_bytes: found 1000000", "codequarry settings"),
        (f"[sources]\nmax_file_bytes = {2**63}\n", "max_file_bytes: found 9223372", "codequarry settings"),
        (f"[sources]\nmax_file_bytes = {10**6000:#x}\n", "max_file_bytes: found a number", "codequarry settings"),
        (f"[sources]\nmax_file_bytes = {'9' * 6000}\n", "cannot be read as TOML", "fix the line"),
        ("not toml", "cannot be read as TOML", "fix the line"),
    ],
)
def test_a_bad_file_is_refused_with_the_remedy(tmp_path: Path, text: str, message: str, suggestion: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(SettingsError, match=message) as caught:
        load_settings(file, env={})
    assert str(file) in caught.value.message
    assert re.search(suggestion, caught.value.suggestion)


def test_an_unknown_variable_is_refused_by_its_own_name(tmp_path: Path) -> None:
    file = written(tmp_path, "")
    with pytest.raises(SettingsError, match="CODEQUARRY__SERVING__PROT: unknown setting"):
        load_settings(file, env={"CODEQUARRY__SERVING__PROT": "1"})


def test_a_missing_file_that_was_asked_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="settings file not found"):
        load_settings(tmp_path / "other.toml", env={})


def test_every_setting_is_documented() -> None:
    undocumented = [
        f"{section}.{name}"
        for section, field in Settings.model_fields.items()
        for name, inner in field.annotation.model_fields.items()
        if not inner.description
    ]
    assert undocumented == []


def test_the_index_hash_follows_what_decides_the_contents_and_nothing_else() -> None:
    base = Settings()
    same = Settings.model_validate(
        {"serving": {"port": 1}, "bundle": {"root": "/elsewhere"}, "embedding": {"threads": 3}}
    )
    other = Settings.model_validate({"chunking": {"max_chars": 900}})
    excluded = Settings.model_validate({"sources": {"exclude": ["docs/**"]}})
    assert base.index_hash() == same.index_hash()
    assert len({base.index_hash(), other.index_hash(), excluded.index_hash()}) == 3


@pytest.mark.parametrize("root", ["a\\u0000b", "~nobody-of-that-name/x"])
def test_a_path_that_cannot_be_one_is_refused(tmp_path: Path, root: str) -> None:
    with pytest.raises(SettingsError, match="is not a path"):
        load_settings(written(tmp_path, f'[bundle]\nroot = "{root}"\n'), env={})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("email_to = ['ops@example.org']", "email_to needs email_from and smtp_host too"),
        ("smtp_security = 'none'", "a password needs smtp_security starttls or tls"),
        ("webhook = 'hooks.example.org/s3cret'", "expected https"),
        ("smtp_port = 0", "notify.smtp_port: found 0"),
    ],
)
def test_who_is_told_is_checked_without_telling_the_password(tmp_path: Path, text: str, message: str) -> None:
    file = written(tmp_path, f"[notify]\nsmtp_password = 's3cret'\n{text}\n")
    with pytest.raises(SettingsError, match=message) as caught:
        load_settings(file, env={})
    assert "s3cret" not in str(caught.value)


def test_secrets_of_messages_are_read_and_never_shown(tmp_path: Path) -> None:
    file = written(tmp_path, "[notify]\nwebhook = 'https://hooks.example.org/s3cret'\n")
    settings = load_settings(file, env={"CODEQUARRY__NOTIFY__SMTP_PASSWORD": "s3cret"})
    assert (settings.notify.smtp_password, settings.notify.webhook[-6:]) == ("s3cret", "s3cret")
    assert "s3cret" not in f"{settings!r} {settings.model_dump_json()} {settings.model_dump()}"


@pytest.mark.parametrize("key", ["retention_cron", "freshness_cron"])
def test_every_cron_has_five_fields(tmp_path: Path, key: str) -> None:
    with pytest.raises(SettingsError, match=f"automation.{key}: found 'daily'; .*expected five fields"):
        load_settings(written(tmp_path, f"[automation]\n{key} = 'daily'\n"), env={})


@pytest.mark.parametrize("value", ["1" + "0" * 30, str(2**63), "9" * 6000, "1e30", "inf"])
def test_a_number_beyond_every_file_is_refused_in_the_environment_too(tmp_path: Path, value: str) -> None:
    with pytest.raises(SettingsError, match=r"sources\.max_file_bytes"):
        load_settings(written(tmp_path, ""), env={"CODEQUARRY__SOURCES__MAX_FILE_BYTES": value})
