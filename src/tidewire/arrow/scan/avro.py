"""Avro rows straight into columns: generated code takes the records apart, Arrow reads whole columns of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from tidewire.arrow.invalid_values import Reader
from tidewire.arrow.plan import BufferedRow, Groups, Image, OpCode, Plan
from tidewire.arrow.policy import Policy
from tidewire.arrow.scan.avro_code import MISREADS, Field, compile_reader, tuple_of
from tidewire.arrow.scan.avro_values import wire_reader
from tidewire.codec.avro.decoder import Decoder, table_of
from tidewire.codec.avro.layout import Layout, Slot, read_layout
from tidewire.codec.avro.names import CHECKSUM, COMMIT_TS, OP
from tidewire.codec.avro.wire import CONTROL, HEADER, PROTOCOL, Kind
from tidewire.codec.jsontext import read_json
from tidewire.codec.options import IntegrityCheck, Options
from tidewire.errors import DecodeError, RegistryError
from tidewire.model import Column, TableSchema

_CACHED: Final = 1000  # pairs of schemas, as many as the codec keeps
_LATEST: Final = (1 << 63) - 1
_OPS: Final = {b"c": OpCode.INSERT, b"u": OpCode.UPDATE, b"d": OpCode.DELETE, None: None}


class Scanner:
    """Takes rows out of Avro messages."""

    def __init__(self, options: Options, policy: Policy, decoder: Decoder) -> None:
        self._policy = policy
        self._registry = decoder.resources.registry
        self._verifies = options.integrity_check_level is IntegrityCheck.CORRECTNESS
        # By text and not by id, as in the codec: an id may come again and mean another schema.
        self._shape = lru_cache(_CACHED)(self._new_shape)

    def scan(
        self, keys: Sequence[bytes | None], values: Sequence[bytes | None], groups: Groups, start: int = 0
    ) -> list[int]:
        """Put rows into groups; the places of the messages that were left alone."""
        left = []
        shapes: dict[tuple[bytes | None, bytes | None], _Shape | None] = {}
        for pos, (key, value) in enumerate(zip(keys, values, strict=True), start):
            heads = (
                None if key is None else key[: HEADER.size],
                None if not value or (key is not None and value[0] == Kind.DELETE) else value[: HEADER.size],
            )
            try:
                shape = shapes[heads]
            except KeyError:
                shape = shapes[heads] = self._find(*heads)
            try:
                row = None if shape is None else shape.row(pos, key, value)
            except MISREADS:
                row = None
            if shape is None or row is None:
                left.append(pos)
            else:
                groups[shape.plan].append(row)
        return left

    def _find(self, key: bytes | None, value: bytes | None) -> _Shape | None:
        """The shape of messages whose parts begin so; ``None`` if only the codec knows what to do."""
        try:
            return self._shape(self._schema(key), self._schema(value))
        except DecodeError:
            return None
        except RegistryError as error:
            if error.status != 404:
                raise
            return None

    def _schema(self, head: bytes | None) -> str | None:
        if head is None:
            return None
        if self._registry is None or len(head) < HEADER.size or head[0] != Kind.RECORD:
            raise DecodeError(PROTOCOL, "not a record of a known schema")
        return self._registry.schema(HEADER.unpack(head)[1])

    def _new_shape(self, key: str | None, value: str | None) -> _Shape | None:
        keyed = None if key is None else Registered.of(key)
        if value is None:
            return None if keyed is None else _Deleted(keyed, self._policy)
        record = Registered.of(value)
        if self._verifies and record.about(CHECKSUM) is not None:
            return None
        same = record.places(() if keyed is None else keyed.columns)
        before = record.before
        if same is None or (before is not None and record.places(before.columns) != record.row):
            return None
        return _Changed(record, keyed, same, self._policy)


class Registered(NamedTuple):
    """A registered schema: what its fields mean, and what their bytes are."""

    layout: Layout
    fields: Sequence[Field]

    @classmethod
    def of(cls, schema: str) -> Registered:
        """The schema with this text; raises ``DecodeError`` if the codec knows no such schema."""
        layout = read_layout(schema, 0)
        return cls(layout, _fields(read_json(schema.encode("utf-8", "surrogatepass"), PROTOCOL)))

    @property
    def columns(self) -> list[tuple[Any, ...] | None]:
        """What matters of each column to those who read its values; ``None`` for other fields."""
        return [
            None if slot.column is None else _essence(slot.column, field)
            for slot, field in zip(self.layout.slots, self.fields, strict=True)
        ]

    @property
    def row(self) -> list[int]:
        """The places of the columns."""
        return [place for place, slot in enumerate(self.layout.slots) if slot.column is not None]

    @property
    def before(self) -> Registered | None:
        """The record of the row before."""
        for slot, field in zip(self.layout.slots, self.fields, strict=True):
            if slot.record is not None:
                return Registered(slot.record, field.fields)
        return None

    def about(self, name: str) -> Slot | None:
        """A field about the change."""
        return next((slot for slot in self.layout.slots if slot.name == name and slot.column is None), None)

    def places(self, columns: Iterable[tuple[Any, ...] | None]) -> list[int] | None:
        """Where columns like these are; ``None`` unless all are there."""
        known = self.columns
        wanted = list(columns)
        return [known.index(column) for column in wanted] if None not in wanted and set(wanted) <= set(known) else None


def _essence(column: Column, field: Field) -> tuple[Any, ...]:
    """All but the default and whether it can be NULL: neither changes how a value is read."""
    type_ = (column.type, column.unsigned, column.length, column.decimal, column.elements)
    return (column.name, type_, field.type)


def _fields(record: Any) -> tuple[Field, ...]:
    return tuple(_field(member["type"]) for member in record["fields"])


def _field(type_: Any) -> Field:
    null_at = None
    if isinstance(type_, list):
        null_at = type_.index("null")
        type_ = type_[1 - null_at]
    word = type_["type"] if isinstance(type_, dict) else type_
    return Field(word, null_at, _fields(type_) if word == "record" else ())


class _RecordPlan(Plan):
    """A plan whose images are tuples of raw values in the columns' order, or empty if no column is known."""

    def __init__(self, table: TableSchema, record: Registered, policy: Policy) -> None:
        slots = {slot.name: (slot, field.type) for slot, field in zip(record.layout.slots, record.fields, strict=True)}

        def reader_of(column: Column, policy: Policy) -> Reader:
            slot, avro = slots[column.name]
            return wire_reader(column, avro, slot.interpret, policy)

        super().__init__(table, reader_of, policy)
        self._nothing = (None,) * len(self.columns)

    def wire_values(self, images: Sequence[Image | None]) -> Iterable[Sequence[Any]]:
        """The values of each column."""
        return zip(*[image or self._nothing for image in images], strict=True)


