"""Notifications of failures: a POST of JSON, an e-mail."""

from __future__ import annotations

import json
import smtplib
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass
from email.message import EmailMessage

from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.settings.load import NotifySettings

WAITS_S = (1.0, 4.0)
"""Pauses between the tries; an answer that refuses is not asked again."""
_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Notice:
    """A failure to report."""

    job: str
    run_id: str
    step: str
    """The step that failed first; "" when the run failed outside of its steps."""
    reason: str
    """Text of the run page: what was found, what was expected, what to do."""
    current: str
    """The version that is served still; "" when there is none."""
    url: str
    """The run's page; "" when the settings do not name the UI."""

    @property
    def subject(self) -> str:
        """Subject in one line."""
        return f"codequarry: {self.job} failed" + (f" in {self.step}" if self.step else "")

    @property
    def text(self) -> str:
        """Text of the whole message."""
        served = f"Served still: {self.current}" if self.current else "Nothing is served yet"
        lines = [self.subject, "", self.reason, "", f"{served}.", f"Run {self.run_id}", self.url]
        return "\n".join(lines).strip()


def deliver(notice: Notice, settings: NotifySettings) -> list[str]:
    """Send a notice to everybody whom the settings name.

    Args:
        notice: Failure to report.
        settings: Addresses to send to.

    Returns:
        Recipients who got it.

    Raises:
        UnavailableError: A recipient could not be reached; the others were tried as well.
    """
    ways: dict[str, Callable[[], None]] = {}
    if settings.webhook:
        ways["the webhook"] = lambda: _post(notice, settings.webhook)
    if settings.email_to:
        ways[", ".join(settings.email_to)] = lambda: _mail(notice, settings)
    told: list[str] = []
    problems: list[str] = []
    for who, send in ways.items():
        try:
            _send_with_pauses(send)
            told.append(who)
        except (OSError, smtplib.SMTPException) as error:
            # Neither the address of a webhook nor what a server answers to a login belongs into a log.
            problems.append(f"{who}: {_public_reason(error)}")
    if problems:
        raise UnavailableError(
            f"not told of {notice.job} of run {notice.run_id}: {'; '.join(problems)}",
            suggestion="check [notify] of the settings",
        )
    return told


def _send_with_pauses(send: Callable[[], None]) -> None:
    for pause in (*WAITS_S, None):
        try:
            send()
            return
        except (OSError, smtplib.SMTPException) as error:
            if pause is None or not _is_transient(error):
                raise
        time.sleep(pause)


def _is_transient(error: Exception) -> bool:
    if isinstance(error, urllib.error.HTTPError):
        return error.code == 429 or error.code >= 500
    if isinstance(error, smtplib.SMTPResponseException):
        return 400 <= error.smtp_code < 500
    return not isinstance(error, smtplib.SMTPRecipientsRefused | smtplib.SMTPNotSupportedError | ssl.SSLError)


def _public_reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code}"
    if isinstance(error, smtplib.SMTPResponseException):
        return f"SMTP {error.smtp_code}"
    return type(error).__name__


def _post(notice: Notice, url: str) -> None:
    body = json.dumps({"event": "run_failed", "text": notice.text, **asdict(notice)}).encode()
    request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"}, method="POST")
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S):
        pass


def _mail(notice: Notice, settings: NotifySettings) -> None:
    message = EmailMessage()
    message["Subject"] = " ".join(notice.subject.split())
    message["From"] = settings.email_from
    message["To"] = ", ".join(settings.email_to)
    message.set_content(notice.text, cte="quoted-printable")  # not every server takes 8 bits
    context = ssl.create_default_context()
    if settings.smtp_security == "tls":
        server = smtplib.SMTP_SSL(settings.smtp_host, settings.smtp_port, timeout=_TIMEOUT_S, context=context)
    else:
        server = smtplib.SMTP(settings.smtp_host, settings.smtp_port, timeout=_TIMEOUT_S)
    with server:
        if settings.smtp_security == "starttls":
            server.starttls(context=context)
        if settings.smtp_user:
            server.login(settings.smtp_user, settings.smtp_password)
        server.send_message(message)
