"""Training a static encoder: pairs, archives, the gradient against differences, and the whole road on tiny packages."""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from codequarry.pipelines.training.contrastive import Bags, Recipe, _gradient, bags, train
from codequarry.pipelines.training.corpus import rows_of, select
from codequarry.pipelines.training.held_out import interval, reciprocal_ranks
from codequarry.pipelines.training.pairs import pairs_of
from codequarry.pipelines.training.sources import Source, fetch, files, read_sources
from codequarry.pipelines.training.vocabulary import train_tokenizer
from codequarry.schemas.encoder import open_encoder
from codequarry.schemas.errors import IntegrityError, InvalidArgumentError, UnavailableError
from codequarry.schemas.static_encoder import TokenIds
from tests.pipelines.conftest import MAIN, Run

PYTHON = b'''
def open_store(path, mode):
    """Open the store and check every entry of it."""
    handle = make_handle(path, mode)
    # Damaged entries are thrown away before anybody sees them.
    for entry in handle.entries():
        if entry.damaged:
            handle.remove(entry)
    return handle


def close_everything(store):
    for handle in store.handles:
        handle.flush()
        handle.close()
'''
GO = b"""package store

// Open reads the whole index into memory.
func Open(path string, size int) (*Store, error) {
	data, err := readAll(path, size)
	return newStore(data), err
}
"""


def test_pairs_of_a_file_hide_from_each_side_what_the_other_says() -> None:
    doc, block, name = sorted(pairs_of(PYTHON, "python"), key=lambda pair: ["doc", "block", "name"].index(pair.kind))
    assert (doc.text, doc.qualified_name) == ("Open the store and check every entry of it.", "open_store")
    assert doc.code.startswith("def open_store(path, mode):")
    assert "Open the store" not in doc.code
    assert block.text == "Damaged entries are thrown away before anybody sees them."
    assert block.code.splitlines()[0].strip() == "for entry in handle.entries():"
    assert (name.text, name.code.split()[:2]) == ("close_everything", ["for", "handle"])
    (above,) = pairs_of(GO, "go")
    assert (above.kind, above.text) == ("doc", "Open reads the whole index into memory.")
    assert above.code.startswith("func Open(path string")


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"def", b"# only a comment here\n", b"x = 1\n" * 1000])
def test_files_without_anything_to_learn(data: bytes) -> None:
    assert list(pairs_of(data, "python")) == []


