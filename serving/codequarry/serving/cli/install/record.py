"""The list of what was written, in the user's own folder, by which exactly that is taken away again."""

from __future__ import annotations

import difflib
import hashlib
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.trust.user_folders import read_private, state_folder, write_private
from codequarry.serving.cli.install.config_files import read_config, real_file, remove_config, write_config
from codequarry.serving.cli.install.json_text import UnreadableConfigError
from codequarry.serving.cli.install.targets import (
    ConfigTarget,
    find_value,
    is_as_written,
    missing_levels,
    put_value,
    take_value,
)


@dataclass(frozen=True, slots=True)
class Receipt:
    """One thing that was written."""

    subject: str
    """Bundle root or URL that the entry is for."""
    value: Any
    levels: int
    """Objects around it that were made for it."""
    digest: str
    """sha256 of the whole text afterwards."""
    offset: int
    removed: str
    inserted: str
    """The change: at the offset, one text in place of another."""
    made_file: bool
    folders: list[str]
    """Folders that were made for the file."""

    def restored(self, text: str) -> str | None:
        """Return the text before the change; None when it was changed again since."""
        if hashlib.sha256(text.encode()).hexdigest() != self.digest:
            return None
        return text[: self.offset] + self.removed + text[self.offset + len(self.inserted) :]


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """Planned change of one file."""

    target: ConfigTarget
    file: Path
    """The file without links."""
    before: str | None
    after: str | None
    receipt: Receipt | None
    """Content of the list afterwards."""

    @property
    def diff(self) -> str:
        """The change as a unified diff; empty when there is none."""
        lines = difflib.unified_diff(
            (self.before or "").splitlines(keepends=True),
            (self.after or "").splitlines(keepends=True),
            str(self.file) if self.before is not None else os.devnull,
            str(self.file) if self.after is not None else os.devnull,
        )
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def plan_install(target: ConfigTarget, subject: str) -> ConfigChange:
    """Plan to write a target.

    Args:
        target: The target.
        subject: Bundle root or URL that it is for; an entry for another one is not replaced.

    Returns:
        The change.

    Raises:
        UnreadableConfigError: The file cannot be read, or not be changed safely.
        InvalidArgumentError: Something else has the target's place.
    """
    file = real_file(target.file, target.project)
    text = read_config(file)
    found = find_value(target, text)
    receipt = _receipts(file).get(target.name)
    if found is not None and found == target.value:
        return ConfigChange(target, file, text, text, receipt)
    if found is not None and receipt is not None and receipt.subject != subject:
        raise _refusal(target, f"is for {receipt.subject}")
    original = receipt.restored(text) if receipt is not None and text is not None else None
    if receipt is not None and original is not None:
        # What was there before codequarry: changed once, it can be restored byte by byte.
        base, new = (None, True) if receipt.made_file else (original, False)
        return _change(target, file, text, base, put_value(target, base, None), subject, receipt.folders, new)
    if found is None:
        return _change(target, file, text, text, put_value(target, text, None), subject, [], text is None)
    if not target.ours and (receipt is None or not is_as_written(receipt.value, found)):
        raise _refusal(target, "was not written by codequarry, or was changed since")
    levels = receipt.levels if receipt is not None else 0
    # Others changed the file since: it can no longer be restored byte by byte, hence no digest.
    replaced = Receipt(subject, target.value, levels, "", 0, "", "", False, [])
    return ConfigChange(target, file, text, put_value(target, text, found), replaced)


def plan_undo(target: ConfigTarget, subject: str = "") -> ConfigChange | None:
    """Plan to take away what was written.

    Args:
        target: The target; without a record of it, its value is what is taken away.
        subject: Bundle root or URL that it must be for; "" for any.

    Returns:
        The change; None when there is nothing.

    Raises:
        UnreadableConfigError: The file cannot be read, or not be changed safely.
        InvalidArgumentError: What was written was changed since.
    """
    file = real_file(target.file, target.project)
    text = read_config(file)
    receipt = _receipts(file).get(target.name)
    if text is None or (found := find_value(target, text)) is None:
        return None if receipt is None else ConfigChange(target, file, text, text, None)
    if receipt is not None and subject not in ("", receipt.subject):
        raise _refusal(target, f"is for {receipt.subject}", "give its --name")
    if receipt is not None and (original := receipt.restored(text)) is not None:
        return ConfigChange(target, file, text, None if receipt.made_file else original, None)
    written = target.value if receipt is None else receipt.value
    if not target.ours and not is_as_written(written, found):
        raise _refusal(target, "was not written by codequarry, or was changed since", "take it out by hand")
    there = replace(target, value=found)
    after = take_value(there, text, receipt.levels if receipt is not None else 0)
    return ConfigChange(target, file, text, None if target.language == "file" else after, None)


def apply_change(change: ConfigChange) -> None:
    """Write a change, and note it in the list.

    Args:
        change: The change.

    Raises:
        UnavailableError: A file cannot be written.
    """
    receipts = _receipts(change.file)
    receipt = change.receipt
    if change.after is None and change.before is not None:
        remove_config(change.file, receipts[change.target.name].folders if change.target.name in receipts else [])
    elif change.after is not None and change.after != change.before:
        made = write_config(change.file, change.before, change.after, private=change.target.project is None)
        if receipt is not None and made:
            receipt = replace(receipt, folders=made)
    receipts.pop(change.target.name, None)
    if receipt is not None:
        receipts[change.target.name] = receipt
    everything = read_private(_list())
    kept = {**everything, str(change.file): {name: asdict(one) for name, one in receipts.items()}}
    kept = {file: written for file, written in kept.items() if written}
    if kept != everything:
        write_private(_list(), kept)


def written_names(file: Path) -> list[str]:
    """Return the names of what was written into a file."""
    return sorted(_receipts(real_file(file)))


def _change(
    target: ConfigTarget, file: Path, text: str | None, base: str | None, after: str, subject: str, folders: list[str],
    new: bool,
) -> ConfigChange:  # fmt: skip
    offset, removed, inserted = _splice(base or "", after)
    receipt = Receipt(
        subject, target.value, missing_levels(target, base), _digest(after), offset, removed, inserted, new, folders
    )
    return ConfigChange(target, file, text, after, receipt)


def _splice(before: str, after: str) -> tuple[int, str, str]:
    """Return (offset, removed, inserted), the shortest change of one text into another."""
    most = min(len(before), len(after))
    start = next((at for at in range(most) if before[at] != after[at]), most)
    end = next((at for at in range(most - start) if before[-1 - at] != after[-1 - at]), most - start)
    return start, before[start : len(before) - end], after[start : len(after) - end]


def _receipts(file: Path) -> dict[str, Receipt]:
    written = read_private(_list()).get(str(file), {})
    try:
        return {name: Receipt(**one) for name, one in written.items()}
    except (TypeError, AttributeError):
        raise UnreadableConfigError(f"the list of what was written is damaged; remove {_list()}") from None


def _list() -> Path:
    return state_folder() / "installed.json"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _refusal(
    target: ConfigTarget, reason: str, remedy: str = "give --name, or take it out by hand"
) -> InvalidArgumentError:
    subject = f"{'.'.join(target.keys)} of {target.file}" if target.keys else str(target.file)
    return InvalidArgumentError(f"{subject} {reason}", suggestion=remedy)
