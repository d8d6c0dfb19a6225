"""Compression of message values: ``large-message-handle-compression``.

The libraries that pack are not TiCDC's, so the packed bytes differ from the server's. What they unpack to is the same.
Unpacking takes one whole packed value of any packer, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

from tidewire.codec.options import Compression
from tidewire.errors import MissingExtra

LARGEST: Final = 128 * 1024 * 1024
"""The most bytes that a value may unpack to. TiDB's largest transaction entry has 120 MiB."""

_MAGIC: Final = bytes.fromhex("04224d18")
_BLOCK: Final = 7
"""LZ4's number for blocks of up to 4 MiB."""
_PIECE: Final = 64 * 1024


def compress(data: bytes, how: Compression) -> bytes:
    """Pack ``data``."""
    return _PACKERS[how].compress(data)


def decompress(data: bytes, how: Compression) -> bytes:
    """Unpack ``data``; raises ValueError if it is not one whole packed value of at most ``LARGEST`` bytes."""
    return _PACKERS[how].decompress(data)


def _compress_lz4(data: bytes) -> bytes:
    """One frame as TiCDC makes them: independent blocks of up to 4 MiB, a checksum of the content, no length."""
    packed: bytes = _library("lz4.frame").compress(
        data, block_size=_BLOCK, block_linked=False, content_checksum=True, store_size=False
    )
    return packed


def _decompress_lz4(data: bytes) -> bytes:
    # Decompressors also take skippable frames, which have no content.
    if not data.startswith(_MAGIC):
        raise ValueError("this is not an LZ4 frame")
    decompressor = _library("lz4.frame").LZ4FrameDecompressor()
    # The library allocates max_length bytes at once: in proportion to the data, not to what it might expand to.
    step = max(_PIECE, 2 * len(data))
    pieces = []
    room = LARGEST
    while not decompressor.eof:
        try:
            piece = decompressor.decompress(data, max_length=min(step, room + 1))
        except (RuntimeError, MemoryError) as error:
            raise ValueError(f"the LZ4 frame is corrupt: {error}") from None
        if not (piece or decompressor.eof):
            raise ValueError("the LZ4 frame is truncated")
        data = b""
        pieces.append(piece)
        room -= len(piece)
        if room < 0:
            raise ValueError(f"the LZ4 frame has more than {LARGEST} bytes")
    if decompressor.unused_data:
        raise ValueError(f"{len(decompressor.unused_data)} bytes follow the LZ4 frame")
    return b"".join(pieces)


def _compress_snappy(data: bytes) -> bytes:
    """One block, without a frame around it."""
    return bytes(_library("cramjam").snappy.compress_raw(data))


def _decompress_snappy(data: bytes) -> bytes:
    cramjam = _library("cramjam")
    declared, start = _read_varint(data)
    # The densest element is a copy of 64 bytes that takes three.
    most = min(LARGEST, (len(data) - start) * 64 // 3)
    if declared > most:
        raise ValueError(f"the snappy block claims to have {declared} bytes, it can have at most {most}")
    try:
        return bytes(cramjam.snappy.decompress_raw(data))
    except (cramjam.DecompressionError, MemoryError) as error:
        raise ValueError(f"the snappy block is corrupt: {error}") from None


def _read_varint(data: bytes) -> tuple[int, int]:
    """The length at the start of a snappy block, and the position after it."""
    number = 0
    for at, byte in enumerate(data[:5]):
        number |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            return number, at + 1
    raise ValueError("the length of the snappy block is truncated or too large")


def _library(name: str) -> Any:
    """A module of the extra ``compression``, imported when it is needed."""
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtra(name.partition(".")[0], "compression") from None


class _Packer(NamedTuple):
    compress: Callable[[bytes], bytes]
    decompress: Callable[[bytes], bytes]


_PACKERS: Final[Mapping[Compression, _Packer]] = {
    Compression.NONE: _Packer(lambda data: data, lambda data: data),
    Compression.LZ4: _Packer(_compress_lz4, _decompress_lz4),
    Compression.SNAPPY: _Packer(_compress_snappy, _decompress_snappy),
}
