"""What both formats share: the compiled libraries, a limit, and how to find out how far a repetition reaches."""

from __future__ import annotations

from importlib import import_module
from struct import Struct
from typing import Any

from tidewire.errors import MissingExtra

LARGEST = 128 * 1024 * 1024
"""No value is larger when unpacked: TiDB's largest transaction entry has 120 MiB."""

word_at = Struct("<Q").unpack_from
"""``(word,) = word_at(data, here)``: the eight bytes from ``here`` on as a number."""

_STEP = 32


def library(name: str) -> Any:
    """An optional package's module, imported when it is needed."""
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtra(name.partition(".")[0], "compression") from None


def backward(data: bytes, here: int, there: int, floor: int) -> int:
    """The first place, not below ``floor``, from which all bytes up to ``here`` equal those before ``there``."""
    while here > floor and there > 0 and data[here - 1] == data[there - 1]:
        here -= 1
        there -= 1
    return here


def forward(data: bytes, here: int, there: int, end: int) -> int:
    """The first place from ``here`` on, or else ``end``, whose byte differs from its counterpart from ``there`` on."""
    while here < end:
        step = min(_STEP, end - here)
        one, other = data[here : here + step], data[there : there + step]
        if one != other:
            difference = int.from_bytes(one, "little") ^ int.from_bytes(other, "little")
            # The lowest bit that is set lies in the first byte that differs.
            return here + ((difference & -difference).bit_length() - 1) // 8
        here += step
        there += step
    return here
