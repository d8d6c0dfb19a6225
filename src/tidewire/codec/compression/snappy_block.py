"""Snappy blocks, byte for byte as TiCDC writes them.

Snappy leaves open which repetitions a compressor uses, and every library decides differently. TiCDC's is
``github.com/klauspost/compress/snappy`` with its assembly for amd64: what it decides is decided here. Versions
1.17.11, 1.18.0, 1.19.2 and 1.20.3 agree; 1.17.9 differs for data of 16 to 64 KiB, 1.16.5 also for shorter data.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidewire.codec.compression.repetition import backward, forward, word_at
from tidewire.codec.compression.unpacking import LARGEST, library

_TAIL = 8  # No match is looked for in the last bytes.
_NEAR = 0xFFFF  # The largest offset that fits two bytes.

_PRIME_4 = 2654435761
_PRIME_6 = 227718039650203
_PRIME_7 = 58295818150454627


class _Tuning(NamedTuple):
    """How the library looks for matches; it depends on the length of the data."""

    least: int
    """The shortest data it is for."""
    prime: int
    shift: int
    long_bits: int
    """The size of the table that remembers where six or seven bytes, hashed with prime and shift, were last seen."""
    short_bits: int
    """The size of the table that remembers where four bytes were last seen."""
    patience: int
    """After 2**patience bytes without a match every second byte is passed over, after twice as many two of three."""
    most_passed: int
    """No more than this many bytes are passed over."""
    overhead: int
    """What a literal is taken to cost besides its bytes when it comes to giving up."""


_TUNINGS = (
    _Tuning(64 * 1024 + 1, _PRIME_7, 56 - 17, 17, 14, patience=7, most_passed=99, overhead=5),
    _Tuning(16 * 1024, _PRIME_7, 56 - 16, 16, 13, patience=7, most_passed=0xFFFF, overhead=3),
    _Tuning(4 * 1024, _PRIME_6, 48 - 14, 14, 12, patience=6, most_passed=0xFFFF, overhead=3),
    _Tuning(512, _PRIME_6, 48 - 12, 12, 10, patience=5, most_passed=0xFFFF, overhead=3),
    _Tuning(32, _PRIME_6, 48 - 10, 10, 8, patience=4, most_passed=0xFFFF, overhead=3),
)


def compress(data: bytes) -> bytes:
    """One block with all of ``data``."""
    block = _varint(len(data))
    body = next((_compress_body(data, tuning) for tuning in _TUNINGS if len(data) >= tuning.least), None)
    if body is None:
        _write_literal(block, data)
    else:
        block += body
    return bytes(block)


def decompress(data: bytes) -> bytes:
    """What one block has; ValueError if ``data`` is anything else."""
    cramjam = library("cramjam")
    declared, start = _read_varint(data)
    # The densest element is a copy of 64 bytes in three.
    most = min(LARGEST, (len(data) - start) * 64 // 3)
    if declared > most:
        raise ValueError(f"the snappy block claims to have {declared} bytes, it can have at most {most}")
    try:
        return bytes(cramjam.snappy.decompress_raw(data))
    except (cramjam.DecompressionError, MemoryError) as error:
        raise ValueError(f"the snappy block is corrupt: {error}") from None


def _compress_body(data: bytes, tuning: _Tuning) -> bytearray | None:
    """Literals and copies, or None if they do not save about one byte in 32."""
    out = bytearray()
    limit = len(data) - 9 - len(data) // 32 - tuning.overhead
    done = 0
    for start, end, offset in _matches(data, tuning):
        if len(out) + start - done >= limit:
            return None
        if _worthwhile(end - start, offset):
            _write_literal(out, data[done:start])
            _write_copy(out, offset, end - start)
            done = end
    if len(out) + len(data) - done >= limit:
        return None
    _write_literal(out, data[done:])
    return out


def _worthwhile(length: int, offset: int) -> bool:
    """Is a copy shorter than what it stands for? A far one takes five bytes."""
    return length > 5 or offset <= _NEAR


def _read_varint(data: bytes) -> tuple[int, int]:
    """The length at the start, which has 32 bits, and where it ends."""
    number = 0
    for at, byte in enumerate(data[:5]):
        number |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            return number, at + 1
    raise ValueError("the length of the snappy block is truncated or too large")


def _varint(number: int) -> bytearray:
    """A number, seven bits to the byte."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return out


