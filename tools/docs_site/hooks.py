"""Hooks of MkDocs: pages for what the documentation links to outside of docs/, so that the site is whole by itself.

README.md is the home page. Source files and folders that a page links to become pages under ``source/``: the site needs
no address of a repository, and works from disk.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

PROJECT = Path(__file__).resolve().parents[2]
HOME = "index.md"
_LINK = re.compile(r"(\]\(|^\[[^\]]+\]: )((?!https?://|#|mailto:)[^)#\s]+)", re.MULTILINE)
"""Target of a Markdown link to a file, up to its anchor."""
_LONGEST_FENCE = re.compile(r"`{3,}")
_NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"
"""Front matter of a page that the site's own search leaves out: code is searched by better means."""
_LANGUAGES = {".py": "python", ".toml": "toml", ".yml": "yaml", ".yaml": "yaml", ".json": "json"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the decisions to the navigation, newest first."""
    decisions = sorted((path.name for path in Path(config.docs_dir, "adr").glob("*.md")), reverse=True)
    config.nav = [*(config.nav or []), {"Decisions": [f"adr/{name}" for name in decisions]}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the home page, and a page for each file and folder outside of docs/ that a page leads to."""
    for path in _linked_outside(Path(config.docs_dir)):
        files.append(File.generated(config, _page_of(path), content=_text_of(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page with its links to files outside of docs/ leading to their pages on the site."""
    here = posixpath.dirname(_source_of(page.file))
    folder = posixpath.dirname(page.file.src_uri)
    return _with_links(markdown, here, lambda path: posixpath.relpath(_page_of(path), folder))


def _linked_outside(docs: Path) -> list[str]:
    """Paths outside of docs/, relative to the project, that the documentation leads to, at any distance."""
    found: dict[str, None] = {}
    waiting = ["README.md", *(path.relative_to(PROJECT).as_posix() for path in sorted(docs.rglob("*.md")))]
    while waiting:
        path = waiting.pop()
        if _is_outside(path):
            found[path] = None
        if path.endswith(".md"):
            text = (PROJECT / path).read_text(encoding="utf-8")
            targets = _targets(text, posixpath.dirname(path))
            waiting += [
                target for target in targets
                if _is_outside(target) and target not in found and (PROJECT / target).exists()
            ]  # fmt: skip
    return list(found)


def _is_outside(path: str) -> bool:
    """Tell whether MkDocs makes nothing of a path within the project: it is not in docs/, or it is a folder."""
    return not path.startswith("docs/") or (PROJECT / path).is_dir()


def _targets(text: str, folder: str) -> Iterator[str]:
    for match in _LINK.finditer(text):
        yield posixpath.normpath(posixpath.join(folder, match[2]))


def _with_links(text: str, folder: str, address: Callable[[str], str]) -> str:
    """Return a page's text with each link that starts or ends outside of docs/ replaced.

    Args:
        text: Markdown.
        folder: Folder of the page within the project.
        address: Maps a path within the project to the link's new target.

    Returns:
        The text; a link that leads nowhere stays, and MkDocs warns about it.
    """

    def new_link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[2]))
        return match[1] + address(target) if (PROJECT / target).exists() else match[0]

    return _LINK.sub(new_link, text)


def _page_of(path: str) -> str:
    """Path of the site's page, relative to docs/, for a path within the project."""
    if path == "README.md":
        return HOME
    if not _is_outside(path):
        return path.removeprefix("docs/")
    return f"source/{path}" if path.endswith(".md") else f"source/{path}.md"


def _source_of(file: File) -> str:
    """Path within the project of what a page shows."""
    if file.src_uri == HOME:
        return "README.md"
    if file.src_uri.startswith("source/"):
        return file.src_uri.removeprefix("source/")
    return f"docs/{file.src_uri}"


def _text_of(path: str) -> str:
    """Markdown of a page outside of docs/: the file itself, its code, or the names in a folder."""
    place = PROJECT / path
    if place.is_dir():
        names = sorted(inner.name + "/" * inner.is_dir() for inner in place.iterdir() if inner.name[0] not in "._")
        return "\n".join([f"{_NOT_SEARCHED}# {path}/\n", *(f"- `{name}`" for name in names), ""])
    text = place.read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    fence = "`" * (1 + max((len(run) for run in _LONGEST_FENCE.findall(text)), default=2))
    return f"{_NOT_SEARCHED}# {path}\n\n{fence}{_LANGUAGES.get(place.suffix, 'text')}\n{text.rstrip()}\n{fence}\n"
