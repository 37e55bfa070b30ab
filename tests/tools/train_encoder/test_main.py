"""The program that trains the shipped encoder: the whole road on tiny packages."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from codequarry.serving.encoders.spec import open_encoder
from tests.tools.train_encoder.packages import wheel
from tools.train_encoder.__main__ import main
from tools.train_encoder.corpus import rows_of, select

Train = Callable[..., subprocess.CompletedProcess[str]]
STORE = b'''
def open_store(path, mode):
    """Open the store and check every entry of it."""
    return make_handle(path, mode)
'''


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Train:
    """Run the program in this process."""

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["train_encoder", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "100")
        with pytest.raises(SystemExit) as ended:
            main()
        return subprocess.CompletedProcess(sys.argv, int(ended.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A list of three packages whose archives are there already, one of them held out."""

    def module(topic: str, count: int) -> bytes:
        return "\n\n".join(
            f'def {verb}_{topic}_{n}(value):\n    """{verb.title()} the {topic} number {n} of the caller."""\n'
            f"    result_{n} = {topic}_{n}.{verb}(value)\n    return check(result_{n}, {topic}_{n}, {n})\n"
            for n in range(count)
            for verb in ("open", "close", "parse")
        ).encode()

    contents = {
        "one": {"one/store.py": module("store", 30), "one/_vendor/fmt.py": module("vendored", 5)},
        "two": {"two/socket.py": module("socket", 30), "two/express/app.py": module("never", 5)},
        "apart": {"apart/socket.py": module("socket", 5), "apart/window.py": module("window", 20)},
    }
    lines = ['never = ["express"]', "npm = []", "debian = []", "pypi = ["]
    for name, files_of in contents.items():
        archive = wheel(tmp_path / "training" / "archives" / "pypi" / f"{name}.whl", files_of)
        sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
        role = ["python"] if name == "apart" else []
        lines.append(f"  {json.dumps([name, '1', 'MIT', archive.name, sha256, *role])},")
    (tmp_path / "sources.toml").write_text("\n".join([*lines, "]"]))
    return tmp_path


@pytest.mark.slow
def test_the_command_trains_the_same_encoder_twice_and_index_takes_it(tiny: Path, train: Train) -> None:
    common = ("--sources", tiny / "sources.toml", "--folder", tiny / "training", "--json")
    first = train("--out", tiny / "first", *common)
    assert first.returncode == 0, first.stderr
    made = json.loads(first.stdout)
    assert made["pairs"] == {"python": 165}  # 15 are in the held-out package as well
    assert set(made["mrr@10"]) == {"pypi/apart"}
    assert made["mrr@10"]["pypi/apart"]["queries"] == 75
    again = train("--out", tiny / "second", "--no-evaluate", *common)
    assert json.loads(again.stdout)["fingerprint"] == made["fingerprint"]
    assert [(tiny / "first" / name).read_bytes() for name in ("rows.npy", "scales.npy", "tokenizer.json")] == [
        (tiny / "second" / name).read_bytes() for name in ("rows.npy", "scales.npy", "tokenizer.json")
    ]
    encoder = open_encoder(tiny / "first")
    scores = encoder.encode_documents(["def open_store(value): store.open(value)", "window"]) @ encoder.encode_query(
        "open the store"
    )
    assert scores[0] > scores[1]

    (tiny / "app").mkdir()
    (tiny / "app" / "store.py").write_bytes(STORE)
    (tiny / "settings.toml").write_text('[embedding]\nfolder = "first"\n')
    indexed = subprocess.run(
        [sys.executable, "-m", "codequarry.pipelines.cli", "index", "app", "--settings", "settings.toml"],
        cwd=tiny, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert indexed.returncode == 0, indexed.stderr
    manifest = json.loads((Path(indexed.stdout.strip()) / "manifest.json").read_text())
    assert manifest["encoder"]["fingerprint"] == made["fingerprint"]


@pytest.mark.slow
def test_nothing_of_a_held_out_package_is_trained_on(tiny: Path, train: Train) -> None:
    done = train(
        "--out", tiny / "out", "--sources", tiny / "sources.toml",
        "--folder", tiny / "training", "--no-evaluate", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    tables = {len(rows): rows for table in (tiny / "training" / "pairs").iterdir() if (rows := list(rows_of(table)))}
    assert sorted(tables) == [75, 90]
    found = {row.header for rows in tables.values() for row in rows}
    assert not any("vendored" in header or "never" in header for header in found)
    named = {file.name: file for file in (tiny / "training" / "pairs").iterdir()}
    apart = [file for file in named.values() if len(list(rows_of(file))) == 75]
    others = {name: file for name, file in named.items() if file not in apart}
    chosen = select(others, apart, seed=0)
    held = {row.code for row in rows_of(apart[0])}
    assert not held & {row.code for _, row in chosen}
    assert {key for key, _ in chosen} == set(others)
    assert any("window" in code for code in held)


def test_what_is_missing_is_named(tmp_path: Path, train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty.toml").write_text("never = []\npypi = []\nnpm = []\ndebian = []\n")
    common = ("--out", tmp_path / "out", "--folder", tmp_path / "training")
    nothing = train(*common, "--sources", tmp_path / "empty.toml")
    assert nothing.returncode != 0
    assert "no pair of documentation and code" in nothing.stderr
    monkeypatch.setitem(sys.modules, "scipy", None)
    bare = train(*common)
    assert "needs the extra 'train' (scipy is not installed)" in bare.stderr
    assert "pip install 'codequarry[train]'" in bare.stderr
