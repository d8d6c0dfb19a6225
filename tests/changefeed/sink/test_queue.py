"""Changes to messages: who gets what, in which order, what shares a message, and when schemas are due."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from changefeed.pieces import SetClock, create, delete, insert, table, update
from tidewire.changefeed.config.settings import BootstrapSettings
from tidewire.changefeed.sink.base import MemoryQueue
from tidewire.changefeed.sink.queue import CHECK_SECONDS, SILENT_SECONDS, Bootstraps, Due, QueueSink
from tidewire.codec import Options, Resources, protocol
from tidewire.codec.claim_check import MemoryStore
from tidewire.codec.options import Compression, LargeMessage
from tidewire.dispatch.router import Dispatch, DispatchRule
from tidewire.errors import MessageTooLarge
from tidewire.model import Bootstrap, Ddl, Event, Message, RowChange, TableName, Watermark
from tidewire.registry import MemoryRegistry

BY_KEY = DispatchRule(("*.*",), partition="index-value")
OPTIONS = Options(enable_tidb_extension=True)
ALWAYS = BootstrapSettings(enabled=True)


def sink_of(
    name: str,
    queue: MemoryQueue,
    rules: Iterable[DispatchRule] = (),
    options: Options = OPTIONS,
    resources: Resources = Resources(),
    bootstrap: BootstrapSettings = BootstrapSettings(),
    clock: SetClock | None = None,
) -> QueueSink:
    return QueueSink(
        queue, Dispatch("feed", rules, protocol=name), options, resources, bootstrap, clock=clock or SetClock()
    )


def decoded(name: str, messages: Iterable[Message], resources: Resources = Resources()) -> list[Event]:
    decoder = protocol(name).Decoder(OPTIONS, resources)
    return [event for message in messages for event in decoder.decode(message)]


@pytest.mark.parametrize(("name", "partitions"), [("canal-json", 1), ("open-protocol", 3), ("craft", 3), ("simple", 3)])
def test_a_statement_is_safe_at_once_where_the_protocol_tells_it(name: str, partitions: int) -> None:
    queue = MemoryQueue(3)

    sink_of(name, queue).ddl(create(table(), 7))

    heard = [number for number, messages in enumerate(queue.topics["feed"]) if messages]
    assert heard == list(range(partitions))
    assert all(isinstance(event, Ddl) for event in decoded(name, queue.topics["feed"][0]))
    assert queue.flushed == {("feed", number): int(number < partitions) for number in range(3)}


def test_avro_tells_no_statements_and_no_watermarks() -> None:
    queue = MemoryQueue(3)
    sink = sink_of("avro", queue, [DispatchRule(("*.*",), "{schema}_{table}")])

    sink.ddl(create(table(), 7))
    sink.watermark(9, [table().name])

    assert not any(messages for partitions in queue.topics.values() for messages in partitions)


def test_a_rename_goes_to_the_topic_of_the_old_name() -> None:
    queue = MemoryQueue(1)
    sink = sink_of("open-protocol", queue, [DispatchRule(("*.*",), "{table}")])

    sink.ddl(Ddl(TableName("test", "new"), 7, "RENAME TABLE old TO new", 14, old_name=TableName("test", "old")))

    assert queue.topics.keys() == {"old"}


def test_a_watermark_goes_to_the_topics_of_tables_and_then_to_the_default_topic() -> None:
    queue = MemoryQueue(2)
    sink = sink_of("canal-json", queue, [DispatchRule(("test.*",), "{table}")])

    sink.watermark(9, [TableName("test", "b"), TableName("test", "a"), TableName("other", "c")])

    assert list(queue.topics) == ["b", "a", "feed"]
    for partitions in queue.topics.values():
        assert [decoded("canal-json", messages) for messages in partitions] == [[Watermark(9)], [Watermark(9)]]


def test_rows_of_a_partition_keep_their_order() -> None:
    queue = MemoryQueue(3)
    changes = [insert(number, 10 + number) for number in range(30)]

    sink_of("canal-json", queue, [BY_KEY]).rows(changes)

    assert all(queue.topics["feed"])
    for messages in queue.topics["feed"]:
        times = [event.commit_ts for event in decoded("canal-json", messages) if isinstance(event, RowChange)]
        assert times == sorted(times, key=lambda ts: ts or 0)
    assert sum(map(len, queue.topics["feed"])) == 30


@pytest.mark.parametrize("name", ["open-protocol", "craft"])
def test_only_rows_with_the_same_partition_key_share_a_message(name: str) -> None:
    one, other = table("one", table_id=1), table("other", table_id=2)
    changes = [insert(number, 10, one if number % 2 else other) for number in range(6)]
    queue, by_key = MemoryQueue(1), MemoryQueue(1)

    sink_of(name, queue).rows(changes)
    sink_of(name, by_key, [BY_KEY]).rows([insert(1, 10), insert(2, 10), update(1, 1, 11)])

    tables = [{event.table.name for event in decoded(name, [message])} for message in queue.topics["feed"][0]]  # type: ignore[union-attr]
    assert tables == [{other.name}, {one.name}]
    assert [len(decoded(name, [message])) for message in by_key.topics["feed"][0]] == [2, 1]


def test_a_message_holds_no_more_rows_than_it_may() -> None:
    queue = MemoryQueue(1)

    sink_of("open-protocol", queue, options=Options(max_batch_size=4)).rows([insert(number, 10) for number in range(9)])

    assert [len(decoded("open-protocol", [message])) for message in queue.topics["feed"][0]] == [4, 4, 1]


def test_a_schema_comes_before_the_first_row_in_every_partition() -> None:
    queue = MemoryQueue(3)

    sink_of("simple", queue, [BY_KEY], bootstrap=ALWAYS).rows([insert(number, 10) for number in range(20)])

    for messages in queue.topics["feed"]:
        first, *rest = decoded("simple", messages)
        assert isinstance(first, Bootstrap)
        assert all(isinstance(event, RowChange) for event in rest)


def test_a_schema_can_be_told_to_the_first_partition_only() -> None:
    queue = MemoryQueue(3)
    first_only = BootstrapSettings(to_all_partitions=False, enabled=True)

    sink_of("simple", queue, bootstrap=first_only).rows([insert(1, 10)])

    assert isinstance(decoded("simple", queue.topics["feed"][0][:1])[0], Bootstrap)
    assert sum(map(len, queue.topics["feed"])) == 2


def test_all_schemas_can_be_told_at_the_start() -> None:
    queue = MemoryQueue(2)
    sink = sink_of("simple", queue, bootstrap=BootstrapSettings(all_at_start=True, enabled=True))

    sink.begin([table("one", table_id=1), table("other", table_id=2)])

    for messages in queue.topics["feed"]:
        names = [event.table_schema.name.table for event in decoded("simple", messages) if isinstance(event, Bootstrap)]
        assert names == ["one", "other"]


def test_a_schema_is_repeated_even_if_only_watermarks_come() -> None:
    queue, clock = MemoryQueue(1), SetClock()
    sink = sink_of("simple", queue, bootstrap=ALWAYS, clock=clock)
    sink.rows([insert(1, 10)])

    clock.now = 120 + CHECK_SECONDS
    sink.watermark(11, [])

    kinds = [type(event) for event in decoded("simple", queue.topics["feed"][0])]
    assert kinds == [Bootstrap, RowChange, Bootstrap, Watermark]


@pytest.mark.parametrize("name", ["simple", "canal-json"])
def test_without_bootstrap_no_schema_is_told(name: str) -> None:
    queue = MemoryQueue(1)

    sink_of(name, queue, bootstrap=BootstrapSettings(all_at_start=True, enabled=name != "simple")).rows([insert(1, 10)])

    assert len(queue.topics["feed"][0]) == 1


def test_avro_registers_schemas_under_the_topic_of_each_table() -> None:
    queue, registry = MemoryQueue(1), MemoryRegistry()
    rules = [DispatchRule(("*.*",), "cdc_{schema}_{table}")]

    sink_of("avro", queue, rules, resources=Resources(registry=registry)).rows(
        [insert(1, 10, table("one")), delete(1, 11, table("other"))]
    )

    assert queue.topics.keys() == {"cdc_test_one", "cdc_test_other"}
    assert {"cdc_test_one-key", "cdc_test_one-value", "cdc_test_other-key"} <= registry.subjects.keys()


def test_large_rows_are_refused_or_made_small_or_kept_elsewhere() -> None:
    large = insert(1, 10, name="x" * 2000)
    limit = Options(enable_tidb_extension=True, max_message_bytes=600)
    with pytest.raises(MessageTooLarge):
        sink_of("canal-json", MemoryQueue(1), options=limit).rows([large])

    for option, packing in (("handle-key-only", "none"), ("claim-check", "lz4")):
        queue, store = MemoryQueue(1), MemoryStore()
        resources = Resources(claim_check=store)
        options = Options(
            enable_tidb_extension=True,
            max_message_bytes=600,
            large_message_handle_option=LargeMessage(option),
            large_message_handle_compression=Compression(packing),
            claim_check_storage_uri="file:///parts",
        )
        noisy = insert(1, 10, name="".join(chr(0x4E00 + number * 37 % 20000) for number in range(1000)))

        sink_of("canal-json", queue, options=options, resources=resources).rows([noisy])

        decoder = protocol("canal-json").Decoder(options, resources)
        (event,) = [event for message in queue.topics["feed"][0] for event in decoder.decode(message)]
        assert isinstance(event, RowChange)
        assert event.after == ({"id": 1} if option == "handle-key-only" else noisy.after)
        assert bool(store.blobs) == (option == "claim-check")


SETTINGS = BootstrapSettings(interval_seconds=120, message_count=10, enabled=True)


def test_only_the_first_row_of_a_table_asks_for_its_schema() -> None:
    bootstraps, one, other = Bootstraps(SETTINGS, SetClock()), table("one", table_id=1), table("other", table_id=2)

    assert bootstraps.note(one, "topic") == Due("topic", one)
    assert bootstraps.note(one, "topic") is None
    assert bootstraps.note(other, "topic") == Due("topic", other)


def test_a_schema_is_due_again_after_the_interval_and_looked_for_every_few_seconds() -> None:
    clock = SetClock()
    bootstraps = Bootstraps(SETTINGS, clock)
    bootstraps.note(table(), "topic")

    clock.now = 119
    assert list(bootstraps.again()) == []
    clock.now = 121
    assert list(bootstraps.again()) == []  # it looked two seconds ago
    clock.now = 119 + CHECK_SECONDS
    assert list(bootstraps.again()) == [Due("topic", table())]
    clock.now += CHECK_SECONDS
    assert list(bootstraps.again()) == []


def test_a_schema_is_due_again_after_so_many_rows() -> None:
    clock = SetClock()
    bootstraps = Bootstraps(SETTINGS, clock)
    bootstraps.note(table(), "topic", rows=9)
    clock.now = CHECK_SECONDS
    assert list(bootstraps.again()) == []

    bootstraps.note(table(), "topic")
    clock.now += CHECK_SECONDS

    assert list(bootstraps.again()) == [Due("topic", table())]


def test_a_table_that_was_silent_begins_anew() -> None:
    clock = SetClock()
    bootstraps = Bootstraps(SETTINGS, clock)
    bootstraps.note(table(), "topic")

    clock.now = SILENT_SECONDS
    assert list(bootstraps.again()) == []

    assert bootstraps.note(table(), "topic") == Due("topic", table())


def test_after_a_statement_the_new_schema_is_told_and_the_old_topic_is_remembered() -> None:
    clock = SetClock()
    bootstraps = Bootstraps(SETTINGS, clock)
    old, new = table("old"), table("new", version=9)
    bootstraps.note(old, "old")

    bootstraps.changed(new)
    bootstraps.note(new, "new")
    bootstraps.changed(replace(table("unknown"), table_id=7))
    clock.now = 130

    assert list(bootstraps.again()) == [Due("old", new)]
