"""What the Craft encoder refuses or leaves out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codec.craft.craft_messages import FLAG, T1, counts, images, row, value_of
from tidewire.codec import Options
from tidewire.codec.craft import Encoder, decode, encode
from tidewire.errors import EncodeError, OptionError
from tidewire.model import Bootstrap, Column, Ddl, MySQLType, TableName, Watermark


def test_what_craft_cannot_say_is_refused() -> None:
    nameless = replace(row().table, name=TableName("", "t"))
    virtual = replace(row().table, columns=())
    for event, reason in (
        (Bootstrap(T1), "BOOTSTRAP"),
        (row(commit_ts=None), "without a commit ts"),
        (row(commit_ts=-1), "not a commit ts"),
        (row(commit_ts=2**64), "not a commit ts"),
        (row(table=nameless), "schema and table"),
        (row(table=replace(row().table, name=TableName("s", ""))), "schema and table"),
        (row(table=replace(row().table, name=TableName("s", "\ud800"))), "Unicode"),
        (row(table=virtual), "no column left of the insert of test.t"),
        (row(before={"a": "x"}, after={}), "no column left of the update of test.t"),
        (row(partitioned=True, table_id=-5), "partition"),
        (Watermark(-1), "not a commit ts"),
        (Ddl(TableName("s", "t"), None, "q", 1), "without a commit ts"),
        (Ddl(TableName("s", "t"), 1, "q", -1), "DDL type"),
        (Ddl(TableName("s", "t"), 1, "\ud800", 1), "Unicode"),
    ):
        with pytest.raises(EncodeError, match=reason):
            list(encode([event]))


def test_a_delete_without_handle_key_is_refused_if_only_that_is_wanted() -> None:
    keyless = replace(row().table, columns=(Column("a", MySQLType.VARCHAR, flags=FLAG(0x40)),))
    delete = row(table=keyless, before={"a": "x"}, after=None)

    assert counts(encode([delete])) == [1]
    with pytest.raises(EncodeError, match="no column left of the delete of"):
        list(encode([delete], delete_only_output_handle_key_columns=True))


def test_an_empty_old_image_is_left_out() -> None:
    (message,) = encode([row(before={})])

    assert images(value_of(message)) == [(None, {"a": "aa"})]


def test_options_craft_has_no_answer_to_are_refused() -> None:
    for option in ("handle-key-only", "claim-check"):
        with pytest.raises(OptionError, match="large-message-handle-option"):
            Encoder(Options.parse({"large-message-handle-option": option}))
    for name in ("max-message-bytes", "max-batch-size"):
        with pytest.raises(OptionError, match=name):
            Options.parse({name: "0"})


def test_rows_before_a_bad_event_are_sent() -> None:
    messages = encode([row(), row(), row(commit_ts=None), row()])

    assert len(list(decode(next(messages)))) == 2
    with pytest.raises(EncodeError, match="without a commit ts"):
        next(messages)
