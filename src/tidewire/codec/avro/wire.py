"""What encoder, decoder and inspector share: Confluent's frame, TiCDC's control messages, unsigned integers."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final, Literal, TypeAlias

PROTOCOL: Final = "avro"
HEADER: Final = Struct(">BI")
CONTROL: Final = Struct(">BQ")
"""A watermark, or the marker of a delete: the kind and a ts."""

AvroType: TypeAlias = Literal["boolean", "int", "long", "float", "double", "bytes", "string"]
"""The types of columns and of the fields about a change."""


class Kind(IntEnum):
    """The first byte of a value. Only the first kind is Avro."""

    RECORD = 0
    DDL = 1
    WATERMARK = 2
    DELETE = 3


def signed(number: int) -> int:
    """An unsigned 64-bit integer as the signed one with the same bits."""
    if not 0 <= number < 1 << 64:
        raise OverflowError(f"{number} is not an unsigned 64-bit integer")
    return number - (1 << 64) if number >> 63 else number


def unsigned(number: int) -> int:
    """The way back from :func:`signed`."""
    return number & (1 << 64) - 1
