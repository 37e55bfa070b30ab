"""Documentation that is wrong fails the build: commands run, settings and files are named, links lead somewhere."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from rich.cells import cell_len

from codequarry.schemas.settings.load import RepositorySettings, Settings
from tests.contracts.pages import catalog_page, command_pages
from tests.contracts.pages.tool_pages import page
from tools.pictures.terminal import run_in_terminal
from tools.train_encoder.sources import read_sources

PROJECT = Path(__file__).resolve().parents[2]
README = (PROJECT / "README.md").read_text(encoding="utf-8")
PAGES = [
    file for file in sorted(PROJECT.rglob("*.md"))
    if not {part for part in file.relative_to(PROJECT).parts if part.startswith(".")}
]  # fmt: skip


def makefile_targets() -> set[str]:
    text = (PROJECT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z-]+):.*##", text, re.MULTILINE))


def test_the_readme_shows_both_commands_first() -> None:
    assert README.index("make demo") < README.index("make test") < len(README) / 2


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_make_targets_in_the_docs_exist(page: Path) -> None:
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE))
    assert named <= makefile_targets()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_relative_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_setting_is_in_the_docs_with_its_default_and_meaning() -> None:
    documented = (PROJECT / "docs" / "SETTINGS.md").read_text(encoding="utf-8")
    rows = [
        f"| `{section}.{key}` | `{json.dumps(inner.default, default=str)}` | {inner.description} |"
        for section, field in Settings.model_fields.items()
        for key, inner in field.annotation.model_fields.items()
    ]
    rows += [f"| `{key}` | {inner.description} |" for key, inner in RepositorySettings.model_fields.items()]
    assert [row for row in rows if row not in documented] == []


INSIDER_WORDS = (
    "shard", "leaf", "leg", "staging", "posting", "centroid", "digest", "anchor", "fusion", "NDCG", "Traceback",
    "rows_", "npy", "parquet", "__", "None",
)  # fmt: skip
"""Words of those who build codequarry, which a person who uses it does not know."""
FOR_PROGRAMS = ("tools",)
"""Commands that print JSON."""
FOR_EXPERTS = ("tune", "store")
"""Commands whose subject is measuring, or what runs keep."""


@pytest.mark.slow
def test_the_readmes_commands_run_in_terminals_of_80_and_of_120_columns(tmp_path: Path) -> None:
    """Every `codequarry …` line of the README, in order, in a folder of its own, over a repository of its own."""
    lines = re.findall(r"^codequarry (.+?)(?:\s+#.*)?$", README, re.MULTILINE)
    assert len(lines) >= 5
    code = tmp_path / "your-repository"
    code.mkdir()
    (code / "atomic.py").write_text(
        "import os\n\n\ndef replace_atomically(path, data):\n    '''Write aside, sync, rename.'''\n"
        "    os.replace(data, path)\n\n\ndef save(path, data):\n    replace_atomically(path, data)\n"
    )
    rule = "def rule_{0}(row):\n    '''Check column {0} of a row.'''\n    return check(row, column_{0}, limit, {0})\n\n"
    (code / "rules.py").write_text("".join(map(rule.format, range(40))))
    for columns in (80, 120):
        for line in lines:
            name, *_ = arguments = shlex.split(line.replace("~/src/your-repository", str(code)))
            if name == "serve" or (columns == 120 and name in ("export", "tune")):
                continue  # blocks until stopped, writes what is there by now, or trains again
            screen = run_in_terminal(arguments, tmp_path, columns)
            shown = "\n".join(screen.lines)
            assert screen.code == 0 and shown.strip(), f"codequarry {line}\n{shown}"
            if name not in FOR_PROGRAMS:
                # One long word, such as a path, is left whole, so that it can be copied.
                wide = [each for each in screen.lines if cell_len(each.rstrip()) > columns and " " in each.strip()]
                assert not wide, f"{line}\n{shown}"
            if name not in (*FOR_PROGRAMS, *FOR_EXPERTS) and "--explain" not in arguments:
                assert not [word for word in INSIDER_WORDS if word in shown], f"{line}\n{shown}"


def test_the_licence_report_names_every_package_of_the_encoder() -> None:
    report = (PROJECT / "docs" / "ENCODER_SOURCES.md").read_text(encoding="utf-8")
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in report.splitlines() if line.startswith("| ")}
    listed = read_sources()
    assert [one.key for one in listed.sources if f"{one.name} {one.version}" not in rows[one.license]] == []
    assert [one.key for one in listed.sources if one.held_out and f"{one.name} ({one.held_out})" not in report] == []
    assert all(name in report for name in listed.never)


def test_the_page_of_tools_is_the_one_the_models_make() -> None:
    written = (PROJECT / "docs" / "TOOLS.md").read_text(encoding="utf-8")
    assert written == page(), "run: python -m tests.contracts.pages.tool_pages"


def test_the_pages_of_commands_are_those_the_command_line_makes() -> None:
    for file, made in ((command_pages.PAGE, command_pages.markdown()), (command_pages.MANUAL, command_pages.manual())):
        assert file.read_text(encoding="utf-8") == made, "run: python -m tests.contracts.pages.command_pages"


def test_the_page_of_the_catalog_is_the_one_the_schemas_make(tmp_path: Path) -> None:
    written = (PROJECT / "docs" / "CATALOG.md").read_text(encoding="utf-8")
    made = catalog_page.page(tmp_path)
    assert "| |" not in made, "a column without a description, see schemas/catalog/column_meanings.py"
    assert written == made, "run: python -m tests.contracts.pages.catalog_page"


def test_every_promise_of_the_contract_names_tests_that_exist() -> None:
    text = (PROJECT / "docs" / "CONTRACT.md").read_text(encoding="utf-8")
    promises = text.partition("## Different on purpose")[0]
    rows = [line for line in promises.splitlines() if line.startswith("| ") and not line.startswith("| promise")]
    assert rows
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", row)
        assert named, row
        for file, test in named:
            assert f"def {test}" in (PROJECT / file).read_text(encoding="utf-8"), (file, test)


def test_every_row_of_the_security_page_is_whole_and_has_a_test_named_after_it() -> None:
    """A promise that nothing tests is none."""
    text = (PROJECT / "docs" / "SECURITY.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if re.match(r"\| \d+ \|", line)]
    numbers = [int(line.split("|")[1]) for line in rows]
    assert numbers == list(range(1, 39))
    files = {file.relative_to(PROJECT).as_posix(): file.read_text() for file in (PROJECT / "tests").rglob("test_*.py")}
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)
        assert all(cell.strip() for cell in row.strip("|").split("|")), row
        number = int(row.split("|")[1])
        assert any(re.match(rf"test_row_(\d\d_and_)?{number:02}_", test) for _, test in named), row
        assert [name for name in named if f"def {name[1]}(" not in files.get(name[0], "")] == []
