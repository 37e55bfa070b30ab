"""Ignore rules: patterns of the settings, ``.codequarryignore`` and, where git is not asked, ``.gitignore``.

As in git (gitignore(5)): a file's patterns hold for what lies below its folder, the deepest file that says something
wins, and nothing below an ignored folder can be taken back.
"""

from __future__ import annotations

from collections.abc import Callable

import pathspec

from codequarry.schemas.errors import SettingsError

OWN_IGNORE_FILE = ".codequarryignore"
_FOLDER_SLASH = "ps_d"
"""Group of pathspec's regular expressions: the slash behind the folder that a pattern matched."""
Read = Callable[[str], bytes | None]
"""The bytes of a file by its path, relative to the root; None when there is none, or it is not a plain file."""


class IgnoreFiles:
    """What the ignore files of one name say about paths."""

    def __init__(self, name: str, read: Read) -> None:
        self._name = name
        self._read = read
        self._specs: dict[str, pathspec.GitIgnoreSpec | None] = {}
        self._folders: dict[str, bool] = {"": False}

    def ignores(self, path: str) -> bool:
        """True when the file is ignored.

        >>> files = {".codequarryignore": b"*.gen", "keep/.codequarryignore": b"!a.gen"}
        >>> rules = IgnoreFiles(".codequarryignore", files.get)
        >>> rules.ignores("a.gen"), rules.ignores("keep/a.gen"), rules.ignores("keep/b.gen")
        (True, False, True)
        """
        folder = path.rpartition("/")[0]
        return self._ignores_folder(folder) or self._decide(path, folder)

    def _ignores_folder(self, folder: str) -> bool:
        known = self._folders.get(folder)
        if known is None:
            parent = folder.rpartition("/")[0]
            known = self._ignores_folder(parent) or self._decide(folder + "/", parent)
            self._folders[folder] = known
        return known

    def _decide(self, path: str, folder: str) -> bool:
        while True:
            spec = self._spec(folder)
            if spec is not None:
                included = _verdict(spec, path[len(folder) + 1 :] if folder else path)
                if included is not None:
                    return included
            if not folder:
                return False
            folder = folder.rpartition("/")[0]

    def _spec(self, folder: str) -> pathspec.GitIgnoreSpec | None:
        if folder not in self._specs:
            data = self._read(f"{folder}/{self._name}" if folder else self._name)
            lines = (data or b"").decode("utf-8", "replace").removeprefix("\ufeff").splitlines()
            lines = [line for line in lines if line.strip() and not line.startswith("#") and _is_pattern(line)]
            # git, too, passes over what is no pattern
            self._specs[folder] = pathspec.GitIgnoreSpec.from_lines(lines) if lines else None
        return self._specs[folder]


def _verdict(spec: pathspec.GitIgnoreSpec, path: str) -> bool | None:
    """What the last pattern says that matches the path itself; None when none does.

    path: of a folder with a '/' behind it.

    pathspec lets a pattern that matches a folder speak for all below it, so that ``!d/`` would take back files that
    other patterns ignore. Here folders are asked one by one.
    """
    for pattern in reversed(spec.patterns):
        found = pattern.match_file(path) if pattern.include is not None else None
        if found is not None:
            slash = found.match.groupdict().get(_FOLDER_SLASH)
            if slash is None or found.match.end(_FOLDER_SLASH) == len(path):
                return pattern.include
    return None


def settings_patterns(lines: tuple[str, ...], setting: str = "[sources] exclude") -> pathspec.GitIgnoreSpec:
    """The patterns of a setting. Raises SettingsError: one is no gitignore pattern."""
    for line in lines:
        if not _is_pattern(line):
            raise SettingsError(
                f"{setting} holds {line!r}, expected gitignore patterns", suggestion="write it like 'docs/'"
            )
    return pathspec.GitIgnoreSpec.from_lines(lines)


def _is_pattern(line: str) -> bool:
    try:
        pathspec.GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True
