"""Values in the forms a server stores them in: text in its charsets, packed decimals, dates and times, binary JSON.

Binary JSON becomes the text that MySQL and TiDB print.
"""

from __future__ import annotations

import base64
import codecs
import json
import math
import struct
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import cache
from typing import TypeAlias

from tidewire.errors import ChangefeedError
from tidewire.model import Date, DateTime, Time, Timestamp

Decode: TypeAlias = Callable[[bytes], str | bytes]

_CODECS: Mapping[str, str] = {
    **{name: name for name in ("ascii", "big5", "gbk", "gb2312", "gb18030", "cp932", "koi8_r", "koi8_u", "cp850")},
    **{name: name for name in ("cp852", "cp866", "cp1250", "cp1251", "cp1256", "cp1257")},
    **dict.fromkeys(("utf8", "utf8mb3", "utf8mb4"), "utf-8"),
    **dict.fromkeys(("ucs2", "utf16"), "utf-16-be"),
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "sjis": "shift_jis",
    "ujis": "euc_jp",
    "eucjpms": "euc_jp",
    "euckr": "euc_kr",
    "koi8r": "koi8_r",
    "koi8u": "koi8_u",
    "greek": "iso8859_7",
    "hebrew": "iso8859_8",
    "latin2": "iso8859_2",
    "latin5": "iso8859_9",
    "latin7": "iso8859_13",
    "tis620": "iso8859_11",
    "macroman": "mac_roman",
    "macce": "mac_latin2",
    "hp8": "hp_roman8",
}
"""A server's charset to Python's codec."""

_DIGITS_IN_GROUP = 9

_BYTES_OF_DIGITS = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""The bytes that a group of digits takes, by the number of digits."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY = range(4)
_LITERAL, _INT16, _UINT16, _INT32, _UINT32 = range(4, 9)
_OPAQUE = 15
_LITERALS = {0: "null", 1: "true", 2: "false"}
_NUMBERS: Mapping[int, str] = {5: "<h", 6: "<H", 7: "<i", 8: "<I", 9: "<q", 10: "<Q"}


def _latin1(raw: bytes) -> str:
    """MySQL's latin1 is Windows-1252; five bytes that have no character there are control characters."""
    try:
        return raw.decode("cp1252")
    except UnicodeDecodeError:
        return "".join(bytes((byte,)).decode("cp1252", "ignore") or chr(byte) for byte in raw)


@cache
def decoder(charset: str) -> Decode:
    """The decoder of a charset; bytes that are not valid in the charset stay bytes."""
    if charset == "binary":
        return bytes
    if charset == "latin1":
        return _latin1
    if charset not in _CODECS:
        raise ChangefeedError(
            "CDC:ErrMySQLInvalidConfig",
            f"text in the charset {charset!r} cannot be read; convert the column to utf8mb4",
        )
    decode = codecs.getdecoder(_CODECS[charset])

    def decoded(raw: bytes) -> str | bytes:
        try:
            return decode(raw)[0]
        except UnicodeDecodeError:
            return raw

    return decoded


def decimal_size(precision: int, scale: int) -> int:
    """How many bytes a decimal takes."""
    whole, part = divmod(precision - scale, _DIGITS_IN_GROUP), divmod(scale, _DIGITS_IN_GROUP)
    return 4 * (whole[0] + part[0]) + _BYTES_OF_DIGITS[whole[1]] + _BYTES_OF_DIGITS[part[1]]


