"""Whole columns to Simple messages in Avro.

A message is a fixed head, a few numbers, and one map for each image of the row. A map's entries are the columns sorted
by name; each has its name, which is the same in all rows, the branch of its value, and the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.policy import Policy
from tidewire.arrow.to_model import to_model
from tidewire.arrow.write.binary_pieces import counted, either, floats, longs, mapped
from tidewire.arrow.write.operations import Changes, changes_of, together
from tidewire.arrow.write.pieces import LEFT_TO_CODEC, Piece, joined
from tidewire.arrow.write.texts import PLAIN
from tidewire.codec import Options, Resources
from tidewire.codec.avro.wire import signed
from tidewire.codec.craft.varint import varint
from tidewire.codec.options import IntegrityCheck
from tidewire.codec.simple.avro_format import write_value
from tidewire.codec.simple.avro_wire import message_schema
from tidewire.codec.simple.wire import OP_WORDS, PROTOCOL, VERSION
from tidewire.codec.size_limits import RECORD_OVERHEAD, Packing
from tidewire.model import Column, Generated, MySQLType, TableSchema
from tidewire.model.types import ENUM_SET, INTEGERS, STRINGS, TEMPORAL

Pieces = Callable[[pa.Array], Sequence[Piece]]


class _Value(NamedTuple):
    """How a column's values are written: the branch of the union they have, and what stands in it."""

    branch: str
    pieces: Pieces


class Writer:
    """Turns the rows of one table into messages, one each."""

    def __init__(self, table: TableSchema, options: Options, policy: Policy, resources: Resources) -> None:
        self._table, self._options, self._policy, self._resources = table, options, policy, resources
        self._packing = Packing(PROTOCOL, options, resources)
        self._template: _Template | None = None

    def write(self, rows: pa.RecordBatch) -> tuple[list[None], list[bytes]] | None:
        """The messages' keys, of which there are none, and values; ``None`` where the rows are for the codec."""
        if self._options.integrity_check_level is not IntegrityCheck.NONE:
            return None
        if not rows.num_rows:
            return [], []
        try:
            template = self._template = self._template or _Template(self._table, self._policy, self._options.time_zone)
            # Every message says when it was made: the clock is asked once for each, in the order of the rows.
            built = pa.array([self._resources.clock() for _ in range(rows.num_rows)], pa.int64())
            apart, order = changes_of(self._table, rows.append_column(_BUILT, built))
            written = together([template.messages(changes) for changes in apart], order)
        except LEFT_TO_CODEC:
            return None
        values = [self._packing.pack(value) for value in written.to_pylist()]
        if max(map(len, values)) + RECORD_OVERHEAD > self._options.max_message_bytes:
            return None
        return [None] * len(values), values


_BUILT = "_built"


def _numbers(words: Iterable[str]) -> Mapping[str, bytes]:
    """The bytes of each symbol of an enum, or of each branch of a union."""
    return {word: varint(number) for number, word in enumerate(words)}


_FIELDS: Mapping[str, Mapping[str, Any]] = {
    record["name"]: {field["name"]: field["type"] for field in record["fields"]} for record in message_schema()
}
_HEAD = b"".join(
    (
        _numbers(_FIELDS)["Message"],
        _numbers(_FIELDS["Message"]["type"]["symbols"])["DML"],
        _numbers(_FIELDS["Message"]["payload"])["DML"],
        varint(VERSION),
    )
)
_OPS = _numbers(_FIELDS["DML"]["type"]["symbols"])
_BRANCHES = _numbers(_FIELDS["DML"]["data"][1]["values"])
_ABSENT, _PRESENT = varint(0), varint(1)
"""The branches of a field that may be null."""

_OPTIONAL = 3
"""The fields between a row's numbers and its images, null in a plain message: claim check, key only, checksum."""


