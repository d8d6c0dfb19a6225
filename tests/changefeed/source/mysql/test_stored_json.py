"""MySQL's binary JSON, as its documentation lays it out, and the text MySQL prints for it."""

from __future__ import annotations

import struct

import pytest

from tidewire.changefeed.source.mysql.stored_values import json_text


def small(*, keys: list[bytes] | None, values: list[tuple[int, bytes]], inline: frozenset[int]) -> bytes:
    """A container in the small form: two bytes to an offset."""
    count = len(values)
    head = 4 + (4 * count if keys is not None else 0) + 3 * count
    names = b"".join(keys or [])
    key_entries, value_entries, data = b"", b"", names
    at = head
    for key in keys or []:
        key_entries += struct.pack("<HH", at, len(key))
        at += len(key)
    for kind, packed in values:
        if kind in inline:
            value_entries += bytes([kind]) + packed.ljust(2, b"\0")
        else:
            value_entries += bytes([kind]) + struct.pack("<H", head + len(data))
            data += packed
    return struct.pack("<HH", count, head + len(data)) + key_entries + value_entries + data


INLINE = frozenset({4, 5, 6})


def text(value: bytes) -> bytes:
    return bytes([len(value)]) + value


def moment(packed: int) -> bytes:
    return struct.pack("<q", packed)


_DAY = ((2024 * 13 + 2) << 5 | 29) << 17
_NOON = 12 << 12 | 30 << 6 | 5


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", "null"),
        (b"\x04\x00", "null"),
        (b"\x04\x01", "true"),
        (b"\x04\x02", "false"),
        (b"\x05\xff\xff", "-1"),
        (b"\x06\xff\xff", "65535"),
        (b"\x07" + struct.pack("<i", -(2**31)), "-2147483648"),
        (b"\x08" + struct.pack("<I", 2**32 - 1), "4294967295"),
        (b"\x09" + struct.pack("<q", -(2**63)), "-9223372036854775808"),
        (b"\x0a" + struct.pack("<Q", 2**64 - 1), "18446744073709551615"),
        (b"\x0b" + struct.pack("<d", 1.0), "1.0"),
        (b"\x0b" + struct.pack("<d", 0.1), "0.1"),
        (b"\x0b" + struct.pack("<d", 1e20), "1e20"),
        (b"\x0c" + text('a"é\n'.encode()), '"a\\"é\\n"'),
        (b"\x0c\x80\x01" + b"x" * 128, f'"{"x" * 128}"'),
        (b"\x0f\xf6" + text(b"\x04\x02\x8c\x22"), "12.34"),
        (b"\x0f\x0c" + text(moment((_DAY | _NOON) << 24 | 6)), '"2024-02-29 12:30:05.000006"'),
        (b"\x0f\x0a" + text(moment(_DAY << 24)), '"2024-02-29"'),
        (b"\x0f\x0b" + text(moment(-(_NOON << 24 | 500000))), '"-12:30:05.500000"'),
        (b"\x0f\xfc" + text(b"\x00\xff"), '"base64:type252:AP8="'),
        (b"\x02" + small(keys=None, values=[], inline=INLINE), "[]"),
        (b"\x00" + small(keys=[], values=[], inline=INLINE), "{}"),
    ],
)  # fmt: skip
def test_a_value_has_the_text_mysql_prints(raw: bytes, expected: str) -> None:
    assert json_text(raw) == expected


def test_containers_hold_values_inline_and_behind_offsets() -> None:
    array = small(keys=None, values=[(5, b"\x01\x00"), (12, text(b"two")), (4, b"\x00")], inline=INLINE)
    whole = small(keys=[b"a", b"bc"], values=[(2, array), (7, struct.pack("<i", 70000))], inline=INLINE)

    assert json_text(b"\x00" + whole) == '{"a": [1, "two", null], "bc": 70000}'


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ValueError, match="no type 14"):
        json_text(b"\x0e\x00")
