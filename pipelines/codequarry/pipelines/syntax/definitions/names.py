"""Names of definitions as people write them, which may differ from the source."""

from __future__ import annotations

import re

_MAX_NAME_CHARS = 200
_BRACKETS = re.compile(r"<[^<>]*>")
_WORD = re.compile(r"\w")
_OPERATOR = re.compile(r"\boperator\b")
_TYPE_HEAD = re.compile(rb"[(\s]*([A-Z][\w.']*)")
_TYPE_OPERATOR = re.compile(rb"[(\s]*[a-z_][\w']*\s+([!#$%&*+./<=>?@\\^|~:-]+)\s")
_QUOTES = "[]()\"'`*&"
_SPACE = re.compile(r"\s+")
_EXPORTS = re.compile(r"^(?:module\.)?(?:exports|this)\.")
_PATH = re.compile(r"[\w$#~!?=]+(?:'\w*)*(?:(?:\.|::)[\w$#~!?=]+(?:'\w*)*)*")


def clean_name(written: bytes) -> str:
    """Reduce a name as written in the source to identifiers joined by ``.`` or, in C++ and Ruby, ``::``.

    >>> clean_name(b"Stack<T>::push"), clean_name(b"exports.open"), clean_name(b"Repo.prototype.open")
    ('Stack::push', 'open', 'Repo.open')
    """
    name = written[: 4 * _MAX_NAME_CHARS].decode("utf-8", "replace").replace("\\", ".")
    if name.isidentifier():
        return name[:_MAX_NAME_CHARS]
    if not _WORD.search(name):
        # Operators as names: Ruby's ``<=>`` and ``[]=``.
        return name
    head, *operator = _OPERATOR.split(name, maxsplit=1)
    if operator:
        return _SPACE.sub("", _BRACKETS.sub("", head)) + "operator" + _SPACE.sub(" ", operator[0])[:_MAX_NAME_CHARS]
    stripped = _BRACKETS.sub("", name)
    while stripped != name:
        name, stripped = stripped, _BRACKETS.sub("", stripped)
    name = _SPACE.sub("", name).replace(".prototype.", ".").removeprefix("::")
    name = _EXPORTS.sub("", name)
    if not _PATH.fullmatch(name):
        # Computed names and quoted keys: ``[Symbol.iterator]``, ``"content-type"``, ``make().handler``.
        name = name.strip(_QUOTES) if name[:1] in _QUOTES else name.rsplit(".", 1)[-1]
    return name[:_MAX_NAME_CHARS] or written.decode("utf-8", "replace")[:_MAX_NAME_CHARS]


def last_segment(name: str) -> str:
    """Return the last segment of a cleaned name, which is the definition's own name.

    >>> last_segment("a::Stack::push"), last_segment("Repo.open"), last_segment("operator..")
    ('push', 'open', 'operator..')
    """
    return re.split(r"\.|::", name)[-1] if _PATH.fullmatch(name) else name


def literal_name(written: bytes) -> str:
    """Return a heading, key or selector as written, on one line and without its quotes."""
    name = " ".join(written[: 4 * _MAX_NAME_CHARS].decode("utf-8", "replace").split())
    if len(name) > 2 and name[0] == name[-1] and name[0] in "\"'":
        name = name[1:-1]
    return name[:_MAX_NAME_CHARS]


def type_head(written: bytes) -> bytes:
    """Return the head of a Haskell type: a constructor without its module, an operator, else the type itself.

    >>> type_head(b"(VU.Vector a)"), type_head(b"(f :*: g)"), type_head(b"((,) a)")
    (b'Vector', b':*:', b'((,) a)')
    """
    match = _TYPE_HEAD.match(written) or _TYPE_OPERATOR.match(written)
    return match[1].rpartition(b".")[2] or match[1] if match else written[: 4 * _MAX_NAME_CHARS]
