"""Compression of message values: ``large-message-handle-compression``.

Packing gives the very bytes TiCDC gives; unpacking takes one whole packed value, whoever packed it, and nothing else.
"""

from __future__ import annotations

from tidewire.codec.compression import lz4_frame, snappy_block
from tidewire.codec.options import Compression


def compress(data: bytes, how: Compression) -> bytes:
    """Pack ``data`` as TiCDC does."""
    match how:
        case Compression.SNAPPY:
            return snappy_block.compress(data)
        case Compression.LZ4:
            return lz4_frame.compress(data)
        case Compression.NONE:
            return data


def decompress(data: bytes, how: Compression) -> bytes:
    """Unpack ``data``; ValueError if it is not one whole packed value of reasonable size."""
    match how:
        case Compression.SNAPPY:
            return snappy_block.decompress(data)
        case Compression.LZ4:
            return lz4_frame.decompress(data)
        case Compression.NONE:
            return data
