"""Where secrets stand in a file: Kingfisher's rules for known formats, less what is an example.

It runs in this process and asks nobody; the only thing it writes is its compiled rules, once for each user, below their
cache folder or where KF_RULE_CACHE_DIR says. See docs/adr/0017-secrets.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kingfisher_sdk import Scanner

LIBRARY = "kingfisher-secret-scanner"
ALLOWED = "codequarry:allow-secret"
"""Written beside a secret, it says that there is none."""
_MIN_ENTROPY = 3.0
"""Bits per character; `user:password` in an example has less, and so has a key of XXXX."""
_MIN_REPEATED_BYTES, _MAX_REPEATED = 8, 100
"""Values that are looked for elsewhere in their file: no shorter ones, and not more of them."""
_UNSURE = frozenset({"curl-auth-user"})
"""Rules whose findings were wrong more often than right."""
_PARTS = frozenset(
    "alibaba-sts-security-token aws-secret-access-key exoscale-api-secret ovh-consumer-key polymarket-api-secret "
    "polymarket-passphrase".split()
)
"""Rules that Kingfisher reports beside others only, and whose findings are secrets by themselves."""
_WORDS = re.compile(rb"[A-Za-z_. <>{}$-]+")
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
    """The secrets of a file in order of place, none inside of another.

    name: of the file, without folders; a few rules look at files of certain names alone.
    """
    # A byte order mark or a NUL would let the scanner read the file in another encoding, and hide what stands there.
    text = b"\n" + content.replace(b"\0", b" ")
    spans = sorted(set(_found(name, text)), key=lambda span: (span.start, -span.end))
    kept: list[Span] = []
    for span in spans:
        if not kept or span.end > kept[-1].end:
            kept.append(span)
    return [Span(max(span.start - 1, 0), span.end - 1, span.kind) for span in kept]


def _found(name: str, text: bytes) -> Iterator[Span]:
    from kingfisher_sdk import ScanInput

    values: dict[bytes, str] = {}
    for finding in _scanner().scan_input(ScanInput(data=text, path=name)):
        kind = kind_of(finding.rule_id)
        start, end = finding.location["start_offset"], finding.location["end_offset"]
        secret = text[start:end]
        if kind in _UNSURE or not (finding.visible or kind in _PARTS) or finding.entropy < _MIN_ENTROPY:
            continue
        if b"EXAMPLE" in secret or _WORDS.fullmatch(secret) or _is_digest(text, start, end):
            continue
        yield Span(start, end, kind)
        if len(secret) >= _MIN_REPEATED_BYTES and len(values) < _MAX_REPEATED:
            values[secret] = kind
    for secret, kind in values.items():
        yield from (Span(found.start(), found.end(), kind) for found in re.finditer(re.escape(secret), text))


def _is_digest(text: bytes, start: int, end: int) -> bool:
    """Whether nothing but hexadecimal digits stands there, as in a lock file, and its line calls it no secret."""
    if _HEX.fullmatch(text, start, end) is None:
        return False
    line = text[max(text.rfind(b"\n", 0, start), start - _LINE_BYTES) : start]
    return _CALLED_A_SECRET.search(line) is None


def kind_of(rule: str) -> str:
    """The kind of secret that a rule finds.

    >>> kind_of("betterleaks.github-pat"), kind_of("veles.secrets/npmjsaccesstoken"), kind_of("betterleaks.wiz.1")
    ('github-pat', 'npmjsaccesstoken', 'wiz')
    """
    found = _KIND.fullmatch(rule)
    return found[1] if found else "secret"


@cache
def _scanner() -> Scanner:
    from kingfisher_sdk import DetectionPolicy, Rules, Scanner

    return Scanner(Rules(), policy=DetectionPolicy(ignore_comments=(ALLOWED,)))
