"""The vocabulary of an encoder."""

from __future__ import annotations

from tools.train_encoder.vocabulary import train_tokenizer


def test_the_vocabulary_is_the_same_every_time_also_where_characters_are_equally_frequent() -> None:
    rare = [f"{chr(0x4E00 + n)}{chr(0x4E00 + n)} word{n % 7}" for n in range(900)]
    first, second = (train_tokenizer(rare * 2, tokens=600).to_str() for _ in range(2))
    assert first == second
