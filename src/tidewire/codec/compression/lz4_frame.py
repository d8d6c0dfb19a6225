"""LZ4 frames, byte for byte as TiCDC writes them.

LZ4 leaves open which repetitions a compressor uses, and every library decides differently. TiCDC's is
``github.com/pierrec/lz4/v4`` with its default options: what it decides is decided here. Versions 4.1.17, 4.1.22,
4.1.27 and 4.1.33 agree.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidewire.codec.compression.repetition import backward, forward, word_at
from tidewire.codec.compression.unpacking import LARGEST, library

_MAGIC = bytes.fromhex("04224d18")
# Version 1, independent blocks, content checksum; blocks of up to 4 MiB; checksum of these two bytes.
_HEADER = _MAGIC + bytes.fromhex("64 70 b9")
_BLOCK = 4 * 1024 * 1024
_STORED = 1 << 31  # In a block's length: the block is not compressed.
_END = bytes(4)
_PIECE = 64 * 1024

_PRIME = 227718039650203  # The library's multiplier to hash six bytes.
_TAIL = 14  # No match is looked for in the last bytes of a block.
_LEAST = 4  # The shortest match.


def compress(data: bytes) -> bytes:
    """One frame with all of ``data``."""
    frame = bytearray(_HEADER)
    for start in range(0, len(data), _BLOCK):
        block = data[start : start + _BLOCK]
        packed = _compress_block(block)
        if len(packed) < len(block):
            frame += len(packed).to_bytes(4, "little") + packed
        else:
            frame += (len(block) | _STORED).to_bytes(4, "little") + block
    return bytes(frame + _END + _checksum(data))


def decompress(data: bytes) -> bytes:
    """What one frame has; ValueError if ``data`` is anything else."""
    # Decompressors also take frames made to be skipped, which have no content.
    if not data.startswith(_MAGIC):
        raise ValueError("this is not an LZ4 frame")
    decompressor = library("lz4.frame").LZ4FrameDecompressor()
    # The library takes max_length bytes of memory at once: in proportion to the data, not what it might expand to.
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


def _checksum(data: bytes) -> bytes:
    """xxHash32 of ``data``: every frame ends with it, whichever library packs it."""
    frame: bytes = library("lz4.frame").compress(data, content_checksum=True)
    return frame[-4:]


def _compress_block(block: bytes) -> bytearray:
    """Literals and matches in turn, and literals last."""
    out = bytearray()
    done = 0
    for start, end, offset in _matches(block):
        _write_literals(out, block[done:start], end - start - _LEAST)
        out += offset.to_bytes(2, "little")
        _write_rest(out, end - start - _LEAST)
        done = end
    _write_literals(out, block[done:], 0)
    return out


def _write_literals(out: bytearray, literals: bytes, match: int) -> None:
    """The token, which also has the first bits of the following match's length, and the literals."""
    out.append(min(len(literals), 15) << 4 | min(match, 15))
    _write_rest(out, len(literals))
    out += literals


def _write_rest(out: bytearray, length: int) -> None:
    """What is left of a length when the token has no room for it."""
    if length >= 15:
        full, last = divmod(length - 15, 255)
        out += b"\xff" * full
        out.append(last)


def _matches(block: bytes) -> Iterator[tuple[int, int, int]]:
    """Repetitions in order: from where, to where, and how far back the same bytes are."""
    seen: dict[int, int] = {}
    last_seen = seen.get
    limit = len(block) - _TAIL
    here = done = 0
    while here < limit:
        # Three places in a row are tried: all three have their six bytes in one word.
        (word,) = word_at(block, here)
        first = word * _PRIME >> 32 & 0xFFFF
        second = (word >> 8) * _PRIME >> 32 & 0xFFFF
        # The library keeps 16 bits of each place, so what it saw further back seems near: hence the mask.
        # An offset of 0 stands for one that is too large.
        offset = here - last_seen(first, 0) & 0xFFFF
        next_offset = here + 1 - last_seen(second, 0) & 0xFFFF
        seen[first] = here
        seen[second] = here + 1
        if not (offset and _same(block, here, offset)):
            here += 1
            offset = next_offset
            if not (offset and _same(block, here, offset)):
                here += 1
                third = (word >> 16) * _PRIME >> 32 & 0xFFFF
                offset = here - last_seen(third, 0) & 0xFFFF
                seen[third] = here
                if not (offset and _same(block, here, offset)):
                    here += 2 + (here - done >> 7)  # The longer nothing is found, the more is skipped.
                    continue
        start = backward(block, here, here - offset, done)
        here += _LEAST
        # The library compares eight bytes at a time, and leaves it at that when fewer are left before the limit.
        done = here = forward(block, here, here - offset, here + (limit - here) // 8 * 8)
        yield start, done, offset
        if here < limit:
            (word,) = word_at(block, here - 2)
            seen[word * _PRIME >> 32 & 0xFFFF] = here - 2


def _same(block: bytes, here: int, offset: int) -> bool:
    """Are the four bytes from ``here`` on those ``offset`` before?"""
    there = here - offset
    return block[here : here + _LEAST] == block[there : there + _LEAST]
