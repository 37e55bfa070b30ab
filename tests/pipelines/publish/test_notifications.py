"""Notices reach a web hook and a mail server; a hiccup is tried again, a refusal is not, and no secret is told."""

from __future__ import annotations

import email
import email.policy

import pytest

from codequarry.assets.instance import notifications
from codequarry.assets.instance.notifications import Notice, deliver
from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.settings.load import NotifySettings
from tests.pipelines.publish.mail_server import Hook, Mail, serving

NOTICE = Notice(
    job="REINDEX", run_id="0123", step="staged_bundle", reason="found ∅, expected chunks; do this", current="v1",
    url="http://ui/runs/0123",
)  # fmt: skip


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "WAITS_S", (0.0, 0.0))


def by_mail(server: Mail, **more: object) -> NotifySettings:
    known = {"email_to": ("ops@example.org",), "email_from": "quarry@example.org", "smtp_host": "127.0.0.1"}
    return NotifySettings.model_validate({**known, "smtp_port": server.port, "smtp_security": "none", **more})


def test_both_ways_tell_what_failed_why_what_is_served_and_where_to_look() -> None:
    hook, mail = Hook(), Mail()
    with serving(hook, mail):
        told = deliver(NOTICE, by_mail(mail, webhook=hook.url))
    assert told == ["the webhook", "ops@example.org"]
    (posted,) = hook.posted
    assert (posted["event"], posted["job"], posted["step"]) == ("run_failed", "REINDEX", "staged_bundle")
    (taken,) = mail.taken
    message = email.message_from_string(taken, policy=email.policy.default)
    assert message["Subject"] == "codequarry: REINDEX failed in staged_bundle"
    assert (message["From"], message["To"]) == ("quarry@example.org", "ops@example.org")
    for text in (posted["text"], message.get_content()):
        for part in ("found ∅, expected chunks; do this", "Served still: v1.", "Run 0123", "http://ui/runs/0123"):
            assert part in text


@pytest.mark.parametrize(("answers", "posts"), [((503,), 2), ((429, 500), 3)])
def test_a_hook_that_is_busy_is_asked_again(answers: tuple[int, ...], posts: int) -> None:
    hook = Hook(*answers)
    with serving(hook):
        assert deliver(NOTICE, NotifySettings(webhook=hook.url)) == ["the webhook"]
    assert len(hook.posted) == posts


@pytest.mark.parametrize(("answers", "posts", "said"), [((404,), 1, "HTTP 404"), ((500, 500, 500), 3, "HTTP 500")])
def test_a_refusal_is_said_without_the_address(answers: tuple[int, ...], posts: int, said: str) -> None:
    hook = Hook(*answers)
    with serving(hook), pytest.raises(UnavailableError, match=said) as caught:
        deliver(NOTICE, NotifySettings(webhook=hook.url))
    assert len(hook.posted) == posts
    assert "s3cret" not in str(caught.value)


def test_one_way_that_fails_does_not_stop_the_other() -> None:
    hook, mail = Hook(404), Mail()
    with serving(hook, mail), pytest.raises(UnavailableError, match="the webhook: HTTP 404"):
        deliver(NOTICE, by_mail(mail, webhook=hook.url))
    assert len(mail.taken) == 1


def test_a_mail_server_that_refuses_or_is_not_there_is_named() -> None:
    refusing, busy = Mail(refused=("ops@",)), Mail(greeting="421 too busy")
    with serving(refusing, busy):
        with pytest.raises(UnavailableError, match="SMTPRecipientsRefused"):
            deliver(NOTICE, by_mail(refusing))
        with pytest.raises(UnavailableError, match="SMTP 421"):
            deliver(NOTICE, by_mail(busy))
    assert (refusing.greeted, busy.greeted) == (1, 3)
    with pytest.raises(UnavailableError, match="ConnectionRefusedError"):
        deliver(NOTICE, by_mail(refusing))


def test_a_server_that_cannot_encrypt_gets_neither_mail_nor_password() -> None:
    mail = Mail()
    with serving(mail), pytest.raises(UnavailableError, match="SMTPNotSupportedError") as caught:
        deliver(NOTICE, by_mail(mail, smtp_security="starttls", smtp_user="me", smtp_password="s3cret"))
    assert mail.taken == []
    assert "s3cret" not in str(caught.value)


def test_a_line_break_in_a_name_makes_no_header_of_its_own() -> None:
    mail = Mail()
    with serving(mail):
        odd = Notice("re\nBcc: x@example.org", "1", "", "why", "", "")
        deliver(odd, by_mail(mail))
    assert "Bcc" not in email.message_from_string(mail.taken[0])
