"""MySQL's packed decimals."""

from __future__ import annotations

from decimal import Decimal

_GROUP = 9
_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""The bytes that a group of digits takes, by the number of digits."""


def decimal_size(precision: int, scale: int) -> int:
    """How many bytes a decimal takes."""
    whole, part = divmod(precision - scale, _GROUP), divmod(scale, _GROUP)
    return 4 * (whole[0] + part[0]) + _BYTES[whole[1]] + _BYTES[part[1]]


def decimal_of(raw: bytes, precision: int, scale: int) -> Decimal:
    """A DECIMAL with its scale. The first bit is the sign; a negative number has all its bits turned round."""
    negative = not raw[0] & 0x80
    size = len(raw)
    turned = (1 << 8 * size) - 1 if negative else 0
    plain = (int.from_bytes(raw, "big") ^ 0x80 << 8 * (size - 1) ^ turned).to_bytes(size, "big")
    head, groups = (precision - scale) % _GROUP, (precision - scale) // _GROUP
    widths = [head, *[_GROUP] * groups, *[_GROUP] * (scale // _GROUP), scale % _GROUP]
    digits, at = "", 0
    for width in widths:
        if width:
            digits += f"{int.from_bytes(plain[at : at + _BYTES[width]], 'big'):0{width}d}"
            at += _BYTES[width]
    whole, part = digits[: len(digits) - scale], digits[len(digits) - scale :]
    number = Decimal(f"{whole or '0'}.{part}" if scale else whole)
    return number.copy_negate() if negative and number else number