def _write_literal(out: bytearray, literal: bytes) -> None:
    """Bytes as they are, if any, after their number."""
    if not literal:
        return
    rest = len(literal) - 1
    if rest < 60:
        out.append(rest << 2)
    else:
        width = (rest.bit_length() + 7) // 8
        out.append(59 + width << 2)
        out += rest.to_bytes(width, "little")
    out += literal


def _write_copy(out: bytearray, offset: int, length: int) -> None:
    """One copy, or several: none has more than 64 bytes."""
    far = offset > _NEAR
    # With 60 at a time, a near one leaves at least 5, enough for the form with two bytes below.
    size, width, tag = (64, 4, 3) if far else (60, 2, 2)
    place = offset.to_bytes(width, "little")
    while length > 64:
        out.append(size - 1 << 2 | tag)
        out += place
        length -= size
    if length < 12 and offset < 2048:
        out += bytes((offset >> 8 << 5 | length - 4 << 2 | 1, offset & 0xFF))
    else:
        out.append(length - 1 << 2 | tag)
        out += place


def _matches(data: bytes, tuning: _Tuning) -> Iterator[tuple[int, int, int]]:
    """Repetitions in order, worthwhile or not: from where, to where, and how far back the same bytes are."""
    tables = _Tables(tuning)
    # Everything is spelled out and in local names: this loop sees every byte.
    longs, prime, shift, long_mask = tables.longs, tables.prime, tables.shift, tables.long_mask
    shorts, short_shift, short_mask = tables.shorts, tables.short_shift, tables.short_mask
    patience, most_passed = tuning.patience, tuning.most_passed
    limit = len(data) - _TAIL
    here, done = 1, 0
    while True:
        passed = here - done >> patience
        following = here + 1 + (passed if passed < most_passed else most_passed)
        if following >= limit:
            return
        (word,) = word_at(data, here)
        long = word * prime >> shift & long_mask
        short = word * _PRIME_4 >> short_shift & short_mask
        there, other = longs[long], shorts[short]
        longs[long] = shorts[short] = here
        # Mostly the first byte already tells that nothing is the same.
        byte = word & 0xFF
        if data[there] != byte != data[other] or not (match := tables.choose(data, here, there, other)):
            here = following
            continue
        here, there = match
        start = backward(data, here, there, done)
        end = forward(data, here + 4, there + 4, len(data))
        yield start, end, here - there
        if not _worthwhile(end - start, here - there):
            here = following + 1
            continue
        if end >= limit:
            return
        tables.remember(data, start, end)
        here = done = end


class _Tables:
    """Where bytes were last seen, by hash: a place may turn out to have other bytes."""

    def __init__(self, tuning: _Tuning) -> None:
        self.longs = [0] * (1 << tuning.long_bits)
        self.shorts = [0] * (1 << tuning.short_bits)
        self.prime, self.shift, self.long_mask = tuning.prime, tuning.shift, len(self.longs) - 1
        self.short_shift, self.short_mask = 32 - tuning.short_bits, len(self.shorts) - 1

    def choose(self, data: bytes, here: int, there: int, other: int) -> tuple[int, int] | None:
        """A place that starts a match and its counterpart, out of what the long and the short table say."""
        eight, four = data[here : here + 8], data[here : here + 4]
        if data[there : there + 8] == eight:
            return here, there
        if data[other : other + 8] == eight:
            return here, other
        if data[there : there + 4] == four:
            return here, there
        if data[other : other + 4] != four:
            return None
        # Only a short match, so perhaps there is a longer one from the next byte on.
        here += 1
        long = word_at(data, here)[0] * self.prime >> self.shift & self.long_mask
        there = self.longs[long]
        self.longs[long] = here
        return (here, there) if data[there : there + 4] == data[here : here + 4] else (here - 1, other)

    def remember(self, data: bytes, start: int, end: int) -> None:
        """Enter places within a match: both ends, and in the long table also every second place between."""
        longs, prime, shift, mask = self.longs, self.prime, self.shift, self.long_mask
        for place in (start + 1, end - 2):
            (word,) = word_at(data, place)
            longs[word * prime >> shift & mask] = place
            self.shorts[(word >> 8) * _PRIME_4 >> self.short_shift & self.short_mask] = place + 1
        # In two halves at once, as the library does: of places with the same hash, the last one stays.
        low = start + 2
        for high in range((start + end) // 2, end - 3, 2):
            longs[word_at(data, low)[0] * prime >> shift & mask] = low
            longs[word_at(data, high)[0] * prime >> shift & mask] = high
            low += 2
