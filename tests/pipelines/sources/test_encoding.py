"""Sources that are no UTF-8: their text is found and told by its lines, and what is not sure stays as it is."""

from __future__ import annotations

import codecs
import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codequarry.pipelines.sources.encoding import decoded_source
from codequarry.schemas.encodings import ENCODINGS, UNKNOWN, UTF_8
from tests.pipelines.conftest import Run
from tests.pipelines.repositories import commit

CHINESE = "计算所有元素之和，如果列表为空则返回零。"
JAPANESE = "リストの合計を計算する関数です。空の場合はゼロを返します。"
FRENCH = "Calcule la somme des éléments, zéro si la liste est vide."
FILES = {
    "chinese.c": (CHINESE, "gb18030"),
    "japanese.c": (JAPANESE, "cp932"),
    "euc.c": (JAPANESE, "euc_jp"),
    "korean.c": ("이 함수는 합계를 계산합니다", "euc_kr"),
    "traditional.c": ("這是一個計算總和的函數。返回所有元素之和", "big5"),
    "french.c": (FRENCH, "cp1252"),
    "author.c": ("Author: José Muñoz", "cp1252"),
    "copyright.c": ("Copyright © 2010", "cp1252"),
}
"""Comments by file, and the encoding of each file."""


def source(comment: str) -> str:
    return f"int before(void) {{\n  return 1;\n}}\n\n/* {comment} */\nint sum_of(int a) {{\n  return a;\n}}\n"


@pytest.mark.parametrize("name", FILES)
def test_a_comment_is_read_in_its_encoding(name: str) -> None:
    comment, encoding = FILES[name]
    assert decoded_source(source(comment).encode(encoding)) == (source(comment).encode(), encoding)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", [source(CHINESE), source("plain"), "a = '𝒳'\r\n"])
def test_utf_16_is_told_by_its_mark(encoding: str, text: str) -> None:
    mark = codecs.BOM_UTF16_LE if encoding == "utf-16-le" else codecs.BOM_UTF16_BE
    assert decoded_source(mark + text.encode(encoding)) == (text.encode(), encoding)


@pytest.mark.parametrize(
    "raw",
    [
        source(CHINESE).encode("utf-16-le"),  # nothing says that these are letters
        codecs.BOM_UTF16_LE + b"a\0b",  # half a unit is missing
        codecs.BOM_UTF16_LE + b"\0\xd8a\0",  # half a surrogate pair
        b"\xe9\xe8\0\x01 damaged",
        b"// \xb4\xf2\n",  # one letter of Chinese, or of three other languages
        "// Эта функция вычисляет сумму\n".encode("koi8_r"),  # not asked for, and no Western text
        bytes(range(128, 256)),
    ],
)
def test_what_is_not_sure_stays_as_it_is(raw: bytes) -> None:
    assert decoded_source(raw) == (raw, UNKNOWN)


@given(st.text())
@example("\ufeffx = 1")
@example("Ã©tÃ©")
def test_valid_utf_8_is_never_guessed(text: str) -> None:
    raw = text.encode("utf-8", "surrogatepass")
    if not raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and "\ud800" not in ascii(text):
        decoded, encoding = decoded_source(raw)
        assert decoded == raw
        assert encoding in (UTF_8, UNKNOWN)


@given(st.binary(max_size=300))
def test_no_byte_is_lost_and_the_same_bytes_are_read_alike(raw: bytes) -> None:
    decoded, encoding = decoded_source(raw)
    assert encoding in ENCODINGS
    assert decoded_source(raw) == (decoded, encoding)
    if encoding != UNKNOWN:
        marks = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}
        assert marks.get(encoding, b"") + decoded.decode().encode(encoding) == raw


def test_comments_in_other_encodings_are_found_at_their_lines(run: Run, tmp_path: Path) -> None:
    repo = tmp_path / "mixed"
    files: dict[str, str | bytes] = {name: source(text).encode(encoding) for name, (text, encoding) in FILES.items()}
    files["wide.c"] = codecs.BOM_UTF16_LE + source("größer als ßeta").encode("utf-16-le")
    commit(repo, files)
    done = run("index", repo)
    assert done.returncode == 0, done.stderr
    for name, text in [
        ("chinese.c", "所有元素"),
        ("japanese.c", "合計を計算"),
        ("french.c", "éléments"),
        ("wide.c", "größer"),
    ]:
        found = run("grep", text)
        assert f"{name}:5" in found.stdout, found
    rows = json.loads(run("sql", "--json", "SELECT path, encoding, skip_reason, size_bytes FROM files").stdout)
    told = {row["path"]: row for row in rows}
    assert told["wide.c"]["encoding"] == "utf-16-le"
    assert {name: told[name]["encoding"] for name in FILES} == {name: encoding for name, (_, encoding) in FILES.items()}
    assert told["chinese.c"]["size_bytes"] == len(source(CHINESE).encode())
