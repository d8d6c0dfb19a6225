"""Avro rows straight into columns: generated code reads the records, Arrow whole columns of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from tidewire.arrow.avro_code import MISREADS, Field, RecordReader, compile_reader, tuple_of
from tidewire.arrow.avro_values import wire_reader
from tidewire.arrow.convert import Policy, Reader
from tidewire.arrow.decode import Groups
from tidewire.arrow.plan import Image, OpCode, Plan, Rows
from tidewire.codec.avro.decoder import Decoder, _table
from tidewire.codec.avro.layout import Layout, read_layout
from tidewire.codec.avro.names import CHECKSUM, COMMIT_TS, OP
from tidewire.codec.avro.wire import CONTROL, HEADER, Kind
from tidewire.codec.jsontext import read_json
from tidewire.codec.options import IntegrityCheck, Options
from tidewire.errors import DecodeError, RegistryError
from tidewire.model import Column, TableSchema

_CACHED: Final = 1000  # pairs of schemas
_OPS: Final = {b"c": OpCode.INSERT, b"u": OpCode.UPDATE, b"d": OpCode.DELETE, None: None}
_MAX_TS: Final = (1 << 63) - 1


class Scanner:
    """Takes rows out of Avro messages."""

    def __init__(self, options: Options, policy: Policy, decoder: Decoder) -> None:
        self._policy = policy
        self._registry = decoder.resources.registry
        self._verifies = options.integrity_check_level is IntegrityCheck.CORRECTNESS
        # By text and not by id, as the codec has it: an id may come again and mean another schema.
        self._shape = lru_cache(_CACHED)(self._new_shape)

    def scan(self, keys: Sequence[bytes | None], values: Sequence[bytes | None], groups: Groups) -> list[int]:
        """Put rows into groups; the places of the messages that were left alone."""
        left = []
        shapes: dict[tuple[bytes | None, bytes | None], tuple[_Shape, Rows] | None] = {}
        for pos, (key, value) in enumerate(zip(keys, values, strict=True)):
            # Of a delete only the key tells the shape; a marker in its value is as good as no value.
            record = value if value and (key is None or value[0] != Kind.DELETE) else None
            heads = None if key is None else key[: HEADER.size], None if record is None else record[: HEADER.size]
            try:
                found = shapes[heads]
            except KeyError:
                shape = self._find(*heads)
                found = shapes[heads] = None if shape is None else (shape, groups.of(shape.plan))
            try:
                if found is None or not found[0].take(pos, key, value, found[1]):
                    left.append(pos)
            except MISREADS:
                left.append(pos)
        for rows in {id(found[1]): found[1] for found in shapes.values() if found is not None}.values():
            _complete(rows)
        return left

    def _find(self, key: bytes | None, value: bytes | None) -> _Shape | None:
        """The shape of messages that start so; ``None`` where the codec should have a look."""
        try:
            return self._shape(self._schema(key), self._schema(value))
        except (DecodeError, RegistryError):
            return None

    def _schema(self, head: bytes | None) -> str | None:
        if head is None:
            return None
        if self._registry is None or len(head) < HEADER.size or head[0] != Kind.RECORD:
            raise DecodeError("avro", "no record")
        return self._registry.schema(HEADER.unpack(head)[1])

    def _new_shape(self, key: str | None, value: str | None) -> _Shape | None:
        keyed = None if key is None else _Registered.of(key)
        if value is None:
            return None if keyed is None else _Deleted(keyed, self._policy)
        record = _Registered.of(value)
        if self._verifies and record.name_of(CHECKSUM) != "None":
            return None
        return _Changed.of(record, keyed, self._policy)


def _complete(rows: Rows) -> None:
    """Fill in what is the same for all rows."""
    missing = len(rows.positions) - len(rows.subs)
    rows.subs += [0] * missing
    rows.partitions += [None] * missing
    rows.key_only += [False] * missing


class _Registered(NamedTuple):
    """A registered schema: what it means, and what its records' bytes are."""

    layout: Layout
    fields: tuple[Field, ...]

    @classmethod
    def of(cls, schema: str) -> _Registered:
        """The schema with this text; ``DecodeError`` where the codec knows no such schema."""
        layout = read_layout(schema, 0)
        return cls(layout, _fields(read_json(schema.encode("utf-8", "surrogatepass"), "avro", "schema")))

    def name_of(self, name: str) -> str:
        """What the code calls the value of a field about the change."""
        places = [n for n, slot in enumerate(self.layout.slots) if slot.name == name and slot.column is None]
        return f"v{places[0]}" if places else "None"

    @property
    def row(self) -> str:
        """The columns' values in code."""
        return tuple_of([f"v{n}" for n, slot in enumerate(self.layout.slots) if slot.column is not None])

    @property
    def before(self) -> tuple[str, tuple[tuple[Column, str], ...] | None]:
        """The row before in code, and its columns."""
        for number, slot in enumerate(self.layout.slots):
            if slot.record is not None:
                return f"v{number}", _typed(slot.record, self.fields[number].fields)
        return "None", None