class _Template:
    """What the messages of a table have in common."""

    def __init__(self, table: TableSchema, policy: Policy, zone: str) -> None:
        if table.version is None:
            raise ValueError("a table without a schema version")
        columns = [column for column in table.columns if column.generated is not Generated.VIRTUAL]
        self._head = _HEAD + b"".join(map(_text, table.name))
        self._table_id = pa.scalar(table.table_id or 0, pa.int64())
        self._version = varint(signed(table.version))
        self._entries = {column.name: _entry(column, policy, zone) for column in columns}

    def messages(self, changes: Changes) -> pa.BinaryArray:
        """The messages of changes of one kind."""
        rows = changes.rows
        pieces = (
            self._head,
            *longs(self._table_ids(rows.column("_partition"))),
            _OPS[OP_WORDS[changes.op]],
            *longs(changes.commit_ts.cast(pa.int64())),
            *longs(rows.column(_BUILT)),
            self._version,
            _ABSENT * _OPTIONAL,
            *self._image(changes.after),
            *self._image(changes.before),
        )
        return joined(pieces, len(changes))

    def _table_ids(self, partitions: pa.Array) -> pa.Array:
        """The partitions' ids, or the table's where there are none."""
        nowhere = pc.equal(partitions, pa.scalar(0, pa.int64())).fill_null(True)
        return pc.if_else(nowhere, self._table_id, partitions)

    def _image(self, image: Mapping[str, pa.Array]) -> Sequence[Piece]:
        """A map of the columns, sorted by name: one block of all entries, and one of none."""
        if not image:
            return [_ABSENT]
        entries = (piece for name, entry in sorted(self._entries.items()) for piece in entry(image[name]))
        count = len(self._entries)
        return [_PRESENT, varint(count) if count else b"", *entries, varint(0)]


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return varint(len(data)) + data


def _entry(column: Column, policy: Policy, zone: str) -> Pieces:
    """How a column becomes an entry of a map."""
    branch, pieces = _VALUES[column.type](column, policy, zone)
    name = _text(column.name)

    def entry(values: pa.Array) -> Sequence[Piece]:
        return [name, *either(values, lambda known: [_BRANCHES[branch], *pieces(known)], _BRANCHES["null"])]

    return entry


def _integer(column: Column, _: Policy, __: str) -> _Value:
    unsigned = column.type is MySQLType.BIGINT and column.unsigned
    return _Value("UnsignedBigint" if unsigned else "long", longs)


def _string(column: Column, _: Policy, __: str) -> _Value:
    return _Value("bytes" if column.is_binary else "string", counted)


def _plain(column: Column, policy: Policy, _: str) -> _Value:
    text = PLAIN[column.type](column, policy)
    return _Value("string", lambda values: counted(text(values)))


def _timestamp(column: Column, policy: Policy, zone: str) -> _Value:
    text = PLAIN[column.type](column, policy)
    return _Value("Timestamp", lambda values: [_text(zone), *counted(text(values))])


def _numbered(column: Column, policy: Policy, zone: str) -> _Value:
    model = to_model(column, policy.time_zone)

    def number(value: Any) -> bytes:
        return varint(write_value(column, model(value), zone)[1]["value"])

    return _Value("long", lambda values: [mapped(values, number)])


def _always(branch: str, pieces: Pieces) -> Callable[[Column, Policy, str], _Value]:
    return lambda *_: _Value(branch, pieces)


_VALUES: Mapping[MySQLType, Callable[[Column, Policy, str], _Value]] = {
    **dict.fromkeys(INTEGERS | {MySQLType.YEAR}, _integer),
    **dict.fromkeys(ENUM_SET, _numbered),
    **dict.fromkeys(STRINGS, _string),
    **dict.fromkeys(TEMPORAL | {MySQLType.DECIMAL, MySQLType.VECTOR}, _plain),
    MySQLType.TIMESTAMP: _timestamp,
    MySQLType.FLOAT: _always("float", floats),
    MySQLType.DOUBLE: _always("double", floats),
    MySQLType.JSON: _always("string", counted),
    MySQLType.BIT: _always("string", lambda values: counted(values.cast(pa.string()))),
}
