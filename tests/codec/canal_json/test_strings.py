"""Strings in Canal-JSON: how they are escaped, what is not UTF-8, and bytes as characters."""

from __future__ import annotations

import json

import pytest

from codec.canal_json.canal_messages import data_text, decoded, text_of, value_of
from tidewire.codec.canal_json import decode
from tidewire.errors import DecodeError
from tidewire.model import Column, Ddl, Message, RowChange, TableName, TableSchema


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ('"', r"\""),
        ("\\", r"\\"),
        ("/'", "/'"),
        ("\n\r\t", r"\n\r\t"),
        ("\b\f\v\0\x1f", r"\u0008\u000c\u000b\u0000\u001f"),
        ("\x7f\x80", "\x7f\x80"),
        ("<a>&", r"\u003ca\u003e\u0026"),
        ("\u2028\u2029", r"\u2028\u2029"),
        ("😀 e\u0301 \ufeff \uffff", "😀 e\u0301 \ufeff \uffff"),
    ],
)
def test_strings_are_escaped_everywhere_alike(text: str, escaped: str) -> None:
    """In values, and in the names of schemas, tables and columns, and in DDL."""
    table = TableSchema(TableName(text, text), (Column.of(text, "varchar(9)", primary_key=True),))
    row = RowChange(table, 1, after={text: text})
    ddl = Ddl(TableName(text, text), 1, text, 3)
    quoted = f'"{escaped}"'

    sent = text_of(row)
    assert f'"database":{quoted},"table":{quoted},"pkNames":[{quoted}]' in sent
    assert f'"sqlType":{{{quoted}:12}},"mysqlType":{{{quoted}:"varchar"}}' in sent
    assert f'"data":[{{{quoted}:{quoted}}}]' in sent
    assert f'"sql":{quoted}' in text_of(ddl)
    back = decoded(json.loads(sent))
    assert isinstance(back, RowChange)
    assert (back.table.name, back.table.primary_key, back.after) == (table.name, (text,), row.after)


def test_text_that_is_not_utf_8_says_so_for_each_byte() -> None:
    assert data_text("varchar(9)", b"caf\xe9 \xff\xfe") == r'"caf\ufffd \ufffd\ufffd"'
    raw = b'{"type":"INSERT","database":"","table":"","mysqlType":{"a":"char"},"data":[{"a":"caf\xe9"}]}'
    (event,) = decode(Message(None, raw))
    assert isinstance(event, RowChange)
    assert event.after == {"a": b"caf\xe9"}


def test_binary_is_read_byte_by_byte() -> None:
    for byte in range(256):
        assert value_of("varbinary", chr(byte)) == bytes([byte])
    with pytest.raises(DecodeError, match="stands for no byte"):
        value_of("blob", "Ā")
