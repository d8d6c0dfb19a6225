"""Gives damaged messages to the codec and to both kernels until the time is over: ``make fuzz``.

The rows of these messages are written in every encoding, by the codec and by the native kernel. Prints the messages
that are not decoded or written alike, and exits with 1 if there are any.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from encode_checks import differences
from scanner_checks import batch, damaged_messages, identical, outcome
from tidewire.arrow import BatchDecoder, Kernel
from tidewire.arrow.kernel import native
from tidewire.codec import Options, Resources
from tidewire.codec.claim_check import MemoryStore
from tidewire.errors import OptionError
from tidewire.model import Message
from tidewire.registry import MemoryRegistry
from vector_files import files, vectors

_AT_ONCE = 40
"""So many messages of a file, at most, are damaged and decoded together."""


def cases() -> list[tuple[str, str, str]]:
    """The files of vectors that the native kernel reads: protocol, folder and file."""
    return [("simple" if name.startswith("simple") else name, name, file) for name in READ for file in files(name)]


def given(folder: str, file: str) -> tuple[Options, Resources, list[Message]]:
    """The messages of a file, with all their claim checks and schemas."""
    lines = vectors(folder, file)
    registry, store = MemoryRegistry(), {}
    for vector in lines:
        store.update(vector.claim_checks.blobs)
        for number, schema in vector.registry.schemas().items():
            registry.put(number, schema)
    resources = Resources(claim_check=MemoryStore(store), registry=registry)
    return lines[0].options, resources, [vector.message for vector in lines]


def different(name: str, options: Options, resources: Resources, messages: list[Message], seed: int = 0) -> str | None:
    """How the kernels and the codec differ about messages, in two batches one after the other.

    The seed says where the second one begins, in what kind of arrays the native kernel gets them, and the options of
    their encoding.
    """
    chance = random.Random(seed)
    cut = chance.randrange(len(messages) + 1)
    native, python, codec = (
        BatchDecoder(name, options, resources, **settings)
        for settings in ({"kernel": Kernel.NATIVE}, {"kernel": Kernel.PYTHON}, {"fast": False})
    )
    for part in (messages[:cut], messages[cut:]):
        fast, slow = native.decode(laid_out(part, chance)), python.decode(batch(part))
        try:
            identical(fast, slow)
            assert outcome(slow) == outcome(codec.decode(batch(part))), "the Python kernel and the codec"
        except AssertionError as error:
            return str(error) or "rows or rejects"
        found = (how for plan, rows in fast.batches for how in differences(plan.table, rows, chance))
        if (how := next(found, None)) is not None:
            return how
    return None


def laid_out(messages: list[Message], chance: random.Random) -> pa.RecordBatch:
    """Messages as a batch, as a slice out of a larger one, or as binary values with offsets of 64 bits."""
    around = chance.choice((0, 0, 1, 9))
    whole = batch([*messages[:around], *messages, *messages[-around:]] if around else messages)
    type_ = chance.choice((pa.binary(), pa.large_binary()))
    part = whole.slice(len(messages[:around]), len(messages))
    return pa.record_batch({field: part.column(field).cast(type_) for field in ("key", "value")})


_AVRO_TYPES = ("boolean", "int", "long", "float", "double", "bytes", "string")
_TIDB_TYPES = (
    *("INT", "INT UNSIGNED", "BIGINT", "BIGINT UNSIGNED", "BIT", "YEAR", "FLOAT", "DOUBLE", "DECIMAL", "TEXT", "BLOB"),
    *("DATE", "DATETIME", "TIMESTAMP", "TIME", "ENUM", "SET", "JSON", "TiDBVECTORFloat32"),
)


def damaged_schema(text: str, chance: random.Random) -> str:
    """A registered schema with another order of unions, other types, digits or fields than its messages have."""
    schema = json.loads(text)
    nodes: list[Any] = [schema]
    for node in nodes:
        nodes += node if isinstance(node, list) else node.values() if isinstance(node, dict) else ()
    for node in chance.sample(nodes, min(len(nodes), chance.choice((1, 1, 3)))):
        if isinstance(node, list):
            chance.shuffle(node)
        elif isinstance(node, dict) and node:
            name = chance.choice(list(node))
            others = {
                "type": chance.choice(_AVRO_TYPES),
                "tidb_type": chance.choice(_TIDB_TYPES),
                "precision": chance.randrange(70),
                "scale": chance.randrange(70),
                "allowed": chance.choice(("a,b,c", "", "a")),
            }
            if name in others and chance.random() < 0.9:
                node[name] = others[name]
            elif name not in ("fields", "name"):
                del node[name]
    return json.dumps(schema)


def rounds(chance: random.Random) -> Iterator[tuple[str, Options, Resources, list[Message]]]:
    """Messages of some file, some of them damaged, over and over."""
    while True:
        name, folder, file = chance.choice(cases())
        options, resources, messages = given(folder, file)
        if isinstance(resources.registry, MemoryRegistry) and chance.random() < 0.5:
            schemas = resources.registry.schemas()
            changed = {number: damaged_schema(schemas[number], chance) for number in schemas if chance.random() < 0.5}
            resources = replace(resources, registry=MemoryRegistry(schemas | changed))
        some = chance.sample(messages, min(len(messages), _AT_ONCE))
        yield name, options, resources, [*some, *damaged_messages(some, chance)]


def main() -> None:
    seconds, seed = int(sys.argv[1]), random.randrange(1 << 32)
    end, count, found = time.monotonic() + seconds, 0, 0
    for name, options, resources, messages in rounds(random.Random(seed)):
        difference = different(name, options, resources, messages, count)
        if difference is not None:
            found += 1
            alone = [message for message in messages if different(name, options, resources, [message], count)]
            print(f"{name}: {difference}", *(alone or messages), sep="\n", flush=True)
        count += len(messages)
        if time.monotonic() > end:
            break
    print(f"seed {seed}: {count} messages, {found} batches that were not decoded or written alike")
    sys.exit(found > 0)


try:
    READ = native().PROTOCOLS
except OptionError:
    READ = ()

if __name__ == "__main__":
    if not READ:
        sys.exit("tidewire-native is not installed: there is nothing to compare")
    main()
