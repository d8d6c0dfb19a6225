"""Rows as CSV records."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tidewire.codec.columns import emitted_columns
from tidewire.codec.gotext import plain_decimal, plain_integer, shortest
from tidewire.codec.storage_sink.csv_config import CsvConfig
from tidewire.errors import ChangefeedError
from tidewire.model import Column, Generated, MySQLType, Op, Row, RowChange, TableSchema, Value
from tidewire.model.types import ENUM_SET, FLOATS, INTEGERS, STRINGS, TEMPORAL, TEXTS
from tidewire.model.values import enum_text, set_text

FAILED = "CDC:ErrCSVEncodeFailed"
_LETTERS: Mapping[Op, bytes] = {Op.INSERT: b"I", Op.UPDATE: b"U", Op.DELETE: b"D"}
_BINARY: Mapping[str, Callable[[bytes], bytes]] = {
    "base64": base64.b64encode,
    "hex": lambda data: data.hex().encode(),
}
_WORDS: Mapping[bool, bytes] = {True: b"true", False: b"false"}


class CsvEncoder:
    """Writes changes in the form ``sink.csv`` asks for."""

    def __init__(self, config: CsvConfig, terminator: str) -> None:
        self._config = config
        self._end = terminator.encode()
        self._delimiter = config.delimiter.encode()
        self._quote = config.quote.encode()
        self._null = config.null.encode()
        self._binary = _BINARY[config.binary_encoding_method]
        self._special = re.compile(rb"\\|\r|\n|" + re.escape(self._delimiter))

    def header(self, table: TableSchema) -> bytes:
        """The record before all others in a file, empty if none is wanted."""
        if not self._config.output_field_header:
            return b""
        names = ["ticdc-meta$operation", "ticdc-meta$table", "ticdc-meta$schema"]
        names += ["ticdc-meta$commit-ts"] * self._config.include_commit_ts
        names += ["ticdc-meta$is-update"] * self._config.output_old_value
        names += [column.name for column in table.columns if column.generated is not Generated.VIRTUAL]
        return self._delimiter.join(name.encode() for name in names) + self._end

    def record(self, change: RowChange) -> bytes:
        """The record of a change; two for an update whose old values are wanted."""
        old_values = self._config.output_old_value
        if old_values and change.op is Op.UPDATE:
            return self._line(b"D", change, change.before, True) + self._line(b"I", change, change.after, True)
        row = change.before if change.after is None else change.after
        return self._line(_LETTERS[change.op], change, row, False)

    def _line(self, letter: bytes, change: RowChange, row: Row | None, is_update: bool) -> bytes:
        return self._delimiter.join(self._cells(letter, change, row or {}, is_update)) + self._end

    def _cells(self, letter: bytes, change: RowChange, row: Row, is_update: bool) -> Iterator[bytes]:
        schema, table = change.table.name
        yield from map(self._text, (letter, table.encode(), schema.encode()))
        if self._config.include_commit_ts:
            yield b"%d" % (change.commit_ts or 0)
        if self._config.output_old_value:
            yield _WORDS[is_update]
        for column in emitted_columns(row, change.table.columns):
            yield self._cell(column, row[column.name])

    def _cell(self, column: Column, value: Value) -> bytes:
        if value is None:
            return self._null
        number = _NUMBERS.get(column.type)
        try:
            if number is not None:
                return number(column, value).encode()
            return self._text(self._binary(_bytes(value)) if column.is_binary else _TEXTS[column.type](column, value))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = f"column {column.name} ({column.mysql_type}) cannot hold {value!r}: {error}"
            raise ChangefeedError(FAILED, reason) from error

    def _text(self, data: bytes) -> bytes:
        if self._quote:
            return self._quote + data.replace(self._quote, self._quote * 2) + self._quote
        return self._special.sub(_escaped, data)


def _escaped(found: re.Match[bytes]) -> bytes:
    return _ESCAPES.get(found[0]) or b"".join(b"\\%c" % byte for byte in found[0])


_ESCAPES = {b"\\": b"\\\\", b"\r": b"\\r", b"\n": b"\\n"}


def go_float(number: float, *, single: bool = False) -> str:
    """A float as Go prints one by default: with an exponent below 1e-4 and from 1e21 on."""
    decimal = shortest(number, single=single).normalize()
    sign, digits, _ = decimal.as_tuple()
    exponent = decimal.adjusted()
    if not decimal or -4 <= exponent < 21:
        return format(decimal, "f")
    text = "".join(map(str, digits))
    return f"{'-' * sign}{text[0]}{'.' * (len(text) > 1)}{text[1:]}e{exponent:+03d}"


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _name(text_of: Callable[[int, Sequence[str]], str | None]) -> Callable[[Column, Any], bytes]:
    def name(column: Column, value: Any) -> bytes:
        text = value.text if value.text is not None else text_of(value.index, column.elements)
        if text is None or (column.type is MySQLType.ENUM and value.index == 0):
            raise ValueError("no name of the list")
        return str(text).encode()

    return name


_NUMBERS: Mapping[MySQLType, Callable[[Column, Any], str]] = {
    **dict.fromkeys(INTEGERS | {MySQLType.YEAR, MySQLType.BIT}, lambda _, value: plain_integer(value)),
    **dict.fromkeys(FLOATS, lambda column, value: go_float(value, single=column.type is MySQLType.FLOAT)),
}
_TEXTS: Mapping[MySQLType, Callable[[Column, Any], bytes]] = {
    **dict.fromkeys(STRINGS | TEXTS, lambda _, value: _bytes(value)),
    **dict.fromkeys(TEMPORAL, lambda _, value: value.text.encode()),
    **dict.fromkeys(ENUM_SET, _name(lambda index, elements: enum_text(index, tuple(elements)))),
    MySQLType.SET: _name(lambda index, elements: set_text(index, tuple(elements))),
    MySQLType.DECIMAL: lambda _, value: plain_decimal(value).encode(),
}
