"""The inspection of Craft messages covers every byte and says what it is."""

from __future__ import annotations

import random

from codec.craft.craft_messages import FILES, T1, covered, value_of
from tidewire.codec.craft import decode, encode, inspect
from tidewire.errors import DecodeError
from tidewire.model import Message, RowChange
from vector_files import sample, vectors


def test_inspection_covers_every_byte() -> None:
    for file in FILES:
        for line in vectors("craft", file)[::3]:
            fields = list(inspect(line.message))
            assert covered(fields) == value_of(line.message), line.id
            assert all(field.data and field.name != "?" for field in fields), line.id


def test_inspection_says_what_each_byte_is() -> None:
    (message,) = encode([RowChange(T1, 415508878783938562, after={"id": 1, "val": None})])

    assert [(field.offset, field.data.hex(), field.name, field.meaning) for field in inspect(message)] == [
        (0, "01", "version", "1"),
        (1, "8280c087fbe38be205", "event 0 commit ts", "415508878783938562, 2020-03-24 09:03:03.740000 UTC"),
        (10, "01", "event 0 type", "ROW"),
        (11, "01", "event 0 partition", "none"),
        (12, "00", "event 0 schema", "test"),
        (13, "02", "event 0 table", "t1"),
        (14, "01", "event 0 new group", "columns NEW"),
        (15, "02", "event 0 new column count", "2"),
        (16, "04", "event 0 new.id name", "term 2"),
        (17, "02", "event 0 new.val name", "term 3"),
        (18, "03", "event 0 new.id type", "INT"),
        (19, "0f", "event 0 new.val type", "VARCHAR"),
        (20, "0b", "event 0 new.id flags", "BINARY HANDLE_KEY PRIMARY_KEY"),
        (21, "40", "event 0 new.val flags", "NULLABLE"),
        (22, "02", "event 0 new.id length", "1 byte"),
        (23, "01", "event 0 new.val length", "NULL"),
        (24, "02", "event 0 new.id value", "1"),
        (25, "04", "dictionary count", "4 terms"),
        (26, "04", "term 0 length", "4 bytes"),
        (27, "02", "term 1 length", "2 bytes"),
        (28, "02", "term 2 length", "2 bytes"),
        (29, "03", "term 3 length", "3 bytes"),
        (30, "74657374", "term 0", "test"),
        (34, "7431", "term 1", "t1"),
        (36, "6964", "term 2", "id"),
        (38, "76616c", "term 3", "val"),
        (41, "02", "size table of header and dictionary", "2 sizes"),
        (42, "1a", "size 0 of header and dictionary", "13 bytes"),
        (43, "06", "size 1 of header and dictionary", "16 bytes"),
        (44, "01", "size table of events", "1 sizes"),
        (45, "16", "size 0 of events", "11 bytes"),
        (46, "01", "size table of groups of event 0", "1 sizes"),
        (47, "16", "size 0 of groups of event 0", "11 bytes"),
        (48, "07", "length of size tables", "7 bytes, read from the end"),
    ]


def test_inspection_of_corrupted_messages_covers_them_and_agrees_with_the_decoder() -> None:
    chance = random.Random(7)
    lines = [line for line in sample("craft", 10) if len(value_of(line.message)) < 800]
    for _ in range(600):
        data = bytearray(value_of(chance.choice(lines).message))
        data[chance.randrange(len(data))] = chance.randrange(256)
        message = Message(None, bytes(data))
        try:
            reason = None if list(decode(message)) else ""
        except DecodeError as error:
            reason = error.reason

        fields = list(inspect(message))

        assert covered(fields) == data
        assert (fields[-1].meaning if fields[-1].name == "?" else None) == reason
