"""Simple messages to events, of either server generation and of the document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tidewire.codec.base import Resources
from tidewire.codec.checksum import row_checksum
from tidewire.codec.jsontext import Reader
from tidewire.codec.options import CorruptionHandling, IntegrityCheck, Options
from tidewire.codec.simple.formats import format_of
from tidewire.codec.simple.schema import SchemaCache, signed, table_from_wire
from tidewire.codec.simple.wire import BOOTSTRAP, OP_WORDS, PROTOCOL, VERSION, WATERMARK
from tidewire.codec.size_limits import Packing
from tidewire.errors import DecodeError, SchemaUnknown
from tidewire.model import (
    Bootstrap,
    Checksum,
    Ddl,
    DdlKind,
    Event,
    Message,
    Op,
    Row,
    RowChange,
    TableName,
    TableSchema,
    Value,
    Watermark,
)
from tidewire.model.ddl import TYPE_OF_KIND
from tidewire.model.grammar import shown


class Decoder:
    """Messages to events. It remembers the schemas it has seen; decoders of several partitions can share that memory.

    A row that comes before its schema is :class:`~tidewire.errors.SchemaUnknown`; ``codec.parking`` makes it wait.
    """

    def __init__(
        self, options: Options = Options(), resources: Resources = Resources(), schemas: SchemaCache | None = None
    ) -> None:
        self.options = options
        self.resources = resources
        self.schemas = SchemaCache() if schemas is None else schemas
        self._packing = Packing(PROTOCOL, options, resources)
        self._format = format_of(options)
        self._readers: Mapping[str, Callable[[Reader], Event]] = {
            WATERMARK: self._watermark,
            BOOTSTRAP: self._bootstrap,
            **dict.fromkeys(DdlKind, self._ddl),
            **dict.fromkeys(_OPS, self._row),
        }

    def __reduce__(self) -> tuple[Any, ...]:
        """The schemas it has seen go along."""
        return type(self), (self.options, self.resources, self.schemas)

    def decode(self, message: Message) -> list[Event]:
        """The events in one message: all of them, or ``DecodeError``."""
        return list(self._events(message))

    def _events(self, message: Message) -> Iterator[Event]:
        reader = self._load(message, "value")
        word = reader.string("type")
        read = self._readers.get(word)
        if read is None:
            raise reader.refuse(f"{shown(word)} is no event type", "type")
        yield read(reader)

    def _load(self, message: Message, part: str) -> Reader:
        if not message.value:
            raise DecodeError(PROTOCOL, "an empty message", 0, part)
        wire = self._format.load(self._packing.unpack(message.value, part), part)
        reader = Reader(wire, PROTOCOL, part)
        version = reader.integer("version", bits=31)
        if version != VERSION:
            raise reader.refuse(f"protocol version {version}, known is {VERSION}", "version")
        return reader

    def _watermark(self, reader: Reader) -> Watermark:
        return Watermark(reader.integer("commitTs"))

    def _bootstrap(self, reader: Reader) -> Bootstrap:
        schema = table_from_wire(reader.object("tableSchema"))
        self.schemas.add(schema)
        return Bootstrap(schema)

    def _ddl(self, reader: Reader) -> Ddl:
        kind = DdlKind(reader.string("type"))
        schema, previous = (
            table_from_wire(reader.object(name)) if name in reader.members else None
            for name in ("tableSchema", "preTableSchema")
        )
        name = TableName("", "") if schema is None else schema.name
        if schema is not None and not schema.columns and not schema.version:
            schema = None  # a sender that knew the name only
        event = Ddl(
            name,
            reader.integer("commitTs"),
            reader.string("sql", ""),
            type=TYPE_OF_KIND.get(kind),
            kind=kind,
            table_schema=schema,
            pre_table_schema=previous,
            old_name=previous.name if previous is not None and kind is DdlKind.RENAME else None,
        )
        for known in (previous, schema):
            if known is not None:
                self.schemas.add(known)
        return event

    def _row(self, reader: Reader) -> RowChange:
        name = TableName(reader.string("database", ""), reader.string("table", ""))
        version, table_id = reader.integer("schemaVersion", default=0), signed(reader, "tableID", default=0)
        schema = self.schemas.find(name, version, table_id)
        if schema is None:
            raise SchemaUnknown(PROTOCOL, str(name), version)
        location = reader.string("claimCheckLocation", "")
        if location:
            reader = self._checked_out(reader, location)
        before, after = (self._image(reader, image, schema) for image in ("old", "data"))
        event = RowChange(
            schema,
            reader.integer("commitTs"),
            before=before,
            after=after,
            table_id=table_id,
            partitioned=table_id not in (0, schema.table_id),
            handle_key_only=reader.boolean("handleKeyOnly"),
            checksum=_checksum(reader),
        )
        return self._verified(event, reader)

    def _checked_out(self, outer: Reader, location: str) -> Reader:
        """The whole row behind a claim check: the same change, not another one."""
        reader = self._load(self._packing.check_out(location, "$.claimCheckLocation", outer.part), "claim check")
        for name in ("type", "database", "table", "tableID", "schemaVersion", "commitTs"):
            if reader.members.get(name) != outer.members.get(name):
                raise reader.refuse(f"not the change it was kept for, which has {shown(outer.members.get(name))}", name)
        if "claimCheckLocation" in reader.members:
            raise reader.refuse("a claim check behind a claim check", "claimCheckLocation")
        return reader

    def _image(self, reader: Reader, member: str, schema: TableSchema) -> Row | None:
        """A row image in table order."""
        word = reader.string("type")
        expected = _IMAGES[_OPS[word]]
        if member not in reader.members:
            # An image without columns is left out on the wire.
            return {} if member in expected else None
        if member not in expected:
            raise reader.refuse(f"{word} has no such image", member)
        image = reader.object(member)
        row: dict[str, Value] = {}
        for column in schema.columns:
            if column.name not in image.members:
                continue
            raw = image.members[column.name]
            try:
                row[column.name] = None if raw is None else self._format.read_value(column, raw)
            except (ValueError, OverflowError) as error:
                raise image.refuse(f"column {column.name} ({column.mysql_type}): {error}", column.name) from None
        for name in image.members.keys() - row.keys():
            raise image.refuse(f"{schema.name} has no such column at version {schema.version}", name)
        return row

    def _verified(self, event: RowChange, reader: Reader) -> RowChange:
        """The event, if its checksum is right; wrong ones are refused or marked as the options say."""
        checksum = event.checksum
        unchecked = self.options.integrity_check_level is IntegrityCheck.NONE or event.handle_key_only
        if checksum is None or unchecked:
            return event
        damage = "the sender found it corrupted" if checksum.corrupted else self._damage(event, checksum)
        if damage is None:
            return event
        if self.options.corruption_handle_level is CorruptionHandling.ERROR:
            raise reader.refuse(f"a change of {event.table.name}: {damage}", "checksum")
        return replace(event, checksum=replace(checksum, corrupted=True))

    def _damage(self, event: RowChange, checksum: Checksum) -> str | None:
        for member, row, sent in (("data", event.after, checksum.current), ("old", event.before, checksum.previous)):
            if row is None or sent == 0:
                continue
            try:
                computed = row_checksum(event.table.columns, row, self.options.time_zone)
            except ValueError as error:
                return str(error)
            if computed != sent:
                return f"the checksum of {member} is {computed}, the sender's is {sent}"
        return None


_OPS: Mapping[str, Op] = {word: op for op, word in OP_WORDS.items()}
_IMAGES: Mapping[Op, frozenset[str]] = {
    Op.INSERT: frozenset({"data"}),
    Op.UPDATE: frozenset({"data", "old"}),
    Op.DELETE: frozenset({"old"}),
}


def _checksum(reader: Reader) -> Checksum | None:
    if "checksum" not in reader.members:
        return None
    inner = reader.object("checksum")
    return Checksum(
        inner.integer("version", bits=31),
        inner.boolean("corrupted"),
        inner.integer("current", bits=32),
        inner.integer("previous", bits=32),
    )
