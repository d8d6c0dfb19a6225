"""CSV files of a dump: a readable reader of every dialect, and a fast one that Arrow does the work for.

The fast reader takes blocks of whole lines and sets their escapes aside: what would mislead Arrow's parser, an escaped
delimiter or backslash, is replaced by a byte that the block does not have, and put back in the values. A block that
Arrow cannot split goes to the readable reader, which gives the same rows and names the bad ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from tidewire.load.dialect import Dialect
from tidewire.load.rows import BadRow, Rows

BLOCK_BYTES: Final = 8 << 20
"""The bytes of a file that are parsed at a time."""

_LARGEST: Final = 1 << 30
"""The most bytes that a row may have."""

_ROWS: Final = 16_384
"""The rows that the readable reader gives at a time."""


def read_csv(
    stream: BinaryIO, dialect: Dialect, names: Sequence[str], *, block: int = BLOCK_BYTES, fast: bool = True
) -> Iterator[Rows]:
    """The rows in a stream without a header line, whose columns have these names."""
    line, left = 0, b""
    while True:
        data = stream.read(block)
        buffer = left + data
        ended = not data
        if dialect.lines_are_rows:
            end = len(buffer) if ended else buffer.rfind(b"\n") + 1
            whole, left = buffer[:end], buffer[end:]
            found = _fast(whole, dialect, names, line) if fast and whole else None
            parts = iter([found]) if found is not None else _Reader(whole, dialect, names, line, ended=True).rows()
            yield from parts
        else:
            reader = _Reader(buffer, dialect, names, line, ended=ended)
            yield from reader.rows()
            whole, left = buffer[: reader.at], buffer[reader.at :]
        line += whole.count(b"\n")
        if ended:
            return
        if len(left) > _LARGEST:
            raise ValueError(f"a row has more than {_LARGEST} bytes: the options of the dialect are probably wrong")


def read_header(stream: BinaryIO, dialect: Dialect) -> tuple[tuple[str, ...], int]:
    """The names in the first line, and how many bytes that line has; the stream is left anywhere."""
    data = b""
    while dialect.line_end not in data:
        piece = stream.read(1 << 16)
        if not piece:
            break
        data += piece
    size = data.find(dialect.line_end) + len(dialect.line_end) if dialect.line_end in data else len(data)
    fields = _record(data[:size], 0, _Grammar(dialect))
    if fields is None or None in fields[0]:
        raise ValueError("its first line is not a header; give no-header or the separator and delimiter of the dump")
    return tuple((name or b"").decode() for name in fields[0]), size


# Fast


def _fast(data: bytes, dialect: Dialect, names: Sequence[str], line: int) -> Rows | None:
    """The rows of a block of whole lines, ``None`` if the readable reader has to look at it."""
    free = iter(value for value in range(1, 128) if value not in b"\r\n\\ " and bytes([value]) not in data)
    marks = [bytes([value]) for value in (next(free, 0) for _ in range(3)) if value]
    if len(marks) < 3 or dialect.null.count(b"\\") > 1 or len(dialect.delimiter) > 1:
        return None
    backslash, escaped, separator = marks
    has_escapes = b"\\" in data
    if has_escapes:
        data = data.replace(b"\\\\", backslash).replace(b"\\" + dialect.escaped, escaped)
    multiple = len(dialect.separator) > 1
    if multiple:
        data = data.replace(dialect.separator, separator)
    if not _is_plain(data, separator if multiple else dialect.separator, dialect, len(names)):
        return None
    try:
        table = csv.read_csv(
            pa.BufferReader(data),
            csv.ReadOptions(column_names=list(names), use_threads=False, block_size=len(data) + 1),
            csv.ParseOptions(
                delimiter=(separator if multiple else dialect.separator).decode(),
                quote_char=dialect.delimiter.decode() or False,
                double_quote=False,
                escape_char=False,
                newlines_in_values=False,
                ignore_empty_lines=False,
            ),
            csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.binary()),
                null_values=[dialect.null.decode()],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                check_utf8=False,
            ),
        )
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    if table.num_rows != data.count(b"\n") + (not data.endswith(b"\n")):
        return None
    columns: list[pa.Array] = []
    for values in table.columns:
        values = values.combine_chunks()
        if has_escapes:
            plain = _unescaped(values, backslash, escaped, dialect)
            if plain is None:
                return None
            values = plain
        if multiple:
            values = pc.replace_substring(values, separator, dialect.separator)
        columns.append(values)
    return Rows(tuple(names), tuple(columns), pa.array(range(line, line + table.num_rows), pa.int64()))


def _is_plain(data: bytes, separator: bytes, dialect: Dialect, columns: int) -> bool:
    """Does each delimiter begin or end a whole field, and each line a row? Arrow's parser takes more than that."""
    end = dialect.line_end
    if data.count(b"\r") != (data.count(end) if end == b"\r\n" else 0) or data.count(b"\n") != data.count(end):
        return False
    if columns > 1 and (data.startswith(end) or end + end in data):
        return False
    if not dialect.delimiter:
        return True
    read = np.frombuffer(data, np.uint8)
    marks = np.flatnonzero(read == dialect.delimiter[0])
    if len(marks) % 2:
        return False
    around = np.concatenate([[10], read, [10]])
    before, after = around[marks[::2]], around[marks[1::2] + 2]
    opens = (before == 10) | (before == separator[0])
    closes = (after == 10) | (after == end[0]) | (after == separator[0])
    return bool(opens.all() and closes.all())


