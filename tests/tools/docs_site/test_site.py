"""`make docs`: the site is made without a warning, leads nowhere that is not there, and asks no other host."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3]
ASKS = re.compile(r"""(<(script|img|iframe)\s[^>]*src="|<link\s[^>]*href="|url\()(https?:)?//""")
"""What lets a browser ask another host without the reader's doing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site; a warning, such as a link or an anchor that leads nowhere, fails."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=PROJECT, capture_output=True, text=True, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def test_the_readme_is_the_home_page_and_source_files_are_pages(site: Path) -> None:
    home = (site / "index.html").read_text(encoding="utf-8")
    assert "Code search for AI agents that you host yourself" in home
    assert 'href="OPERATIONS.html' in home and 'href="source/CHANGELOG.html' in home
    glossary = (site / "GLOSSARY.html").read_text(encoding="utf-8")
    assert 'href="source/schemas/codequarry/schemas/bundle/layout.py.html"' in glossary
    code = (site / "source/schemas/codequarry/schemas/bundle/layout.py.html").read_text(encoding="utf-8")
    assert "BundlePaths" in code and "highlight" in code


def test_every_page_and_decision_is_in_the_navigation(site: Path) -> None:
    home = (site / "index.html").read_text(encoding="utf-8")
    pages = [file.relative_to(PROJECT / "docs").with_suffix(".html") for file in (PROJECT / "docs").rglob("*.md")]
    addresses = [page.as_posix().replace("README", "index") for page in pages]
    assert len(addresses) > 60
    assert [address for address in addresses if f'href="{address}"' not in home] == []


def test_no_page_asks_another_host(site: Path) -> None:
    files = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(files) > 100
    assert [file.relative_to(site).as_posix() for file in files if ASKS.search(file.read_text(encoding="utf-8"))] == []