def _fields(record: Any) -> tuple[Field, ...]:
    return tuple(_field(member["type"]) for member in record["fields"])


def _field(type_: Any) -> Field:
    null_at = None
    if isinstance(type_, list):
        null_at = type_.index("null")
        type_ = type_[1 - null_at]
    word = type_["type"] if isinstance(type_, dict) else type_
    return Field(word, null_at, _fields(type_) if word == "record" else ())


def _typed(layout: Layout, fields: Sequence[Field]) -> tuple[tuple[Column, str], ...]:
    """The columns and how they are on the wire."""
    slots = zip(layout.slots, fields, strict=True)
    return tuple((slot.column, field.type) for slot, field in slots if slot.column is not None)


class _RecordPlan(Plan):
    """A plan whose images are tuples of the columns' raw values; an empty one stands for a row of no columns."""

    def __init__(self, table: TableSchema, registered: _Registered, policy: Policy) -> None:
        slots = {slot.name: (slot, field) for slot, field in zip(registered.layout.slots, registered.fields)}

        def read(column: Column) -> Reader:
            slot, field = slots[column.name]
            return wire_reader(column, field.type, slot.interpret, policy)

        super().__init__(table, read)
        self._nothing = (None,) * len(self.columns)

    def wire_values(self, images: Sequence[Image | None]) -> Iterable[Sequence[Any]]:
        """The values of each column."""
        return zip(*[image or self._nothing for image in images], strict=True) if images else [()] * len(self.columns)


class _Deleted:
    """Messages with a key and no record: the row of that key was deleted."""

    def __init__(self, key: _Registered, policy: Policy) -> None:
        self.plan = _RecordPlan(_table(key.layout, key.layout), key, policy)
        self._read = compile_reader(key.fields, key.row)

    def take(self, pos: int, key: bytes, value: bytes | None, rows: Rows) -> bool:
        """Add a message's row; ``False`` where it is left alone."""
        before = self._read(key, HEADER.size)
        commit_ts = CONTROL.unpack(value)[1] if value else None
        if commit_ts is not None and commit_ts > _MAX_TS:
            return False
        rows.positions.append(pos)
        rows.ops.append(OpCode.DELETE)
        rows.commit_ts.append(commit_ts)
        rows.after.append(None)
        rows.before.append(before)
        return True


class _Changed:
    """Messages with a record, and with a key or without."""

    def __init__(self, plan: Plan, read: RecordReader, read_key: RecordReader | None, checksum: Any) -> None:
        self.plan = plan
        self._read, self._read_key, self._checksum = read, read_key, checksum

    @classmethod
    def of(cls, record: _Registered, key: _Registered | None, policy: Policy) -> _Changed | None:
        """The shape of messages with these schemas; ``None`` if the row before is not like the row after."""
        before, columns = record.before
        if columns is not None and not _alike(columns, _typed(record.layout, record.fields)):
            return None
        names = [record.name_of(name) for name in (OP, COMMIT_TS, CHECKSUM)]
        checksums = [slot.interpret for slot in record.layout.slots if slot.name == CHECKSUM and slot.column is None]
        return cls(
            _RecordPlan(_table(record.layout, None if key is None else key.layout), record, policy),
            compile_reader(record.fields, tuple_of([record.row, before, *names])),
            None if key is None else compile_reader(key.fields, "None"),
            checksums[0] if checksums else None,
        )

    def take(self, pos: int, key: bytes | None, value: bytes, rows: Rows) -> bool:
        """Add a message's row; ``False`` where it is left alone."""
        row, before, word, commit_ts, checksum = self._read(value, HEADER.size)
        if self._read_key is not None:
            self._read_key(key or b"", HEADER.size)  # only to know that it is whole
        if self._checksum is not None:
            self._checksum(checksum)
        op = _OPS[word]
        if commit_ts is not None and commit_ts < 0:
            return False
        if op is None:
            op = OpCode.INSERT if before is None else OpCode.UPDATE
        elif op is OpCode.INSERT and before is not None:
            return False
        rows.positions.append(pos)
        rows.ops.append(op)
        rows.commit_ts.append(commit_ts)
        if op is OpCode.DELETE:
            rows.after.append(None)
            rows.before.append(before or row)
        else:
            rows.after.append(row)
            rows.before.append(() if before is None and op is OpCode.UPDATE else before)
        return True


_Shape = _Deleted | _Changed


def _alike(columns: Sequence[tuple[Column, str]], others: Sequence[tuple[Column, str]]) -> bool:
    """Can the same readers read both? What a column is by default, or whether it can be NULL, does not matter."""
    return [_essence(*column) for column in columns] == [_essence(*column) for column in others]


def _essence(column: Column, avro: str) -> tuple[Any, ...]:
    return (column.name, column.type, column.unsigned, column.length, column.decimal, column.elements, avro)
