"""SQL files of a dump: the rows of their INSERT statements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

import pyarrow as pa

from tidewire.load.rows import BadRow, Rows

_BLOCK_BYTES: Final = 4 << 20
_ROWS: Final = 16_384

_SPACE: Final = re.compile(rb"(?:\s|--[^\n]*\n|/\*.*?\*/\s*;?|;)*", re.DOTALL)
_INSERT: Final = re.compile(rb"(?:INSERT|REPLACE)\s+INTO\s+(?:`(?:[^`]|``)*`\.)?`(?:[^`]|``)*`\s*", re.IGNORECASE)
_COLUMNS: Final = re.compile(rb"\(\s*((?:`(?:[^`]|``)*`\s*,?\s*)+)\)\s*")
_COLUMN: Final = re.compile(rb"`((?:[^`]|``)*)`")
_VALUES: Final = re.compile(rb"VALUES\s*", re.IGNORECASE)
_MEANT: Final = {b"n": b"\n", b"r": b"\r", b"0": b"\0", b"Z": b"\x1a", b"t": b"\t", b"b": b"\b"}
_ESCAPE: Final = re.compile(rb"\\(.)|''", re.DOTALL)
_NEXT: Final = re.compile(rb"\s*([,;])\s*")


def _value_pattern(*, escape_backslash: bool) -> re.Pattern[bytes]:
    text = rb"(?:[^'\\]++|\\.|'')*+" if escape_backslash else rb"(?:[^']++|'')*+"
    return re.compile(
        rb"\s*(?:(NULL)|[xX]'([0-9a-fA-F]*)'|(?:_binary\s*)?'(" + text + rb")'|([-+0-9.][^,()\s]*))\s*([,)])",
        re.DOTALL,
    )


def read_sql(
    stream: BinaryIO, names: Sequence[str], *, escape_backslash: bool = True, block: int = _BLOCK_BYTES
) -> Iterator[Rows]:
    """The rows of the INSERT statements in a stream. Without a list of columns they have these names."""
    reader = _Reader(stream, tuple(names), escape_backslash, block)
    while (rows := reader.rows()) is not None:
        yield rows


class _Reader:
    """Reads statements. ``_at`` is the place in the buffer up to which everything is taken."""

    def __init__(self, stream: BinaryIO, names: tuple[str, ...], escape_backslash: bool, block: int) -> None:
        self._stream = stream
        self._default = self._names = names
        self._escape = escape_backslash
        self._value = _value_pattern(escape_backslash=escape_backslash)
        self._block = block
        self._data = b""
        self._at = 0
        self._line = 0
        self._ended = False
        self._in_values = False

    def rows(self) -> Rows | None:
        """The next rows, all with the same columns; ``None`` at the end."""
        records: list[list[bytes | None]] = []
        lines: list[int] = []
        bad: list[BadRow] = []
        names = self._names
        while len(records) < _ROWS:
            if not self._in_values and not self._begin():
                break
            if self._names != names:
                if records or bad:
                    break
                names = self._names
            start, line = self._at, self._line
            record = self._record()
            if record is None:
                if not self._more():
                    raise ValueError(f"line {line + 1}: the file ends within a statement, or its values cannot be read")
                continue
            if len(record) == len(names):
                records.append(record)
                lines.append(line)
            else:
                reason = f"it has {len(record)} values for {len(names)} columns"
                bad.append(BadRow(line, reason, self._data[start : self._at]))
        if not records and not bad:
            return None
        columns = zip(*records, strict=True) if records else [()] * len(names)
        arrays = tuple(pa.array(values, pa.binary()) for values in columns)
        return Rows(names, arrays, pa.array(lines, pa.int64()), tuple(bad))

    def _begin(self) -> bool:
        """Go to the rows of the next statement; is there one?"""
        while True:
            at = self._skip(_SPACE, self._at)
            insert = _INSERT.match(self._data, at)
            if insert is not None:
                columns = _COLUMNS.match(self._data, insert.end())
                values = _VALUES.match(self._data, columns.end() if columns else insert.end())
                if values is not None and values.end() < len(self._data):
                    self._names = self._default if columns is None else _names(columns[1])
                    self._pass(values.end())
                    self._in_values = True
                    return True
            if not self._more():
                if at < len(self._data):
                    raise ValueError(f"line {self._line + 1}: this is not an INSERT statement")
                return False

    def _skip(self, pattern: re.Pattern[bytes], at: int) -> int:
        found = pattern.match(self._data, at)
        return at if found is None else found.end()

    def _record(self) -> list[bytes | None] | None:
        """The next row and what follows it; ``None`` if it is not all in the buffer."""
        at, data = self._at, self._data
        if data[at : at + 1] != b"(":
            return None
        values: list[bytes | None] = []
        at += 1
        while True:
            found = self._value.match(data, at)
            if found is None:
                return None
            values.append(self._meant(found))
            at = found.end()
            if found[5] == b")":
                break
        after = _NEXT.match(data, at)
        if after is None or (after.end() == len(data) and not self._ended):
            return None
        self._in_values = after[1] == b","
        self._pass(after.end())
        return values

    def _meant(self, found: re.Match[bytes]) -> bytes | None:
        null, digits, text, number, _ = found.groups()
        if text is not None:
            return _ESCAPE.sub(_escaped, text) if self._escape else text.replace(b"''", b"'")
        if null is not None:
            return None
        return bytes.fromhex(digits.decode()) if digits is not None else number

    def _pass(self, to: int) -> None:
        self._line += self._data.count(b"\n", self._at, to)
        self._at = to

    def _more(self) -> bool:
        """Read on; is there more, or was the end not known before?"""
        if self._ended:
            return False
        data = self._stream.read(self._block)
        self._ended = not data
        self._data, self._at = self._data[self._at :] + data, 0
        return True


def _escaped(found: re.Match[bytes]) -> bytes:
    return b"'" if found[1] is None else _MEANT.get(found[1], found[1])


def _names(columns: bytes) -> tuple[str, ...]:
    return tuple(name.replace(b"``", b"`").decode() for name in _COLUMN.findall(columns))
