"""Describes Avro records to the native kernel: their fields, by the schemas that a registry keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from tidewire.arrow.scan.avro import Registered
from tidewire.arrow.scan.avro_code import Field
from tidewire.codec.avro.layout import Slot
from tidewire.codec.avro.names import CHECKSUM, COMMIT_TS, OP
from tidewire.codec.avro.wire import HEADER, Kind
from tidewire.codec.base import Resources
from tidewire.errors import DecodeError, RegistryError
from tidewire.model import Message

Texts = tuple[str | None, str | None]
"""The schemas of a message's key and value; the value of a deleted row has none."""

FieldSpec = tuple[str, int | None, str, int, int | None]
"""A field: its type, the place of null in a union, what it means, which column or how many fields, the key's field."""

_TARGETS: Final[Mapping[str, str]] = {OP: "op", COMMIT_TS: "commit ts", CHECKSUM: "checksum"}
_CACHED: Final = 1000


class Records:
    """The fields of messages, by their schemas."""

    def __init__(self, resources: Resources) -> None:
        self._registry = resources.registry
        self.fields = lru_cache(_CACHED)(_fields)

    def texts(self, message: Message) -> Texts | None:
        """The schemas of a message; None if it is not a row, or a schema is not known.

        By text and not by id, as in the codec: an id may come again and mean another schema. A registry that does not
        answer is an error.
        """
        deleted = not message.value or (message.key is not None and message.value[0] == Kind.DELETE)
        try:
            return self._text(message.key), None if deleted else self._text(message.value)
        except RegistryError as error:
            if error.status != 404:
                raise
            return None

    def _text(self, part: bytes | None) -> str | None:
        if part is None or self._registry is None:
            return None
        return self._registry.schema(HEADER.unpack(part[: HEADER.size])[1])


def _fields(texts: Texts) -> tuple[list[FieldSpec], list[FieldSpec]] | None:
    """The fields of key and value; None if Python has to read such messages."""
    try:
        key, value = (None if text is None else Registered.of(text) for text in texts)
    except DecodeError:
        return None
    if value is None:
        return None if key is None else (list(_specs(key, {})), [])
    places = value.places(() if key is None else key.columns)
    before = value.before
    if places is None or (before is not None and value.places(before.columns) != value.row):
        return None
    keys = {place: number for number, place in enumerate(places)}
    return [] if key is None else list(_specs(key, {})), list(_specs(value, keys))


def _specs(record: Registered, keys: Mapping[int, int]) -> Iterator[FieldSpec]:
    column = 0
    for place, (slot, field) in enumerate(zip(record.layout.slots, record.fields, strict=True)):
        if slot.record is not None:
            inner = list(_specs(Registered(slot.record, field.fields), {}))
            yield field.type, field.null_at, "before", len(inner), None
            yield from inner
        else:
            yield _spec(slot, field, column, keys.get(place))
            column += slot.column is not None


def _spec(slot: Slot, field: Field, column: int, key: int | None) -> FieldSpec:
    target = "column" if slot.column is not None else _TARGETS.get(slot.name, "other")
    return field.type, field.null_at, target, column, key
