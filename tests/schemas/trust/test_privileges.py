"""What a settings file may ask for that lies in a folder nobody trusts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from codequarry.schemas.settings.load import RepositorySettings, Settings
from codequarry.schemas.trust.privileges import Reach, privileged, reach_of, takes_text

DANGEROUS_NAME = re.compile(
    r"url|uri|endpoint|host|webhook|password|token|secret|command|program|remote_code|folder|root"
)


def every_field() -> Iterator[tuple[str, FieldInfo]]:
    for section, outer in Settings.model_fields.items():
        assert isinstance(outer.annotation, type) and issubclass(outer.annotation, BaseModel)
        for name, field in outer.annotation.model_fields.items():
            if (section, name) != ("sources", "repositories"):
                yield f"{section}.{name}", field
    for name, field in RepositorySettings.model_fields.items():
        yield f"sources.repositories.{name}", field


def test_every_setting_that_takes_text_or_a_path_says_what_it_reaches() -> None:
    """A new setting without a mark would be refused in every folder: mark it, ``Annotated[str, Reach.…]``."""
    assert [key for key, field in every_field() if reach_of(field) is None] == []


def test_no_setting_with_a_telling_name_passes_for_words() -> None:
    harmless = [key for key, field in every_field() if reach_of(field) is Reach.WORDS]
    assert [
        key
        for key in harmless
        if DANGEROUS_NAME.search(key.rsplit(".", 1)[-1]) and takes_text(dict(every_field())[key].annotation)
    ] == []
    paths = [key for key, field in every_field() if "Path" in str(field.annotation)]
    assert len(paths) > 8
    assert not set(paths) & set(harmless)


def test_a_field_without_a_mark_is_held_for_dangerous(tmp_path: Path) -> None:
    class Section(BaseModel):
        forgotten: str = "x"
        number: int = 1

    class All(BaseModel):
        section: Section = Section()

    requests = privileged(All, {"section": {"forgotten": "y", "number": 2}}, tmp_path)
    assert [(request.key, request.reach) for request in requests] == [("section.forgotten", Reach.CODE)]


@pytest.mark.parametrize(
    ("section", "values", "keys"),
    [
        ("bundle", {"root": "out"}, []),
        ("bundle", {"root": ".codequarry/bundles", "keep_versions": 5}, []),
        ("bundle", {"root": "../out"}, ["bundle.root"]),
        ("bundle", {"root": "inside/link/x"}, ["bundle.root"]),
        ("paths", {"store": "~/store", "work": "/var/tmp"}, ["paths.store", "paths.work"]),
        ("telemetry", {"folder": "/var/log"}, ["telemetry.folder"]),
        ("embedding", {"model": "minilm", "endpoint": "", "device": "cuda"}, []),
        ("embedding", {"model": "team/model"}, ["embedding.model"]),
        ("embedding", {"endpoint": "http://h/v1", "model": "m"}, ["embedding.endpoint", "embedding.model"]),
        ("embedding", {"endpoint_key": "AWS_SECRET_ACCESS_KEY"}, ["embedding.endpoint_key"]),
        ("embedding", {"trust_remote_code": True}, ["embedding.trust_remote_code"]),
        ("embedding", {"trust_remote_code": False, "threads": 3}, []),
        ("scip", {"run_builds": True}, ["scip.run_builds"]),
        ("scip", {"run_builds": False, "timeout_s": 9}, []),
        ("serving", {"host": "0.0.0.0", "port": 9}, ["serving.host"]),
        ("serving", {"allowed_hosts": ["*"]}, ["serving.allowed_hosts"]),
        ("auth", {"tokens": ["a:" + "0" * 64]}, ["auth.tokens"]),
        ("automation", {"notebook": "inside/report.ipynb"}, ["automation.notebook"]),
        ("automation", {"notebook": "None"}, ["automation.notebook"]),
        ("automation", {"notebook": "", "notebook_timeout_s": 60}, []),
        ("notify", {"webhook": "https://h/s3cret"}, ["notify.webhook"]),
        ("notify", {"email_to": ["a@b"], "smtp_host": "h"}, ["notify.email_to", "notify.smtp_host"]),
        ("sources", {"repositories": [{"path": "."}, {"path": "inside", "scip": ["x.scip"]}]}, []),
        ("sources", {"repositories": [{"path": "/home"}]}, ["sources.repositories[0].path"]),
        ("sources", {"repositories": [{"path": "."}, {"url": "https://h/x"}]}, ["sources.repositories[1].url"]),
        ("sources", {"repositories": [{"path": ".", "scip": ["../x"]}]}, ["sources.repositories[0].scip"]),
    ],
)
def test_what_needs_trust(tmp_path: Path, section: str, values: dict, keys: list[str]) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "link").symlink_to("/var")
    assert [request.key for request in privileged(Settings, {section: values}, tmp_path)] == keys


def test_credentials_are_never_shown(tmp_path: Path) -> None:
    data = {
        "notify": {"webhook": "https://hooks.example.org/s3cret", "smtp_password": "s3cret"},
        "sources": {"repositories": [{"url": "https://me:s3cret@example.org/x"}]},
    }
    shown = [str(request) for request in privileged(Settings, data, tmp_path)]
    assert len(shown) == 3
    assert "s3cret" not in " ".join(shown)
    assert "hooks.example.org" in shown[0]
