"""What encoder, decoder and inspector share: the frame, the message types, Go's quoting of binary strings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from tidewire.codec.gotext import is_printable
from tidewire.errors import DecodeError

PROTOCOL: Final = "open-protocol"
LENGTH: Final = Struct(">Q")
VERSION: Final = LENGTH.pack(1)


class MessageType(IntEnum):
    """``t`` of an event key."""

    ROW = 1
    DDL = 2
    RESOLVED = 3


class Frame(NamedTuple):
    """One length-prefixed payload and where it begins."""

    start: int
    payload: bytes


def frame(payload: bytes) -> bytes:
    """A payload behind its length."""
    return LENGTH.pack(len(payload)) + payload


def frames(data: bytes, part: str, at: int = 0) -> Iterator[Frame]:
    """Each payload in turn; a length that does not fit is an error."""
    while at < len(data):
        start = at + LENGTH.size
        if start > len(data):
            raise DecodeError(PROTOCOL, "truncated length", at, part)
        (length,) = LENGTH.unpack_from(data, at)
        if length > len(data) - start:
            raise DecodeError(PROTOCOL, f"a length of {length} bytes, but {len(data) - start} are left", at, part)
        yield Frame(start, data[start : start + length])
        at = start + length


def pairs(key: bytes | None, value: bytes | None, *, within: str = "") -> Iterator[tuple[Frame, Frame]]:
    """The i-th key with the i-th value; as many of the one as of the other.

    ``within`` says in errors what key and value are parts of, where it is not the message itself.
    """
    key_part, value_part = f"{within}key", f"{within}value"
    if key is None or len(key) < len(VERSION):
        raise DecodeError(PROTOCOL, "the key is shorter than the protocol version", 0, key_part)
    if not key.startswith(VERSION):
        raise DecodeError(PROTOCOL, f"protocol version {LENGTH.unpack_from(key)[0]}, known is 1", 0, key_part)
    if value is None:
        # The document shows a resolved event without a value; the server sends one of length 0.
        value = frame(b"") if len(key) > len(VERSION) else b""
    keys, values = frames(key, key_part, len(VERSION)), frames(value, value_part)
    for event_key in keys:
        event_value = next(values, None)
        if event_value is None:
            raise DecodeError(PROTOCOL, "more event keys than event values", event_key.start, key_part)
        yield event_key, event_value
    extra = next(values, None)
    if extra is not None:
        raise DecodeError(PROTOCOL, "more event values than event keys", extra.start, value_part)


_LETTERS = {0x07: "a", 0x08: "b", 0x0C: "f", 0x0A: "n", 0x0D: "r", 0x09: "t", 0x0B: "v", 0x22: '"', 0x5C: "\\"}
_CODES = {letter: code for code, letter in _LETTERS.items()} | {"'": 0x27}
_ESCAPE = re.compile(
    r"""\\(?:(?P<letter>[abfnrtv\\"'])|x(?P<hex>[0-9a-fA-F]{2})|(?P<octal>[0-3][0-7]{2})"""
    r"""|u(?P<u4>[0-9a-fA-F]{4})|U(?P<u8>[0-9a-fA-F]{8}))|\\"""
)


def go_quote(data: bytes) -> str:
    """Bytes as Go's ``strconv.Quote`` prints them, without the outer quotes: what is readable stays so."""
    return "".join(map(_quoted, data.decode("utf-8", "surrogateescape")))


def _quoted(char: str) -> str:
    code = ord(char)
    if code in _LETTERS:
        return "\\" + _LETTERS[code]
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if is_printable(char):
        return char
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def go_unquote(text: str) -> bytes:
    """The bytes behind :func:`go_quote`; ``ValueError`` for an escape Go does not know."""
    found, at = [], 0
    for match in _ESCAPE.finditer(text):
        found.append(text[at : match.start()].encode("utf-8", "surrogateescape"))
        found.append(_unescaped(match))
        at = match.end()
    found.append(text[at:].encode("utf-8", "surrogateescape"))
    return b"".join(found)


def _unescaped(match: re.Match[str]) -> bytes:
    if match["letter"]:
        return bytes([_CODES[match["letter"]]])
    if match["hex"]:
        return bytes([int(match["hex"], 16)])
    if match["octal"]:
        return bytes([int(match["octal"], 8)])
    code = match["u4"] or match["u8"]
    if code is None:
        raise ValueError(f"unknown escape {match.string[match.start() : match.start() + 2]!r}")
    try:
        return chr(int(code, 16)).encode()
    except (ValueError, OverflowError):
        raise ValueError(f"\\{match[0][1]}{code} is no character") from None
