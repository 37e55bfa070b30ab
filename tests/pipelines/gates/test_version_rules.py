from __future__ import annotations

import re

import pytest

from codequarry.pipelines.gates.drift import DRIFT
from codequarry.pipelines.gates.secrets import SECRETS
from codequarry.pipelines.gates.version_rules import rules_of
from codequarry.schemas.bundle.layout import DENSE_LEGS


@pytest.mark.parametrize("everything", [False, True])
def test_rules_have_names_of_their_own_that_dagster_takes(everything: bool) -> None:
    legs = DENSE_LEGS if everything else DENSE_LEGS[:1]
    rules = rules_of(legs, late_interaction=everything, learned_sparse=everything)
    names = [rule.name for rule in rules]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[A-Za-z0-9_]+", name) for name in names)


@pytest.mark.parametrize(
    "check",
    [*DRIFT, *SECRETS, "NDCG@10 of all languages against CURRENT", "NDCG@10 by vectors of python against CURRENT",
     "time to open against CURRENT", "time of a search against CURRENT", "rows of table ast_nodes",
     "recall@10 of faiss against exact search", "files changed since answers were compared"],
)  # fmt: skip
def test_a_check_belongs_to_one_rule(check: str) -> None:
    rules = rules_of(DENSE_LEGS[:1], late_interaction=False, learned_sparse=False)
    assert sum(rule.pattern.fullmatch(check) is not None for rule in rules) == 1
