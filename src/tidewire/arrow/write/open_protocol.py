"""Columns to Open Protocol messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, pairwise

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.policy import Policy
from tidewire.arrow.texts import contents
from tidewire.arrow.write.fragments import Cell, base64_texts, each, escaped, image, key_cells
from tidewire.arrow.write.operations import compressed, written
from tidewire.arrow.write.pieces import LEFT_TO_CODEC, NotOnFastPath, Piece, joined
from tidewire.arrow.write.texts import PLAIN, Text, always, floats, integers
from tidewire.codec import Options, Resources
from tidewire.codec.gotext import JSONITER, json_number
from tidewire.codec.open_protocol.wire import LENGTH, VERSION, MessageType, go_quote
from tidewire.codec.size_limits import RECORD_OVERHEAD
from tidewire.model import Column, Generated, MySQLType, Op, TableSchema
from tidewire.model.types import BLOBS, CHARS, ENUM_SET, FLOATS, INTEGERS

_escaped = escaped(JSONITER)
_MESSAGE_OVERHEAD = RECORD_OVERHEAD + len(VERSION)
_PAIR_OVERHEAD = 2 * LENGTH.size
_BARE = FLOATS | INTEGERS | ENUM_SET | {MySQLType.YEAR, MySQLType.BIT}
"""Types whose values stand without quotes."""


class Writer:
    """Turns the rows of one table into messages that hold several."""

    def __init__(self, table: TableSchema, options: Options, policy: Policy, _: Resources) -> None:
        self._options = options
        columns = [column for column in table.columns if column.generated is not Generated.VIRTUAL]
        self._cells = [_cell(column, policy) for column in columns]
        schema, name = map(_quoted, table.name)
        self._table = f',"scm":{schema},"tbl":{name},"t":{MessageType.ROW:d}'

    def write(self, rows: pa.RecordBatch) -> tuple[Sequence[bytes | None], Sequence[bytes | None]] | None:
        """The keys and values of the messages; ``None`` where the rows are for the codec."""
        try:
            keys, values = self._keys(rows), compressed(written(rows, self._value), self._options)
            borders = self._borders(keys, values)
        except LEFT_TO_CODEC:
            return None
        return [VERSION + key for key in _framed(keys, borders)], _framed(values, borders)

    def _keys(self, rows: pa.RecordBatch) -> list[bytes]:
        commit_ts, partitions = rows.column("_commit_ts"), rows.column("_partition")
        if commit_ts.null_count:
            raise NotOnFastPath
        pieces: list[Piece] = ['{"ts":', integers(commit_ts), self._table]
        if partitions.null_count < len(partitions):
            pieces.append(pc.fill_null(joined([',"ptn":', integers(partitions)], len(partitions)), ""))
        keys: list[bytes] = pc.cast(joined([*pieces, "}"], rows.num_rows), pa.binary()).to_pylist()
        return keys

    def _value(self, op: Op, rows: pa.RecordBatch) -> Iterator[Piece]:
        if op is Op.DELETE:
            yield '{"d":{'
            yield from image(key_cells(self._cells, self._options), rows.column("before"))
        else:
            yield '{"u":{'
            yield from image(self._cells, rows.column("after"))
        if op is Op.UPDATE and self._options.output_old_value:
            if self._options.only_output_updated_columns:
                raise NotOnFastPath
            yield '},"p":{'
            yield from image(self._cells, rows.column("before"))
        yield "}}"

    def _borders(self, keys: Sequence[bytes], values: Sequence[bytes]) -> list[int]:
        """Where a message begins, and where the last one ends, as the codec fills them."""
        most, limit = self._options.max_batch_size, self._options.batch_limit
        largest = self._options.max_message_bytes - _MESSAGE_OVERHEAD
        borders, begin, size = [0], 0, _MESSAGE_OVERHEAD
        for row, (key, value) in enumerate(zip(keys, values, strict=True)):
            added = len(key) + len(value) + _PAIR_OVERHEAD
            if added > largest:
                raise NotOnFastPath
            if row > begin and (row - begin >= most or size + added > limit):
                borders.append(row)
                begin, size = row, _MESSAGE_OVERHEAD
            size += added
        return [*borders, len(keys)] if keys else [0]


def _framed(payloads: Sequence[bytes], borders: Sequence[int]) -> list[bytes]:
    """The payloads behind their lengths, as many in one as the borders say."""
    parts = list(chain.from_iterable((LENGTH.pack(len(payload)), payload) for payload in payloads))
    return [b"".join(parts[2 * begin : 2 * end]) for begin, end in pairwise(borders)]


def _quoted(text: str) -> str:
    return JSONITER.quote(text).decode("utf-8", "surrogateescape")


def _cell(column: Column, policy: Policy) -> Cell:
    handle = ',"h":true' if column.handle_key else ""
    head = f'{_quoted(column.name)}:{{"t":{column.type:d}{handle},"f":{column.effective_flags:d},"v":'
    quote = "" if column.type in _BARE else '"'
    return Cell(column, _TEXTS[column.type](column, policy), head, quote, quote, "}")


def _floats(column: Column, _: Policy) -> Text:
    single = column.type is MySQLType.FLOAT
    return floats(lambda number: json_number(number, single=single))


def _chars(column: Column, _: Policy) -> Text:
    return _go_quoted if column.is_binary else _escaped


class _Escapes(dict[int, str]):
    """What becomes of a character in bytes that Go quotes and JSON quotes once more; learnt as they come."""

    def __missing__(self, code: int) -> str:
        quoted = go_quote(chr(code).encode("utf-8", "surrogateescape"))
        self[code] = _quoted(quoted)[1:-1]
        return self[code]


_ESCAPES = _Escapes()
_quoted_twice = each(lambda data: data.decode("utf-8", "surrogateescape").translate(_ESCAPES))
_READABLE = bytes(code for code in range(0x20, 0x7F) if code not in b'"\\')


def _go_quoted(values: pa.Array) -> pa.Array:
    if contents(values).translate(None, _READABLE):
        return _quoted_twice(values)
    return pc.cast(values, pa.string())


def _blobs(column: Column, _: Policy) -> Text:
    # A TEXT is a string in Arrow; its bytes are the same.
    return base64_texts if column.is_binary else lambda values: base64_texts(pc.cast(values, pa.binary()))


_TEXTS: Mapping[MySQLType, Callable[[Column, Policy], Text]] = {
    **PLAIN,
    **dict.fromkeys(FLOATS, _floats),
    **dict.fromkeys(CHARS, _chars),
    **dict.fromkeys(BLOBS, _blobs),
    MySQLType.JSON: always(_escaped),
}
