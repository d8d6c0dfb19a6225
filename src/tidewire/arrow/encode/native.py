"""Batches of rows to messages, by the native kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow import kernel
from tidewire.arrow.encode.parts import Around, Format, NotOnFastPath, Part, Value
from tidewire.arrow.policy import Policy
from tidewire.arrow.texts import merged
from tidewire.arrow.types import arrow_type
from tidewire.codec import Options, Resources
from tidewire.codec.options import Compression
from tidewire.codec.size_limits import RECORD_OVERHEAD
from tidewire.errors import EncodeError
from tidewire.model import MySQLType, Op, TableSchema
from tidewire.model.tso import LOGICAL_BITS

Shape: TypeAlias = tuple[Iterable[Part] | None, Iterable[Part] | None]
"""The parts of key and value; None for one that is NULL."""


class Frame(NamedTuple):
    """How rows become messages; sizes are in bytes.

    ``most`` is the largest row, key and value. With a ``version`` messages begin with it and have several rows: up to
    ``rows``, and as long as ``limit`` is not crossed, with an ``overhead`` for each message and for each row.
    """

    most: int
    version: bytes | None = None
    overhead: int = 0
    row_overhead: int = 0
    limit: int = 0
    rows: int = 0


class Template(Protocol):
    """Of what the messages of one table are made, in one protocol."""

    facts: Sequence[str]
    """What the messages say about a change beside its rows, by the names in :data:`FACTS`."""

    def __init__(self, table: TableSchema, options: Options, resources: Resources) -> None: ...

    def encoder(self, ops: Collection[Op]) -> Any:
        """The kernel's encoder for rows to which these happened; NotOnFastPath if one is the codec's."""
        ...


class RowTemplate(ABC):
    """A template of messages whose rows stand one behind the other, each of its parts in order."""

    _frame: Frame

    @abstractmethod
    def _shape(self, op: Op) -> Shape:
        """The parts of a row to which this happened; NotOnFastPath if such rows are the codec's."""

    def encoder(self, ops: Collection[Op]) -> Any:
        """The kernel's encoder for rows to which these happened."""
        shapes = [tuple(map(_merged, self._shape(op))) if op in ops else None for op in Op]
        return kernel.native().Encoder(shapes, self._frame._asdict())


def _merged(parts: Iterable[Part] | None) -> list[Part] | None:
    return None if parts is None else merged(parts, bytes)


TEMPLATES: Final[Mapping[str, str]] = {
    "avro": "tidewire.arrow.encode.avro",
    "canal-json": "tidewire.arrow.encode.canal_json",
    "craft": "tidewire.arrow.encode.craft",
    "open-protocol": "tidewire.arrow.encode.open_protocol",
    "simple-json": "tidewire.arrow.encode.simple_json",
    "simple-avro": "tidewire.arrow.encode.simple_avro",
}
"""The module of each protocol's template, loaded when first asked for; Simple has one for each of its encodings."""

LEFT_TO_CODEC: Final = (EncodeError, ValueError, TypeError, LookupError, ArithmeticError, pa.ArrowException)
"""What a template may stumble over: it leaves such rows to the codec, which has a proper error or a way."""


def native_messages(
    protocol_name: str,
    table: TableSchema,
    rows: pa.RecordBatch,
    options: Options,
    resources: Resources,
    policy: Policy,
) -> pa.RecordBatch | None:
    """The messages of a batch, columns ``key`` and ``value``; None if the rows are for the codec."""
    name = f"simple-{options.encoding_format}" if protocol_name == "simple" else protocol_name
    module = TEMPLATES.get(name)
    if module is None or options.large_message_handle_compression is not Compression.NONE:
        return None
    try:
        rows.validate()  # that all ends are in their buffers; the kernel checks their order
        template: Template = import_module(module).Template(table, options, resources)
        encoder = template.encoder(_ops(table, rows))
        made = encoder.encode(_sources(table, rows, template.facts, resources, policy))
    except (*LEFT_TO_CODEC, RuntimeError):
        return None
    return None if made is None else pa.record_batch(made)


def _ops(table: TableSchema, rows: pa.RecordBatch) -> set[Op]:
    """What happened in these rows. Partial rows, and those that do not have the table's types, are the codec's."""
    names = rows.schema.names
    struct = pa.struct([pa.field(column.name, arrow_type(column)) for column in table.columns])
    images = [field.type for field in rows.schema if field.name in ("after", "before")]
    if not table.columns or any(type_ != struct for type_ in images):
        raise NotOnFastPath
    partial = "_absent" in names and rows.column("_absent").null_count < rows.num_rows
    if partial or pc.any(rows.column("_key_only")).as_py():
        raise NotOnFastPath
    after = rows.column("after").is_valid()
    before = rows.column("before").is_valid() if "before" in names else pa.repeat(False, rows.num_rows)
    present = {
        Op.INSERT: pc.and_not(after, before),
        Op.UPDATE: pc.and_(after, before),
        Op.DELETE: pc.and_not(before, after),
    }
    return {op for op, found in present.items() if pc.any(found).as_py()}


