"""Compressed files of a dump, unpacked as they are read."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from importlib import import_module
from typing import Any, BinaryIO, Final

import pyarrow as pa

from tidewire.errors import LoadError, MissingExtra, TidewireError


class Compression(StrEnum):
    """How a file is packed; the values are what its name ends in."""

    NONE = ""
    GZIP = "gz"
    SNAPPY = "snappy"
    ZSTD = "zst"


_FRAMED: Final = b"\xff\x06\x00\x00sNaPpY"
"""How a framed Snappy stream begins."""


class _Snappy(io.RawIOBase):
    """A framed Snappy stream, unpacked frame by frame. Its checksums are verified."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._left = b""
        try:
            self._library: Any = import_module("cramjam").snappy
        except ImportError as error:
            raise MissingExtra("cramjam", "compression") from error

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            head = self._source.read(4)
            if not head:
                return 0
            size = int.from_bytes(head[1:], "little")
            frame = self._source.read(size)
            if len(head) < 4 or len(frame) < size:
                raise ValueError("the Snappy stream is truncated")
            if head[0] in (0, 1):
                self._left = bytes(self._library.decompress(_FRAMED + head + frame))
            elif head[0] < 0x80:
                raise ValueError(f"the Snappy stream has an unknown frame {head[0]}")
        found = self._left[: len(buffer)]
        buffer[: len(found)] = found
        self._left = self._left[len(found) :]
        return len(found)


def _arrow(name: str) -> Callable[[BinaryIO], Any]:
    return lambda source: pa.CompressedInputStream(pa.PythonFile(source, "r"), name)


_UNPACK: Final[Mapping[Compression, Callable[[BinaryIO], Any]]] = {
    Compression.NONE: lambda source: source,
    Compression.GZIP: _arrow("gzip"),
    Compression.ZSTD: _arrow("zstd"),
    Compression.SNAPPY: lambda source: io.BufferedReader(_Snappy(source), 1 << 20),
}


@contextmanager
def unpacked(source: BinaryIO, how: Compression) -> Iterator[BinaryIO]:
    """The content of a packed file; :class:`LoadError` if it is damaged."""
    try:
        yield _UNPACK[how](source)
    except TidewireError:
        raise
    except (pa.ArrowException, ValueError, OSError) as error:
        raise LoadError(f"{getattr(source, 'name', 'a file')} cannot be read: {error}") from error
