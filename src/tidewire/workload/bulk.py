"""Many changes of one table, in columns: for benchmarks and large topics.

A row's values are a function of its key and of how often it was changed, so the images of any change, and the table in
the end, can be computed for a million rows at once and nothing has to be remembered.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow import OpCode, arrow_type, encode_batch
from tidewire.codec import Resources, protocol
from tidewire.codec.avro.names import topic_of
from tidewire.errors import OptionError
from tidewire.model import Bootstrap, Ddl, DdlType, Event, Message, TableName, TableSchema, Watermark
from tidewire.workload.database import built
from tidewire.workload.delivery import Delivery
from tidewire.workload.shapes import Shape, column, keyed
from tidewire.workload.sql import create_table
from tidewire.workload.workload import START

Words = np.ndarray[Any, np.dtype[np.uint64]]
"""64 random bits for each row."""

_STEP = 1 << 12
"""Between two commit timestamps."""


class Part(NamedTuple):
    """Messages of one partition that follow each other: columns ``key`` and ``value``."""

    topic: str
    partition: int
    messages: pa.RecordBatch


def _integers(words: Words) -> pa.Array:
    return pa.array((words % np.uint64(2_000_000_000)).astype(np.int64) - 1_000_000_000, pa.int32())


def _longs(words: Words) -> pa.Array:
    return pa.array((words >> np.uint64(1)).astype(np.int64))


def _decimals(words: Words) -> pa.Array:
    cents = pa.array((words % np.uint64(1_000_000_000)).astype(np.int64))
    return pc.multiply(pc.cast(cents, pa.decimal128(19, 0)), pa.scalar("0.01").cast(pa.decimal128(3, 2))).cast(
        pa.decimal128(12, 2)
    )


def _names(words: Words) -> pa.Array:
    numbers = pc.cast(pa.array(words % np.uint64(1_000_000)), pa.string())
    return pc.binary_join_element_wise(pa.scalar("customer"), numbers, pa.scalar("ünïcode"), "-")


def _states(words: Words) -> pa.Array:
    names = pa.array(["new", "paid", "sent", "closed"])
    return names.take(pa.array((words % np.uint64(4)).astype(np.int64)))


def _moments(words: Words) -> pa.Array:
    return (
        pa.array(1_700_000_000_000 + (words % np.uint64(60_000_000_000)).astype(np.int64))
        .cast(pa.timestamp("ms"))
        .cast(pa.timestamp("us"))
    )


def _doubles(words: Words) -> pa.Array:
    return pa.array((words % np.uint64(1_000_000)).astype(np.float64) / 8)


_KINDS: tuple[tuple[str, str, Callable[[Words], pa.Array]], ...] = (
    ("customer", "varchar(60)", _names),
    ("total", "decimal(12,2)", _decimals),
    ("state", "varchar(10)", _states),
    ("placed", "datetime(3)", _moments),
    ("quantity", "int", _integers),
    ("weight", "double", _doubles),
    ("account", "bigint", _longs),
)
"""The columns beside the key, over and over until there are enough."""


@dataclass(frozen=True, slots=True)
class Bulk:
    """Changes of one table: 60 inserts to 30 updates to 10 deletes, a transaction each, of rows picked at random."""

    seed: int = 0
    rows: int = 1_000_000
    columns: int = 6
    inserts: float = 0.6
    updates: float = 0.3

    def __post_init__(self) -> None:
        if self.columns < 2:
            raise OptionError("columns", "a table for bulk needs a key and at least one more column")

    @property
    def table(self) -> TableSchema:
        """The table."""
        made = self._shape()
        return built(TableName("shop", made.name), made.columns, made.indexes, 104, START)

    def _shape(self) -> Shape:
        others = [
            column(name if number < len(_KINDS) else f"{name}{number // len(_KINDS) + 1}", type_)
            for number in range(self.columns - 1)
            for name, type_, _ in [_KINDS[number % len(_KINDS)]]
        ]
        return keyed("orders", [column("id", "bigint")], others)

    def create(self) -> Ddl:
        """The statement that makes the table."""
        table = self.table
        return Ddl(table.name, START, create_table(table.name, self._shape()), DdlType.CREATE_TABLE, table_schema=table)

    def changes(self, size: int = 50_000) -> Iterator[pa.RecordBatch]:
        """The changes in commit order, ``size`` at a time, in the shape of an Arrow plan's batches."""
        random, alive, versions = Random(self.seed), array("q"), array("q")
        for begin in range(0, self.rows, size):
            yield self._batch(begin, *self._drawn(random, alive, versions, min(size, self.rows - begin)))

    def _drawn(
        self, random: Random, alive: array[int], versions: array[int], count: int
    ) -> tuple[list[int], list[int], list[int]]:
        """What is done to which row, and how often that row was changed before."""
        chance, inserts, updates = random.random, self.inserts, self.inserts + self.updates
        ops: list[int] = []
        keys: list[int] = []
        ages: list[int] = []
        for _ in range(count):
            drawn = chance()
            if drawn < inserts or not alive:
                key = len(versions)
                alive.append(key)
                op, age = OpCode.INSERT, 0
                versions.append(0)
            else:
                place = int(chance() * len(alive))
                key = alive[place]
                age = versions[key]
                if drawn < updates:
                    op = OpCode.UPDATE
                    versions[key] = age + 1
                else:
                    op = OpCode.DELETE
                    alive[place] = alive[-1]
                    alive.pop()
            ops.append(op)
            keys.append(key)
            ages.append(age)
        return ops, keys, ages

    def _batch(self, begin: int, ops: Sequence[int], keys: Sequence[int], ages: Sequence[int]) -> pa.RecordBatch:
        count = len(ops)
        op, key, age = np.array(ops), np.array(keys, np.uint64), np.array(ages, np.uint64)
        changed = age + (op == OpCode.UPDATE)
        return pa.record_batch(
            {
                "_op": pa.array(op, pa.int8()),
                "_commit_ts": pa.array(np.arange(begin + 1, begin + 1 + count) * _STEP + START),
                "_pos": pa.array(np.arange(count), pa.int32()),
                "_sub": pa.array(np.zeros(count, np.int32)),
                "_partition": pa.nulls(count, pa.int64()),
                "_key_only": pa.array(np.zeros(count, bool)),
                "after": self._image(key, changed, mask=pa.array(op == OpCode.DELETE)),
                "before": self._image(key, age, mask=pa.array(op == OpCode.INSERT)),
                "_absent": pa.nulls(count, pa.list_(pa.int16())),
            }
        )

    def _image(self, keys: Words, ages: Words, mask: pa.Array | None = None) -> pa.StructArray:
        arrays = [pa.array(keys.astype(np.int64))]
        for number in range(self.columns - 1):
            words = _mixed(keys * np.uint64(0x9E3779B97F4A7C15) + ages * np.uint64(0xBF58476D1CE4E5B9), number)
            arrays.append(_KINDS[number % len(_KINDS)][2](words))
        fields = [pa.field(each.name, arrow_type(each)) for each in self.table.columns]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)

    def end(self) -> pa.Table:
        """What the table holds after all changes, by key."""
        random, alive, versions = Random(self.seed), array("q"), array("q")
        self._drawn(random, alive, versions, self.rows)
        keys = np.sort(np.array(alive, np.uint64))
        ages = np.array(versions, np.uint64)[keys]
        return pa.Table.from_struct_array(self._image(keys, ages))

    def parts(self, delivery: Delivery, resources: Resources = Resources(), *, size: int = 50_000) -> Iterator[Part]:
        """The topic, so many changes at a time: rows by their key, and a watermark for all after each piece."""
        name, options, table = delivery.protocol, delivery.options, self.table
        topic = delivery.topic if delivery.one_topic else topic_of(table.name)
        capabilities, encoder = protocol(name).capabilities(options), protocol(name).Encoder(options, resources)
        first: list[Event] = [Bootstrap(table)] if capabilities.bootstrap else []
        first[:0] = [self.create()] if capabilities.ddl is not None else []
        for number in range(1 if delivery.first_only else delivery.partitions):
            if first:
                yield Part(topic, number, _messages(encoder.encode(first)))
        for batch in self.changes(size):
            last = Watermark(batch.column("_commit_ts")[-1].as_py())
            homes = _homes(batch, delivery.partitions)
            for number in range(delivery.partitions):
                rows = batch.filter(pa.array(homes == number))
                made = encode_batch(name, table, rows, options, resources)
                control = _messages(encoder.encode([last] if capabilities.watermark else []))
                yield Part(topic, number, _joined(made, control))


def _homes(batch: pa.RecordBatch, partitions: int) -> np.ndarray[Any, Any]:
    after, before = (batch.column(name).field("id") for name in ("after", "before"))
    keys = pc.if_else(pc.equal(batch.column("_op"), int(OpCode.DELETE)), before, after)
    return np.asarray(keys) % partitions


def _mixed(words: Words, column_number: int) -> Words:
    """Other bits for each column: the last steps of a well-known generator."""
    words = words + np.uint64((column_number + 1) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF)
    words = (words ^ words >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    return words ^ words >> np.uint64(31)


def _messages(messages: Iterable[Message]) -> pa.RecordBatch:
    pairs = [(message.key, message.value) for message in messages]
    return pa.record_batch(
        {
            "key": pa.array([key for key, _ in pairs], pa.binary()),
            "value": pa.array([value for _, value in pairs], pa.binary()),
        }
    )


def _joined(first: pa.RecordBatch, second: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch(
        {name: pa.concat_arrays([first.column(name), second.column(name)]) for name in ("key", "value")}
    )
