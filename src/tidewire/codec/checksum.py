"""TiDB's row checksum: one CRC-32 over the values of a row, so that damage on the way cannot pass unseen."""

from __future__ import annotations

import math
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from tidewire.model import Column, MySQLType, Row, Temporal, Timestamp
from tidewire.model.grammar import shown
from tidewire.model.types import ENUM_SET, FLOATS, INTEGERS, STRINGS, TEMPORAL, TEXTS
from tidewire.model.values import LOCAL_ZONE


def row_checksum(columns: Iterable[Column], row: Row, time_zone: str) -> int:
    """The CRC-32 of a row image over these columns, in this order: TiDB takes them by column id.

    NULL and absent columns add nothing. TIMESTAMP counts in UTC; ``time_zone`` is the zone of those that bring none.
    ``ValueError`` where a value is not one its column can hold.

    >>> columns = [Column.of("id", "bigint"), Column.of("name", "varchar(9)")]
    >>> row_checksum(columns, {"id": 1, "name": "x"}, "UTC")
    2975616953
    """
    crc = 0
    for column in columns:
        value = row.get(column.name)
        write = _WRITERS.get(column.type)
        if value is None or write is None:
            continue
        try:
            crc = zlib.crc32(write(value, time_zone), crc)
        except (ValueError, TypeError, AttributeError, OverflowError, struct.error) as error:
            reason = f"column {column.name} ({column.mysql_type}) has no checksum for {shown(value)}: {error}"
            raise ValueError(reason) from error
    return crc


def _integer(value: int, _: str) -> bytes:
    return struct.pack("<Q" if value >= 0 else "<q", value)


def _float(value: float, _: str) -> bytes:
    return struct.pack("<d", value if math.isfinite(value) else 0.0)


def _text(value: str | bytes | Decimal | Temporal, _: str) -> bytes:
    match value:
        case bytes():
            data = value
        case Decimal():
            data = format(value, "f").encode()
        case Temporal(text) | str(text):
            data = text.encode()
    return struct.pack("<I", len(data)) + data


def _timestamp(value: Timestamp, time_zone: str) -> bytes:
    if value.is_zero:
        return _text(value, time_zone)
    zone = time_zone if value.zone in (None, "", LOCAL_ZONE) else str(value.zone)
    return _text(to_utc(value.text, zone), time_zone)


def _vector(value: str, _: str) -> bytes:
    elements = [float(element) for element in _ELEMENT.findall(value)]
    return struct.pack(f"<I{len(elements)}f", len(elements), *elements)


_ELEMENT = re.compile(r"[^\[\],\s]+")


def to_utc(text: str, zone: str) -> str:
    """A TIMESTAMP's text moved from a zone to UTC, with as many digits of the second as it had.

    An hour that the clocks go through twice is read as Go reads it, since the sender computed the checksum that way.
    """
    seconds, point, fraction = text.partition(".")
    local = datetime.strptime(seconds, "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc)
    first_guess = local - _offset(local, zone)
    return f"{(local - _offset(first_guess, zone)):%Y-%m-%d %H:%M:%S}{point}{fraction}"


def _offset(moment: datetime, zone: str) -> timedelta:
    return moment.astimezone(_zone(zone)).utcoffset() or timedelta()


@lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (LookupError, OSError, ValueError):
        raise ValueError(f"unknown time zone {name!r}") from None


_WRITERS: Mapping[MySQLType, Callable[[Any, str], bytes]] = {
    **dict.fromkeys(INTEGERS | {MySQLType.YEAR, MySQLType.BIT}, _integer),
    **dict.fromkeys(FLOATS, _float),
    **dict.fromkeys(ENUM_SET, lambda value, zone: _integer(value.index, zone)),
    **dict.fromkeys(STRINGS | TEMPORAL | TEXTS | {MySQLType.DECIMAL}, _text),
    MySQLType.TIMESTAMP: _timestamp,
    MySQLType.VECTOR: _vector,
}
