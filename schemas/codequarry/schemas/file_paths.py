"""Which paths a manifest may give to the files of a version."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

MAX_PATH_BYTES = 512
MAX_DEPTH = 16
"""Names in a path; of each of its folders something is remembered."""
_MAX_NAME_BYTES = 255


def check_file_paths(paths: Iterable[str], *, taken: str) -> None:
    """Check that files of these paths can be made below one folder, each at its own place and none elsewhere.

    paths: '/' separated, relative to the folder. taken: the path of a file that lies there already.

    Raises ValueError: a path leads out of the folder, is none, comes twice, or is also the folder of another file.

    >>> check_file_paths(["bm25/meta.json", "faiss.index"], taken="manifest.json")
    >>> check_file_paths(["bm25", "bm25/meta.json"], taken="manifest.json")
    Traceback (most recent call last):
    ValueError: 'bm25' is a file and a folder
    """
    files, folders = {taken}, set[str]()
    for path in paths:
        _check(path)
        if path in files:
            raise ValueError(f"{path!r} is there twice")
        files.add(path)
        folders.update(accumulate(path.split("/")[:-1], "{}/{}".format))
    if both := sorted(files & folders):
        raise ValueError(f"{both[0]!r} is a file and a folder")


def _check(path: str) -> None:
    names = path.split("/")
    if any(name in ("", ".", "..") for name in names):
        raise ValueError(f"{path!r} is no path below a folder")
    if not path.isprintable():
        raise ValueError(f"{path!r} has characters that cannot be shown")
    if len(names) > MAX_DEPTH:
        raise ValueError(f"{path[:80]!r}… has more than {MAX_DEPTH} names")
    if len(path.encode()) > MAX_PATH_BYTES or any(len(name.encode()) > _MAX_NAME_BYTES for name in names):
        raise ValueError(f"{path[:80]!r}… is too long")
