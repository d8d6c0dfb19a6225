"""Craft messages that lie, are cut short or corrupted are refused, and take little memory."""

from __future__ import annotations

import pickle
import random
import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st

from codec.craft.craft_messages import Group, covered, decoded, message_of, refusal, value_of
from tidewire.codec.craft import decode, inspect
from tidewire.codec.craft.varint import reversed_uvarint, uvarint, varint
from tidewire.errors import DecodeError
from tidewire.model import Message
from vector_files import sample

LIES: list[tuple[str, bytes]] = [
    ("truncated integer", b""),
    ("version 0", message_of(Group(), version=b"\0")),
    ("an integer of more than 64 bits", message_of(Group(), version=b"\xff" * 9 + b"\2")),
    # the size tables
    ("length of the size tables: truncated", b"\1\x80\x80"),
    ("length of the size tables: an integer of more than 64 bits", b"\1" + b"\xff" * 12),
    ("99 bytes of size tables in a message of 28", message_of(Group(), end=b"\x63")),
    ("bytes of size tables in a message of", message_of(Group(), end=reversed_uvarint(2**64 - 1))),
    ("truncated integer", message_of(Group(), tables=b"")),
    ("no sizes of header and dictionary", message_of(Group(), tables=b"\0")),
    ("1 sizes of header and dictionary, 2 were expected", message_of(Group(), sizes=[[5], [14], [14]])),
    ("3 sizes of header and dictionary, 2 were expected", message_of(Group(), sizes=[[5, 7, 0], [7], [7]])),
    ("a size of -1 bytes in the sizes of header", message_of(Group(), sizes=[[5, -1], [15], [15]])),
    (f"{2**64 - 1} sizes of header and dictionary", message_of(Group(), tables=uvarint(2**64 - 1) + b"\2\2")),
    ("1000000 sizes of events, but 1 bytes are left", message_of(Group(), tables=b"\2\x0a\4" + uvarint(10**6) + b"\2")),
    ("no sizes of events", message_of(Group(), tables=b"\2\x0a\4\0")),
    (f"sizes of {2**62 + 12} bytes together, but the sections have 19", message_of(Group(), sizes=[[5, 7], [2**62]])),
    ("sizes of 20 bytes together, but the sections have 19", message_of(Group(), sizes=[[5, 8], [7], [7]])),
    ("sizes of 18 bytes together, but the sections have 19", message_of(Group(), sizes=[[5, 7], [6], [6]])),
    ("column groups of 8 bytes in an event of 7", message_of(Group(), sizes=[[5, 7], [7], [8]])),
    ("column groups of 6 bytes in an event of 7", message_of(Group(), sizes=[[5, 7], [7], [6]])),
    ("a size of -1 bytes in the sizes of column groups", message_of(Group(), sizes=[[5, 7], [7], [8, -1]])),
    ("no sizes of column groups of event 0", message_of(Group(), tables=b"\2\x0a\4\1\x0e\0")),
    ("more size tables than events", message_of(Group(), sizes=[[5, 7], [7], [7], [7]])),
    ("no size table for the column groups of event 0", message_of(Group(), sizes=[[5, 7], [7]])),
    # the header
    ("a header of 5 bytes for 2 events", message_of(Group(), sizes=[[5, 7], [7, 0], [7]])),
    ("1 bytes more than the header needs", message_of(Group(), header=b"\1\1\1\0\2\0")),
    ("truncated integer", message_of(Group(), header=b"\1\1\1\0\x80")),
    ("an integer of more than 64 bits", message_of(Group(), header=b"\xff" * 10 + b"\1\1\0\2")),
    ("4 is no event type", message_of(Group(), header=b"\1\4\1\0\2")),
    ("0 is no event type", message_of(Group(), header=b"\1\0\1\0\2")),
    ("term 3 of a dictionary of 3", message_of(Group(), header=b"\1\1\1\0\6")),
    ("term -2 of a dictionary of 3", message_of(Group(), header=b"\1\1\1\3\2")),
    # the dictionary
    ("no terms", message_of(Group(), terms=b"\0")),
    ("100 terms, but 6 bytes are left", message_of(Group(), terms=b"\x64\1\1\1stc")),
    ("a length of 4294967295 bytes, but 3 are left", message_of(Group(), terms=b"\1\xff\xff\xff\xff\x0fstc")),
    ("2 bytes more than the term dictionary needs", message_of(Group(), terms=b"\3\1\1\1stcxx")),
    ("term 2 is not UTF-8", message_of(Group(), terms=b"\3\1\1\1st\xff")),
    # a row
    ("a row with neither new nor old columns", message_of(b"\x09?!")),
    ("a length of 1 bytes, but 0 are left", message_of(Group(), b"")),
    ("no columns", message_of(Group(count=0))),
    ("1000 columns, but 5 bytes are left", message_of(Group(count=1000))),
    ("2 columns, but 5 bytes are left", message_of(Group(count=2))),
    ("term 9 of a dictionary of 3", message_of(Group(names=[9]))),
    ("term -1 of a dictionary of 3", message_of(Group(names=[-1]))),
    ("column c is there twice", message_of(Group(names=[2, 2], types=[3, 3], flags=[0, 0], values=[b"\2", b"\2"]))),
    ("column c: 17 is no column type", message_of(Group(types=[17]))),
    ("column c: 300 is no column type", message_of(Group(types=[300]))),
    ("column c: 0x100 are no column flags", message_of(Group(flags=[0x100]))),
    ("1 bytes more than the column group needs", message_of(Group(tail=b"!"))),
    ("a length of -2 bytes", message_of(b"\1\1\4\3\0" + varint(-2) + b"\2")),
    ("a length of 3 bytes, but 1 are left", message_of(b"\1\1\4\3\0" + varint(3) + b"\2")),
    ("bytes, but 1 are left", message_of(b"\1\1\4\3\0" + varint(2**63 - 1) + b"\2")),
    # its values
    ("column c (int): truncated integer", message_of(Group(values=[b""]))),
    ("column c (int): truncated integer", message_of(Group(values=[b"\x80"]))),
    ("column c (int): an integer of more than 64 bits", message_of(Group(values=[b"\xff" * 9 + b"\2"]))),
    ("column c (int): 1 bytes more than the integer needs", message_of(Group(values=[b"\2\2"]))),
    ("column c (bit): truncated integer", message_of(Group(types=[16], values=[b""]))),
    ("column c (float): 4 bytes, 8 were expected", message_of(Group(types=[4], values=[b"abcd"]))),
    ("column c (double): 9 bytes, 8 were expected", message_of(Group(types=[5], values=[b"abcdefghi"]))),
    ("column c (decimal): '1e5' is not a decimal number", message_of(Group(types=[246], values=[b"1e5"]))),
    ("column c (date): not UTF-8", message_of(Group(types=[10], values=[b"\xff"]))),
    ("column c (json): not UTF-8", message_of(Group(types=[245], values=[b"\xff"]))),
    # a DDL and a watermark
    ("a length of 9 bytes, but 1 are left", message_of(b"\1\x09q", kind=2)),
    ("1 bytes more than the DDL needs", message_of(b"\1\1qq", kind=2)),
    ("the query is not UTF-8", message_of(b"\1\1\xff", kind=2)),
    ("truncated integer", message_of(b"\1", kind=2)),
    ("1 bytes more than the watermark needs", message_of(b"!", kind=3)),
]


