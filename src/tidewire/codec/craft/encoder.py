"""Events to Craft messages, byte for byte as the classic server writes them, except FLOAT, which it corrupts."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, assert_never

from tidewire.codec.base import Resources
from tidewire.codec.columns import emitted_columns
from tidewire.codec.craft.chunks import (
    TermDictionary,
    delta_uvarints,
    delta_varints,
    nullable_strings,
    size_table,
    strings,
    uvarints,
)
from tidewire.codec.craft.layout import NO_PARTITION, VERSION, EventType, GroupType, Heading
from tidewire.codec.craft.varint import PROTOCOL, reversed_uvarint, uvarint, varint
from tidewire.codec.options import LargeMessage, Options
from tidewire.errors import EncodeError, OptionError, TidewireError
from tidewire.model import (
    Bootstrap,
    Column,
    ColumnFlag,
    Ddl,
    Event,
    Message,
    MySQLType,
    Op,
    Row,
    RowChange,
    Value,
    Watermark,
)
from tidewire.model.types import ENUM_SET, FLOATS, INTEGERS, STRINGS, TEMPORAL, TEXTS
from tidewire.model.values import float32

ROW_OVERHEAD = 32
COLUMN_OVERHEAD = 16
"""What the server reckons with for a row and for a column, besides names and values, when it fills a message."""


class _Cell(NamedTuple):
    """One column of a group with its value in bytes."""

    name: bytes
    type: int
    flags: int
    value: bytes | None


class _Place(NamedTuple):
    """When and where an event happened; names are ``None`` if there are none."""

    commit_ts: int
    type: EventType
    partition: int = NO_PARTITION
    schema: bytes | None = None
    table: bytes | None = None


_Groups: TypeAlias = Sequence[tuple[GroupType, Sequence[_Cell]]]


class _Row(NamedTuple):
    """A row change, ready except for the numbers of its names."""

    place: _Place
    groups: _Groups

    @property
    def estimate(self) -> int:
        """The size the server believes this row to have."""
        names = len(self.place.schema or b"") + len(self.place.table or b"")
        cells = (cell for _, group in self.groups for cell in group)
        return ROW_OVERHEAD + names + sum(len(cell.name) + len(cell.value or b"") + COLUMN_OVERHEAD for cell in cells)


class _Batch:
    """Rows that wait for their message, and the size the server believes them to have."""

    def __init__(self) -> None:
        self.rows: list[_Row] = []
        self.size = 0

    def add(self, row: _Row) -> None:
        self.rows.append(row)
        self.size += row.estimate

    def flush(self) -> Iterator[Message]:
        """The message of these rows, if there are any; the batch is empty afterwards."""
        rows, self.rows, self.size = self.rows, [], 0
        if rows:
            yield _rows(rows)


class Encoder:
    """Events to messages: rows packed together, DDL and watermarks alone."""

    def __init__(self, options: Options = Options(), resources: Resources = Resources()) -> None:
        if options.large_message_handle_option is not LargeMessage.NONE:
            raise OptionError("large-message-handle-option", "Craft has no way to make a large row smaller")
        self.options = options
        self.resources = resources

    def encode(self, events: Iterable[Event]) -> Iterator[Message]:
        """The messages these events make, in order. What came before a bad event is sent before it is refused."""
        batch = _Batch()
        try:
            for event in events:
                match event:
                    case RowChange():
                        batch.add(self._row(event))
                        # The row that crosses the limit is already in: the limit is no promise.
                        if batch.size > self.options.batch_limit or len(batch.rows) >= self.options.max_batch_size:
                            yield from batch.flush()
                        continue
                    case Ddl():
                        alone = _ddl(event)
                    case Watermark(ts):
                        alone = _message([_Place(_checked_ts(ts), EventType.RESOLVED)], [b""])
                    case Bootstrap():
                        raise EncodeError(PROTOCOL, "cannot say BOOTSTRAP: schemas travel with every row")
                    case _:
                        assert_never(event)
                yield from batch.flush()
                yield alone
        except TidewireError:
            yield from batch.flush()
            raise
        yield from batch.flush()

    def _row(self, event: RowChange) -> _Row:
        name = event.table.name
        if event.commit_ts is None:
            raise EncodeError(PROTOCOL, f"a change of {name} without a commit ts")
        if not name.schema or not name.table:
            raise EncodeError(PROTOCOL, f"a row change needs schema and table, not {str(name)!r}")
        images = ((GroupType.NEW, event.after), (GroupType.OLD, event.before))
        groups = [(kind, self._cells(event, row)) for kind, row in images if row is not None]
        groups = [(kind, cells) for kind, cells in groups if cells]
        # A row without columns has no group, and an old group alone would turn an update into a delete.
        if not groups or (groups[0][0] is GroupType.OLD and event.op is not Op.DELETE):
            raise EncodeError(PROTOCOL, f"no column left of the {event.op} of {name}")
        place = _Place(
            _checked_ts(event.commit_ts), EventType.ROW, _partition(event), _utf8(name.schema), _utf8(name.table)
        )
        return _Row(place, groups)

    def _cells(self, event: RowChange, row: Row) -> Sequence[_Cell]:
        columns = emitted_columns(row, event.table.columns)
        if event.op is Op.DELETE and self.options.delete_only_output_handle_key_columns:
            columns = (column for column in columns if ColumnFlag.HANDLE_KEY in column.effective_flags)
        return [
            _Cell(_utf8(column.name), column.type, column.effective_flags, value_bytes(column, row[column.name]))
            for column in columns
        ]


def _checked_ts(ts: int) -> int:
    if not 0 <= ts < 1 << 64:
        raise EncodeError(PROTOCOL, f"{ts} is not a commit ts")
    return ts


def _partition(event: RowChange) -> int:
    partition = event.partition_id
    if partition is None:
        return NO_PARTITION
    if not 0 <= partition < 1 << 63:
        raise EncodeError(PROTOCOL, f"{partition} is not the id of a partition of {event.table.name}")
    return partition


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise EncodeError(PROTOCOL, f"{text!r} is not Unicode text") from error


def _ddl(event: Ddl) -> Message:
    if event.commit_ts is None:
        raise EncodeError(PROTOCOL, f"a DDL without a commit ts: {event.query}")
    schema, table = (_utf8(name) if name else None for name in event.table)
    place = _Place(_checked_ts(event.commit_ts), EventType.DDL, NO_PARTITION, schema, table)
    try:
        type_ = uvarint(event.type or 0)
    except ValueError as error:
        raise EncodeError(PROTOCOL, f"DDL type: {error}") from error
    return _message([place], [type_ + strings([_utf8(event.query)])])


def _rows(batch: Sequence[_Row]) -> Message:
    return _message([row.place for row in batch], [row.groups for row in batch])


def _message(
    places: Sequence[_Place], bodies: Sequence[bytes | Sequence[tuple[GroupType, Sequence[_Cell]]]]
) -> Message:
    """One message. A body is finished bytes, or the groups of a row: their names are numbered last."""
    terms = TermDictionary()
    header = _header(places, terms)
    written, group_sizes = [], []
    for body in bodies:
        if isinstance(body, bytes):
            written.append(body)
        else:
            groups = [_group(kind, cells, terms) for kind, cells in body]
            written.append(b"".join(groups))
            group_sizes.append(list(map(len, groups)))
    return Message(None, framed(header, written, bytes(terms), b"".join(map(size_table, group_sizes))))


def framed(header: bytes, bodies: Sequence[bytes], dictionary: bytes, group_tables: bytes) -> bytes:
    """A message of finished parts; ``group_tables`` are the size tables of the bodies that have groups."""
    sizes = [[len(header), len(dictionary)], list(map(len, bodies))]
    tables = b"".join(map(size_table, sizes)) + group_tables
    return b"".join((uvarint(VERSION), header, *bodies, dictionary, tables, reversed_uvarint(len(tables))))


def _header(places: Sequence[_Place], terms: TermDictionary) -> bytes:
    # All schemas get their numbers before the first table does.
    schemas = [terms.id(place.schema) for place in places]
    tables = [terms.id(place.table) for place in places]
    headings = [
        Heading(place.commit_ts, place.type, place.partition, schema, table)
        for place, schema, table in zip(places, schemas, tables, strict=True)
    ]
    return header_of(*zip(*headings, strict=True))


def header_of(*columns: Sequence[int]) -> bytes:
    """The header of events whose headings are given member by member."""
    return b"".join(write(column) for write, column in zip(_HEADER, columns, strict=True))


_HEADER: Sequence[Callable[[Sequence[int]], bytes]] = (
    delta_uvarints,
    uvarints,
    delta_varints,
    delta_varints,
    delta_varints,
)
"""How each member of a heading is written."""


def _group(kind: GroupType, cells: Sequence[_Cell], terms: TermDictionary) -> bytes:
    head = group_head(kind, [(cell.name, cell.type, cell.flags) for cell in cells], terms)
    return head + nullable_strings([cell.value for cell in cells])


def group_head(kind: GroupType, columns: Sequence[tuple[bytes, int, int]], terms: TermDictionary) -> bytes:
    """What comes before a group's values: its columns' names, types and flags."""
    names, types, flags = zip(*columns, strict=True)
    return b"".join(
        (
            bytes([kind]),
            uvarint(len(columns)),
            delta_varints([terms.id(name) for name in names]),
            uvarints(types),
            uvarints(flags),
        )
    )


def value_bytes(column: Column, value: Value) -> bytes | None:
    """A value as it stands in a message."""
    if value is None:
        return None
    try:
        return _WRITERS[column.type](column, value)
    except (TypeError, ValueError, AttributeError, OverflowError, struct.error) as error:
        raise EncodeError(
            PROTOCOL, f"column {column.name} ({column.mysql_type}) cannot hold {value!r}: {error}"
        ) from error


def _integer(column: Column, value: int) -> bytes:
    return uvarint(value) if ColumnFlag.UNSIGNED in column.effective_flags else varint(value)


def _float(column: Column, value: float) -> bytes:
    return struct.pack("<d", float32(value) if column.type is MySQLType.FLOAT else value)


def _string(_: Column, value: str | bytes) -> bytes:
    if not isinstance(value, str | bytes):
        raise TypeError("text or bytes were expected")
    return value.encode() if isinstance(value, str) else value


_WRITERS: Mapping[MySQLType, Callable[[Column, Any], bytes | None]] = {
    **dict.fromkeys(INTEGERS, _integer),
    **dict.fromkeys(FLOATS, _float),
    **dict.fromkeys(ENUM_SET, lambda _, value: uvarint(value.index)),
    **dict.fromkeys(TEMPORAL, lambda _, value: value.text.encode()),
    **dict.fromkeys(TEXTS, lambda _, value: value.encode()),
    **dict.fromkeys(STRINGS, _string),
    # Signed, although TiDB flags every YEAR column as unsigned.
    MySQLType.YEAR: lambda _, value: varint(value),
    MySQLType.BIT: lambda _, value: uvarint(value),
    MySQLType.DECIMAL: lambda _, value: format(value, "f").encode(),
    **dict.fromkeys((MySQLType.UNSPECIFIED, MySQLType.NULL, MySQLType.GEOMETRY), lambda _, value: None),
}
