"""Craft messages that no encoder of ours writes, but that are right."""

from __future__ import annotations

from codec.craft.craft_messages import Group, decoded, facts, message_of
from tidewire.codec import Options
from tidewire.codec.craft import decode
from tidewire.codec.craft.varint import varint
from tidewire.model import Message, MySQLType, Op, RowChange, TableName


def test_a_message_by_hand_is_right() -> None:
    (event,) = decoded(message_of(Group()))

    assert facts(event, Options()) == (
        Op.INSERT, TableName("s", "t"), 1, None, [None, {"c": (MySQLType.INT, 0, False, 1)}],
    )  # fmt: skip


def test_every_version_but_zero_is_read() -> None:
    for version in (b"\1", b"\2", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"):
        assert len(decoded(message_of(Group(), version=version))) == 1


def test_a_partition_is_a_physical_table_id() -> None:
    for partition, table_id in ((0, 0), (77, 77), (-1, None), (-2, None)):
        (event,) = decoded(message_of(Group(), header=b"\1\1" + varint(partition) + b"\0\2"))
        assert isinstance(event, RowChange)
        assert (event.table_id, event.partitioned) == (table_id, table_id is not None)


def test_unknown_groups_are_skipped_and_later_ones_win() -> None:
    (event,) = decoded(message_of(Group(), Group(values=[b"\4"]), b"\x09?!", Group(kind=2)))

    assert isinstance(event, RowChange)
    assert (event.after, event.before) == ({"c": 2}, {"c": 1})


def test_a_key_is_ignored() -> None:
    assert len(list(decode(Message(b"k", message_of(Group()))))) == 1
