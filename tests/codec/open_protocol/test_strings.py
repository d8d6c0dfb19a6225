"""Strings in Open Protocol: how they are escaped, what is not UTF-8, and bytes in Go's quotes."""

from __future__ import annotations

import pytest

from codec.open_protocol.open_messages import event_of, parts, put, row_of, value_of
from codec.tables_and_values import build
from tidewire.codec.open_protocol import decode, encode
from tidewire.codec.open_protocol.wire import go_quote, go_unquote
from tidewire.model import Column, Ddl, RowChange, TableName, TableSchema

ODD_TEXTS = [
    ('"', r"\""),
    ("\\", r"\\"),
    ("/", "/"),
    ("\n\r\t", r"\n\r\t"),
    ("\b\f\v\x00\x1f", r"\u0008\u000c\u000b\u0000\u001f"),
    ("\x7f", "\x7f"),
    ("<a href='x'>&</a>", "<a href='x'>&</a>"),
    ("\u2028\u2029", "\u2028\u2029"),
    ("😀 e\u0301 \ufeff \uffff", "😀 e\u0301 \ufeff \uffff"),
    ("null", "null"),
    ("", ""),
]


@pytest.mark.parametrize(("text", "escaped"), ODD_TEXTS)
def test_strings_are_escaped_everywhere_alike(text: str, escaped: str) -> None:
    """In values, and in the names of schemas, tables and columns, and in DDL."""
    name = text or "x"
    table = TableSchema(TableName(text, text), (Column.of(name, "varchar(9)"),))
    row = RowChange(table, 1, after={name: text})
    ddl = Ddl(TableName(text, text), 1, text, 3)
    quoted = f'"{escaped}"'

    assert parts(row) == (
        f'{{"ts":1,"scm":{quoted},"tbl":{quoted},"t":1}}',
        put('{"u":{%s:{"t":15,"f":64,"v":%s}}}', quoted if text else '"x"', quoted),
    )
    assert parts(ddl) == (f'{{"ts":1,"scm":{quoted},"tbl":{quoted},"t":2}}', f'{{"q":{quoted},"t":3}}')
    decoded = row_of(*reversed(parts(row)))
    assert (decoded.table.name, decoded.after) == (table.name, row.after)
    assert event_of(*reversed(parts(ddl))) == ddl


def test_the_classic_servers_escapes_are_read() -> None:
    for text, escaped in {"<>&": r"\u003c\u003e\u0026", "\b\f": r"\b\f", "\u2028\u2029": r"\u2028\u2029"}.items():
        assert value_of(put('{"t":15,"f":64,"v":"%s"}', escaped)) == text
    assert value_of(r'{"t":15,"f":64,"v":"\ud83d\ude00"}') == "😀"


def test_text_that_is_not_utf_8_passes_through() -> None:
    """The new server copies bad bytes; the classic one, and Go for an escaped lone surrogate, say U+FFFD."""
    bad = b"caf\xe9 \xff\xfe"
    table = build(Column.of("c", "varchar(9)"))
    (made,) = encode([RowChange(table, 1, after={"c": bad})])
    assert made.value is not None

    assert made.value.endswith(b'"v":"caf\xe9 \xff\xfe"}}}')
    (event,) = decode(made)
    assert isinstance(event, RowChange)
    assert event.after == {"c": bad}
    assert value_of('{"t":15,"f":64,"v":"caf\\ufffd"}') == "caf\ufffd"
    assert value_of(r'{"t":15,"f":64,"v":"\ud800 \\ud800"}') == "\ufffd \\ud800"
    assert value_of(b'{"t":15,"f":64,"v":"\\udc80 \xff"}') == "\ufffd ".encode() + b"\xff"
    assert value_of('{"t":252,"f":64,"v":"/w=="}') == b"\xff"


GO_QUOTES: list[tuple[bytes, str]] = [
    (b"", ""),
    (b"plain text", "plain text"),
    (b'"\\', r"\"\\"),
    (b"'", "'"),
    (b"\a\b\f\n\r\t\v", r"\a\b\f\n\r\t\v"),
    (b"\x00\x1f\x7f", r"\x00\x1f\x7f"),
    (b"\x80\xff", r"\x80\xff"),
    (b"\xe6\xb5", r"\xe6\xb5"),
    (b"\xed\xa0\x80", r"\xed\xa0\x80"),
    ("é\u00a0\u0085\u00ad".encode(), r"é\u00a0\u0085\u00ad"),
    ("\u2028\u3000\ue000\ufffe".encode(), r"\u2028\u3000\ue000\ufffe"),
    ("\ufffd😀".encode(), "\ufffd😀"),
    ("\U000e0001\U0010ffff".encode(), r"\U000e0001\U0010ffff"),
    ("\U0001fae8\u0cf3".encode(), "\U0001fae8\u0cf3"),  # printable since Unicode 15.0, which is Go's
    ("\u2ffc\u31ef\U0002ebf0".encode(), r"\u2ffc\u31ef\U0002ebf0"),  # only since 15.1
]


@pytest.mark.parametrize(("data", "quoted"), GO_QUOTES)
def test_binary_strings_are_quoted_as_go_quotes(data: bytes, quoted: str) -> None:
    assert go_quote(data) == quoted
    assert go_unquote(quoted) == data


def test_every_byte_and_every_pair_of_bytes_is_quoted_and_read_back() -> None:
    for first in range(256):
        for second in (0, 0x22, 0x41, 0x5C, 0x7F, 0x80, 0xBF, 0xC3, 0xFF):
            data = bytes((first, second))
            assert go_unquote(go_quote(data)) == data


def test_escapes_only_go_readers_know_are_read() -> None:
    assert go_unquote(r"\101\000\377 \u6d4b\U0001F600 \'") == b"A\x00\xff " + "测😀 '".encode()
    for wrong in ("\\", "\\q", r"\x1", r"\400", r"\ud800", r"\U00110000", r"\UFFFFFFFF", r"\12"):
        with pytest.raises(ValueError, match=r"unknown escape|is no character"):
            go_unquote(wrong)
