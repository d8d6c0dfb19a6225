"""CSV records to changes, with the columns that a schema file lists."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from tidewire.codec.jsontext import text
from tidewire.codec.storage_sink.csv_config import DEFAULT_TERMINATOR, CsvConfig
from tidewire.errors import DecodeError
from tidewire.model import Column, MySQLType, Row, RowChange, TableSchema, Value, grammar
from tidewire.model.grammar import shown
from tidewire.model.types import STRINGS

PROTOCOL: Final = "csv"
_FEWEST: Final = 4
_META: Final = "ticdc-meta$"


class Cell(NamedTuple):
    """A cell: its text without quotes or escapes, and whether it was NULL."""

    data: bytes
    null: bool


class Head(NamedTuple):
    """The cells of a record before its columns."""

    op: bytes
    table: str
    schema: str
    commit_ts: int | None


class CsvReader:
    """Takes records apart, as ``sink.csv`` says they are written."""

    def __init__(self, config: CsvConfig, terminator: str = DEFAULT_TERMINATOR) -> None:
        self.config = config
        self.end = terminator.encode()
        self._null = config.null.encode()
        self._quote = config.quote.encode()
        delimiter = re.escape(config.delimiter.encode())
        quote = re.escape(self._quote)
        quoted = rb"%s((?:[^%s]|%s%s)*+)%s|" % (quote, quote, quote, quote, quote) if quote else b"(?!)()|"
        inside = rb"(?!%s)(?:(?!%%s).)*+" % quote if quote else rb"(?:\\.|(?!%s).)*+"
        self._cell = re.compile(b"(?:" + quoted + b"(" + inside % delimiter + b"))(" + delimiter + rb"|\Z)", re.DOTALL)
        self._leading = 3 + config.include_commit_ts + config.output_old_value + config.output_handle_key

    def cells(self, record: bytes) -> list[Cell]:
        """The cells of one record; ``DecodeError`` if it is not whole."""
        if not record.endswith(self.end):
            raise refused("the record is cut short: it does not end with the terminator")
        data, at = record[: len(record) - len(self.end)], 0
        found = list[Cell]()
        while True:
            match = self._cell.match(data, at)
            if match is None:
                raise refused(
                    "a value has no closing quote, or something follows it: check delimiter, quote and terminator", at
                )
            found.append(self._read(match))
            at = match.end()
            if not match[3]:
                return found

    def _read(self, match: re.Match[bytes]) -> Cell:
        if match[1] is not None:
            return Cell(match[1].replace(self._quote * 2, self._quote), False)
        bare = match[2]
        if bare == self._null:
            return Cell(bare, True)
        return Cell(bare if self._quote else _ESCAPE.sub(_unescaped, bare), False)

    def head(self, cells: Sequence[Cell]) -> Head:
        """What the cells before the columns say."""
        if len(cells) < _FEWEST:
            raise refused(f"it has {len(cells)} cells, and at least four were expected: check the delimiter")
        op, table, schema = (cell.data for cell in cells[:3])
        if op not in _OPS:
            raise refused(f"{shown(op.decode('utf-8', 'replace'))} is not one of I, U and D: check delimiter and quote")
        ts = None
        if self.config.include_commit_ts:
            digits = cells[3].data
            if not digits.isdigit():
                raise refused("the fourth cell is not a commit ts: give include-commit-ts as the changefeed has it")
            ts = int(digits)
        return Head(op, table.decode("utf-8", "replace"), schema.decode("utf-8", "replace"), ts)

    def columns(self, cells: Sequence[Cell]) -> Sequence[Cell]:
        """The cells of the columns."""
        return cells[self._leading :]

    def header(self, record: bytes) -> list[str]:
        """The names of the columns in a header."""
        names = [cell.data.decode("utf-8", "replace") for cell in self.cells(record)]
        if not names[0].startswith(_META):
            raise refused("the file has no header: give output-field-header as the changefeed has it")
        return [name for name in names if not name.startswith(_META)]


class CsvDecoder:
    """Records of one table to changes. ``names`` are those of a header, without one the cells are all columns."""

    def __init__(self, reader: CsvReader, table: TableSchema, names: Sequence[str] | None = None) -> None:
        self._reader = reader
        self._table = table
        known = {column.name.lower(): column for column in table.columns}
        for name in names or ():
            if name.lower() not in known:
                raise refused(f"the header has the column {name}, and the schema file of {table.name} does not")
        self._columns = table.columns if names is None else tuple(known[name.lower()] for name in names)
        binary = _BINARY[reader.config.binary_encoding_method]
        self._readers = [_reader(column, binary) for column in self._columns]

    def decode(self, record: bytes) -> RowChange:
        """The change in a record; ``DecodeError`` if it cannot be read."""
        cells = self._reader.cells(record)
        head, values = self._reader.head(cells), self._reader.columns(cells)
        if len(values) != len(self._columns):
            raise refused(
                f"it has {len(values)} columns, and the schema file of {self._table.name} has {len(self._columns)}: "
                "give the options of [sink.csv] as the changefeed has them; if it leaves columns out, let it write "
                "output-field-header"
            )
        row: Row = {
            column.name: None if cell.null else self._value(column, read, cell.data)
            for column, read, cell in zip(self._columns, self._readers, values, strict=True)
        }
        # The old row of an update is either another record, a deletion, or not there.
        gone = head.op == b"D"
        return RowChange(self._table, head.commit_ts, before=row if gone else None, after=None if gone else row)

    def _value(self, column: Column, read: Callable[[bytes], Value], data: bytes) -> Value:
        try:
            return read(data)
        except (ValueError, OverflowError) as error:
            raise refused(f"column {column.name} ({column.mysql_type}): {error}") from None


def refused(reason: str, at: int | None = None) -> DecodeError:
    """The error for a record."""
    return DecodeError(PROTOCOL, reason, at, "value")


_OPS: Final = frozenset({b"I", b"U", b"D"})
_ESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL)
_MEANT: Final = {b"n": b"\n", b"r": b"\r"}


def _unescaped(found: re.Match[bytes]) -> bytes:
    return _MEANT.get(found[1], found[1])


_BINARY: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "base64": lambda data: base64.b64decode(data, validate=True),
    "hex": lambda data: bytes.fromhex(data.decode("ascii")),
}


def _reader(column: Column, binary: Callable[[bytes], bytes]) -> Callable[[bytes], Value]:
    """Reads the texts of a column."""
    if column.type in STRINGS:
        return binary if column.is_binary else lambda data: text(data.decode("utf-8", "surrogateescape"))
    named = _NAMED.get(column.type)
    if named is not None:
        return lambda data: named(column, data.decode("utf-8"))
    read = grammar.READERS[column.type]
    return lambda data: read(column, data.decode("utf-8"))


def _enum(column: Column, name: str) -> Value:
    if name not in column.elements:
        raise ValueError(f"{shown(name)} is not one of its names")
    return grammar.enum_value(column, column.elements.index(name) + 1)


def _set(column: Column, names: str) -> Value:
    chosen = set(names.split(",")) - {""}
    if not chosen <= set(column.elements):
        raise ValueError(f"{shown(names)} are not all among its names")
    return grammar.set_value(column, sum(1 << bit for bit, name in enumerate(column.elements) if name in chosen))


_NAMED: Final[Mapping[MySQLType, Callable[[Column, str], Value]]] = {MySQLType.ENUM: _enum, MySQLType.SET: _set}