_CONTROLS: Final = ((rb"\n", b"\n"), (rb"\r", b"\r"), (rb"\0", b"\0"))


def _unescaped(values: pa.Array, backslash: bytes, escaped: bytes, dialect: Dialect) -> pa.Array | None:
    """Values with what their escapes stand for; ``None`` if there are escapes that Dumpling does not write."""
    content = bytes(values.buffers()[2] or b"")
    if b"\\" in content:
        for pattern, text in _CONTROLS:
            if pattern in content:
                values = pc.replace_substring(values, pattern, text)
        if pc.any(pc.match_substring(values, b"\\")).as_py():
            return None
    for mark, text in ((escaped, dialect.escaped), (backslash, b"\\")):
        if mark in content:
            values = pc.replace_substring(values, mark, text)
    return values


# Readable


class _Grammar:
    """Regular expressions of a dialect."""

    def __init__(self, dialect: Dialect) -> None:
        separator, end = re.escape(dialect.separator), re.escape(dialect.line_end)
        self.dialect = dialect
        self.after = re.compile(rb"(" + separator + rb")|" + end + rb"|\Z", re.DOTALL)
        escape = rb"\\.|" if dialect.escape_backslash else b""
        self.bare = re.compile(rb"(?:" + escape + rb"(?!" + separator + rb"|" + end + rb").)*", re.DOTALL)
        self.quoted: re.Pattern[bytes] | None = None
        if dialect.delimiter:
            mark = re.escape(dialect.delimiter)
            inside = rb"\\.|" if dialect.escape_backslash else mark + mark + b"|"
            usual = rb"[^\\" + re.escape(dialect.delimiter[:1]) + rb"]++|"
            body = rb"(?:" + usual + inside + rb"(?!" + mark + rb").)*+"
            self.quoted = re.compile(mark + rb"(" + body + rb")" + mark, re.DOTALL)

    def value(self, text: bytes, *, quoted: bool) -> bytes | None:
        """What a field's text stands for; ``None`` for NULL."""
        dialect = self.dialect
        if not quoted and text == dialect.null:
            return None
        if dialect.escape_backslash:
            return _ESCAPE.sub(_escaped, text) if b"\\" in text else text
        return text.replace(dialect.delimiter * 2, dialect.delimiter) if quoted else text


_ESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL)
_MEANT: Final = {b"n": b"\n", b"r": b"\r", b"0": b"\0"}


def _escaped(found: re.Match[bytes]) -> bytes:
    return _MEANT.get(found[1], found[1])


def _record(data: bytes, at: int, grammar: _Grammar) -> tuple[list[bytes | None], int] | None:
    """The fields of the record that begins at a place, and where it ends; ``None`` if it is not a record."""
    fields: list[bytes | None] = []
    while True:
        begins = grammar.quoted is not None and data.startswith(grammar.dialect.delimiter, at)
        quoted = grammar.quoted.match(data, at) if begins and grammar.quoted is not None else None
        field = quoted if begins else grammar.bare.match(data, at)
        if field is None:
            return None
        fields.append(grammar.value(field[1] if quoted else field[0], quoted=quoted is not None))
        after = grammar.after.match(data, field.end())
        if after is None:
            return None
        at = after.end()
        if after[1] is None:
            return fields, at


class _Reader:
    """Reads a buffer record by record, up to ``at``; the last one may be continued unless the stream has ended."""

    def __init__(self, data: bytes, dialect: Dialect, names: Sequence[str], line: int, *, ended: bool) -> None:
        self._data = data
        self._names = tuple(names)
        self._line = line
        self._ended = ended
        self._grammar = _Grammar(dialect)
        self.at = 0

    def rows(self) -> Iterator[Rows]:
        records: list[list[bytes | None]] = []
        lines: list[int] = []
        bad: list[BadRow] = []
        while self.at < len(self._data):
            start, line = self.at, self._line
            fields = self._next()
            if fields is None:
                break
            if isinstance(fields, str):
                bad.append(BadRow(line, fields, self._data[start : self.at]))
            else:
                records.append(fields)
                lines.append(line)
            if len(records) >= _ROWS:
                yield self._rows(records, lines, bad)
                records, lines, bad = [], [], []
        if records or bad:
            yield self._rows(records, lines, bad)

    def _next(self) -> list[bytes | None] | str | None:
        """The next record, or the reason why it cannot be read; ``None`` if it does not end in the buffer."""
        data, end = self._data, self._grammar.dialect.line_end
        found = _record(data, self.at, self._grammar)
        closed = found is not None and data.endswith(end, self.at, found[1])
        if not self._ended and (found is None or not closed):
            return None
        if found is None:
            next_line = data.find(end, self.at)
            stop = len(data) if next_line < 0 else next_line + len(end)
            self._pass(stop)
            return "a value has no closing delimiter, or something follows that is neither a separator nor the end"
        fields, stop = found
        self._pass(stop)
        if len(fields) != len(self._names):
            return f"it has {len(fields)} values, and its table {len(self._names)} columns in the dump"
        return fields

    def _pass(self, stop: int) -> None:
        self._line += self._data.count(b"\n", self.at, stop)
        self.at = stop

    def _rows(self, records: list[list[bytes | None]], lines: list[int], bad: list[BadRow]) -> Rows:
        columns = zip(*records, strict=True) if records else [()] * len(self._names)
        arrays = tuple(pa.array(values, pa.binary()) for values in columns)
        return Rows(self._names, arrays, pa.array(lines, pa.int64()), tuple(bad))
