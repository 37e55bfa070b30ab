"""Texts of the answers of ``outline``, ``list_files`` and ``overview``. Lines are 1-based."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from codequarry.schemas.wire.list_files import ListFilesAnswer
from codequarry.schemas.wire.outline import FileOutline, OutlineAnswer, OutlineDefinition
from codequarry.schemas.wire.overview import OverviewAnswer, RepositoryOverview
from codequarry.schemas.wire.search import BundleInfo
from codequarry.schemas.wording import counted
from codequarry.serving.catalog import present
from codequarry.serving.render.lines import footer, place, shown_path

_SIGNATURE_CHARS = 120


def outline_text(answer: OutlineAnswer) -> str:
    """Return the text of an outline: a file as a tree, files of a folder as a line each.

    Args:
        answer: The answer.

    Returns:
        Its text.
    """
    flat = answer.files_total > 1 and all(one.depth == 1 for file in answer.files for one in file.definitions)
    lines = [line for file in answer.files for line in (_flat if flat else _tree)(file, answer.bundle)]
    facts = [counted(answer.total, "definition"), counted(answer.files_total, "file") if answer.files_total > 1 else ""]
    uris = [file.uri for file in answer.files]
    return "\n".join([*lines, *footer(answer.bundle, uris, facts, answer.limits)])


def files_text(answer: ListFilesAnswer) -> str:
    """Return the text of a list of files: a line for each folder, with its files.

    Args:
        answer: The answer.

    Returns:
        Its text.
    """
    lines: dict[str, list[str]] = {}
    for file in answer.files:
        folder, slash, name = shown_path(file.uri, answer.bundle).rpartition("/")
        lines.setdefault(folder + slash, []).append(name)
    for folder in answer.folders:
        lines[f"{shown_path(folder.uri, answer.bundle)}/"] = [f"({counted(folder.files, 'file')})"]
    shown = [f"{folder}  {' · '.join(names)}".strip() for folder, names in sorted(lines.items())]
    facts = [
        f"{counted(len(answer.files), 'file')} of {answer.total:,}",
        f"open a folder: list_files pattern={answer.folders[0].uri!r}" if answer.folders and not _odd(answer) else "",
    ]
    uris = [one.uri for one in (*answer.files, *answer.folders)]
    return "\n".join([*shown, *footer(answer.bundle, uris, facts, answer.limits)])


def overview_text(answer: OverviewAnswer) -> str:
    """Return the text of an overview.

    Args:
        answer: The answer.

    Returns:
        Its text, at most 60 lines for three repositories.
    """
    lines = [line for one in answer.repositories for line in _repository(one, answer.bundle)]
    facts = [f"version {answer.bundle.version}", counted(answer.repositories_total, "repository")]
    uris = [f"{one.name}/" for one in answer.repositories]
    return "\n".join([*lines, *footer(answer.bundle, uris, facts, answer.limits)])


def _tree(file: FileOutline, bundle: BundleInfo) -> list[str]:
    about = f"{file.lang or 'text'}, {counted(file.total_lines, 'line')}"
    hidden = file.total - len(file.definitions)
    more = f", {hidden} more definitions further in or down" if hidden > 0 else ""
    width = max((len(_span(one)) for one in file.definitions), default=0)
    return [
        f"{shown_path(file.uri, bundle)}  ({about}{more})",
        *(f"  {_span(one):>{width}}  {'  ' * (one.depth - 1)}{_described(one)}" for one in file.definitions),
    ]


def _flat(file: FileOutline, bundle: BundleInfo) -> list[str]:
    named = (
        f"{kind} {', '.join(f'{present.one_line(one.name, 80)}:{_span(one)}' for one in own)}"
        for kind, own in groupby(file.definitions, key=lambda one: one.kind)
    )
    return [f"{shown_path(file.uri, bundle)}  {' · '.join(named)}".rstrip()]


def _span(one: OutlineDefinition) -> str:
    return place("", one.start_line, one.end_line)[1:]


def _described(one: OutlineDefinition) -> str:
    """Return the signature where it begins with a word of the language, else the kind before it."""
    name, signature = present.one_line(one.name, 80), present.one_line(one.signature, _SIGNATURE_CHARS)
    if name not in signature:
        return f"{one.kind} {name} {signature}".rstrip()
    return f"{one.kind} {signature}" if signature.startswith(name) else signature


def _odd(answer: ListFilesAnswer) -> bool:
    return not answer.folders[0].uri.isprintable()


def _repository(one: RepositoryOverview, bundle: BundleInfo) -> list[str]:
    languages = ", ".join(f"{each.lang} {each.share:.0%} ({counted(each.files, 'file')})" for each in one.languages)
    lines = [f"{one.name}  {counted(one.files, 'file')}: {languages}"]
    if one.folders:
        lines.append(f"  most imported folders, {len(one.folders)} of {one.folders_total}:")
        lines += [
            f"    {shown_path(folder.uri, bundle) or '.'}  {counted(folder.files, 'file')}"
            + (f", imported {counted(folder.fan_in, 'time')}" if folder.fan_in else "")
            for folder in one.folders
        ]
    lines += _list("entry points", one.entry_points, one.entry_points_total, bundle)
    lines += _list("documents", one.documents, one.documents_total, bundle)
    return lines


def _list(title: str, uris: Sequence[str], total: int, bundle: BundleInfo) -> Iterable[str]:
    if uris:
        of = f"{len(uris)} of {total}" if total > len(uris) else str(total)
        yield f"  {title} ({of}): {' · '.join(shown_path(uri, bundle) for uri in uris)}"
