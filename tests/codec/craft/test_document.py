"""The document's worked examples of Craft hold both ways."""

from __future__ import annotations

from typing import Any

from codec.craft.craft_messages import FLAG, T1, decoded, facts, value_of
from tidewire.codec import Options
from tidewire.codec.craft import decode, encode
from tidewire.model import Ddl, DdlType, Event, RowChange, TableName, Watermark

CREATE = "CREATE TABLE test.t1(id int primary key, val varchar(16))"
EXAMPLES: list[tuple[list[Event], dict[str, Any], str]] = [
    (
        [RowChange(T1, 415508878783938562, after={"id": 1, "val": "aa"})],
        {},
        """01 8280c087fbe38be205 01 01 00 02 01020402030f0b400204026161
        04 04020203 74657374 7431 6964 76616c 021a06 011a 011a 07""",
    ),
    (
        [
            RowChange(T1, 415508878783938562, after={"id": 2, "val": "bb"}),
            RowChange(T1, 415508881418485761, before={"id": 3, "val": None}, after={"id": 3, "val": "dd"}),
        ],
        {},
        """01 8280c087fbe38be205 ffff9fe809 0101 0100 0000 0200
        01020402030f0b400204046262 01020402030f0b400204066464 02020402030f0b40020106
        0404020203746573747431696476616c 022c0b 021a16 011a 021a03 0b""",
    ),
    (
        [Ddl(TableName("test", "t1"), 415508856908021766, CREATE, DdlType.CREATE_TABLE)],
        {},
        f"01 8680a0c8a9e38be205 02 01 00 02 03 39 {CREATE.encode().hex()} 02 0402 74657374 7431 021a07 0176 05",
    ),
    (
        [Ddl(TableName("test", ""), 415508856908021766, "CREATE DATABASE test", DdlType.CREATE_SCHEMA)],
        {},
        """01 8680a0c8a9e38be205 02 01 00 01 01 14 4352454154452044415441424153452074657374 01 04 74657374
        021a0d 012c 05""",
    ),
    (
        [Ddl(TableName("", ""), 415508856908021766, "", 0)],
        {},
        "01 8680a0c8a9e38be205 02 01 01 01 00 00 021a19 0104 05",
    ),
    (
        [Ddl(TableName("a", "b"), 424316555979653121, "create table a", 1)],
        {},
        """01 8180f0bb8db5def105 02 01 00 02 01 0e 6372656174652074 61626c652061 02 0101 61 62
        021a0f 0120 05""",
    ),
    ([Watermark(424316592563683329)], {}, "01 8180c0e095b6def105 03 01 01 01 021a19 0100 05"),
    (
        [RowChange(T1, 415508881418485761, before={"id": 1, "val": "aa"})],
        {"delete_only_output_handle_key_columns": True},
        """01 8180e0ef84e48be205 01 01 00 02 02 01 04 03 0b 02 02 03 04 02 02 74657374 7431 6964
        021a01 010e 010e 07""",
    ),
]


def test_the_worked_examples_hold_both_ways() -> None:
    for events, options, text in EXAMPLES:
        data = bytes.fromhex(text)

        (message,) = encode(events, **options)

        assert value_of(message).hex() == data.hex()
        got = decoded(data)
        assert [facts(event, Options()) for event in got] == [facts(event, Options(**options)) for event in events]


def test_watermarks_and_ddl_differ_in_their_numbers_only() -> None:
    for ts, head in (
        (424316594097225729, "8180e0bb9bb6def105"),
        (424316594214141953, "8180c0f39bb6def105"),
        (424316594345213953, "818080b29cb6def105"),
    ):
        (message,) = encode([Watermark(ts)])
        assert value_of(message).hex() == f"01{head}03010101021a19010005"
    for ts, code, head in (
        (424316583965360129, 1, "8180c0dcf5b5def105"),
        (424316586087940097, 2, "8180d0d0fdb5def105"),
        (424316588736118785, 3, "8180b0bf87b6def105"),
    ):
        query = f"create table {'abc'[code - 1]}"
        (message,) = encode([Ddl(TableName("a", "b"), ts, query, code)])
        body = f"{code:02x}0e{query.encode().hex()}"
        assert value_of(message).hex() == f"01{head}02010002{body}0201016162021a0f012005"


def test_the_documents_event_stream_passes_through() -> None:
    """The ``Examples of the Event stream output``, told there in Open Protocol."""
    insert = [RowChange(T1, 415508878783938562, after={"id": n, "val": val}) for n, val in ((1, "aa"), (2, "bb"))]
    third = RowChange(T1, 415508878783938562, after={"id": 3, "val": "cc"})
    stream: list[Event] = [
        Ddl(TableName("test", "t1"), 415508856908021766, CREATE, DdlType.CREATE_TABLE),
        Watermark(415508856908021766),
        *insert,
        *(third, third),
        RowChange(T1, 415508881418485761, before={"id": 1, "val": "aa"}),
        RowChange(T1, 415508881418485761, before={"id": 2, "val": "bb"}),
        RowChange(T1, 415508881418485761, before={"id": 3, "val": "cc"}, after={"id": 3, "val": "dd"}),
        RowChange(T1, 415508881418485761, after={"id": 4, "val": "ee"}),
        Watermark(415508881038376963),
    ]

    messages = list(encode(stream))

    assert len(messages) == 4  # DDL, watermark, all rows, watermark
    got = [facts(event, Options()) for message in messages for event in decode(message)]
    assert got == [facts(event, Options()) for event in stream]


def test_the_documents_flags_read_as_it_says() -> None:
    assert FLAG(85) == FLAG.NULLABLE | FLAG.UNIQUE_KEY | FLAG.GENERATED | FLAG.BINARY
    assert FLAG(46) == FLAG.MULTIPLE_KEY | FLAG.PRIMARY_KEY | FLAG.GENERATED | FLAG.HANDLE_KEY
