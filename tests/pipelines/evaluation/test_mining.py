"""Questions from a repository: what is asked, what answers it, and that the index does not give it away."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from codequarry.pipelines.evaluation.commit_questions import subject_of
from codequarry.pipelines.evaluation.mining import Prepared, mine
from codequarry.pipelines.measure.questions import CandidateKey, Question, spread
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.bundle.tables import read_table
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings.load import (
    BundleSettings,
    PathsSettings,
    RepositorySettings,
    Settings,
    SourcesSettings,
)
from tests.pipelines.conftest import MakeSettings
from tests.pipelines.evaluation.library import FILES, LOANS, READERS
from tests.pipelines.repositories import commit


def asked(prepared: Prepared, kind: str) -> dict[str, list[str]]:
    """Places by query."""
    chosen = [question for question in prepared.questions if question.kind == kind]
    return {question.query: [target.text() for target in question.targets] for question in chosen}


@pytest.fixture(scope="module")
def settings(library: Path, shared_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    home = tmp_path_factory.mktemp("home")
    return Settings(
        paths=PathsSettings(store=shared_store, work=home / "work"),
        bundle=BundleSettings(root=home / "bundles"),
        sources=SourcesSettings(repositories=(RepositorySettings(path=library),)),
    )


@pytest.fixture(scope="module")
def prepared(settings: Settings) -> Prepared:
    return mine(settings, settings.paths.work / "evaluation", 60)


def line_of(text: str, needle: str) -> int:
    return text[: text.index(needle)].count("\n") + 1


def test_documentation_asks_for_its_function(prepared: Prepared) -> None:
    found = asked(prepared, "A doc")
    first = line_of(LOANS, "def extend_loan")
    assert found["Give the reader some more days before the book is due back."] == [
        f"library/library/loans.py:{first}-{first + 5}"
    ]
    # Go's own name is not given away, a class and a test are no functions to look for, a comment inside is none.
    assert "adds a person to the register, unless the address is taken already." in found
    assert "says whether somebody has registered with the address before." in found
    assert "Look for the first gap on the shelf that is wide enough." in found
    assert len(found) == 4


def test_the_index_holds_the_code_and_not_the_documentation(prepared: Prepared, settings: Settings) -> None:
    root = BundleRoot(prepared.root)
    paths = root.version(root.read_current().version)
    rows = [row for file in paths.table_files("chunks") for row in read_table(file).to_pylist()]
    texts: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: row["start_byte"]):
        texts[row["path"]] = texts.get(row["path"], "") + row["text"]
    for query in asked(prepared, "A doc"):
        assert all(query not in text for text in texts.values())
        assert all(query not in row["doc"] for row in rows)
    loans = LOANS.replace("25 * late", "30 * late")
    blank = loans
    for sentence in (
        "Give the reader some more days before the book is due back.",
        "Look for the first gap on the shelf that is wide enough.",
    ):
        blank = blank.replace(sentence, " " * len(sentence))
    assert texts["library/loans.py"] == blank
    comment = READERS.split("\n")[4]
    assert comment.startswith("// Register adds")
    assert texts["readers/register.go"].split("\n")[4] == " " * len(comment)
    assert not settings.bundle.root.exists()  # nothing was published where users look


def test_commits_ask_for_what_they_changed(prepared: Prepared) -> None:
    found = asked(prepared, "B commit")
    fine = line_of(LOANS, "def overdue_fine")
    assert found["raise the fine for late books"] == [f"library/library/loans.py:{fine}-{fine + 3}"]
    (place,) = found["Ignore case when comparing addresses of readers"]
    assert place.startswith("library/readers/register.go:")
    # Neither merges, sweeps, version bumps nor changes of documents; and the first commit, which says "initial".
    assert set(found) == {"raise the fine for late books", "Ignore case when comparing addresses of readers"}


def test_names_messages_and_keys_ask_for_their_place(prepared: Prepared) -> None:
    line = line_of(LOANS, "def find_place")
    assert asked(prepared, "C identifier")["find_place"] == [f"library/library/loans.py:{line}-{line}"]
    literals = asked(prepared, "C literal")
    line = line_of(LOANS, "reserved by another")
    assert literals["the book is reserved by another reader, loan"] == [f"library/library/loans.py:{line}-{line}"]
    assert "this address belongs to another reader" in literals
    keys = asked(prepared, "C key")
    assert keys["saturday_hours"] == ["library/config.toml:2-2"]
    assert keys["LIBRARY_LOAN_LIMIT"] == ["library/library/loans.py:5-5"]


def test_the_same_repositories_give_the_same_questions(prepared: Prepared, settings: Settings, tmp_path: Path) -> None:
    again = mine(settings, tmp_path / "again", 60)
    assert again.questions == prepared.questions
    fewer = mine(settings, tmp_path / "again", 2)
    assert fewer.counts == {"A doc": 2, "B commit": 2, "C identifier": 1, "C literal": 1}
    assert {question.query for question in fewer.questions if question.kind == "A doc"} <= set(asked(again, "A doc"))


def test_a_folder_without_git_has_no_commits_to_ask_about(
    library: Path, make_settings: MakeSettings, tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    shutil.copytree(library, plain, ignore=shutil.ignore_patterns(".git"))
    prepared = mine(make_settings(plain), tmp_path / "evaluation", 5)
    assert "B commit" not in prepared.counts
    assert prepared.notes == ("plain: no git history to ask about commits",)


def test_part_of_a_repository_and_a_commit_that_is_read_by_its_ref(
    library: Path, make_settings: MakeSettings, tmp_path: Path
) -> None:
    """Paths count from the folder that is indexed."""
    prepared = mine(make_settings(library / "library"), tmp_path / "evaluation", 5)
    (targets,) = [question.targets for question in prepared.questions if question.kind == "B commit"]
    assert [target.path for target in targets] == ["loans.py"]


def test_nothing_to_ask_about(make_settings: MakeSettings, tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "a.txt").write_text("nothing\n")
    with pytest.raises(InvalidArgumentError, match="no question can be mined"):
        mine(make_settings(tmp_path / "bare"), tmp_path / "evaluation", 5)


def test_a_sentence_of_two_functions_is_not_asked(make_settings: MakeSettings, tmp_path: Path) -> None:
    text = 'def {0}():\n    """Close the door behind everybody who left."""\n    return 1\n'
    alone = 'def only():\n    """Open the window when it gets too warm."""\n    return 2\n'
    commit(tmp_path / "app", {"a.py": text.format("a"), "b.py": text.format("b") + "\n\n" + alone})
    prepared = mine(make_settings(tmp_path / "app"), tmp_path / "evaluation", 5)
    assert list(asked(prepared, "A doc")) == ["Open the window when it gets too warm."]


def test_a_path_of_a_commit_that_leads_elsewhere_is_not_written(library: Path) -> None:
    from codequarry.pipelines.evaluation.mining import _stays_inside

    assert all(map(_stays_inside, FILES))
    assert not any(map(_stays_inside, ("../x", "a/../../x", "/etc/passwd", ".git/config", "a/.Git/hooks/x")))


def test_files_take_turns() -> None:
    places = [CandidateKey("app", f"file{number % 3}.py", str(number)) for number in range(60)]
    places += [CandidateKey("lib", "one.py", str(number)) for number in range(3)]
    first = list(spread(((place, place) for place in places), 0))
    assert sorted(first) == sorted(places)
    assert Counter(place.repo for place in first[:6]) == {"app": 3, "lib": 3}
    assert Counter(place.path for place in first if place.repo == "app")["file0.py"] == 20
    assert {place.path for place in [one for one in first if one.repo == "app"][:3]} == {
        "file0.py", "file1.py", "file2.py",
    }  # fmt: skip
    assert first != list(spread(((place, place) for place in places), 1))
    assert first == list(spread(((place, place) for place in reversed(places)), 0))


@pytest.mark.parametrize(
    "said", ["wip", "Merge pull request of many good changes", "Release 1.2 of the good program", "v1.2.3 is out now"]
)
def test_subjects_that_say_nothing(said: str) -> None:
    assert subject_of(said) == ""


def test_ids_are_unique(prepared: Prepared) -> None:
    ids = [question.id for question in prepared.questions]
    assert len(ids) == len(set(ids))
    assert all(isinstance(question, Question) and question.targets for question in prepared.questions)