def wheel(path: Path, contents: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in contents.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return path


def tarball(path: Path, contents: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, data in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("package/link.py")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return path


def test_archives_give_small_wanted_files_and_follow_no_link(tmp_path: Path) -> None:
    large = b"x" * 200_001
    made = tarball(tmp_path / "a.tgz", {"package/a.py": b"a", "package/../../b.py": b"b", "package/c.py": large})
    assert list(files(made, lambda path: path.endswith(".py"))) == [("a.py", b"a"), ("../../b.py", b"b")]
    made = wheel(tmp_path / "a.whl", {"a/a.py": b"a", "a/c.py": large, "a/d.txt": b"d"})
    assert list(files(made, lambda path: path.endswith(".py"))) == [("a/a.py", b"a")]


def test_an_archive_that_is_not_the_pinned_one_is_refused(tmp_path: Path) -> None:
    wheel(tmp_path / "pypi" / "a.whl", {"a.py": b"a"})
    with pytest.raises(IntegrityError, match=r"a\.whl: sha256 [0-9a-f]{64}, expected 0{64}"):
        fetch(Source("pypi", "a", "1", "MIT", "a.whl", "0" * 64, ""), tmp_path)


def script(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_a_wheel_is_asked_for_by_the_platforms_of_its_own_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "a-1-cp311-abi3-manylinux_2_34_x86_64.whl"
    client = script(
        tmp_path / "python", f'case "$*" in *"--platform manylinux_2_34_x86_64 "*) printf w > {name};; esac'
    )
    monkeypatch.setattr(sys, "executable", str(client))
    fetched = fetch(Source("pypi", "a", "1", "MIT", name, hashlib.sha256(b"w").hexdigest(), ""), tmp_path)
    assert fetched.read_bytes() == b"w"


def test_a_source_package_that_was_replaced_is_taken_where_its_tarball_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = 'case "$*" in *=*) echo "E: Unable to find a source package" >&2; exit 100;; esac'
    script(tmp_path / "apt-get", f"{gone}\nprintf t > a_1.orig.tar.gz")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    digest = hashlib.sha256(b"t").hexdigest()
    fetched = fetch(Source("debian", "a", "1-1+deb12u5", "MIT", "a_1.orig.tar.gz", digest, ""), tmp_path)
    assert fetched.read_bytes() == b"t"
    with pytest.raises(UnavailableError, match=r"a_2\.orig\.tar\.gz was not fetched: .*"):
        fetch(Source("debian", "a", "2-1", "MIT", "a_2.orig.tar.gz", digest, ""), tmp_path)


@pytest.mark.parametrize("text", ["", "pypi = 1", "never = []\npypi = [['a']]\nnpm = []\ndebian = []", "= ="])
def test_a_list_that_is_none_is_explained(tmp_path: Path, text: str) -> None:
    (tmp_path / "sources.toml").write_text(text)
    with pytest.raises(InvalidArgumentError, match="no list of sources"):
        read_sources(tmp_path / "sources.toml")


def test_the_pinned_packages_are_permissive_and_cover_the_languages() -> None:
    listed = read_sources()
    copyleft = [one.key for one in listed.sources if "GPL" in one.license and " OR " not in one.license]
    assert copyleft == []
    held_out = [one for one in listed.sources if one.held_out]
    assert len(held_out) >= 15
    assert len({one.held_out for one in held_out}) >= 6
    assert {"fmt", "express", "tokio"} <= listed.never
    assert len({one.file for one in listed.sources}) == len(listed.sources)


def test_the_vocabulary_is_the_same_every_time_also_where_characters_are_equally_frequent() -> None:
    rare = [f"{chr(0x4E00 + n)}{chr(0x4E00 + n)} word{n % 7}" for n in range(900)]
    first, second = (train_tokenizer(rare * 2, tokens=600).to_str() for _ in range(2))
    assert first == second


def toy(tokens: int = 40, count: int = 24) -> Bags:
    from scipy import sparse

    drawn = np.random.default_rng(3)
    sides = (drawn.integers(0, 3, (count, tokens)).astype(np.float32) for _ in range(3))
    return Bags(*(sparse.csr_matrix(side) for side in sides))


def test_the_gradient_is_that_of_the_loss() -> None:
    """Central differences of the loss, written a second time, densely and in float64."""
    pairs, recipe = toy(), Recipe(token_dropout=0.0, header_dropout=0.0, temperature=0.3)
    product = np.random.default_rng(5).standard_normal((40, 6)).astype(np.float32)
    rows = np.arange(24)
    texts = np.sqrt(pairs.texts.toarray().astype(float))
    codes = np.sqrt((pairs.codes + pairs.headers).toarray().astype(float))

    def loss(table: np.ndarray) -> float:
        left, right = texts @ table, codes @ table
        left /= np.linalg.norm(left, axis=1, keepdims=True)
        right /= np.linalg.norm(right, axis=1, keepdims=True)
        scores = left @ right.T / recipe.temperature
        own = np.diag(scores)
        by_row, by_column = (np.log(np.exp(scores).sum(axis=axis)) - own for axis in (1, 0))
        return float((by_row.mean() + by_column.mean()) / 2)

    found = _gradient(pairs, rows, product, recipe, np.random.default_rng(0))
    for token, column in [(0, 0), (3, 2), (17, 5), (39, 1)]:
        moved = [product.astype(float), product.astype(float)]
        moved[0][token, column] += 1e-4
        moved[1][token, column] -= 1e-4
        expected = (loss(moved[0]) - loss(moved[1])) / 2e-4
        assert found[token, column] == pytest.approx(expected, abs=2e-5)


def test_training_brings_what_belongs_together_to_the_top_and_repeats_bit_by_bit() -> None:
    subjects = [f"subject{n}" for n in range(60)]
    pairs = [
        (f"about {one} here", f"src/{one}.py", f"code of thing{(7 * n + 3) % 60} value")
        for n, one in enumerate(subjects)
    ]
    tokenizer = train_tokenizer([text for pair in pairs * 3 for text in pair], tokens=600)
    counted = bags([(text, "", code) for text, _, code in pairs], TokenIds(tokenizer), tokenizer.get_vocab_size())
    table = np.random.default_rng(0).standard_normal((tokenizer.get_vocab_size(), 32)).astype(np.float32) / 6
    weights = np.ones(len(table), np.float32)
    recipe = Recipe(epochs=60, batch=30, token_dropout=0.0)

    def ranks(product: np.ndarray) -> float:
        left, right = counted.texts.sqrt() @ product, counted.codes.sqrt() @ product
        left /= np.linalg.norm(left, axis=1, keepdims=True)
        right /= np.linalg.norm(right, axis=1, keepdims=True)
        return reciprocal_ranks(left @ right.T).mean()

    first, second = (train(counted, table, weights, recipe) for _ in range(2))
    assert all((one == other).all() for one, other in zip(first, second, strict=True))
    assert ranks(first[1][:, None] * first[0]) > 0.9 > 0.3 > ranks(table)


def test_intervals_hold_the_mean_and_pair_what_is_compared() -> None:
    drawn = np.random.default_rng(1)
    ranks = {name: drawn.random(80) for name in "ab"}
    better = {name: values + 0.01 for name, values in ranks.items()}
    low, high = interval(ranks)
    assert low < np.mean([values.mean() for values in ranks.values()]) < high
    assert interval(better, ranks) == pytest.approx((0.01, 0.01))


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
def test_the_command_trains_the_same_encoder_twice_and_index_takes_it(tiny: Path, run: Run) -> None:
    common = ("--sources", tiny / "sources.toml", "--folder", tiny / "training", "--json")
    first = run("train-encoder", "--out", tiny / "first", *common)
    assert first.returncode == 0, first.stderr
    made = json.loads(first.stdout)
    assert made["pairs"] == {"python": 165}  # 15 are in the held-out package as well
    assert set(made["mrr@10"]) == {"pypi/apart"}
    assert made["mrr@10"]["pypi/apart"]["queries"] == 75
    again = run("train-encoder", "--out", tiny / "second", "--no-evaluate", *common)
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
    (tiny / "app" / "store.py").write_bytes(PYTHON)
    (tiny / "settings.toml").write_text('[embedding]\nfolder = "first"\n')
    indexed = run("index", tiny / "app", "--settings", tiny / "settings.toml", "--root", tiny / "bundles")
    assert indexed.returncode == 0, indexed.stderr
    manifest = json.loads((Path(indexed.stdout.strip()) / "manifest.json").read_text())
    assert manifest["encoder"]["fingerprint"] == made["fingerprint"]


def test_nothing_of_a_held_out_package_is_trained_on(tiny: Path, run: Run) -> None:
    done = run(
        "train-encoder", "--out", tiny / "out", "--sources", tiny / "sources.toml",
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
    assert not held & {row.code for row in chosen}
    assert any("window" in code for code in held)


def test_what_is_missing_is_named(tmp_path: Path, run: Run) -> None:
    (tmp_path / "empty.toml").write_text("never = []\npypi = []\nnpm = []\ndebian = []\n")
    common = ("train-encoder", "--out", tmp_path / "out", "--folder", tmp_path / "training")
    nothing = run(*common, "--sources", tmp_path / "empty.toml")
    assert nothing.returncode != 0
    assert "no pair of documentation and code" in nothing.stderr
    bare = run(*common, program=f"import sys; sys.modules['scipy'] = None; {MAIN}")
    assert "needs the extra 'train' (scipy is not installed)" in bare.stderr
    assert "pip install 'codequarry[train]'" in bare.stderr
