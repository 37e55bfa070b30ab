"""Query encoders that are open, shared by all versions that this process has open: bundles of a fleet, and successors.

Each version's own files are compared with their digests first, so that a damaged copy is refused even where the same
encoder is open. A static encoder lies in memory and is shared by its digests. ONNX Runtime maps large weights, and
damage to a mapped file must reach only versions that hold this file. So such an encoder is shared by versions whose
files are links to the same ones.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from codequarry.serving.encoders.spec import Encoder, EncoderSpec, open_verified

if TYPE_CHECKING:
    from codequarry.schemas.settings.model_servers import EndpointOptions

_Key = tuple[str, tuple[tuple[int, int], ...]]
"""Description of an encoder, and device and inode of the files that stay mapped."""


class _Turn:
    """Lock of those who open the same encoder, so that one opens it and the others take it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


_lock = threading.Lock()
_turns: WeakValueDictionary[_Key, _Turn] = WeakValueDictionary()
_open: WeakValueDictionary[_Key, Encoder] = WeakValueDictionary()


def open_shared_encoder(directory: Path, *, endpoint: EndpointOptions | None = None) -> Encoder:
    """Open the query encoder of a version, or return the same one that another version has open.

    Args:
        directory: Folder of the encoder.
        endpoint: Server that an encoder of that kind asks. Such encoders are not shared.

    Returns:
        The open encoder; it goes with the last version that uses it.

    Raises:
        IntegrityError: A file is missing, damaged or not what the description says.
        UnavailableError: The encoder needs an endpoint, and there is none.
    """
    spec = EncoderSpec.load(directory)
    spec.verify(directory)
    if spec.kind == "endpoint":
        return open_verified(directory, spec, endpoint=endpoint)
    key = (spec.model_dump_json(), () if spec.kind == "static" else _identities(directory, spec))
    with _lock:
        turn = _turns.setdefault(key, _Turn())
    with turn.lock:
        encoder = _open.get(key)
        if encoder is None:
            encoder = _open[key] = open_verified(directory, spec)
        return encoder


def _identities(directory: Path, spec: EncoderSpec) -> tuple[tuple[int, int], ...]:
    """Return device and inode of each file of an encoder."""
    found = [(directory / name).stat() for name in sorted(spec.sha256)]
    return tuple((one.st_dev, one.st_ino) for one in found)
