"""What a disk may hold after power loss: a model of a file system in which only what was synced is sure to be there.

A file's bytes are sure after an fsync of the file, a name after an fsync of its folder. Of everything else any part may
have reached the disk, in any order (ALICE, OSDI'14): the model tries nothing, everything, every prefix, each
operation alone and each one missing, with unsynced bytes lost and kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.scenes.calls import Call

Tree = dict[str, "bytes | str"]
"""Path below the base -> what the file holds: bytes that were written, or the name of the original it equals."""


@dataclass
class Node:
    """An inode: a file with its content, or a folder with its names."""

    content: bytes | str | None = b""
    synced: bytes | str | None = b""
    names: dict[str, Node] = field(default_factory=dict)
    """What is sure to be in a folder."""
    now: dict[str, Node] = field(default_factory=dict)
    """What a running program sees in it."""
    folder: bool = False


@dataclass(frozen=True)
class Pending:
    """A change of one folder that no sync covers yet: names that go, names that come. Atomic."""

    folder: Node
    gone: tuple[str, ...]
    come: tuple[tuple[str, Node], ...]


class Disk:
    """Replays calls."""

    def __init__(self, base: Path, *, unsynced: tuple[str, ...]) -> None:
        """unsynced: paths below the base that no sync covers when the replay starts."""
        self.base, self.pending = str(base), list[Pending]()
        self.top = self._load(base, unsynced, "")

    def _load(self, path: Path, unsynced: tuple[str, ...], name: str) -> Node:
        node = Node(folder=path.is_dir())
        fresh = any(name == one or name.startswith(f"{one}/") for one in unsynced)
        if not node.folder:
            # CURRENT is read by the model, the rest is only compared.
            node.content = path.read_bytes() if path.stat().st_size < 200 else name
            node.synced = b"" if fresh else node.content
            return node
        for child in sorted(path.iterdir()):
            below = f"{name}/{child.name}".lstrip("/")
            node.now[child.name] = inner = self._load(child, unsynced, below)
            if below in unsynced or fresh:
                self.pending.append(Pending(node, (), ((child.name, inner),)))
            else:
                node.names[child.name] = inner
        return node

    def apply(self, call: Call) -> None:
        """One call, as a running program sees it."""
        if call.name == "fsync":
            self._fsync(call.path)
            return
        if call.name == "write":
            node = self._node(call.path)
            assert isinstance(node.content, bytes)
            node.content += call.data
            return
        if call.name == "mkdir" and not self._is_there(os.path.dirname(call.path)):
            return  # it failed: the folders above are made next
        folder, name = self._place(call.path)
        if call.name in ("open", "mkdir"):
            if name in folder.now:
                folder.now[name].content = b""  # every O_CREAT here truncates
            else:
                self._change(folder, (), ((name, Node(folder=call.name == "mkdir")),))
        elif call.name in ("unlink", "rmdir"):
            self._change(folder, (name,), ())
        elif call.name == "link":
            other, new = self._place(call.target)
            self._change(other, (), ((new, folder.now[name]),))
        elif call.name == "rename":
            other, new = self._place(call.target)
            node = folder.now[name]
            if other is folder:
                self._change(folder, (name,), ((new, node),))
            else:
                self._change(other, (), ((new, node),))
                self._change(folder, (name,), ())

    def states(self) -> Iterator[Tree]:
        """Every state looked at that the disk may be in if power fails now."""
        total = len(self.pending)
        choices = {frozenset(range(end)) for end in range(total + 1)}
        choices |= {frozenset({one}) for one in range(total)}
        choices |= {frozenset(range(total)) - {one} for one in range(total)}
        changing = {id(one.folder) for one in self.pending}
        for lost in (True, False):
            settled: dict[tuple[int, str], Tree] = {}
            for chosen in choices:
                yield _tree(self.top, "", self._names(chosen), changing, settled, lost=lost)

    def _names(self, chosen: frozenset[int]) -> dict[int, dict[str, Node]]:
        """Names in each folder, by its id, once these changes have reached the disk; others hold what is synced."""
        names: dict[int, dict[str, Node]] = {}
        for place in sorted(chosen):
            change = self.pending[place]
            held = names.setdefault(id(change.folder), dict(change.folder.names))
            for name in change.gone:
                held.pop(name, None)
            held.update(change.come)
        return names

    def _fsync(self, path: str) -> None:
        node = self._node(path)
        if not node.folder:
            node.synced = node.content
            return
        for change in [one for one in self.pending if one.folder is node]:
            for name in change.gone:
                node.names.pop(name, None)
            node.names.update(change.come)
        self.pending = [one for one in self.pending if one.folder is not node]

    def _change(self, folder: Node, gone: tuple[str, ...], come: tuple[tuple[str, Node], ...]) -> None:
        for name in gone:
            folder.now.pop(name, None)
        folder.now.update(come)
        self.pending.append(Pending(folder, gone, come))

    def _node(self, path: str) -> Node:
        node = self.top
        for part in os.path.relpath(path, self.base).split("/"):
            node = node if part == "." else node.now[part]
        return node

    def _is_there(self, path: str) -> bool:
        try:
            return self._node(path).folder
        except KeyError:
            return False

    def _place(self, path: str) -> tuple[Node, str]:
        folder, name = os.path.split(path)
        return self._node(folder), name


def _tree(
    folder: Node,
    path: str,
    names: dict[int, dict[str, Node]],
    changing: set[int],
    settled: dict[tuple[int, str], Tree],
    *,
    lost: bool,
) -> Tree:
    """What lies below a folder.

    names: names in folders, by id, where these differ from the synced ones.
    changing: ids of the folders with pending changes.
    settled: trees of folders with none, by id and path, of any state of this moment; added to.
    lost: unsynced bytes are gone.
    """
    if (id(folder), path) in settled:
        return settled[id(folder), path]
    tree: Tree = {}
    for name, child in names.get(id(folder), folder.names).items():
        below = f"{path}/{name}".lstrip("/")
        if child.folder:
            tree[f"{below}/"] = b""
            tree.update(_tree(child, below, names, changing, settled, lost=lost))
        else:
            content = child.synced if lost else child.content
            assert content is not None
            tree[below] = content
    if not _any_of(folder, changing):
        settled[id(folder), path] = tree
    return tree


def _any_of(folder: Node, ids: set[int]) -> bool:
    """Whether the folder, or one below it by its synced names, is among these."""
    return id(folder) in ids or any(child.folder and _any_of(child, ids) for child in folder.names.values())
