"""Who hears of DDL, watermarks and BOOTSTRAP, protocol by protocol."""

from __future__ import annotations

import pytest

from tidewire.codec import Options
from tidewire.dispatch import Address, Broadcast, Dispatch, DispatchRule
from tidewire.model import Ddl, DdlType, TableName

A, B = TableName("s", "a"), TableName("s", "b")
COUNTS = {"feed": 2, "s_a": 3, "s_b": 4}
EXTENDED = Options(enable_tidb_extension=True)


def broadcast(protocol: str, options: Options = Options(), **settings: bool) -> Broadcast:
    dispatch = Dispatch("feed", [DispatchRule(("s.a", "s.b"), "{schema}_{table}")])
    return Broadcast(dispatch, protocol, options, **settings)


def count_of(topic: str) -> int:
    return COUNTS[topic]


def everywhere(*topics: str) -> tuple[Address, ...]:
    return tuple(Address(topic, number) for topic in topics for number in range(COUNTS[topic]))


@pytest.mark.parametrize(
    ("protocol", "partitions"),
    [("open-protocol", 3), ("craft", 3), ("simple", 3), ("canal-json", 1), ("avro", 0)],
)
def test_a_statement_reaches_the_partitions_of_its_tables_topic(protocol: str, partitions: int) -> None:
    ddl = Ddl(A, 5, "ALTER TABLE a ADD c INT", DdlType.ADD_COLUMN)

    assert broadcast(protocol).ddl(ddl, count_of) == tuple(Address("s_a", number) for number in range(partitions))


def test_avros_test_mode_tells_everybody() -> None:
    options = Options(enable_tidb_extension=True, avro_enable_watermark=True)
    ddl = Ddl(A, 5, "ALTER TABLE a ADD c INT", DdlType.ADD_COLUMN)

    assert broadcast("avro", options).ddl(ddl, count_of) == everywhere("s_a")
    assert broadcast("avro", options).watermark([A], count_of) == everywhere("s_a", "feed")


@pytest.mark.parametrize("old_name", [A, None])
def test_a_rename_goes_to_the_old_topic(old_name: TableName | None) -> None:
    ddl = Ddl(B, 5, "RENAME TABLE `s`.`a` TO `s`.`b`", DdlType.RENAME_TABLE, old_name=old_name)

    assert broadcast("simple").ddl(ddl, count_of) == everywhere("s_a")


def test_a_new_table_has_no_old_topic() -> None:
    ddl = Ddl(B, 5, "CREATE TABLE b (id INT PRIMARY KEY)", DdlType.CREATE_TABLE)

    assert broadcast("craft").ddl(ddl, count_of) == everywhere("s_b")


@pytest.mark.parametrize("protocol", ["open-protocol", "canal-json"])
def test_a_statement_about_a_schema_goes_to_the_default_topic(protocol: str) -> None:
    heard = broadcast(protocol).ddl(Ddl(TableName("s", ""), 5, "DROP DATABASE s", DdlType.DROP_SCHEMA), count_of)

    assert heard == everywhere("feed")[: 1 if protocol == "canal-json" else 2]


@pytest.mark.parametrize(
    ("protocol", "options"),
    [("open-protocol", Options()), ("craft", Options()), ("simple", Options()), ("canal-json", EXTENDED)],
)
def test_a_watermark_reaches_every_partition_of_every_topic(protocol: str, options: Options) -> None:
    tables = [B, A, TableName("s", "b")]

    assert broadcast(protocol, options).watermark(tables, count_of) == everywhere("s_b", "s_a", "feed")
    assert broadcast(protocol, options).watermark([], count_of) == everywhere("feed")


def test_the_default_topic_keeps_its_place_where_a_table_goes_to_it() -> None:
    tables = [TableName("other", "t"), A]

    assert broadcast("simple").watermark(tables, count_of) == everywhere("feed", "s_a")


@pytest.mark.parametrize("protocol", ["canal-json", "avro"])
def test_protocols_without_watermarks_tell_nobody(protocol: str) -> None:
    assert broadcast(protocol).watermark([A], count_of) == ()


def test_simple_tells_a_tables_schema_to_all_or_to_the_first() -> None:
    assert broadcast("simple").bootstrap(A, count_of) == everywhere("s_a")
    assert broadcast("simple", bootstrap_everywhere=False).bootstrap(A, count_of) == (Address("s_a", 0),)
    assert broadcast("open-protocol").bootstrap(A, count_of) == ()
