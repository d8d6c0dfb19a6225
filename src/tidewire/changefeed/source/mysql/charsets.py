"""Text in the charsets a server stores it in, as Python strings."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from functools import cache
from typing import TypeAlias

from tidewire.errors import ChangefeedError

Decode: TypeAlias = Callable[[bytes], str | bytes]

_PYTHON: Mapping[str, str] = {
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


def _latin1(raw: bytes) -> str:
    """MySQL's latin1 is Windows-1252, with the five bytes that has no character for as control characters."""
    try:
        return raw.decode("cp1252")
    except UnicodeDecodeError:
        return "".join(bytes((byte,)).decode("cp1252", "ignore") or chr(byte) for byte in raw)


@cache
def decoder(charset: str) -> Decode:
    """What makes text of the bytes of a charset; bytes that are no text in it stay bytes."""
    if charset == "binary":
        return bytes
    if charset == "latin1":
        return _latin1
    if charset not in _PYTHON:
        raise ChangefeedError(
            "CDC:ErrMySQLInvalidConfig",
            f"text in the charset {charset!r} cannot be read; convert the column to utf8mb4",
        )
    decode = codecs.getdecoder(_PYTHON[charset])

    def decoded(raw: bytes) -> str | bytes:
        try:
            return decode(raw)[0]
        except UnicodeDecodeError:
            return raw

    return decoded
