"""Which rows share a Craft message, and how."""

from __future__ import annotations

from codec.craft.craft_messages import FLAG, counts, row, value_of
from tidewire.codec.craft import decode, encode, inspect
from tidewire.model import Column, Ddl, Event, MySQLType, RowChange, TableName, TableSchema, Watermark


def test_a_message_is_closed_after_the_row_that_crosses_the_limit() -> None:
    messages = list(encode([row(n) for n in range(1000)], max_message_bytes=256))

    assert counts(messages) == [5] * 200
    assert all(len(value_of(message)) + 36 <= 256 for message in messages)


def test_a_message_holds_no_more_rows_than_max_batch_size() -> None:
    assert counts(encode([row(n) for n in range(1000)], max_batch_size=64)) == [64] * 15 + [40]
    assert counts(encode([row(n) for n in range(5)], max_batch_size=2)) == [2, 2, 1]
    assert counts(encode([row(n) for n in range(17)])) == [16, 1]
    assert counts(encode([row()], max_message_bytes=1)) == [1]  # there is no "too large"


def test_rows_are_sent_before_a_ddl_or_watermark_overtakes_them() -> None:
    stream: list[Event] = [row(), row(), Watermark(1), row(), Ddl(TableName("s", ""), 2, "q", 1), row()]

    kinds = [[type(event) for event in decode(message)] for message in encode(stream)]

    assert kinds == [[RowChange] * 2, [Watermark], [RowChange], [Ddl], [RowChange]]


def test_commit_ts_may_go_back_within_a_message() -> None:
    events = [row(commit_ts=ts) for ts in (5, 3, 2**64 - 1, 0)]

    (message,) = encode(events)

    got = [event.commit_ts for event in decode(message) if isinstance(event, RowChange)]
    assert got == [5, 3, 2**64 - 1, 0]


def test_one_name_has_one_number_whatever_it_names() -> None:
    column = Column("x", MySQLType.INT, flags=FLAG(0x41))
    event = RowChange(TableSchema(TableName("x", "x"), (column,)), 1, after={"x": 1})

    (message,) = encode([event])

    terms = [field.meaning for field in inspect(message) if field.name.startswith("term 0")]
    assert terms == ["1 byte", "x"]
    assert not any(field.name.startswith("term 1") for field in inspect(message))
