"""Git URLs and refs: what is let through, and that credentials go no further."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.schemas.errors import SettingsError
from codequarry.schemas.git_urls import check_ref, parse_git_url
from codequarry.schemas.settings.load import RepositorySettings, load_settings

GOOD = {
    "https://example.org/team/app.git": ("https", "https://example.org/team/app.git", "app"),
    "https://me:tok@example.org:8443/app/": ("https", "https://example.org:8443/app/", "app"),
    "https://tok@example.org/app": ("https", "https://example.org/app", "app"),
    "https://a@b:c@example.org/app": ("https", "https://example.org/app", "app"),
    "ssh://git@example.org:22/team/app": ("ssh", "ssh://git@example.org:22/team/app", "app"),
    "ssh://git:pw@example.org/app": ("ssh", "ssh://git@example.org/app", "app"),
    "git@example.org:team/app.git": ("ssh", "git@example.org:team/app.git", "app"),
    "git://[::1]:9418/app": ("git", "git://[::1]:9418/app", "app"),
    "file:///srv/git/app.git": ("file", "file:///srv/git/app.git", "app"),
}
BAD = (
    "ext::sh -c id", "ext::sh%20-c%20id", "fd::17/x", "http://example.org/app", "ftp://example.org/app", "-uevil",
    "--upload-pack=touch", "ssh://-oProxyCommand=id/app", "ssh://-l@example.org/app", "ssh://%2Dl@example.org/app",
    "git@-oProxyCommand=id:app",
    "git@example.org:-x", "https:///app", "https://example.org", "file://host/app", "file://relative",
    "https://example.org/a\nb", "https://example.org/a%0ab", "https://example.org/app?token=x",
    "https://example.org/app#main", "https://exa mple.org/app", "HTTPS://example.org/app", "C:/app", "a/b", "",
)  # fmt: skip


@pytest.mark.parametrize("url", GOOD)
def test_a_url_is_taken_apart(url: str) -> None:
    parsed = parse_git_url(url)
    assert (parsed.scheme, parsed.public, parsed.name) == GOOD[url]


@pytest.mark.parametrize("url", BAD)
def test_what_could_run_a_program_or_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="git URL") as caught:
        parse_git_url(url)
    assert url == "" or url not in str(caught.value)


@pytest.mark.parametrize("ref", ["main", "v1.0", "release/2.0", "refs/heads/x", "HEAD", "a" * 40, "Über", "@x"])
def test_a_ref_is_a_name(ref: str) -> None:
    assert check_ref(ref) == ref


@pytest.mark.parametrize(
    "ref", ["", "-x", "--upload-pack=x", "a b", "a\nb", "a\0b", "a..b", "x~1", "x^", "a:b", "+a", "a//b", "x.lock", "*"]
)
def test_what_git_could_take_for_an_option_or_a_range_is_no_ref(ref: str) -> None:
    if ref != "+a":  # a plus sign is part of a name; the refspec puts its own in front
        with pytest.raises(ValueError, match="expected the name"):
            check_ref(ref)


@given(st.text(alphabet="abcXYZ019:@._-~", min_size=1, max_size=12))
def test_no_credential_is_shown_or_dumped(secret: str) -> None:
    marked = f"s3cret{secret}"
    repository = RepositorySettings(url=f"https://me:{marked}@example.org/app")
    shown = repr(repository) + repository.place + json.dumps(repository.model_dump(mode="json"))
    assert "s3cret" not in shown
    assert "https://example.org/app" in shown


@pytest.mark.parametrize(
    "entry",
    [
        {"url": "http://me:s3cret@example.org/app"},
        {"url": "https://me:s3cret@example.org/app", "path": "."},
        {"url": "https://me:s3cret@example.org/app", "ref": "-x"},
        {"url": "https://me:s3cret@example.org/app?x", "name": "-"},
        {"url": "ext::https://me:s3cret@example.org/app"},
        {"ref": "main"},
        {"path": ".", "ref": "--upload-pack=x"},
    ],
)
def test_settings_that_name_no_place_are_refused_without_their_credentials(entry: dict[str, str]) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(env={"CODEQUARRY__SOURCES__REPOSITORIES": json.dumps([entry])})
    assert "s3cret" not in str(caught.value)
