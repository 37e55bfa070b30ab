"""Token codes by text: a token encoder reads each text only once.

The codes lie in the content-addressed store, one file for each encoder and rule of punctuation, under the sha256 of the
text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codequarry.pipelines.embed.devices import SharedEncoder, device_names
from codequarry.pipelines.embed.half import HalfTokens, has_half
from codequarry.pipelines.indexes.text_indexes import TextEncoder, fill_store
from codequarry.pipelines.store.content import ContentStore, open_content_store
from codequarry.pipelines.store.device_use import is_gpu
from codequarry.pipelines.store.workspace import Progress, silent
from codequarry.schemas.resources import available_cores
from codequarry.schemas.settings.device_setting import device_kind
from codequarry.serving.encoders.spec import EncoderSpec
from codequarry.serving.encoders.tokens import TokenEncoder


@dataclass(frozen=True, slots=True)
class TokenEncoding:
    """Choice of token codes: an encoder's directory, and the tokens to encode."""

    folder: Path
    fingerprint: str
    dim: int
    punctuation: bool
    threads: int
    """0: one for each core."""
    device: str = "cpu"
    """Devices, as the settings name them."""

    @property
    def on_gpu(self) -> bool:
        """True when GPUs encode."""
        return is_gpu(self.device)

    def open(self) -> TextEncoder[NDArray[np.int8]]:
        """Open the encoder of documents.

        Returns:
            The encoder.

        Raises:
            CodequarryError: As `TokenEncoder.open` and `HalfTokens.open` do.
        """
        if has_half(EncoderSpec.load(self.folder)):
            return HalfTokens.open(self.folder, self.device, punctuation=self.punctuation)
        threads = self.threads or available_cores()
        names = device_names(self.device)
        open_one = partial(TokenEncoder.open, self.folder, threads=threads, punctuation=self.punctuation)
        each = [open_one(device=name) for name in names]
        return each[0] if len(each) == 1 else SharedEncoder(each, names)

    def file(self, store: Path) -> Path:
        """Return the file of its codes below the store; devices round differently, and each has its own file."""
        kind = f"{'-punctuation' if self.punctuation else ''}{f'-{device_kind(self.device)}' if self.on_gpu else ''}"
        return store / "tokens" / f"{self.fingerprint}{kind}.sqlite"


class TokenStore:
    """Codes of texts. Use through `open_token_store`."""

    def __init__(self, store: ContentStore, dim: int) -> None:
        self._store = store
        self._dim = dim

    def get(self, keys: Sequence[bytes]) -> dict[bytes, NDArray[np.int8]]:
        """Return the codes that are there, (t, d) int8 each; a damaged entry counts as absent."""
        found = self._store.get(keys)
        whole = ((key, value) for key, value in found.items() if value and len(value) % self._dim == 0)
        return {key: np.frombuffer(value, np.int8).reshape(-1, self._dim) for key, value in whole}

    def put(self, entries: Iterable[tuple[bytes, NDArray[np.int8]]]) -> None:
        """Add or replace codes in one transaction."""
        self._store.put((key, np.ascontiguousarray(codes, np.int8).tobytes()) for key, codes in entries)


@contextmanager
def open_token_store(store: Path, encoding: TokenEncoding) -> Iterator[TokenStore]:
    """Open the codes of an encoder.

    Args:
        store: Folder of the store.
        encoding: Encoder and tokens to encode.

    Yields:
        The store of codes.

    Raises:
        CodequarryError: As `open_content_store` does.
    """
    with open_content_store(encoding.file(store)) as opened:
        yield TokenStore(opened, encoding.dim)


def encode_missing(
    texts: Sequence[str], store: Path, encoding: TokenEncoding, progress: Progress = silent, *, what: str = "tokens"
) -> int:
    """Make sure that the store holds the codes of every text.

    Args:
        texts: Texts to encode.
        store: Folder of the store.
        encoding: Encoder and tokens to encode.
        progress: Told of the texts encoded.
        what: Name of the work in the progress.

    Returns:
        Number of texts that were encoded.

    Raises:
        MissingExtraError: The encoder needs an extra.
        UnavailableError: The disk refuses.
    """
    with open_token_store(store, encoding) as held:
        return fill_store(texts, held, partial(_open_encoder, encoding), progress, what, on_gpu=encoding.on_gpu)


@lru_cache(maxsize=1)
def _open_encoder(encoding: TokenEncoding) -> TextEncoder[NDArray[np.int8]]:
    """Return the opened encoder; the last one is cached, because every part needs it."""
    return encoding.open()
