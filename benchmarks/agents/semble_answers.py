"""Answers of semble to the agent's questions, for `benchmarks.agents.agent --rival`.

    python benchmarks/agents/semble_answers.py --repositories FOLDER --model MODEL > answers.jsonl

Run it with a Python that has semble (0.7.0) and nothing of this project. ``--model``: a folder or the name of a hub, as
semble's own ``SEMBLE_MODEL_NAME``. Each line has a question's id, the text that semble's MCP tool ``search`` returns
with its defaults (five results of at most ten lines), and the places in it, lines from 1.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from semble.index import SembleIndex  # type: ignore[import-not-found]
from semble.types import ContentType  # type: ignore[import-not-found]
from semble.utils import format_results  # type: ignore[import-not-found]

_QUESTIONS = Path(__file__).resolve().parent / "questions" / "questions.jsonl"
_RESULTS, _LINES = 5, 10
"""Defaults of its tool."""


def main() -> None:
    """Index each repository in memory, ask its questions, print the answers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repositories", type=Path, required=True)
    parser.add_argument("--model", required=True)
    options = parser.parse_args()
    indexes: dict[str, SembleIndex] = {}
    for question in map(json.loads, _QUESTIONS.read_text(encoding="utf-8").splitlines()):
        name = question["repo"]
        if name not in indexes:
            folder = options.repositories / name
            indexes[name] = SembleIndex.from_path(folder, model_path=options.model, content=(ContentType.CODE,))
        results = indexes[name].search(question["query"], top_k=_RESULTS, max_snippet_lines=_LINES)
        answer = format_results(question["query"], results, _LINES)
        places = [{"path": one["file_path"], **{key: one[key] for key in ("start_line", "end_line")}}
                  for one in answer["results"]]  # fmt: skip
        print(json.dumps({"id": question["id"], "text": json.dumps(answer), "places": places}))


if __name__ == "__main__":
    main()
