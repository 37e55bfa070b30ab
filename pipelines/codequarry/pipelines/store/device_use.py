"""Devices that did a piece of work, and the sentence for a GPU that was asked for and not used."""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """Device that did a piece of work."""

    work: str
    """The work, as the subject of a sentence."""
    device: str
    """Device that did it: "cpu", "cuda:0", "a server"."""
    asked: bool = False
    """True when the settings asked for a GPU."""
    reason: str = ""
    """Reason why the GPU that was asked for did not do it; empty when it did, or had nothing to do."""

    @property
    def fell_back(self) -> bool:
        """True when the GPU that was asked for was not used."""
        return self.asked and bool(self.reason)

    def sentence(self) -> str:
        """Return what happened, as a sentence.

        >>> DeviceUse("training IVF16,SQ8", "cpu", asked=True, reason="FAISS sees no GPU").sentence()
        'training IVF16,SQ8 ran on cpu, though the settings ask for a GPU: FAISS sees no GPU'
        """
        ran = f"{self.work} ran on {self.device}"
        return f"{ran}, though the settings ask for a GPU: {self.reason}" if self.fell_back else ran


def is_gpu(device: str) -> bool:
    """Return whether a setting names a device that is not the CPU.

    >>> [is_gpu(name) for name in ("", "cpu", "cuda:1", "mps")]
    [False, False, True, True]
    """
    return device.partition(":")[0] not in ("", "cpu")


def peak_memory_mb() -> float:
    """Return the most memory that this process has had so far, in megabytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6, 1)