def test_lies_are_refused_with_their_place() -> None:
    for reason, data in LIES:
        error = refusal(data)

        assert reason in error.reason, data.hex()
        assert isinstance(error.at, int)
        assert 0 <= error.at <= len(data)
        assert f"at byte {error.at}" in str(error)
        assert pickle.loads(pickle.dumps(error)).args == error.args
    assert refusal(None).reason == "no value"


def test_a_broken_message_is_shown_as_far_as_it_can_be_read() -> None:
    for reason, data in LIES:
        fields = list(inspect(Message(None, data)))

        assert covered(fields) == data
        assert [field.name for field in fields].count("?") == 1
        assert fields[-1].name == "?"
        assert reason in fields[-1].meaning
    (*known, last) = inspect(Message(None, message_of(Group(types=[17]))))
    assert (known[-1].name, last.offset) == ("event 0 new.c name", 9)


def test_counts_are_checked_before_they_are_believed() -> None:
    huge = uvarint(2**40)
    lies = [
        message_of(Group(), terms=huge + b"\1\1stc"),
        message_of(b"\1" + huge + b"\4\3\0\2\2"),
        message_of(Group(), tables=huge + b"\2\2"),
        message_of(Group(), tables=b"\2\x0a\4" + huge),
        message_of(b"\1" + huge + b"q", kind=2),
        message_of(b"\1\1\4\x0f\0" + varint(2**40)),
    ]
    tracemalloc.start()
    try:
        for data in lies:
            refusal(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 1 << 20


def test_every_truncation_is_refused() -> None:
    for line in sample("craft", 10):
        data = value_of(line.message)
        for cut in range(0, len(data), 1 if len(data) < 1500 else 5):
            error = refusal(data[:cut])
            assert isinstance(error.at, int), line.id


def test_corruption_is_refused_or_decodes_and_takes_little_memory() -> None:
    chance = random.Random(20261116)
    lines = sample("craft", 10)
    refused = 0
    tracemalloc.start()
    try:
        for _ in range(3000):
            data = bytearray(value_of(chance.choice(lines).message))
            for _ in range(chance.randint(1, 4)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            message = Message(None, bytes(data))
            try:
                list(decode(message))
            except DecodeError:
                refused += 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 16 << 20
    assert 1000 < refused < 3000


@settings(max_examples=200, deadline=None)
@given(value=st.binary(max_size=120))
def test_any_bytes_decode_or_are_refused(value: bytes) -> None:
    for data in (value, b"\1" + value, message_of(value), message_of(Group(), terms=value), message_of(value, kind=2)):
        try:
            decoded(data)
        except DecodeError as error:
            assert str(error).startswith("craft: ")
