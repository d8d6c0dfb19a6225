"""CSV files in any dialect: the fast reader and the readable one give the same rows."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewire.load.csv import read_csv, read_header
from tidewire.load.dialect import BinaryFormat, Dialect
from tidewire.load.rows import Rows

DEFAULT = Dialect()
ODD = Dialect(b"|+|", b"'", b"NULL", b"\n", escape_backslash=False)
DIALECTS = [
    DEFAULT,
    ODD,
    Dialect(separator=b"|+|"),
    Dialect(line_end=b"\n", null=b"NULL"),
    Dialect(delimiter=b""),
    Dialect(escape_backslash=False),
    Dialect(separator=b"\t", delimiter=b"'", line_end=b"\n"),
]
NAMES = ("a", "b", "c")

Value = bytes | int | None
VALUES = (
    st.none() | st.integers(-9, 10**6) | st.binary(max_size=6) | st.sampled_from([b"\\N", b"NULL", b'","', b'\\\\"'])
)
TABLES = st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=12)


def field(value: Value, dialect: Dialect) -> bytes:
    """A field as Dumpling writes it."""
    if value is None:
        return dialect.null
    if isinstance(value, int):
        return str(value).encode()
    mark = dialect.delimiter
    if not dialect.escape_backslash:
        return mark + value.replace(mark, mark * 2) + mark
    escapes = {0: b"\\0", 13: b"\\r", 10: b"\\n", 92: b"\\\\", dialect.escaped[0]: b"\\" + dialect.escaped}
    return mark + b"".join(escapes.get(byte, bytes([byte])) for byte in value) + mark


def dumped(table: Sequence[Sequence[Value]], dialect: Dialect) -> bytes:
    return b"".join(dialect.separator.join(field(value, dialect) for value in row) + dialect.line_end for row in table)


def plain(rows: Sequence[Rows]) -> list[tuple[bytes | None, ...]]:
    assert not any(each.bad for each in rows)
    return [row for each in rows for row in zip(*(column.to_pylist() for column in each.columns), strict=True)]


@pytest.mark.parametrize("dialect", DIALECTS, ids=repr)
@settings(deadline=None, max_examples=30)
@given(table=TABLES, block=st.integers(1, 60))
def test_values_come_back_from_both_readers(dialect: Dialect, table: list[tuple[Value, ...]], block: int) -> None:
    data = dumped(table, dialect)
    if not dialect.delimiter and any(value == b"NULL" == dialect.null for row in table for value in row):
        return

    slow = [*read_csv(io.BytesIO(data), dialect, NAMES, block=block, fast=False)]
    fast = [*read_csv(io.BytesIO(data), dialect, NAMES, block=block)]

    wanted = [tuple(str(value).encode() if isinstance(value, int) else value for value in row) for row in table]
    assert plain(slow) == wanted
    assert plain(fast) == wanted
    assert [line for each in fast for line in each.lines.to_pylist()] == [
        line for each in slow for line in each.lines.to_pylist()
    ]


@settings(deadline=None, max_examples=30)
@given(data=st.text(alphabet='ab1,"\\N\r\n', max_size=40), block=st.integers(1, 40))
def test_the_fast_reader_never_differs(data: str, block: int) -> None:
    def read(*, fast: bool) -> list[object]:
        found = [*read_csv(io.BytesIO(data.encode()), Dialect(line_end=b"\n"), ("a", "b"), block=block, fast=fast)]
        rows = [row for each in found for row in zip(*(column.to_pylist() for column in each.columns), strict=True)]
        return [rows, [bad for each in found for bad in each.bad]]

    assert read(fast=True) == read(fast=False)


def test_a_row_with_too_many_values_is_named_with_its_line() -> None:
    data = b'1,"a"\r\n2,"b",3\r\n4,"c"\r\n'

    (rows,) = read_csv(io.BytesIO(data), DEFAULT, ("a", "b"))

    assert plain([Rows(rows.names, rows.columns, rows.lines)]) == [(b"1", b"a"), (b"4", b"c")]
    assert [(bad.line, bad.data) for bad in rows.bad] == [(1, b'2,"b",3\r\n')]
    assert rows.bad[0].reason == "it has 3 values, and its table 2 columns in the dump"


def test_a_header_has_names() -> None:
    assert read_header(io.BytesIO(b'"id","we`ird","a,b"\r\n1,2,3\r\n'), DEFAULT) == (("id", "we`ird", "a,b"), 21)
    assert read_header(io.BytesIO(b"'id'|+|'x'\n"), ODD) == (("id", "x"), 11)


def test_options_are_those_of_dumpling() -> None:
    assert Dialect.parse({"csv-output-dialect": "bigquery"}).binary is BinaryFormat.BASE64
    assert Dialect.parse({"csv-separator": "|+|", "csv-delimiter": "'", "csv-null-value": "NULL"}) == Dialect(
        b"|+|", b"'", b"NULL"
    )
    assert Dialect.parse({"csv-line-terminator": "\\n", "escape-backslash": "false"}).line_end == b"\n"


@pytest.mark.parametrize("options", [{"csv-sep": ","}, {"no-header": "maybe"}, {"csv-separator": ""}])
def test_a_wrong_option_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        Dialect.parse(options)
