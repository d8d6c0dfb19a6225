"""Gives damaged messages to the codec and to both kernels until the time is over: ``make fuzz``.

The rows of these messages are written in every encoding, by the codec and by the native kernel. Prints the messages
that are not decoded or written alike, and exits with 1 if there are any.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator

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
    """How the kernels and the codec differ about messages; the options of their encoding come from the seed."""
    decoded = [
        BatchDecoder(name, options, resources, **settings).decode(batch(messages))
        for settings in ({"kernel": Kernel.NATIVE}, {"kernel": Kernel.PYTHON}, {"fast": False})
    ]
    try:
        identical(decoded[0], decoded[1])
        assert outcome(decoded[1]) == outcome(decoded[2]), "the Python kernel and the codec"
    except AssertionError as error:
        return str(error) or "rows or rejects"
    chance = random.Random(seed)
    found = (how for plan, rows in decoded[0].batches for how in differences(plan.table, rows, chance))
    return next(found, None)


def rounds(chance: random.Random) -> Iterator[tuple[str, Options, Resources, list[Message]]]:
    """Messages of some file, some of them damaged, over and over."""
    while True:
        name, folder, file = chance.choice(cases())
        options, resources, messages = given(folder, file)
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