def decimal_of(raw: bytes, precision: int, scale: int) -> Decimal:
    """A DECIMAL with its scale. The first bit is the sign; in a negative number all bits are inverted."""
    negative = not raw[0] & 0x80
    size = len(raw)
    inverted = (1 << 8 * size) - 1 if negative else 0
    plain = (int.from_bytes(raw, "big") ^ 0x80 << 8 * (size - 1) ^ inverted).to_bytes(size, "big")
    head, groups = (precision - scale) % _DIGITS_IN_GROUP, (precision - scale) // _DIGITS_IN_GROUP
    widths = [
        head,
        *[_DIGITS_IN_GROUP] * groups,
        *[_DIGITS_IN_GROUP] * (scale // _DIGITS_IN_GROUP),
        scale % _DIGITS_IN_GROUP,
    ]
    digits, at = "", 0
    for width in widths:
        if width:
            digits += f"{int.from_bytes(plain[at : at + _BYTES_OF_DIGITS[width]], 'big'):0{width}d}"
            at += _BYTES_OF_DIGITS[width]
    whole, part = digits[: len(digits) - scale], digits[len(digits) - scale :]
    number = Decimal(f"{whole or '0'}.{part}" if scale else whole)
    return number.copy_negate() if negative and number else number


def fraction(micros: int, digits: int) -> str:
    """The part after the seconds, as many digits as the column has."""
    return f".{micros:06d}"[: digits + 1] if digits else ""


def date_of(packed: int) -> Date:
    """A DATE from 15 bits of year, 4 of month and 5 of day."""
    return Date(f"{packed >> 9:04d}-{packed >> 5 & 15:02d}-{packed & 31:02d}")


def datetime_of(packed: int, micros: int, digits: int) -> DateTime:
    """A DATETIME from 17 bits of year and month, then day, hour, minute and second."""
    year, month = divmod(packed >> 22, 13)
    day, hour, minute, second = packed >> 17 & 31, packed >> 12 & 31, packed >> 6 & 63, packed & 63
    text = f"{year:04d}-{month:02d}-{day:02d} {hour:02d}:{minute:02d}:{second:02d}"
    return DateTime(text + fraction(micros, digits))


def time_of(negative: bool, packed: int, micros: int, digits: int) -> Time:
    """A TIME from 10 bits of hours, then minutes and seconds."""
    hour, minute, second = packed >> 12 & 1023, packed >> 6 & 63, packed & 63
    return Time(f"{'-' * negative}{hour:02d}:{minute:02d}:{second:02d}{fraction(micros, digits)}")


def timestamp_of(seconds: int, micros: int, digits: int, zone: tzinfo) -> Timestamp:
    """A TIMESTAMP from seconds since the epoch, in a zone; the epoch itself stands for the zero value."""
    if not seconds and not micros:
        return Timestamp("0000-00-00 00:00:00" + fraction(0, digits), zone=str(zone))
    local = (_EPOCH + timedelta(seconds=seconds)).astimezone(zone)
    return Timestamp(f"{local:%Y-%m-%d %H:%M:%S}" + fraction(micros, digits), zone=str(zone))


def timestamp_in_zone(text: str, zone: tzinfo) -> Timestamp:
    """A TIMESTAMP from its text in UTC, in a zone."""
    whole, dot, rest = text.partition(".")
    if whole == "0000-00-00 00:00:00":
        return Timestamp(text, zone=str(zone))
    local = datetime.fromisoformat(whole).replace(tzinfo=timezone.utc).astimezone(zone)
    return Timestamp(f"{local:%Y-%m-%d %H:%M:%S}{dot}{rest}", zone=str(zone))


def json_text(raw: bytes) -> str:
    """The text of a JSON value in MySQL's binary form; ``null`` for empty bytes, which MySQL may log for NULL."""
    return _json_value(raw[0], raw[1:]) if raw else "null"


def _json_value(kind: int, data: bytes) -> str:
    if kind in (_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY):
        return _json_container(data, kind in (_LARGE_OBJECT, _LARGE_ARRAY), kind in (_SMALL_OBJECT, _LARGE_OBJECT))
    if kind in _NUMBERS:
        form = _NUMBERS[kind]
        return str(struct.unpack_from(form, data)[0])
    read = _SCALARS.get(kind)
    if read is None:
        raise ValueError(f"binary JSON has no type {kind}")
    return read(data)


def _json_container(data: bytes, large: bool, is_object: bool) -> str:
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
        values.append(_json_value(kind, data[entry + 1 :] if kind in inline else data[number(entry + 1) :]))
    if not is_object:
        return f"[{', '.join(values)}]"
    return f"{{{', '.join(f'{_quoted(key)}: {value}' for key, value in zip(keys, values, strict=True))}}}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _json_bytes(data: bytes) -> bytes:
    """The bytes after a length that is encoded in seven bits per byte."""
    length = at = 0
    while True:
        byte = data[at]
        length |= (byte & 127) << 7 * at
        at += 1
        if byte < 128:
            return data[at : at + length]


def _double(data: bytes) -> str:
    number = struct.unpack_from("<d", data)[0]
    # Like MySQL: whole doubles end in .0, and only very large or small numbers have an exponent.
    return f"{number:.1f}" if number == math.floor(number) and abs(number) < 1e15 else repr(number).replace("e+", "e")


def _opaque(data: bytes) -> str:
    kind, raw = data[0], _json_bytes(data[1:])
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
    12: lambda data: _quoted(_json_bytes(data).decode()),
    _OPAQUE: _opaque,
}
_OPAQUES: Mapping[int, Callable[[bytes], str]] = {
    246: _opaque_decimal,
    7: _opaque_datetime,
    10: _opaque_date,
    11: _opaque_time,
    12: _opaque_datetime,
}
"""How to print values that JSON has no type for, by MySQL's type number."""
