"""Messages that cannot be read, each kind with a name.

Each is made from a message that is right, so that a reader has to look closely.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from typing import Any

from tidewire.codec import Resources, protocol
from tidewire.codec.avro.names import topic_of
from tidewire.codec.options import EncodingFormat
from tidewire.model import Message, RowChange
from tidewire.model.types import INTEGERS
from tidewire.workload.delivery import Delivery, Sent

Spoil = Callable[[Message, RowChange, Random], Message]

_LENGTH = struct.Struct(">Q")
_VERSION = 8
"""Open Protocol: the bytes before the first key."""


def spoiled(rows: Iterable[RowChange], delivery: Delivery, resources: Resources, random: Random) -> Iterator[Sent]:
    """One message of every kind that the protocol can have; each ``bad`` says which."""
    rows = list(rows)
    # Early rows among late messages: what they are about is known then, so that nothing but the garbage is wrong.
    candidates = [row for row in rows[: len(rows) // 2 + 1] if row.after is not None and _number(row) is not None]
    if not candidates:
        return
    for kind, spoil in kinds(delivery).items():
        row = random.choice(candidates)
        (message,) = protocol(delivery.protocol).Encoder(delivery.options, resources).encode([row])
        topic = delivery.topic if delivery.one_topic else topic_of(row.table.name)
        yield Sent(topic, random.randrange(delivery.partitions), spoil(message, row, random), kind)


def kinds(delivery: Delivery) -> Mapping[str, Spoil]:
    """The kinds of garbage that a protocol can have."""
    encoding = delivery.options.encoding_format
    name = f"simple-{encoding}" if delivery.protocol == "simple" else delivery.protocol
    return {**_EVERYWHERE, **_KINDS[name]}


def _number(row: RowChange) -> str | None:
    """A column whose value is a whole number."""
    images = [image for image in (row.before, row.after) if image is not None]
    return next(
        (
            column.name
            for column in row.table.columns
            if column.type in INTEGERS and all(image.get(column.name) is not None for image in images)
        ),
        None,
    )


def _empty(_: Message, __: RowChange, ___: Random) -> Message:
    return Message(b"", b"")


def _nothing(_: Message, __: RowChange, ___: Random) -> Message:
    return Message(None, None)


def _random_bytes(_: Message, __: RowChange, random: Random) -> Message:
    data = b"\xff" + random.randbytes(39)  # no protocol's message begins with this byte
    return Message(data, data)


def _truncated(message: Message, _: RowChange, __: Random) -> Message:
    value = message.value or b""
    return Message(message.key, value[: len(value) // 2])


def _longer(message: Message, _: RowChange, __: Random) -> Message:
    return Message(message.key, (message.value or b"") + b"\x00\x01\x02\x03")


def _twice(message: Message, _: RowChange, __: Random) -> Message:
    return Message(message.key, (message.value or b"") * 2)


def _not_json(message: Message, _: RowChange, __: Random) -> Message:
    return Message(message.key, (message.value or b"").replace(b":", b";"))


def _list(message: Message, _: RowChange, __: Random) -> Message:
    return Message(message.key, b"[1,2,3]")


def _edited(edit: Callable[[dict[str, Any], RowChange], None]) -> Spoil:
    """A JSON document with something in it changed."""

    def spoil(message: Message, row: RowChange, _: Random) -> Message:
        document = json.loads(message.value or b"{}")
        edit(document, row)
        return Message(message.key, json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode())

    return spoil


def _edited_pair(edit: Callable[[dict[str, Any], dict[str, Any], RowChange], None]) -> Spoil:
    """Open Protocol's key and value with something in them changed."""

    def spoil(message: Message, row: RowChange, _: Random) -> Message:
        head, key = (message.key or b"")[:_VERSION], json.loads((message.key or b"")[_VERSION + _LENGTH.size :])
        value = json.loads((message.value or b"")[_LENGTH.size :])
        edit(key, value, row)
        return Message(head + _framed(key), _framed(value))

    return spoil


def _framed(document: dict[str, Any]) -> bytes:
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    return _LENGTH.pack(len(text)) + text


def _first_byte(byte: int) -> Spoil:
    return lambda message, _, __: Message(message.key, bytes([byte]) + (message.value or b"")[1:])


def _last_byte(byte: int) -> Spoil:
    return lambda message, _, __: Message(message.key, (message.value or b"")[:-1] + bytes([byte]))


def _canal_misfit(document: dict[str, Any], row: RowChange) -> None:
    document["data"][0][_number(row)] = "not a number"


def _simple_misfit(document: dict[str, Any], row: RowChange) -> None:
    document["data"][_number(row)] = "not a number"


def _open_misfit(_: dict[str, Any], value: dict[str, Any], row: RowChange) -> None:
    name = _number(row)
    assert name is not None
    value["u"][name]["v"] = "not a number"


def _unknown_schema(message: Message, _: RowChange, __: Random) -> Message:
    return Message(message.key, b"\x00\x7f\xff\xff\xff" + (message.value or b"")[5:])


_EVERYWHERE: Mapping[str, Spoil] = {
    "empty": _empty,
    "truncated": _truncated,
    "random-bytes": _random_bytes,
}

_JSON: Mapping[str, Spoil] = {"nothing": _nothing, "not-json": _not_json, "a-list": _list, "twice": _twice}

_KINDS: Mapping[str, Mapping[str, Spoil]] = {
    "canal-json": {
        **_JSON,
        "wrong-type": _edited(lambda document, _: document.update(table=7)),
        "missing-member": _edited(lambda document, _: document.pop("type")),
        "misfit": _edited(_canal_misfit),
    },
    f"simple-{EncodingFormat.JSON}": {
        **_JSON,
        "wrong-type": _edited(lambda document, _: document.update(table=7)),
        "missing-member": _edited(lambda document, _: document.pop("type")),
        "misfit": _edited(_simple_misfit),
    },
    f"simple-{EncodingFormat.AVRO}": {
        "nothing": _nothing,
        "unknown-kind": _first_byte(0x7E),
        "longer": _longer,
    },
    "open-protocol": {
        "nothing": _nothing,
        "longer": _longer,
        "wrong-type": _edited_pair(lambda key, _, __: key.update(tbl=7)),
        "missing-member": _edited_pair(lambda key, _, __: key.pop("t")),
        "unknown-kind": _edited_pair(lambda key, _, __: key.update(t=99)),
        "misfit": _edited_pair(_open_misfit),
        "unknown-version": lambda message, _, __: Message(
            b"\x00" * 7 + b"\x09" + (message.key or b"")[8:], message.value
        ),
    },
    "craft": {"nothing": _nothing, "longer": _longer, "wrong-size": _last_byte(0x7E)},
    "avro": {
        "longer": _longer,
        "unknown-kind": _first_byte(0x7E),
        "unknown-schema": _unknown_schema,
    },
}
"""What can be wrong in each protocol beside what can be wrong in all of them."""
