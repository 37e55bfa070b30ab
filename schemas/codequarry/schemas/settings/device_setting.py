"""Names of devices in settings: one, or several GPUs of CUDA with commas between them."""

from __future__ import annotations

import re

_SEVERAL = re.compile(r"cuda:\d+(,cuda:\d+)+", re.ASCII)


def checked_devices(value: str) -> str:
    """Return the value of a setting, which names one device, or several GPUs of CUDA by their numbers.

    Args:
        value: The value.

    Returns:
        The value without spaces.

    Raises:
        ValueError: It names other devices together, or one twice.

    >>> checked_devices("cuda:0, cuda:1")
    'cuda:0,cuda:1'
    """
    names = value.replace(" ", "").split(",")
    if len(names) > 1 and (not _SEVERAL.fullmatch(",".join(names)) or len(set(names)) < len(names)):
        raise ValueError(f"device {value!r}: expected one device, or several such as cuda:0,cuda:1")
    return ",".join(names)


def device_kind(value: str) -> str:
    """Return the kind of the devices that a setting names: vectors do not depend on which of them, or how many.

    >>> device_kind("cuda:0,cuda:1"), device_kind("cpu")
    ('cuda', 'cpu')
    """
    return value.partition(":")[0]
