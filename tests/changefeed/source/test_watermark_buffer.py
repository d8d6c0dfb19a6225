"""Late and repeated events come out once and in order, whatever way they come in."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from changefeed.pieces import create, delete, insert, table, update
from tidewire.changefeed.source.watermark_buffer import Partition, WatermarkBuffer
from tidewire.model import Ddl, DdlType, Event, Position, RowChange, Watermark

ONE, OTHER = Partition("feed", 0), Partition("feed", 1)


def told(buffer: WatermarkBuffer, partition: Partition, *events: Event, offset: int = 0) -> None:
    for number, event in enumerate(events, offset):
        buffer.take(Position(partition.topic, partition.number, number), event)


def test_nothing_comes_out_before_every_partition_has_told_a_watermark() -> None:
    buffer = WatermarkBuffer()
    buffer.expect([ONE, OTHER])
    told(buffer, ONE, insert(1, 10), Watermark(12))
    assert list(buffer.release()) == []

    told(buffer, OTHER, insert(2, 9), insert(3, 11), Watermark(10))

    assert list(buffer.release()) == [insert(2, 9), insert(1, 10)]
    assert buffer.released == 10
    assert buffer.first_held() == {OTHER: 1}
    assert list(buffer.release()) == []


def test_a_statement_comes_after_the_rows_of_its_moment_and_once() -> None:
    ddl = Ddl(table().name, 10, "ALTER TABLE t COMMENT 'x'", DdlType.MODIFY_TABLE_COMMENT)
    buffer = WatermarkBuffer()
    buffer.expect([ONE, OTHER])

    told(buffer, ONE, ddl, insert(1, 11), Watermark(11))
    told(buffer, OTHER, insert(2, 10), ddl, Watermark(11))

    assert list(buffer.release()) == [insert(2, 10), ddl, insert(1, 11)]


def test_deletes_come_before_inserts_of_the_same_moment() -> None:
    buffer = WatermarkBuffer()
    told(buffer, ONE, insert(1, 10), update(3, 3, 10), delete(1, 10), Watermark(10))

    assert list(buffer.release()) == [delete(1, 10), update(3, 3, 10), insert(1, 10)]


def test_what_was_let_through_does_not_come_again() -> None:
    buffer = WatermarkBuffer()
    told(buffer, ONE, create(table(), 9), insert(1, 10), Watermark(10))
    assert len(list(buffer.release())) == 2

    told(
        buffer,
        ONE,
        Watermark(5),
        create(table(), 9),
        insert(1, 10),
        insert(2, 11),
        insert(2, 11),
        Watermark(11),
        offset=3,
    )

    assert list(buffer.release()) == [insert(2, 11)]


def test_a_topic_that_is_out_of_use_holds_nothing_up_once_it_is_read() -> None:
    gone = Partition("dropped", 0)
    buffer = WatermarkBuffer()
    buffer.expect([ONE, gone])
    told(buffer, gone, insert(1, 9, table("dropped")), Watermark(10))
    told(buffer, ONE, Watermark(10), insert(2, 11), Watermark(12))
    assert list(buffer.release(lambda topic: True)) == [insert(1, 9, table("dropped"))]  # its turn may still come

    told(buffer, ONE, insert(3, 13), Watermark(14))

    assert list(buffer.release(lambda topic: False)) == []
    assert list(buffer.release(lambda topic: True)) == [insert(2, 11), insert(3, 13)]


@given(st.data())
def test_whatever_is_repeated_the_order_is_that_of_commits(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 25))
    rows = [insert(number, 10 + number // 2) for number in range(count)]
    homes = data.draw(st.lists(st.sampled_from([ONE, OTHER]), min_size=count, max_size=count))
    buffer, found = WatermarkBuffer(), list[Any]()
    buffer.expect([ONE, OTHER])
    start = 0
    while start < count:
        back = data.draw(st.integers(0, start), label="begin again at")
        end = data.draw(st.integers(start + 1, count), label="send until")
        for row, home in zip(rows[back:end], homes[back:end], strict=True):
            told(buffer, home, row)
        moment = rows[end - 1].commit_ts or 0
        safe = moment if end == count or (rows[end].commit_ts or 0) > moment else moment - 1
        for home in (ONE, OTHER):
            told(buffer, home, Watermark(safe))
        found += buffer.release()
        start = end

    assert sorted(found, key=lambda row: row.after["id"]) == rows
    times = [row.commit_ts for row in found]
    assert times == sorted(times)
    assert all(isinstance(row, RowChange) for row in found)
