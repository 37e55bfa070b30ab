"""``codequarry tune encoder``: an encoder of one's own where it is measurably better, and nothing where it is not."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from codequarry.pipelines.adapt import train
from codequarry.pipelines.adapt.train import _rows, adapt
from codequarry.pipelines.embed.encoders import SHIPPED
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.serving.encoders.spec import EncoderSpec, open_encoder
from tests.pipelines.conftest import Run

SAID = "harvest reticulate anneal ferment winnow glaze thresh distil temper mill quench smelt".split()
WRITTEN = "zorb quill frob mank plith gerd skanf trull wexo yarp blint drov".split()


def jargon(files: int, learnable: bool) -> dict[str, bytes]:
    """Functions whose documentation says one word where their code says another: the same one each time, or any."""
    drawn = random.Random(5)
    made: dict[str, bytes] = {}
    for file in range(files):
        functions: list[str] = []
        for number in range(4):
            said = drawn.sample(range(len(SAID)), 2)
            written = said if learnable else drawn.sample(range(len(WRITTEN)), 2)
            case = (file, number) if learnable else drawn.sample(range(1_000), 2)
            first, second = (WRITTEN[one] for one in written)
            functions.append(
                f"def {first}_{second}_{file}_{number}(value):\n"
                f'    """{SAID[said[0]].title()} what was given and {SAID[said[1]]} it, case {case[0]} {case[1]}."""\n'
                f"    result = {first}.run(value)\n    return {second}(result, value, {first})\n"
            )
        made[f"part{file}.py"] = "\n\n".join(functions).encode()
    return made


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.slow
def test_a_corpus_with_words_of_its_own_gets_an_encoder_that_index_takes(tmp_path: Path, run: Run) -> None:
    app = write(tmp_path / "app", jargon(60, learnable=True))
    done = run("tune", "encoder", app, "--out", tmp_path / "own", "--json")
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert verdict["pairs"] == 240
    assert verdict["queries"] > 200
    assert verdict["after"] > verdict["before"] + 0.1
    assert verdict["interval"][0] > 0
    spec = open_encoder(tmp_path / "own").spec
    assert spec.adapted is not None
    assert spec.adapted.base == EncoderSpec.load(SHIPPED).fingerprint != spec.fingerprint

    settings = tmp_path / "settings.toml"
    settings.write_text('[embedding]\nfolder = "own"\n')
    indexed = run("index", app, "--settings", settings, "--root", tmp_path / "bundles")
    assert indexed.returncode == 0, indexed.stderr
    version = Path(indexed.stdout.strip())
    assert json.loads((version / "encoder" / "encoder.json").read_text())["adapted"] == verdict
    found = run("search", "harvest and winnow", "--root", tmp_path / "bundles", "--channel", "faiss", "--json")
    assert "zorb" in found.stdout
    back = run("index", app, "--root", tmp_path / "bundles")
    assert back.returncode == 0, back.stderr
    assert Path(back.stdout.strip()) != version  # another encoder makes another version


@pytest.mark.slow
def test_a_corpus_that_teaches_nothing_changes_nothing(tmp_path: Path, run: Run) -> None:
    app = write(tmp_path / "app", jargon(30, learnable=False))
    done = run("tune", "encoder", app, "--out", tmp_path / "own")
    assert done.returncode == 0, done.stderr
    assert "not better beyond doubt: nothing is written" in done.stdout
    assert not (tmp_path / "own").exists()


def test_too_little_to_tell_is_said(tmp_path: Path, run: Run) -> None:
    app = write(tmp_path / "app", jargon(2, learnable=True))
    done = run("tune", "encoder", app, "--out", tmp_path / "own")
    assert done.returncode != 0
    assert "8 documented definitions to ask about, expected at least 30" in done.stderr
    (tmp_path / "settings.toml").write_text('[embedding]\nmodel = "minilm"\n')
    other = run("tune", "encoder", app, "--settings", tmp_path / "settings.toml")
    assert "[embedding] model is minilm, expected static" in other.stderr


def test_an_empty_corpus(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="0 documented definitions"):
        adapt([], SHIPPED, tmp_path / "own")


@pytest.mark.slow
def test_a_file_that_takes_all_memory_is_left_out_and_its_neighbours_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "_MEMORY_BYTES", 256 << 20)  # a gigabyte takes ten seconds to fill
    good = [(f"app/{name}", "python", data) for name, data in jargon(6, learnable=True).items()]
    bomb = ("app/bomb.java", "java", b"a =>" * 5_000)
    rows = list(_rows([*good[:3], bomb, *good[3:]], [], lambda *_: None))
    assert len(rows) == 24
