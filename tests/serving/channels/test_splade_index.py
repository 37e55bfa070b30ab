"""The learned sparse index against the definition of its score."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codequarry.schemas.bundle.splade import MAX_IMPACT, MAX_TERMS, QUERY_STEPS, SpladeSpec
from codequarry.schemas.errors import DeadlineError, IntegrityError, UnavailableError
from codequarry.serving.channels.splade_index import SpladeIndex, map_arrays, strange_postings
from codequarry.serving.encoders.sparse import SparseQuery
from codequarry.serving.request.deadline import Deadline
from tests.serving.bundles.sparse_corpus import Documents, built, impacts, naive, query, zipf_documents

VOCABULARY = 12
DOCUMENTS = st.dictionaries(
    st.integers(1, 1 << 62),
    st.dictionaries(st.integers(0, VOCABULARY - 1), st.integers(1, MAX_IMPACT), max_size=VOCABULARY),
    max_size=25,
)
QUERY = st.dictionaries(st.integers(0, VOCABULARY - 1), st.integers(1, QUERY_STEPS), max_size=VOCABULARY)


def unlimited() -> None:
    pass


def found_in(
    index: SpladeIndex, asked: SparseQuery, limit: int, allowed: set[int] | None = None
) -> list[tuple[int, int]]:
    chosen = None if allowed is None else np.array(sorted(allowed), np.int64)
    rows, scores = index.best(asked, limit, allowed=chosen, check=unlimited)
    return list(zip(index.chunk_ids[rows].tolist(), scores.tolist(), strict=True))


@settings(max_examples=150, deadline=None)
@given(DOCUMENTS, QUERY, st.integers(1, 30), st.data())
def test_it_finds_what_the_definition_says(documents, asked, limit, data) -> None:
    listed: Documents = [(chunk_id, impacts(documents[chunk_id])) for chunk_id in sorted(documents)]
    allowed = data.draw(st.none() | st.sets(st.sampled_from([*sorted(documents), 7, 1 << 61])))
    with tempfile.TemporaryDirectory() as folder:
        index = built(Path(folder), listed, VOCABULARY)
        assert found_in(index, query(asked), limit, allowed) == naive(listed, query(asked), limit, allowed)


@pytest.fixture(scope="module")
def documents() -> Documents:
    return zipf_documents(3, 800, 2000, 60)


@pytest.fixture
def index(tmp_path: Path, documents: Documents) -> SpladeIndex:
    return built(tmp_path / "index", documents, 2000)


def test_it_agrees_over_many_documents_and_ties(index: SpladeIndex, documents: Documents) -> None:
    random = np.random.default_rng(5)
    for terms in (1, 3, 40):
        # Weights of 1 and impacts cut to few values make ties; 40 terms make nearly every document a candidate.
        asked = query({int(term): int(random.integers(1, 3)) for term in random.integers(0, 200, terms)})
        for limit in (1, 10, 200, 5000):
            assert found_in(index, asked, limit) == naive(documents, asked, limit)


def test_the_largest_sum_there_can_be_fits(tmp_path: Path) -> None:
    full = dict.fromkeys(range(MAX_TERMS), MAX_IMPACT)
    index = built(tmp_path / "full", [(1, impacts(full))], MAX_TERMS, terms=MAX_TERMS)
    asked = query(dict.fromkeys(range(MAX_TERMS), QUERY_STEPS))
    assert found_in(index, asked, 1) == [(1, MAX_TERMS * MAX_IMPACT * QUERY_STEPS)]


def test_the_parts_of_a_score_add_up(index: SpladeIndex, documents: Documents) -> None:
    asked = query({term: term + 1 for term in range(50)})
    rows, scores = index.best(asked, 20, allowed=None, check=unlimited)
    for row, score in zip(rows.tolist(), scores.tolist(), strict=True):
        parts = index.impacts(asked, row)
        assert int((parts.astype(np.int64) * asked.weights).sum()) == score
        own = documents[row][1]
        held = dict(zip(own.terms.tolist(), own.impacts.tolist(), strict=True))
        assert parts.tolist() == [held.get(term, 0) for term in asked.terms.tolist()]


def test_the_deadline_is_looked_at_before_every_term(index: SpladeIndex) -> None:
    asked = query(dict.fromkeys(range(10), 1))
    clock = iter(range(100))
    deadline = Deadline.after(4, clock=lambda: next(clock))
    with pytest.raises(DeadlineError):
        index.best(asked, 5, allowed=None, check=deadline.check)
    assert next(clock) < 10


def test_memory_decides_the_passes_and_not_the_bytes(tmp_path: Path, documents: Documents) -> None:
    folders = [tmp_path / name for name in ("one", "many")]
    built(folders[0], documents, 2000)
    from codequarry.pipelines.indexes.splade import build as splade_build

    passes = list(splade_build._passes(np.load(folders[0] / "offsets.npy"), 500))
    assert len(passes) > 20 and passes[0][0] == 0 and passes[-1][1] == 2000
    assert all(one[1] == other[0] for one, other in pairwise(passes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splade_build, "_BYTES", (1 << 20) // 500)
        patch.setattr(splade_build, "_BLOCK", 700)
        built(folders[1], documents, 2000, memory_mb=1)
    names = sorted(file.name for file in folders[0].iterdir())
    assert names == sorted(file.name for file in folders[1].iterdir())
    assert [(folders[0] / name).read_bytes() == (folders[1] / name).read_bytes() for name in names] == [True] * 5


def test_only_the_heaviest_terms_are_kept(tmp_path: Path) -> None:
    entries = {term: 10 + term % 7 for term in range(40)}
    index = built(tmp_path / "few", [(9, impacts(entries))], 40, terms=8)
    kept = {term for term in range(40) if index.impacts(query({term: 1}), 0)[0]}
    best = sorted(entries, key=lambda term: (-entries[term], term))[:8]
    assert kept == set(best)


def test_documents_that_cannot_be_are_refused(tmp_path: Path) -> None:
    from codequarry.schemas.errors import InvalidArgumentError

    for name, listed, said in (
        ("order", [(2, impacts({1: 1})), (2, impacts({1: 1}))], "comes behind 2"),
        ("terms", [(2, impacts({7: 1}))], "expected 0 to 6"),
    ):
        (tmp_path / name).mkdir()
        with pytest.raises(InvalidArgumentError, match=said):
            built(tmp_path / name, listed, 7)


def test_an_empty_index_answers(tmp_path: Path) -> None:
    index = built(tmp_path / "empty", [], 5)
    assert found_in(index, query({1: 3}), 5) == []
    assert found_in(index, query({1: 3}), 5, {4}) == []


@pytest.mark.parametrize(
    ("file", "spoil", "said"),
    [
        ("documents.npy", lambda values: values[:-1], "expected"),
        ("impacts.npy", lambda values: values.astype(np.int16), "expected"),
        ("offsets.npy", lambda values: values[::-1].copy(), "not ascending"),
        ("chunk_ids.npy", lambda values: values[::-1].copy(), "not ascending"),
    ],
)
def test_files_that_do_not_fit_are_refused(index: SpladeIndex, tmp_path: Path, file: str, spoil, said: str) -> None:
    path = tmp_path / "index" / file
    np.save(path, spoil(np.load(path)))
    with pytest.raises(IntegrityError, match=rf"{file}.*{said}"):
        SpladeIndex.open(tmp_path / "index")
    path.unlink()
    with pytest.raises(IntegrityError, match=rf"{file}: cannot be mapped"):
        SpladeIndex.open(tmp_path / "index")


def test_postings_that_lead_nowhere_are_counted_and_never_followed(index: SpladeIndex, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    spec = SpladeSpec.load(folder)
    assert strange_postings(map_arrays(folder, spec), spec) == 0
    rows = np.load(folder / "documents.npy")
    impacts_ = np.load(folder / "impacts.npy")
    first = int(np.load(folder / "offsets.npy")[1])
    assert first > 3
    rows[1] = rows[0]
    rows[first - 1] = 1 << 30
    impacts_[5] = 0
    np.save(folder / "documents.npy", rows)
    np.save(folder / "impacts.npy", impacts_)
    assert strange_postings(map_arrays(folder, spec), spec) == 3
    with pytest.raises(UnavailableError, match="a posting names no document"):
        SpladeIndex.open(folder).best(query({0: 1}), 5, allowed=None, check=unlimited)


@pytest.mark.parametrize("text", ["", "{}", '{"format": 2}', '{"documents": 1, "step": -1}'])
def test_a_description_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "index.json").write_text(text)
    with pytest.raises(IntegrityError, match=r"index\.json"):
        SpladeSpec.load(tmp_path)
    with pytest.raises(IntegrityError, match="cannot be read"):
        SpladeSpec.load(tmp_path / "nowhere")
