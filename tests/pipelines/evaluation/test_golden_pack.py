"""The golden oracle pack: its numbers are right, the program keeps them, and a broken bundle is noticed."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from math import sqrt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from codequarry.pipelines.evaluation.golden_pack import FACTORIES, PACK, build_golden, read_pack
from codequarry.pipelines.evaluation.self_test import check_bundle, check_tables
from codequarry.pipelines.store.row_groups import arrays
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.tables import FAISS_IDMAP, read_table, write_table, write_vectors
from codequarry.serving.files.integrity import read_manifest
from tests.pipelines.conftest import Run


def test_the_pack_says_what_follows_from_its_texts() -> None:
    """Vectors by counting words, cosines by fractions: neither the encoder nor FAISS has a say."""
    pack = read_pack()
    assert set(pack.vectors) == set(pack.texts)

    def counts(text: str) -> list[int]:
        return [text.split().count(word) for word in pack.axes]

    for path, text in pack.texts.items():
        assert sum(counts(text)) == len(text.replace("// ", "").split())
        squares = np.array([*counts(text), 0]) / sum(counts(text))
        assert np.allclose(pack.vectors[path] ** 2, squares)
    for query in pack.queries:
        asked = counts(query.query)
        cosines: dict[str, float] = {}
        for path, text in pack.texts.items():
            own = counts(text)
            product = sum(sqrt(one * other) for one, other in zip(asked, own, strict=True))
            cosines[path] = product / sqrt(Fraction(sum(asked) * sum(own)))
        expected = {path: cosine for cosine, names in query.nearest for path in names}
        assert {path for path, cosine in cosines.items() if cosine > 0} == set(expected)
        assert expected == pytest.approx({path: cosines[path] for path in expected}, abs=1e-6)
        told = [cosine for cosine, _ in query.nearest]
        assert told == sorted(set(told), reverse=True)


def test_the_installed_program_keeps_every_promise(run: Run) -> None:
    done = run("doctor", "--self-test", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    checks = json.loads(done.stdout)
    assert {check["index"] for check in checks} == set(FACTORIES)
    assert len(checks) == len(FACTORIES) * (6 + len(read_pack().queries))
    assert all(check["kept"] for check in checks)


@pytest.fixture
def golden(tmp_path: Path) -> BundlePaths:
    return build_golden(read_pack(), tmp_path, "Flat")


def broken(paths: BundlePaths) -> set[str]:
    checks = check_bundle(read_pack(), paths, "Flat")
    return {check.what for check in checks if not check.kept}


def test_a_wrong_promise_is_noticed(golden: BundlePaths) -> None:
    pack = read_pack()
    first = pack.queries[0]
    swapped = replace(first, nearest=(first.nearest[1], first.nearest[0], *first.nearest[2:]))
    wrong = replace(pack, queries=(swapped,), texts={**pack.texts, "one.js": "// amber\n"})
    kept = {check.what: check for check in check_bundle(wrong, golden, "Flat")}
    assert not kept["exact search: amber"].kept
    assert kept["exact search: amber"].found.startswith("found one.js, expected two.js")
    assert kept["fetch returns each file's text"].found == "11 objects, 1 differ"
    assert kept["v_faiss_join has both sides"].kept


def test_ids_in_the_wrong_order_are_noticed(golden: BundlePaths) -> None:
    """Two rows of the id map swapped: row counts and ids are those of before."""
    assert broken(golden) == set()
    table = read_table(golden.faiss_idmap)
    ids = table["chunk_id"].to_pylist()
    ids[0], ids[1] = ids[1], ids[0]
    swapped = table.set_column(1, table.schema.field("chunk_id"), pa.array(ids, pa.int64()))
    golden.faiss_idmap.unlink()
    write_table(golden.faiss_idmap, swapped, FAISS_IDMAP)
    kept = {what: found for what, kept, found in check_tables(read_pack(), golden) if not kept}
    assert kept == {"id map leads to the chunk's own vector": "11 rows, 2 wrong"}


def test_vectors_under_the_wrong_ids_are_noticed(golden: BundlePaths) -> None:
    (file,) = golden.table_files("embeddings")
    ids, vectors = arrays(read_table(file), read_manifest(golden).encoder.dim)
    file.unlink()
    write_vectors(file, ids, np.roll(vectors, 1, axis=0))
    found = broken(golden)
    assert "id map leads to the chunk's own vector" in found
    assert "exact search: amber" in found
    assert "fetch returns each file's text" not in found


def test_the_pack_ships_with_the_program() -> None:
    assert PACK.is_dir()
    assert len(list((PACK / "corpus").glob("*.js"))) == 11