def _sources(
    table: TableSchema, rows: pa.RecordBatch, facts: Sequence[str], resources: Resources, policy: Policy
) -> pa.RecordBatch:
    """What the kernel takes values from: the facts, and the images with TIMESTAMPs on the clock of their zone."""
    arrays = [FACTS[name](rows, table, resources).cast(pa.int64()) for name in facts]
    images = {name: rows.column(name) for name in ("after", "before") if name in rows.schema.names}
    if policy.time_zone != "UTC":
        zoned = [number for number, column in enumerate(table.columns) if column.type is MySQLType.TIMESTAMP]
        images = {name: _on_clock(image, zoned, policy.time_zone) for name, image in images.items()}
    about = pa.StructArray.from_arrays(arrays, names=list(facts))
    return pa.record_batch({"about": about, **images})


def _on_clock(image: pa.StructArray, zoned: Sequence[int], time_zone: str) -> pa.StructArray:
    """An image with these columns as the clock of a time zone shows them."""
    if not zoned or image.null_count == len(image):
        return image
    arrays = image.flatten()
    for number in zoned:
        seconds = pc.cast(arrays[number], pa.timestamp("s", "UTC"), safe=False).cast(pa.int64())
        ends = pc.min_max(seconds).as_py()
        # Beyond what a TIMESTAMP holds Arrow and Python disagree on summer time.
        if ends["min"] is not None and not 0 <= ends["min"] <= ends["max"] < 1 << 31:
            raise NotOnFastPath
        arrays[number] = pc.local_timestamp(arrays[number].cast(pa.timestamp("us", time_zone)))
    fields = [field.with_type(array.type) for field, array in zip(image.type, arrays, strict=True)]
    mask = image.is_null() if image.null_count else None
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)


Fact: TypeAlias = Callable[[pa.RecordBatch, TableSchema, Resources], pa.Array]


def _commit_ts(rows: pa.RecordBatch, *_: Any) -> pa.Array:
    return rows.column("_commit_ts")


def _commit_ts_or_0(rows: pa.RecordBatch, *_: Any) -> pa.Array:
    return pc.fill_null(rows.column("_commit_ts"), 0)


def _physical(rows: pa.RecordBatch, *_: Any) -> pa.Array:
    return pc.shift_right(_commit_ts_or_0(rows), pa.scalar(LOGICAL_BITS, pa.int64()))


def _built(rows: pa.RecordBatch, _: TableSchema, resources: Resources) -> pa.Array:
    """When each message is made: the clock is asked once for each, in the order of the rows."""
    return pa.array([resources.clock() for _ in range(rows.num_rows)], pa.int64())


def _unsigned_commit_ts(rows: pa.RecordBatch, *_: Any) -> pa.Array:
    """For the protocols in which a timestamp has no sign."""
    times = rows.column("_commit_ts")
    if (pc.min(times).as_py() or 0) < 0:
        raise NotOnFastPath
    return times


def _partition(rows: pa.RecordBatch, *_: Any) -> pa.Array:
    return rows.column("_partition")


def _table_id(rows: pa.RecordBatch, table: TableSchema, _: Resources) -> pa.Array:
    """The partition's id, or the table's if it has no partitions; NULL for 0."""
    zero, partitions = pa.scalar(0, pa.int64()), rows.column("_partition")
    there = pc.fill_null(pc.not_equal(partitions, zero), False)
    return pc.if_else(there, partitions, pa.scalar(table.table_id or None, pa.int64()))


FACTS: Final[Mapping[str, Fact]] = {
    "commit ts": _commit_ts,
    "commit ts or 0": _commit_ts_or_0,
    "physical": _physical,
    "built": _built,
    "unsigned commit ts": _unsigned_commit_ts,
    "partition": _partition,
    "table id": _table_id,
}
"""What is known about changes, as columns."""


def fact(facts: Sequence[str], name: str, around: Around = Around(), format_: Format = Format("digits")) -> Value:
    """A fact in a message."""
    return Value(("about", facts.index(name)), format_, around)


def row_size(options: Options, overhead: int = RECORD_OVERHEAD) -> int:
    """The most bytes that key and value of a row have together."""
    if options.max_message_bytes < overhead:
        raise NotOnFastPath
    return options.max_message_bytes - overhead
