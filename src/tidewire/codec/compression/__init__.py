"""Compression of message values: ``large-message-handle-compression``.

Packing gives the very bytes TiCDC would give, unpacking takes whatever is valid and nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tidewire.codec.compression import lz4_frame, snappy_block
from tidewire.codec.options import Compression
from tidewire.errors import MissingExtra

_LARGEST = 128 * 1024 * 1024
"""No value is larger: TiDB's largest transaction entry has 120 MiB."""


def compress(data: bytes, how: Compression) -> bytes:
    """Pack ``data`` as TiCDC does."""
    if how is Compression.SNAPPY:
        return snappy_block.compress(data)
    if how is Compression.LZ4:
        return lz4_frame.compress(data, _xxh32(data))
    return data


def decompress(data: bytes, how: Compression) -> bytes:
    """Unpack ``data``; ValueError if it is not exactly one packed value of at most 128 MiB."""
    if how is Compression.SNAPPY:
        return _decompress_snappy(data)
    if how is Compression.LZ4:
        return _decompress_lz4(data)
    return data
