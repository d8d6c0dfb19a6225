"""Checks that a scanner and the readable codec agree, whatever the messages."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from tidewire.arrow import BatchDecoder, Decoded
from tidewire.arrow.kernel import Kernel, native
from tidewire.arrow.plan import Groups
from tidewire.codec import Options, Resources
from tidewire.errors import OptionError
from tidewire.model import Message


def _native_is_here() -> bool:
    try:
        native()
    except OptionError:  # It is not installed, or belongs to another version.
        return False
    return True


NATIVE_IS_HERE = _native_is_here()


def batch(messages: Iterable[Message]) -> pa.RecordBatch:
    """Messages as a decoder takes them."""
    kept = list(messages)
    return pa.record_batch(
        {
            "key": pa.array([message.key for message in kept], pa.binary()),
            "value": pa.array([message.value for message in kept], pa.binary()),
        }
    )


def rows(decoded: Decoded) -> list[dict[str, Any]]:
    """All rows in order, each with its table."""
    found = [
        {"table": plan.table.name, **row} for plan, record_batch in decoded.batches for row in record_batch.to_pylist()
    ]
    return sorted(found, key=lambda row: (row["_pos"], row["_sub"]))


def outcome(decoded: Decoded) -> tuple[Any, ...]:
    """What came of each message; the reason of a reject may have other words."""
    return (
        repr(rows(decoded)),
        decoded.controls,
        [pos for pos, _ in decoded.parked],
        [reject.pos for reject in decoded.rejects],
    )


def left(name: str, options: Options, resources: Resources, messages: Sequence[Message]) -> list[int]:
    """The places of the messages that the scanner leaves to the codec."""
    decoder = BatchDecoder(name, options, resources)
    found = []
    assert decoder._scanner is not None
    keys, values = [message.key for message in messages], [message.value for message in messages]
    for pos in decoder._scanner.scan(keys, values, Groups()):
        found.append(pos)
        decoder._read(pos, keys[pos], values[pos], Groups(), Decoded())
    return found


def agreed(
    name: str, options: Options, resources: Resources, messages: Sequence[Message], *, before: bool = True
) -> Decoded:
    """What a batch holds, the same with the scanner, with the native kernel and by the codec alone."""
    fast = BatchDecoder(name, options, resources, before=before, kernel=Kernel.PYTHON).decode(batch(messages))
    slow = BatchDecoder(name, options, resources, before=before, fast=False).decode(batch(messages))
    assert outcome(fast) == outcome(slow)
    if NATIVE_IS_HERE:
        native = BatchDecoder(name, options, resources, before=before, kernel=Kernel.NATIVE).decode(batch(messages))
        assert outcome(native) == outcome(slow)
    return fast


def whole(decoded: Decoded) -> tuple[Any, ...]:
    """All that was decoded, but for the reason of a reject: its words depend on the other messages of the batch."""
    batches = {plan.table: rows for plan, rows in decoded.batches}
    assert len(batches) == len(decoded.batches)
    parked = [(pos, str(missing)) for pos, missing in decoded.parked]
    rejects = [(reject.pos, reject.at, reject.part, reject.key, reject.value) for reject in decoded.rejects]
    warnings = sorted(set(decoded.warnings))
    return batches, decoded.controls, parked, rejects, warnings, decoded.counts


def identical(one: Decoded, other: Decoded) -> None:
    """Fail unless two kernels decoded the same: batches with their schemas, controls, rejects and counts."""
    (batches, *others), (expected, *more) = whole(one), whole(other)
    assert batches.keys() == expected.keys()
    for table, rows in batches.items():
        assert rows.schema == expected[table].schema
        assert rows.equals(expected[table]) or repr(rows.to_pylist()) == repr(expected[table].to_pylist()), table.name
    assert others == more


def damaged(data: bytes, chance: random.Random) -> bytes:
    """The bytes with something changed, added or missing."""
    found = bytearray(data)
    for _ in range(chance.choice((1, 1, 2))):
        at = chance.randrange(len(found) + 1)
        new = chance.choice((0, 1, 2, 3, 0x80, 0xFF, chance.randrange(256)))
        cut = slice(at, at + chance.choice((0, 1, 1, 1, 2, len(found))))
        found[cut] = chance.choice((b"", bytes([new]), bytes([new]), found[cut] * 2))
    return bytes(found)


def damaged_messages(messages: Iterable[Message], chance: random.Random) -> Iterator[Message]:
    """Each message with its key or its value damaged, or as it is."""
    for message in messages:
        key, value = message.key, message.value
        if key is not None and chance.random() < 0.2:
            key = damaged(key, chance)
        elif value is not None and chance.random() < 0.8:
            value = damaged(value, chance)
        yield Message(key, value)
