"""Placeholders that stand where a secret would: words, names of variables, and values of examples.

Random letters are told from words by their pairs: in `qzjhxblp` they are rare, in `YOUR_TOKEN_HERE` common.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import pairwise
from urllib.parse import unquote_to_bytes

_PAIRS = (
    "15651352513767061767443342523251114305214204424100316142622650553272154641113153247331621322521453421121"
    "63675542412657354876354631412244116004125114334110204121613441033432054241101152116101501222510334310020"
    "54655550112658651567150305200030001011002100202000003012511130121221014121211162347321711622630255431051"
    "64236110501341560243411121636664725143245312674421213455234131356745075554521161326214401512551645411040"
    "00000000000101000110500000734483417143546304654321404252733561343355226752313062438316701432640665523152"
    "45434330400556240555110101501161115011113201100010104112411340021341134201100021313211300220140114110120"
    "1122311120023324013311101120004101200111200000000001"
)
"""For each pair of letters, aa to zz: log2 of how much likelier it is in identifiers and prose than in random letters,
plus 4. Counted over the words of Python's standard library."""
_WORDLIKE = 0.5
"""Least mean over the pairs of letters that count as words. Of strings of 16 random letters 0.2 % reach it, of 34 none
in 4,000; of joined words of these lengths 5 % and 1 % stay below."""
_SHORT_SEGMENT = 2.6
"""Least mean number of letters between changes of case in words."""
_MIN_SEGMENTED = 8
_MIN_ENTROPY = 3.0
"""Bits per character; a key of XXXX has less."""
_MIN_PASSWORD_BYTES = 6
_MAX_DIGITS = 0.15
"""Share of a name that may be digits."""
_LEET = str.maketrans("013457@$!", "oieastasi")
_STOCK = re.compile(
    "password|passwort|passwd|passphrase|pass|pwd|secret|token|credential|apikey|key|changeme|change|example|sample|"
    "placeholder|redacted|hidden|dummy|fake|test|demo|admin|administrator|root|user|username|guest|default|postgres|"
    "mysql|mongo|redis|rabbit|server|database|welcome|letmein|qwerty|hunter|foobar|foo|bar|baz|qux|spam|eggs|abcdef|abcd|"
    "abc|xyz|hello|world|your|here|some|this|that|my|the|db|super|strong|very|long|local|dev|prod|app|basic|auth|login|"
    "correct|horse|battery|staple|insert|replace|value|string|foo|open|sesame|yes|not|real|work"
)
"""Words of passwords in examples."""
_VARIABLE = re.compile(
    rb"[$%<{\[(*#:\\]|.*(?:\$\{|\{\{|#\{|\$\(|%\(|%[sdv@]$|\.\.\.|\xe2\x80\xa6|\*\*|xxx|\{\w*\})",
    re.IGNORECASE | re.DOTALL,
)
_LETTERS_ALONE = re.compile(rb"[A-Za-z_. <>{}$-]+")
_EXAMPLE_HOST = re.compile(
    rb"(?:[\w-]+\.){0,9}example(?:\.(?:com|org|net|edu|invalid|test))?(?![\w.-])"
    rb"|(?:[\w-]+\.){1,9}(?:example|invalid)\b"
)
_SEGMENT = re.compile("[A-Z]?[a-z]+|[A-Z]+")


def is_placeholder(secret: bytes) -> bool:
    """Return whether a value in the place of a token is a placeholder: word-like letters, or too little entropy."""
    if b"EXAMPLE" in secret or entropy(secret) < _MIN_ENTROPY:
        return True
    return _LETTERS_ALONE.fullmatch(secret) is not None and is_wordlike(secret.decode())


def is_stock_password(secret: bytes) -> bool:
    """Return whether a password is a variable, a word, or a usual one of examples, as ``s3cret`` and ``test1234``."""
    secret = unquote_to_bytes(secret).partition(b";")[0]
    if len(secret) < _MIN_PASSWORD_BYTES or b"EXAMPLE" in secret or _VARIABLE.match(secret):
        return True
    if entropy(secret) < min(_MIN_ENTROPY, math.log2(len(secret)) - 0.45) or (secret.isdigit() and len(secret) < 12):
        return True
    text = secret.decode("utf-8", "replace")
    letters = "".join(one for one in text.lower().translate(_LEET) if one.isalpha())
    if len(_STOCK.sub("", letters)) < 4:
        return True
    return _LETTERS_ALONE.fullmatch(secret) is not None and is_wordlike(text)


def is_identifier(secret: bytes) -> bool:
    """Return whether a value may be an identifier or a sentence of a program, with at most a few digits."""
    text = secret.decode("utf-8", "replace")
    return sum(map(str.isdigit, text)) <= _MAX_DIGITS * len(text) and is_wordlike(text)


def is_example_host(host: bytes) -> bool:
    """Return whether the text after an ``@`` begins with a host that is reserved for examples."""
    return _EXAMPLE_HOST.match(host) is not None


def is_wordlike(text: str) -> bool:
    """Return whether the letters of a text follow each other as in words.

    >>> is_wordlike("YOUR_TOKEN_HERE"), is_wordlike("EllipticCurvePrivateKey"), is_wordlike("QzJhXbLpWrTkMvNd")
    (True, True, False)
    """
    segments = _SEGMENT.findall(text)
    letters = sum(map(len, segments))
    if letters >= _MIN_SEGMENTED and letters < _SHORT_SEGMENT * len(segments):
        return False
    weights = [
        int(_PAIRS[(ord(first) - 97) * 26 + ord(second) - 97]) - 4
        for run in re.findall("[a-z]+", text.lower())
        for first, second in pairwise(run)
    ]
    return not weights or sum(weights) >= _WORDLIKE * len(weights)


def entropy(value: bytes) -> float:
    """Return the Shannon entropy, in bits per byte."""
    size = len(value)
    return -sum(count / size * math.log2(count / size) for count in Counter(value).values())
