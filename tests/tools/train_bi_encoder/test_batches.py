"""Batches of the bi-encoder's training: of one language, each pair once, and nothing of held-out packages."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from codequarry.pipelines.adapt.pairs import Row
from tools.train_bi_encoder.batches import TokenLists, batches, draw

pytestmark = pytest.mark.unit


def table(path: Path, rows: list[Row]) -> Path:
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist([row._asdict() for row in rows]), path)
    return path


def pairs(package: str, lang: str, count: int) -> list[Row]:
    kinds = ("doc", "doc", "doc", "name", "block")
    return [
        Row(lang, kinds[n % 5], f"text {package} {n}", f"{package}.x", f"code {package} {n} " + "word " * (n % 7))
        for n in range(count)
    ]


def test_languages_have_equal_shares_and_held_out_packages_none(tmp_path: Path) -> None:
    one, two = pairs("one", "python", 400), pairs("two", "go", 400)
    apart = [*pairs("apart", "python", 10), one[0], one[1]]
    tables = {"one": table(tmp_path / "one", one), "two": table(tmp_path / "two", two)}
    rows = draw(tables, [table(tmp_path / "apart", apart)], 200, seed=0)
    assert Counter(row.lang for row in rows) == {"python": 100, "go": 100}
    assert Counter(row.kind for row in rows) == {"doc": 140, "name": 30, "block": 30}
    assert len(set(rows)) == len(rows)
    assert not {row.code for row in rows} & {row.code for row in apart}
    assert draw(tables, [], 200, seed=0) != draw(tables, [], 200, seed=1)
    languages = [row.lang for row in rows]
    assert languages == sorted(languages)  # one after the other


def test_a_batch_is_of_one_language_and_alike_in_length() -> None:
    rows = [*pairs("one", "go", 70), *pairs("two", "python", 45)]
    tokenizer = Tokenizer(models.WordLevel({"?": 0, "word": 1, "code": 2}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    codes = TokenLists.of(tokenizer, [row.code for row in rows], 6)
    made = list(batches(rows, codes, 10, seed=3))
    assert len(made) == 7 + 4
    shown = np.concatenate(made)
    assert len(set(shown.tolist())) == len(shown)
    for batch in made:
        assert len({rows[number].lang for number in batch}) == 1
        ids, lengths = codes.padded(batch)
        assert ids.shape == (10, lengths.max())
        assert lengths.max() <= 6
        assert lengths.max() - lengths.min() <= 2
        for row, number in enumerate(batch):
            words = rows[number].code.split()[:6]
            assert ids[row, : lengths[row]].tolist() == [{"word": 1, "code": 2}.get(word, 0) for word in words]
    assert [batch.tolist() for batch in batches(rows, codes, 10, seed=3)] == [batch.tolist() for batch in made]
