"""Compression of values.

``data/compression.json.gz`` has every compressed blob of the reference vectors (scenario ``types`` of four protocols),
which TiCDC's encoders made.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
import tracemalloc
from contextlib import suppress
from pathlib import Path

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewire.codec import compression
from tidewire.codec.compression import compress, decompress
from tidewire.codec.options import Compression
from tidewire.errors import MissingExtra

LZ4, SNAPPY = Compression.LZ4, Compression.SNAPPY
KNOWN = json.loads(gzip.decompress((Path(__file__).parent / "data" / "compression.json.gz").read_bytes()))
MIB = 1024 * 1024

both = pytest.mark.parametrize("how", [LZ4, SNAPPY])


def noise(length: int) -> bytes:
    return hashlib.shake_128(b"tidewire").digest(length)


def rows(length: int) -> bytes:
    lines = (f'{{"id":{i},"name":"user{i * 7919 % 99991}","sum":"{i * 104729 % 1000003}.00"}}\n' for i in range(4000))
    return "".join(lines).encode()[:length]


@both
def test_what_ticdc_packed_comes_back(how: Compression) -> None:
    for packed in map(bytes.fromhex, KNOWN[how]):
        data = decompress(packed, how)

        assert decompress(compress(data, how), how) == data


# There and back


@both
@given(pieces=st.lists(st.tuples(st.binary(max_size=40), st.integers(1, 60)), max_size=20))
def test_round_trip(how: Compression, pieces: list[tuple[bytes, int]]) -> None:
    data = b"".join(piece * times for piece, times in pieces)
    assert decompress(compress(data, how), how) == data


def test_none_leaves_data_alone() -> None:
    assert compress(b"data", Compression.NONE) == decompress(b"data", Compression.NONE) == b"data"


def test_lz4_of_other_libraries() -> None:
    data = rows(100000)
    assert decompress(lz4.frame.compress(data), LZ4) == data
    assert decompress(lz4.frame.compress(data, block_linked=False, block_checksum=True, store_size=False), LZ4) == data


# Refused


@both
@pytest.mark.parametrize("data", [b"", noise(50), rows(200), rows(600), bytes(700)], ids=lambda data: f"{len(data)}")
def test_truncation(how: Compression, data: bytes) -> None:
    packed = compress(data, how)
    for length in range(len(packed)):
        with pytest.raises(ValueError, match=r"truncated|corrupt|at most|not an LZ4 frame"):
            decompress(packed[:length], how)


@both
@pytest.mark.parametrize("more", [b"\x00", b"more", compress(b"again", SNAPPY), compress(b"again", LZ4)])
@pytest.mark.parametrize("data", [b"", rows(600)], ids=["empty", "rows"])
def test_trailing_bytes(how: Compression, data: bytes, more: bytes) -> None:
    with pytest.raises(ValueError, match=r"follow the LZ4 frame|snappy block is corrupt|at most"):
        decompress(compress(data, how) + more, how)


def test_lz4_corruption() -> None:
    """Only an offset can change without harm, to another place with the same bytes."""
    data = rows(600)
    packed = compress(data, LZ4)
    harmless = 0
    for at in range(len(packed)):
        for flip in (0x01, 0x80, 0xFF):
            corrupt = bytearray(packed)
            corrupt[at] ^= flip
            with suppress(ValueError):
                assert decompress(bytes(corrupt), LZ4) == data
                harmless += 1
    assert harmless == 2


def test_lz4_frame_to_be_skipped() -> None:
    with pytest.raises(ValueError, match="not an LZ4 frame"):
        decompress(bytes.fromhex("502a4d18 04000000 00000000"), LZ4)


@both
@given(start=st.binary(max_size=3), noise=st.binary(max_size=60), at=st.integers(0, 60))
def test_nothing_but_value_errors(how: Compression, start: bytes, noise: bytes, at: int) -> None:
    """Neither for arbitrary bytes nor for valid ones that were overwritten."""
    packed = compress(b"abcdefgh" * 12 + start, how)
    for data in (noise, packed[:at] + noise + packed[at + len(noise) :]):
        with suppress(ValueError):
            decompress(data, how)


@pytest.mark.parametrize(
    "packed",
    [
        bytes.fromhex("ffffffff0f 00 61"),  # 4 GiB - 1
        bytes.fromhex("ffffffff7f 00 61"),  # 32 GiB - 1
        bytes.fromhex("ffffffffff 01 00 61"),  # more than five bytes
        bytes.fromhex("2b 00 61"),  # 43 bytes in two
        bytes.fromhex("01"),
    ],
    ids=lambda packed: packed.hex(),
)
def test_snappy_length_that_cannot_be(packed: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cramjam.snappy.decompress_raw", None)  # It would take the memory: it must not be asked.
    with pytest.raises(ValueError, match=r"at most|too large"):
        decompress(packed, SNAPPY)


def test_snappy_at_its_densest() -> None:
    copy = bytes.fromhex("fe0100")  # 64 bytes from one byte before
    packed = bytes.fromhex("818004 0061") + copy * 1024
    assert decompress(packed, SNAPPY) == b"a" * 65537


@both
def test_largest(how: Compression, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "LARGEST", 5 * MIB)
    assert decompress(compress(bytes(5 * MIB), how), how) == bytes(5 * MIB)
    with pytest.raises(ValueError, match=r"more than|at most"):
        decompress(compress(bytes(5 * MIB + 1), how), how)


def test_lz4_bomb_takes_little_memory() -> None:
    header, end = 7, 8
    packed = compress(bytes(4 * MIB), LZ4)
    bomb = packed[:header] + packed[header:-end] * 33
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="more than 134217728 bytes"):
            decompress(bomb, LZ4)
        assert tracemalloc.get_traced_memory()[1] < 140 * MIB
    finally:
        tracemalloc.stop()


def test_lz4_length_that_is_not_true() -> None:
    tracemalloc.start()
    try:
        for header_checksum in range(256):  # One of them is right.
            packed = bytes.fromhex("04224d18 6c70 ffffffffffffff7f") + bytes([header_checksum]) + bytes(8)
            with pytest.raises(ValueError, match="LZ4 frame is corrupt"):
                decompress(packed, LZ4)
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("how", "module", "package"), [(LZ4, "lz4.frame", "lz4"), (SNAPPY, "cramjam", "cramjam")])
def test_missing_package(how: Compression, module: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = compress(b"data", how)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra) as refused:
        decompress(packed, how)
    assert refused.value.args == (package, "compression")
