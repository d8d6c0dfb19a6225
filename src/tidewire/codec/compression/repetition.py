"""How far a repetition reaches: what both match finders ask."""

from __future__ import annotations

from struct import Struct

word_at = Struct("<Q").unpack_from
"""``(word,) = word_at(data, here)``: the eight bytes from ``here`` on as a number."""

_STEP = 32


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
