"""Options mean the same whichever way they are given, and are checked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tidewire.codec import Options, open_protocol
from tidewire.codec.avro.schema import value_schema
from tidewire.codec.options import DecimalMode, LargeMessage
from tidewire.errors import OptionError
from tidewire.model import Column, TableName, TableSchema


def test_a_word_is_what_it_stands_for() -> None:
    options = Options(avro_decimal_handling_mode="string")  # type: ignore[arg-type]
    table = TableSchema.build(TableName("s", "t"), [Column.of("price", "decimal(10,2)", primary_key=True)])

    assert options == Options.parse({"avro-decimal-handling-mode": "string"})
    assert options.avro_decimal_handling_mode is DecimalMode.STRING
    assert '"type":"string"' in value_schema(table, options).text


def test_none_is_an_option_too() -> None:
    options = Options(large_message_handle_option="none")  # type: ignore[arg-type]

    assert options.large_message_handle_option is LargeMessage.NONE
    assert list(open_protocol.Encoder(options).encode([])) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("avro_decimal_handling_mode", "exact"),
        ("large_message_handle_option", None),
        ("enable_tidb_extension", "yes"),
        ("max_message_bytes", 0),
        ("max_message_bytes", "many"),
        ("max_message_bytes", 1.5),
        ("max_batched_bytes", -1),
        ("max_batch_size", True),
        ("topic", 7),
    ],
)
def test_a_value_that_an_option_cannot_have_is_refused_both_ways(name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=name.replace("_", "-")):
        Options(**{name: value})
    with pytest.raises(OptionError, match=name.replace("_", "-")):
        Options.parse({name.replace("_", "-"): value})
    with pytest.raises(OptionError, match=name.replace("_", "-")):
        replace(Options(), **{name: value})


def test_text_is_read_as_the_option_needs_it() -> None:
    options = Options(max_message_bytes="5", enable_tidb_extension="true")  # type: ignore[arg-type]

    assert (options.max_message_bytes, options.enable_tidb_extension) == (5, True)
