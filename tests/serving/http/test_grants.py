"""Settings of who may see what: what is refused with a remedy, and the example of the operators' page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codequarry.schemas.errors import SettingsError
from codequarry.schemas.settings.load import load_settings
from codequarry.serving.http.auth import Grants

TOKEN_LINE = f'tokens = ["alice:{"0" * 64}"]\n'


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        (TOKEN_LINE + '[auth.grants]\nbob = ["billing"]\n', r"'bob' is not the NAME of a token.*alice"),
        (TOKEN_LINE + '[auth.grants]\nalice = ["group:gone"]\n', r"'gone' is not one of the groups.*\[auth.groups\]"),
        (TOKEN_LINE + '[auth.grants]\nalice = ["../billing"]\n', r"no glob over names of repositories"),
        (TOKEN_LINE + '[auth.groups]\n"two words" = ["billing"]\n', r"name 'two words' of a group"),
        (TOKEN_LINE + '[auth.groups]\npayments = ["a/b"]\n', r"group payments.*no glob"),
        (TOKEN_LINE + '[auth.groups]\npayments = "billing"\n', r"auth.groups.payments"),
        ('[auth.groups]\npayments = ["billing"]\n', r"add tokens, jwks_uri or public_key"),
        ('without_grant = "nothing"\n', r"add tokens, jwks_uri or public_key"),
        (TOKEN_LINE + 'without_grant = "some"\n', r"without_grant"),
    ],
)
def test_a_grant_that_means_nothing_is_refused_with_a_remedy(tmp_path: Path, toml: str, message: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f"[auth]\n{toml}")
    with pytest.raises(SettingsError, match=message):
        load_settings(file, env={})


def test_the_environment_gives_groups_and_grants_as_json(tmp_path: Path) -> None:
    env = {
        "CODEQUARRY__AUTH__TOKENS": json.dumps([f"alice:{'0' * 64}"]),
        "CODEQUARRY__AUTH__GROUPS": '{"payments": ["billing"]}',
        "CODEQUARRY__AUTH__GRANTS": '{"alice": ["group:payments"]}',
    }
    file = tmp_path / "settings.toml"
    file.write_text("")
    assert load_settings(file, env=env).auth.grants == {"alice": ("group:payments",)}
    with pytest.raises(SettingsError, match="not JSON"):
        load_settings(file, env={**env, "CODEQUARRY__AUTH__GROUPS": "payments"})


def test_the_command_prints_a_grant_that_the_settings_accept(run, tmp_path: Path) -> None:
    code, out, _ = run("token", "bob", "--repositories", "billing,ledger-*", "--groups", "payments")
    assert code == 0
    printed = out.partition("[auth]")[2].replace("\n  ", "\n")
    (tmp_path / "settings.toml").write_text(f"[auth]{printed}\n[auth.groups]\npayments = ['vault']\n")
    found = load_settings(tmp_path / "settings.toml", env={}).auth
    assert found.grants == {"bob": ("group:payments", "billing", "ledger-*")}
    code, _, err = run("token", "bob", "--repositories", "../x")
    assert code == 2 and "--repositories" in err


def test_the_example_of_the_operators_page_means_what_it_says(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "OPERATIONS.md").read_text(encoding="utf-8")
    example = page.partition("### Who may see what")[2].partition("```toml\n")[2].partition("```")[0]
    file = tmp_path / "settings.toml"
    file.write_text(example)
    grants = Grants(load_settings(file, env={}).auth)
    assert grants.of_client("alice").whole
    bob, others = grants.of_client("bob"), grants.of_client("carol")
    names = ("billing", "ledger-eu", "website", "docs-api", "vault", "ledger")
    assert [bob.sees(name) for name in names] == [True, True, True, True, False, False]
    assert not any(map(others.sees, names))
    claimed = grants.of_claims({"realm_access": {"groups": ["payments", "unknown"]}})
    assert [name for name in names if claimed.sees(name)] == ["billing", "ledger-eu"]
    assert not any(map(grants.of_claims({"realm_access": {"groups": ["unknown"]}}).sees, names))
