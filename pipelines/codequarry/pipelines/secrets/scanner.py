"""Places of secrets in a file: findings of Kingfisher's rules for known formats and of our own, without examples.

The scanner runs in this process and sends nothing anywhere. It only writes its compiled rules, once for each user,
below their cache folder or where KF_RULE_CACHE_DIR says. Private keys are found by their armour (PEM, PGP and PuTTY),
also where its end is missing. See docs/adr/0017-secrets.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from codequarry.pipelines.secrets.placeholders import (
    is_example_host,
    is_identifier,
    is_placeholder,
    is_stock_password,
)

if TYPE_CHECKING:
    from kingfisher_sdk import Scanner

RULES = Path(__file__).with_name("secret_rules.yml")
ALLOWED = "codequarry:allow-secret"
"""Comment that marks a finding on its line as no secret."""
_MIN_REPEATED_BYTES, _MAX_REPEATED = 8, 100
"""Found values are searched elsewhere in their file, too: least length in bytes, and largest number of values."""
_UNSURE = frozenset({"curl-auth-user"})
"""Rules whose findings were wrong more often than right."""
_PARTS = frozenset(
    "alibaba-sts-security-token aws-secret-access-key exoscale-api-secret ovh-consumer-key polymarket-api-secret "
    "polymarket-passphrase".split()
)
"""Rules that Kingfisher reports only beside others, although their findings are secrets by themselves."""
_LOOSE = frozenset("connection-string-password url-parameter authorization-header".split())
"""Rules that also match code, by the names of its variables."""
_PASSWORDS = _LOOSE | frozenset("generic-credential-uri mongodb-connection-string jdbc-oracle-password".split())
"""Rules for values that people choose."""
_IN_URL = re.compile(rb"(:/{2}[^:/?#\s]*):(.+)@", re.DOTALL)
_CONTEXT_BYTES = 600
_URL_SO_FAR = re.compile(rb"://([^\s\"'`<>]+)\Z")
_QUOTE = re.compile(rb"[\"'`\r\n]")
_NAMES = (
    rb"(?:server|data source|address|addr|host|hostaddr|hostname|database|initial catalog|dbname|user id|user|uid"
    rb"|username|driver|dsn|port|endpoint|encrypt|[\w:]+//[\w.:-]+)"
)
_CONNECTED = re.compile(
    rb"\b" + _NAMES + rb"\s{0,2}(?:=[^;]{1,300})?;(?:[^;]{1,300};)*+\s*[a-z]+\s*=\s*\Z"
    rb"|\b" + _NAMES + rb"=[^\s,;()]{1,128} +(?:\w+=[^\s,;()]{1,128} +)*+password=\Z",
    re.IGNORECASE,
)
_CONNECTED_BEHIND = re.compile(
    rb"[^;]{0,128};\s*(?:[\w ]{1,40}=[^;]{0,300};\s*)*" + _NAMES + rb"\s{0,2}=", re.IGNORECASE
)
_KEY_ARMOUR = "key-armour"
ARMOUR = re.compile(rb"-----(?:BEGIN|END)[A-Z0-9 ]*-----")
"""First or last line of a private key."""
_HEX = re.compile(rb"[0-9A-Fa-f]{32,}")
_CALLED_A_SECRET = re.compile(rb"key|token|secret|passw|credential|auth(?!or)", re.IGNORECASE)
_LINE_BYTES = 200
_KIND = re.compile(r"(?:.*[./])?([a-z][\w-]*)(?:\.\d+)?")


class Span(NamedTuple):
    """Bytes ``[start, end)`` of a file that hold a secret."""

    start: int
    end: int
    kind: str
    """Name of the rule, as ``github-pat``."""


def find_secrets(name: str, content: bytes) -> list[Span]:
    """Return the secrets of a file in order of place, none inside another.

    Args:
        name: Name of the file, without folders; a few rules look only at files of certain names.
        content: Bytes of the file.

    Returns:
        Places and kinds of the secrets.
    """
    # A byte order mark or a NUL would let the scanner read the file in another encoding, and hide what stands there.
    text = b"\n" + content.replace(b"\0", b" ")
    spans = sorted(set(_spans(name, text)), key=lambda span: (span.start, -span.end))
    kept: list[Span] = []
    for span in spans:
        if not kept or span.end > kept[-1].end:
            kept.append(span)
    return [Span(max(span.start - 1, 0), span.end - 1, span.kind) for span in kept]


def _spans(name: str, text: bytes) -> Iterator[Span]:
    from kingfisher_sdk import ScanInput

    values: dict[bytes, str] = {}
    keys: list[int] = []
    for finding in _scanner().scan_input(ScanInput(data=text, path=name)):
        kind = kind_of(finding.rule_id)
        span = Span(finding.location["start_offset"], finding.location["end_offset"], kind)
        if kind == _KEY_ARMOUR:
            keys.append(span.start)
            continue
        if kind in _UNSURE or not (finding.visible or kind in _PARTS) or not _is_secret(text, span):
            continue
        yield span
        secret = text[span.start : span.end]
        if len(secret) >= _MIN_REPEATED_BYTES and len(values) < _MAX_REPEATED:
            values[secret] = kind
    yield from (Span(*key) for key in find_keys(text, keys))
    for secret, kind in values.items():
        yield from (Span(again.start(), again.end(), kind) for again in re.finditer(re.escape(secret), text))


def _is_secret(text: bytes, span: Span) -> bool:
    secret = text[span.start : span.end]
    if span.kind in _PASSWORDS:
        return _is_password(text, span, secret)
    # Between a key without an end and the next key there may be code, so each key is found by itself.
    several = span.kind == "private-key" and secret.count(b"-----BEGIN") > 1
    # The armour of a short key has many letters, even where the key is asterisks.
    value = ARMOUR.sub(b"", secret) if span.kind == "private-key" else secret
    return not several and not is_placeholder(value) and not _is_digest(text, span.start, span.end)


def _is_password(text: bytes, span: Span, secret: bytes) -> bool:
    before = text[max(0, span.start - _CONTEXT_BYTES) : span.start]
    behind = text[span.end : span.end + _CONTEXT_BYTES]
    user, password = before, secret
    if in_url := _IN_URL.search(secret):
        user, password, behind = in_url[1], in_url[2], secret[in_url.end() - 1 :]
    if is_stock_password(password) or user.endswith((b"/" + password, b"/" + password + b":")):
        return False
    if span.kind not in _LOOSE:
        return not is_example_host(behind[1:])
    if is_identifier(password):
        return False
    if span.kind == "url-parameter":
        # A secret stands in a URL, not in an argument of a call, and its host is not one of examples.
        url = _URL_SO_FAR.search(before)
        return url is not None and not is_example_host(url[1])
    return span.kind != "connection-string-password" or _is_connection(before, behind)


def _is_connection(before: bytes, behind: bytes) -> bool:
    """Return whether other parts of a connection string stand beside a password, between the same quotes."""
    before, behind = _QUOTE.split(before)[-1], _QUOTE.split(behind, maxsplit=1)[0]
    return bool(_CONNECTED.search(before) or _CONNECTED_BEHIND.match(behind))


def _is_digest(text: bytes, start: int, end: int) -> bool:
    """Return whether a value is all hexadecimal digits, as in a lock file, and its line does not call it a secret."""
    if _HEX.fullmatch(text, start, end) is None:
        return False
    line = text[max(text.rfind(b"\n", 0, start), start - _LINE_BYTES) : start]
    return _CALLED_A_SECRET.search(line) is None


def kind_of(rule: str) -> str:
    """Return the kind of secret that a rule finds.

    >>> kind_of("betterleaks.github-pat"), kind_of("veles.secrets/npmjsaccesstoken"), kind_of("betterleaks.wiz.1")
    ('github-pat', 'npmjsaccesstoken', 'wiz')
    """
    found = _KIND.fullmatch(rule)
    return found[1] if found else "secret"


@cache
def _scanner() -> Scanner:
    from kingfisher_sdk import DetectionPolicy, Rules, Scanner

    return Scanner(Rules([RULES]), policy=DetectionPolicy(ignore_comments=(ALLOWED,)))


PUTTY = "putty-private-key"
_MIN_KEY_BYTES = 40
_MIN_DIFFERENT = 16
"""Different base64 characters that a key has at least; a body of XXXX has one."""
# Between two lines of a key: line breaks, written as such or as escapes, and characters of quotes, comments and lists.
_GAP = rb"(?:\\[nrt]|//(?=[ \t])|[ \t\r\n\"'`+,;#*.>|()\[\]\\]|-(?!-))"
_LINE = rb"[A-Za-z0-9+/]{16,}+={0,2}"
# The last line may be short, but is not a word.
_LAST = rb"(?:" + _GAP + rb"{1,60}+(?=[a-z]*[A-Z0-9+/=])=?[A-Za-z0-9+/]{4,}+={0,2}(?=[ \t]*(?:[\"'`\r\n\\]|\Z)))?"
_BODY = rb"(?P<body>" + _LINE + rb"(?:" + _GAP + rb"{1,60}+" + _LINE + rb")*+" + _LAST + rb")"
_HEADERS = rb"(?:" + _GAP + rb"{0,60}+[A-Z][A-Za-z-]{2,30}: [^\n\\\"]{1,200}(?=\n|\\n)){0,4}"
_ARMOURED = re.compile(
    rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----" + _HEADERS + _GAP + rb"{0,60}+" + _BODY
)
_PUTTY = re.compile(rb"Private-Lines: {0,3}[0-9]{1,4}" + _GAP + rb"{1,60}+" + _BODY)


def find_keys(text: bytes, starts: Iterable[int]) -> Iterator[tuple[int, int, str]]:
    """Yield each key as (start, end, kind); a key in armour includes the armour.

    Args:
        text: Contents of a file.
        starts: Positions where an armour, or the first line of a PuTTY key, begins.

    Yields:
        First byte, end and kind of each key.
    """
    for start, following in pairwise([*sorted(set(starts)), len(text)]):
        if (key := _ARMOURED.match(text, start)) and _is_key(key["body"]):
            yield key.start(), key.end(), "private-key"
        elif not text.startswith(b"PuTTY", start):
            continue
        elif (key := _PUTTY.search(text, start, following)) and _is_key(key["body"]):
            yield key.start("body"), key.end("body"), PUTTY


def _is_key(body: bytes) -> bool:
    return len(body) >= _MIN_KEY_BYTES and len(set(body)) >= _MIN_DIFFERENT