class _Deleted:
    """Messages with a key and no record: the row of that key was deleted."""

    def __init__(self, key: Registered, policy: Policy) -> None:
        self.plan = _RecordPlan(table_of(key.layout, key.layout), key, policy)
        self._read = compile_reader(key.fields, _values(key.row))

    def row(self, pos: int, key: bytes | None, value: bytes | None) -> BufferedRow | None:
        """A message's row; ``None`` if the message is left alone."""
        before = self._read(key or b"", HEADER.size)
        commit_ts = CONTROL.unpack(value)[1] if value else None
        if commit_ts is not None and commit_ts > _LATEST:
            return None
        return pos, 0, OpCode.DELETE, commit_ts, None, False, None, before


class _Changed:
    """Messages with a record, and with a key or without one.

    The key must be equal to the record's key columns, so reading the record also reads the key. ``same``
    are the places of the key's columns in the record.
    """

    def __init__(self, record: Registered, key: Registered | None, same: Sequence[int], policy: Policy) -> None:
        self.plan = _RecordPlan(table_of(record.layout, None if key is None else key.layout), record, policy)
        slots = record.layout.slots
        before = [f"v{place}" for place, slot in enumerate(slots) if slot.record is not None]
        about = [record.about(name) for name in (OP, COMMIT_TS, CHECKSUM)]
        parts = ["None" if slot is None else f"v{slots.index(slot)}" for slot in about]
        result = tuple_of([_values(same), _values(record.row), *(before or ["None"]), *parts])
        self._read = compile_reader(record.fields, result)
        self._read_key = None if key is None else compile_reader(key.fields, _values(key.row))
        self._checksum: Callable[[Any], Any] | None = None if about[2] is None else about[2].interpret

    def row(self, pos: int, key: bytes | None, value: bytes | None) -> BufferedRow | None:
        """A message's row; ``None`` if the message is left alone."""
        same, row, before, word, commit_ts, checksum = self._read(value or b"", HEADER.size)
        if self._read_key is not None and self._read_key(key or b"", HEADER.size) != same:
            return None
        if self._checksum is not None:
            self._checksum(checksum)
        op = _OPS[word]
        if op is None:
            op = OpCode.INSERT if before is None else OpCode.UPDATE
        elif op is OpCode.INSERT and before is not None:
            return None
        if commit_ts is not None and commit_ts < 0:
            return None
        if op is OpCode.DELETE:
            # The codec reads both rows, which are the same as TiCDC writes them.
            return None if before and before != row else (pos, 0, op, commit_ts, None, False, None, row)
        return pos, 0, op, commit_ts, None, False, row, () if before is None and op is OpCode.UPDATE else before


_Shape: TypeAlias = _Deleted | _Changed


def _values(places: Sequence[int]) -> str:
    return tuple_of([f"v{place}" for place in places])
