"""MySQL's binary JSON as the text MySQL and TiDB print."""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal

from tidewire.changefeed.source.mysql.numbers import decimal_of
from tidewire.changefeed.source.mysql.temporal import date_of, datetime_of, time_of

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY = range(4)
_LITERAL, _INT16, _UINT16, _INT32, _UINT32 = range(4, 9)
_OPAQUE = 15
_LITERALS = {0: "null", 1: "true", 2: "false"}
_NUMBERS: Mapping[int, str] = {5: "<h", 6: "<H", 7: "<i", 8: "<I", 9: "<q", 10: "<Q"}


def json_text(raw: bytes) -> str:
    """The text of a JSON value in MySQL's binary form; of nothing, which MySQL may log for NULL, ``null``."""
    return _value(raw[0], raw[1:]) if raw else "null"


def _value(kind: int, data: bytes) -> str:
    if kind in (_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY):
        return _container(data, kind in (_LARGE_OBJECT, _LARGE_ARRAY), kind in (_SMALL_OBJECT, _LARGE_OBJECT))
    if kind in _NUMBERS:
        form = _NUMBERS[kind]
        return str(struct.unpack_from(form, data)[0])
    read = _SCALARS.get(kind)
    if read is None:
        raise ValueError(f"binary JSON has no type {kind}")
    return read(data)


def _container(data: bytes, large: bool, is_object: bool) -> str:
    form, size = ("<I", 4) if large else ("<H", 2)

    def number(at: int) -> int:
        return int(struct.unpack_from(form, data, at)[0])

    count, at = number(0), 2 * size
    keys = []
    if is_object:
        for entry in range(at, at + count * (size + 2), size + 2):
            start, length = number(entry), struct.unpack_from("<H", data, entry + size)[0]
            keys.append(data[start : start + length].decode())
        at += count * (size + 2)
    inline = {_LITERAL, _INT16, _UINT16} | ({_INT32, _UINT32} if large else set())
    values = []
    for entry in range(at, at + count * (size + 1), size + 1):
        kind = data[entry]
        values.append(_value(kind, data[entry + 1 :] if kind in inline else data[number(entry + 1) :]))
    if not is_object:
        return f"[{', '.join(values)}]"
    return f"{{{', '.join(f'{_quoted(key)}: {value}' for key, value in zip(keys, values, strict=True))}}}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _sized(data: bytes) -> bytes:
    """The bytes behind a length of seven bits a byte."""
    length = at = 0
    while True:
        byte = data[at]
        length |= (byte & 127) << 7 * at
        at += 1
        if byte < 128:
            return data[at : at + length]


def _double(data: bytes) -> str:
    number = struct.unpack_from("<d", data)[0]
    # Like MySQL: a whole number shows that it is a double, and only far numbers have an exponent.
    return f"{number:.1f}" if number == math.floor(number) and abs(number) < 1e15 else repr(number).replace("e+", "e")


def _opaque(data: bytes) -> str:
    kind, raw = data[0], _sized(data[1:])
    read = _OPAQUES.get(kind)
    if read is not None:
        return read(raw)
    return _quoted(f"base64:type{kind}:{base64.b64encode(raw).decode()}")


def _opaque_decimal(raw: bytes) -> str:
    precision, scale = raw[0], raw[1]
    return f"{Decimal(decimal_of(raw[2:], precision, scale)):f}"


def _opaque_datetime(raw: bytes) -> str:
    (packed,) = struct.unpack("<q", raw)
    return _quoted(str(datetime_of(packed >> 24, packed & 0xFFFFFF, 6)))


def _opaque_date(raw: bytes) -> str:
    (packed,) = struct.unpack("<q", raw)
    year, month = divmod(packed >> 46, 13)
    return _quoted(str(date_of(year << 9 | month << 5 | packed >> 41 & 31)))


def _opaque_time(raw: bytes) -> str:
    (packed,) = struct.unpack("<q", raw)
    size = abs(packed)
    return _quoted(str(time_of(packed < 0, size >> 24, size & 0xFFFFFF, 6)))


_SCALARS: Mapping[int, Callable[[bytes], str]] = {
    _LITERAL: lambda data: _LITERALS[data[0]],
    11: _double,
    12: lambda data: _quoted(_sized(data).decode()),
    _OPAQUE: _opaque,
}
_OPAQUES: Mapping[int, Callable[[bytes], str]] = {
    246: _opaque_decimal,
    7: _opaque_datetime,
    10: _opaque_date,
    11: _opaque_time,
    12: _opaque_datetime,
}
"""Values JSON has no type for, by MySQL's type: their texts, as MySQL prints them."""
