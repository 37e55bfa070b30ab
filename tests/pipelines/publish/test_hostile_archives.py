"""What is not byte for byte the archive of its manifest is refused, and leaves nothing behind or elsewhere."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import shutil
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.pipelines.bundle import disk_space
from codequarry.pipelines.publish.archive.format import END, header, padding, read_manifest_member
from codequarry.pipelines.publish.archive.import_ import import_version
from codequarry.pipelines.publish.archive.read import unpack
from codequarry.pipelines.publish.leaving import MAX_MANIFEST_BYTES
from codequarry.schemas.bundle.manifest import FORMAT_VERSION, FileEntry, to_json
from codequarry.schemas.errors import CodequarryError, FormatError, IntegrityError, PublishError, UnavailableError
from codequarry.schemas.settings.load import BundleSettings, PathsSettings, Settings
from tests.pipelines.publish.archives import FILES, archive, foreign, honest_members, manifest_of, member

HONEST = archive(manifest_of(FILES), honest_members())
MANIFEST = to_json(manifest_of(FILES))
PLAIN = FILES["plain"]
ABC = {"a": b"1", "b": b"2", "c": b"3"}
NO_FILES_BYTES = len(member("manifest.json", MANIFEST))


def entry(path: str, data: bytes = b"x") -> FileEntry:
    return manifest_of({path: data}).files[0]


def with_head(head: bytes, data: bytes = PLAIN) -> bytes:
    """The honest archive, whose last member has another header."""
    return archive(manifest_of(FILES), [*honest_members()[:-1], member("plain", data, head)])


def claiming(path: str) -> bytes:
    """An archive whose manifest and member agree on a path."""
    return archive(manifest_of({path: b"x"}), [member(path, b"x")])


def before_last(*parts: bytes) -> bytes:
    members = honest_members()
    return archive(manifest_of(FILES), [*members[:-1], *parts, members[-1]])


def pax(kind: bytes, **records: str) -> bytes:
    """An extended header of these records, as ``tarfile`` writes it: x for the next member, g for all."""
    if kind == b"g":
        return tarfile.TarInfo.create_pax_global_header(records)
    return foreign("plain", pax_headers=records)[:-512]


def gnu_long_name(name: str) -> bytes:
    data = name.encode() + b"\0"
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, len(data)
    return info.tobuf(tarfile.GNU_FORMAT) + data + padding(len(data))


def edited(head: bytes, place: int, field: bytes) -> bytes:
    """A header with other bytes in it, and the checksum that fits."""
    raw = head[:place] + field + head[place + len(field) :]
    raw = raw[:148] + b" " * 8 + raw[156:]
    return raw[:148] + b"%06o\0 " % sum(raw) + raw[156:]


PLAIN_HEAD = header("plain", len(PLAIN))
HOSTILE: dict[str, bytes] = {
    # links, devices, other kinds, where a file is expected
    "symbolic link": with_head(foreign("plain", size=len(PLAIN), type=tarfile.SYMTYPE, linkname="/etc/passwd")),
    "hard link": with_head(foreign("plain", size=len(PLAIN), type=tarfile.LNKTYPE, linkname="a/empty")),
    "hard link without data": with_head(foreign("plain", type=tarfile.LNKTYPE, linkname="/etc/passwd"), b""),
    "device": with_head(foreign("plain", type=tarfile.CHRTYPE, devmajor=1, devminor=5), b""),
    "block device": with_head(foreign("plain", type=tarfile.BLKTYPE, devmajor=8, devminor=0), b""),
    "pipe": with_head(foreign("plain", type=tarfile.FIFOTYPE), b""),
    "folder": with_head(foreign("plain", type=tarfile.DIRTYPE), b""),
    "contiguous file": with_head(edited(PLAIN_HEAD, 156, b"7")),
    "old kind of file": with_head(edited(PLAIN_HEAD, 156, b"\0")),
    "sparse file": with_head(edited(PLAIN_HEAD, 156, b"S")),
    "unknown kind": with_head(edited(PLAIN_HEAD, 156, b"Z")),
    "link, then a file through it": before_last(foreign("a", type=tarfile.SYMTYPE, linkname="/tmp")),
    # other fields of the header
    "setuid": with_head(foreign("plain", size=len(PLAIN), mode=0o4755)),
    "owner": with_head(foreign("plain", size=len(PLAIN), uid=0o1234)),
    "owner by name": with_head(foreign("plain", size=len(PLAIN), uname="root")),
    "time": with_head(foreign("plain", size=len(PLAIN), mtime=1)),
    "size in base 256": with_head(edited(PLAIN_HEAD, 124, b"\x80" + bytes(10) + bytes([len(PLAIN)]))),
    "size with a sign": with_head(edited(PLAIN_HEAD, 124, b"-0000000013\0")),
    "GNU magic": with_head(edited(PLAIN_HEAD, 257, b"ustar  \0")),
    "prefix": with_head(edited(PLAIN_HEAD, 345, b"..")),
    "something behind the fields": with_head(edited(PLAIN_HEAD, 505, b"x")),
    "wrong checksum": with_head(PLAIN_HEAD[:148] + b"000001\0 " + PLAIN_HEAD[156:]),
    # names
    "other name": with_head(header("elsewhere", len(PLAIN))),
    "member above": with_head(header("../plain", len(PLAIN))),
    "absolute member": with_head(header("/plain", len(PLAIN))),
    "manifest and member lead above": claiming("../outside"),
    "manifest and member lead far above": claiming("a/../../../outside"),
    "manifest and member are absolute": claiming("/outside"),
    "manifest and member have a NUL": claiming("plain\0.txt"),
    "manifest and member are the manifest": claiming("manifest.json"),
    "manifest and member are nothing": claiming(""),
    "a file and its own folder": archive(
        manifest_of({"a": b"x", "a/b": b"y"}), [member("a", b"x"), member("a/b", b"y")]
    ),
    "a path too long": claiming("/".join(["d" * 100] * 6)),
    "a name too long": claiming("d" * 300),
    # extended headers
    "extended name": with_head(pax(b"x", path="../../outside") + PLAIN_HEAD),
    "extended size": with_head(pax(b"x", size="1") + PLAIN_HEAD),
    "extended link": with_head(pax(b"x", linkpath="/etc/passwd") + PLAIN_HEAD),
    "extended sparse map": with_head(pax(b"x", **{"GNU.sparse.major": "1", "GNU.sparse.name": "/x"}) + PLAIN_HEAD),
    "extended character set": with_head(pax(b"x", hdrcharset="BINARY") + PLAIN_HEAD),
    "global header first": pax(b"g", path="../outside") + HONEST,
    "global header within": before_last(pax(b"g", path="../outside")),
    "comment": before_last(pax(b"g", comment="harmless")),
    "GNU long name": with_head(gnu_long_name("../outside") + PLAIN_HEAD),
    # number and order of members
    "nothing but the manifest": archive(manifest_of(FILES), []),
    "the last is missing": archive(manifest_of(FILES), honest_members()[:-1]),
    "the first is missing": archive(manifest_of(FILES), honest_members()[1:]),
    "the last comes twice": archive(manifest_of(FILES), [*honest_members(), honest_members()[-1]]),
    "one more within": before_last(member("evil", b"x")),
    "one more at the end": archive(manifest_of(FILES), [*honest_members(), member("evil", b"x")]),
    "one more behind the end": HONEST + member("evil", b"x") + END,
    "two change places": archive(manifest_of(ABC), [member("a", b"1"), member("c", b"3"), member("b", b"2")]),
    "listed twice": archive(
        manifest_of({}, files=(entry("a"), entry("a"))), [member("a", b"x"), member("a", b"x")]
    ),
    "the manifest again": before_last(member("manifest.json", MANIFEST)),
    "the manifest last": b"".join(honest_members()) + member("manifest.json", MANIFEST) + END,
    # bytes of files
    "shorter": with_head(header("plain", len(PLAIN) - 1), PLAIN[:-1]),
    "longer": with_head(header("plain", len(PLAIN) + 1), PLAIN + b"x"),
    "other bytes": with_head(PLAIN_HEAD, PLAIN.upper()),
    "bytes of another file": archive(manifest_of(ABC), [member("a", b"2"), member("b", b"1"), member("c", b"3")]),
    "bytes in the padding": HONEST[: -len(END) - 1] + b"x" + END,
    # the end
    "no end": HONEST[: -len(END)],
    "half an end": HONEST[: -len(END) // 2],
    "a byte more": HONEST + b"\0",
    "ten records of zeros": HONEST + bytes(10_240),
    "an archive behind it": HONEST + HONEST,
    "an end of another kind": HONEST[: -len(END)] + b"x" * len(END),
    # the manifest
    "empty": b"",
    "zeros": bytes(10_240),
    "one block": HONEST[:512],
    "no tar": b"PK\x03\x04" * 1000,
    "compressed": gzip.compress(HONEST),
    "compressed bomb": gzip.compress(bytes(50 << 20)),
    "manifest of another name": member("Manifest.json", MANIFEST) + HONEST[NO_FILES_BYTES:],
    "manifest is a link": foreign("manifest.json", type=tarfile.SYMTYPE, linkname="/etc/passwd") + HONEST,
    "manifest without end": header("manifest.json", len(MANIFEST)) + MANIFEST[:100],
    "manifest too large": header("manifest.json", MAX_MANIFEST_BYTES + 1) + b"{" * 5000,
    "manifest of 8 GiB": header("manifest.json", 8**11 - 1) + b"{",
    "manifest of more": header("manifest.json", 1 << 60) + b"{",
    "manifest is empty": archive(b"", []),
    "manifest is no JSON": archive(b"{" * 5000, []),
    "manifest nests": archive(b"[" * 100_000, []),
    "manifest nests within": archive(
        f'{{"format_version": {FORMAT_VERSION}, "a": {"[" * 980}{"]" * 980}}}'.encode(), []
    ),
    "manifest in UTF-16": archive(MANIFEST.decode().encode("utf-16"), honest_members()),
    "manifest without checksum": archive(
        json.dumps({key: value for key, value in json.loads(MANIFEST).items() if key != "checksum"}).encode(), []
    ),
    "manifest of another spelling": archive(json.dumps(json.loads(MANIFEST)).encode(), honest_members()),
    "version leads above": archive(manifest_of({}, version="../../outside"), []),
    "version is no version": archive(manifest_of({}, version="latest"), []),
    "version of a megabyte": archive(manifest_of({}, version="20260101T000000Z-0123abcd-" + "1" * 10**6), []),
    "sizes below zero": archive(
        manifest_of({}, files=(entry("a").model_copy(update={"size_bytes": -512}),)), [member("a", b"")]
    ),
    "size that nobody has": archive(
        manifest_of({}, files=(entry("a").model_copy(update={"size_bytes": 1 << 60}),)), [header("a", 1 << 60)]
    ),
    "size of a hundred digits": archive(
        manifest_of({}, files=(entry("a").model_copy(update={"size_bytes": 10**100}),)), [header("a", 10**100)]
    ),
    "sizes whose sum cannot be written": archive(
        manifest_of({}, files=tuple(entry(name).model_copy(update={"size_bytes": 10**4300 - 1}) for name in "ab")), []
    ),
}  # fmt: skip


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    home = tmp_path / "home"
    return Settings(
        paths=PathsSettings(store=home / "store", work=home / "work"), bundle=BundleSettings(root=home / "b")
    )


def tree(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def check_refused(data: bytes, folder: Path, settings: Settings) -> CodequarryError:
    """Import a file of these bytes, which has to fail and leave an empty root. Returns the error."""
    file = folder / "hostile.tar"
    file.write_bytes(data)
    with pytest.raises(CodequarryError) as caught:
        import_version(file, settings, check=lambda *_: None)
    left = set(tree(folder)) - {"hostile.tar"}
    assert left <= {"home", "home/b", "home/b/.publish.lock", "home/b/versions"}, left
    assert caught.value.suggestion
    return caught.value


@pytest.mark.parametrize("name", HOSTILE)
def test_every_hostile_archive_is_refused(name: str, tmp_path: Path, settings: Settings) -> None:
    error = check_refused(HOSTILE[name], tmp_path, settings)
    assert isinstance(error, IntegrityError), error
    assert len(str(error)) < 1000


@pytest.mark.parametrize("name", HOSTILE)
def test_every_hostile_archive_is_refused_by_its_bytes_alone(name: str, tmp_path: Path) -> None:
    """As if its length had been right: a file may change while it is read."""
    folder = tmp_path / "folder"
    folder.mkdir()
    stream = io.BytesIO(HOSTILE[name])
    with pytest.raises((IntegrityError, FormatError)):
        raw, manifest = read_manifest_member(stream)
        unpack(stream, raw, manifest, folder)
    assert {name.partition("/")[0] for name in tree(tmp_path)} == {"folder"}
    assert not any(path.is_symlink() or path.is_fifo() for path in folder.rglob("*"))
    assert not (folder / "manifest.json").exists(), "only a complete folder has a manifest"


def test_the_error_says_what_was_found_and_what_was_expected(tmp_path: Path, settings: Settings) -> None:
    def said(name: str) -> str:
        return check_refused(HOSTILE[name], tmp_path, settings).message

    assert "found the symbolic link 'plain' of 11 bytes, expected the file 'plain' of 11 bytes" in said("symbolic link")
    assert "found the file '../plain' of 11 bytes" in said("member above")
    assert "something follows" in said("a byte more")
    assert "the rest is missing" in said("no end")
    assert "plain is damaged in the archive: sha256" in said("other bytes")
    assert "expected 16,777,216 at most" in said("manifest of 8 GiB")
    assert "no archive of a version: found something else, expected manifest.json" in said("compressed")
    assert "decompressed" in check_refused(HOSTILE["compressed"], tmp_path, settings).suggestion


def test_an_archive_of_another_format_is_refused(tmp_path: Path, settings: Settings) -> None:
    other = archive(manifest_of(FILES, format_version=FORMAT_VERSION + 1), honest_members())
    error = check_refused(other, tmp_path, settings)
    assert isinstance(error, FormatError) and "`codequarry index`" in error.suggestion


def test_the_disk_is_asked_for_room_before_the_first_file(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_space, "free_bytes", lambda _path: 1000)
    monkeypatch.setattr("codequarry.pipelines.publish.archive.import_.unpack", None)
    error = check_refused(HONEST, tmp_path, settings)
    assert isinstance(error, PublishError) and "0 MB are free, the version may need 67 MB" in error.message


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to("nowhere")], ids=["folder", "dangling"])
def test_what_is_no_file_is_named(make: Callable[[Path], None], tmp_path: Path, settings: Settings) -> None:
    make(tmp_path / "x")
    with pytest.raises(UnavailableError, match="x cannot be read"):
        import_version(tmp_path / "x", settings)
    with pytest.raises(UnavailableError, match="is no regular file"):
        import_version(Path("/dev/zero"), settings)


def test_a_pipe_is_refused_without_waiting_for_its_writer(tmp_path: Path, settings: Settings) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnavailableError, match="is no regular file"):
        import_version(tmp_path / "pipe", settings)


def survives(data: bytes, folder: Path) -> bool:
    """Whether an archive is taken for a right one."""
    stream = io.BytesIO(data)
    try:
        raw, manifest = read_manifest_member(stream)
        unpack(stream, raw, manifest, folder)
    except CodequarryError:
        return False
    return True


def test_the_honest_archive_passes(tmp_path: Path) -> None:
    assert survives(HONEST, tmp_path)


def test_every_flipped_byte_is_found(tmp_path: Path) -> None:
    """All of the first kilobytes and the end, and some of the rest; one bit, or the whole byte."""
    dice = random.Random(0)
    places = {*range(600), *range(NO_FILES_BYTES - 100, len(HONEST), 3), *dice.sample(range(len(HONEST)), 500)}
    for count, place in enumerate(sorted(places)):
        folder = tmp_path / str(count)
        folder.mkdir()
        flipped = HONEST[place] ^ dice.choice((1 << place % 8, 0xFF))
        assert not survives(HONEST[:place] + bytes([flipped]) + HONEST[place + 1 :], folder), place


def test_every_cut_is_found(tmp_path: Path, settings: Settings) -> None:
    for place in (*range(0, len(HONEST), 97), *range(len(HONEST) - 1100, len(HONEST), 50), len(HONEST) - 1):
        check_refused(HONEST[:place], tmp_path, settings)
        folder = tmp_path / "folder"
        folder.mkdir()
        assert not survives(HONEST[:place], folder), place
        shutil.rmtree(folder)


@hypothesis.settings(deadline=None)
@given(st.data())
def test_no_edit_passes(data: st.DataObject) -> None:
    """Bytes taken out, put in, or moved, anywhere."""
    start = data.draw(st.integers(0, len(HONEST)))
    end = data.draw(st.integers(start, min(start + 2048, len(HONEST))))
    other = data.draw(st.integers(0, len(HONEST)))
    put = data.draw(st.sampled_from([b"", b"\0", b"x", bytes(512), HONEST[other : other + 512], PLAIN_HEAD]))
    forged = HONEST[:start] + put + HONEST[end:]
    with tempfile.TemporaryDirectory() as folder:
        assert survives(forged, Path(folder)) == (forged == HONEST)


def test_forged_manifests_are_forged(tmp_path: Path) -> None:
    """Prevents the regression in which the cases above are refused for a slip of their own."""
    assert survives(archive(manifest_of(ABC), [member(name, data) for name, data in ABC.items()]), tmp_path)
    assert with_head(PLAIN_HEAD) == HONEST
    assert with_head(foreign("plain", size=len(PLAIN))) == HONEST
    assert with_head(edited(PLAIN_HEAD, 156, b"0")) == HONEST
    assert before_last() == HONEST
