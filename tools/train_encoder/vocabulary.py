"""The tokens of a static encoder: byte pair encoding over the terms that the analyzer finds in texts and code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from codequarry.serving.text.analyzer import source_tokens, terms_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENS = 16_384
UNKNOWN_TOKEN = "[UNK]"
_LONGEST = 40
_CHARACTERS = 400
_FLATTENED = 0.75
"""Frequencies enter to this power: what half of the files have should not use up all merges."""


def train_tokenizer(texts: Iterable[str], tokens: int = TOKENS) -> Tokenizer:
    """Train byte pair encoding (Sennrich et al. 2016) on the terms of texts, weighted by the number of their texts."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    frequency: Counter[str] = Counter()
    for text in texts:
        frequency.update(set(source_tokens(text)))
    terms: Counter[str] = Counter()
    for token, count in frequency.items():
        for term in terms_of(token):
            terms[term] += count
    tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN_TOKEN))
    # The one word per line that it is trained on; what it encodes later is single terms.
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # pyright: ignore[reportAttributeAccessIssue]
    # Chosen here: among characters equally frequent, the trainer takes others every time.
    alphabet = _alphabet(terms)
    trainer = trainers.BpeTrainer(
        vocab_size=tokens,
        special_tokens=[UNKNOWN_TOKEN],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )  # pyright: ignore[reportCallIssue]
    tokenizer.train_from_iterator(_lines(terms), trainer)
    return tokenizer


def _alphabet(terms: Counter[str]) -> list[str]:
    """Return the most frequent characters, in their own order among equals."""
    frequency: Counter[str] = Counter()
    for term, count in terms.items():
        for character in set(term):
            frequency[character] += count
    return sorted(sorted(frequency), key=lambda character: -frequency[character])[:_CHARACTERS]


def _lines(terms: Counter[str]) -> Iterator[str]:
    """Yield terms as often as they count, some thousand in a line."""
    kept = sorted((term, count) for term, count in terms.items() if count > 1 and len(term) <= _LONGEST)
    words = (term for term, count in kept for _ in range(int(count**_FLATTENED)))
    while line := list(islice(words, 4_096)):
        yield " ".join(line)
