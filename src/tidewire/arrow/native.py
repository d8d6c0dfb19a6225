"""The native kernel's rows: what Python tells it, and what it leaves to Python.

The kernel reads messages whose shape it knows. Where it meets a row of another shape it stops: the readable codec then
says which table the row is of, and the kernel learns that rows with the same bytes in the same places are this table's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from tidewire.arrow import kernel
from tidewire.arrow.native_records import Records, Texts
from tidewire.arrow.plan import Plan
from tidewire.arrow.policy import Policy
from tidewire.arrow.temporal import zoned
from tidewire.arrow.types import UNSIGNED_BIGINT, arrow_type
from tidewire.codec.avro.decoder import Decoder as AvroDecoder
from tidewire.codec.base import Decoder
from tidewire.codec.compression import decompress
from tidewire.codec.options import Compression, IntegrityCheck, Options
from tidewire.codec.simple.decoder import Decoder as SimpleDecoder
from tidewire.errors import DecodeError, SchemaUnknown
from tidewire.model import Column, Message, MySQLType, RowChange, TableSchema
from tidewire.model.grammar import integer_range
from tidewire.model.types import ENUM_SET, FLOATS, INTEGERS, STRINGS

_KEPT: Final = 1024
"""If the kernel knows more tables, it forgets them all, and learns each again from its next message."""

_MOST_LEARNT: Final = 32
"""A message with more unknown shapes is left to Python; later messages teach the others."""

_PACKED_WHOLE: Final = frozenset({"canal-json", "simple-avro", "simple-json"})
"""The protocols that compress a whole message. Open Protocol compresses each of its events."""

_MOST_UNPACKED: Final = 1 << 26
"""So many bytes of a batch are unpacked at once; what is beyond is left to Python, which holds less at a time."""

_UTC: Final = "UTC"
_LOCAL: Final = "local"

Run = tuple[int, int]
"""Messages that follow each other: the first one's place, and how many."""


class KernelFault(Exception):
    """The native kernel failed in a way that it should not."""


class _Kernel:
    """The native kernel, whose faults are KernelFault."""

    def __init__(self, *settings: Any) -> None:
        self._kernel = _asked(kernel.native().Kernel, *settings)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(_asked, getattr(self._kernel, name))


def _asked(call: Callable[..., Any], *given: Any) -> Any:
    try:
        return call(*given)
    except RuntimeError as error:
        raise KernelFault(str(error)) from None


class NativeRows:
    """Takes the rows of known shapes out of batches of messages."""

    def __init__(
        self,
        name: str,
        policy: Policy,
        decoder: Decoder,
        plan_of: Callable[[TableSchema], Plan],
        *,
        before: bool,
        compression: Compression = Compression.NONE,
    ) -> None:
        self._name = name
        self._compression = compression
        self._policy = policy
        self._decoder = decoder
        self._plan_of = plan_of
        self._before = before
        self._schemas = decoder.schemas if isinstance(decoder, SimpleDecoder) else None
        self._records = Records(decoder.resources) if isinstance(decoder, AvroDecoder) else None
        self._forget()

    def _forget(self) -> None:
        self._kernel: Any = _Kernel(self._name, self._before, self._policy.nulls_dates, self._policy.time_zone)
        self._changes = -1
        self._plans: list[Plan] = []
        self._numbers: dict[TableSchema, int | None] = {}
        self._record_tables: dict[Texts, int | None] = {}

    def _forget_shapes(self) -> None:
        """What an id or a schema's version means is the registry's or the codec's to say, and may be another now."""
        self._kernel.forget()
        if self._schemas is not None:
            self._changes = self._schemas.changes

    def runs(self, messages: pa.RecordBatch) -> Iterator[Run]:
        """Read the rows of a batch. The messages that the caller has to read come out, in order.

        Raises KernelFault if the kernel fails; the batch must then be read without it.
        """
        if len(self._plans) > _KEPT:
            self._forget()
        if self._schemas is None or self._schemas.changes != self._changes:
            self._forget_shapes()
        keys, values = (messages.column(part).cast(pa.binary()) for part in ("key", "value"))
        packed = self._compression is not Compression.NONE
        plain = pa.array(_unpacked(values.to_pylist(), self._compression), pa.binary()) if packed else values
        self._left: list[int] = []
        start = learnt = 0
        while (stop := self._kernel.scan(keys, plain, start)) is not None:
            learnt = learnt + 1 if stop[0] == start else 1
            start, sub = stop
            if sub is not None and learnt <= _MOST_LEARNT and self._learn(_message(keys, values, start), sub):
                continue
            if self._schemas is None:
                self._left.append(start)
            else:
                yield start, 1
                if self._schemas.changes != self._changes:
                    self._forget_shapes()
            start += 1
        self._rows, left, zeros = self._kernel.take()
        if zeros:
            self._policy.count("zero dates", zeros)
        yield from _runs(sorted(self._left + left))

    def batches(self) -> Iterator[tuple[Plan, pa.RecordBatch]]:
        """The rows of the last batch of messages, for each table."""
        for number, rows in self._rows:
            plan = self._plans[number]
            if self._schemas is not None:
                self._schemas.add(plan.table)  # It was used, so others are forgotten before it.
            yield plan, self._finished(plan, _asked(pa.record_batch, rows))
        self._rows = []

    def _learn(self, message: Message, sub: int) -> bool:
        """Teach the shape of an event in a message; True if the kernel can read the message."""
        if self._records is not None:
            return self._learn_record(message, self._records)
        event = self._event(message, sub)
        if event is None:
            return False
        number = self._number(event.table)
        if number is None:
            self._kernel.refuse()
            return self._schemas is not None  # The kernel stops again, to leave the message.
        learnt: bool = self._kernel.learn(number, event.partition_id)
        return learnt

    def _learn_record(self, message: Message, records: Records) -> bool:
        """Teach the shape of an Avro message, whose fields its schemas say."""
        texts = records.texts(message)
        fields = None if texts is None else records.fields(texts)
        if texts is not None and fields is not None:
            if texts not in self._record_tables:
                event = self._event(message, 0)
                if event is None:
                    return False
                self._record_tables[texts] = self._number(event.table)
            number = self._record_tables[texts]
            if number is not None and self._kernel.describe(*fields):
                learnt: bool = self._kernel.learn(number, None)
                return learnt
        self._kernel.refuse()
        return False

    def _event(self, message: Message, sub: int) -> RowChange | None:
        """The row that the codec finds in a message; None if it does not find one."""
        try:
            event = list(self._decoder.decode(message))[sub]
        except (DecodeError, SchemaUnknown, IndexError):
            return None
        return event if isinstance(event, RowChange) else None

    def _number(self, table: TableSchema) -> int | None:
        """The kernel's number of a table; None if it has a column that the kernel does not read."""
        if table not in self._numbers:
            columns = [_described(column, self._policy) for column in table.columns]
            known = [column for column in columns if column is not None]
            number = None
            if known and len(known) == len(columns):
                number = self._kernel.add_table(known)
                self._plans.append(self._plan_of(table))
            self._numbers[table] = number
        return self._numbers[table]

    def _finished(self, plan: Plan, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the plan's own schema, and TIMESTAMPs of other time zones in UTC."""
        schema = plan.schema(before=self._before)
        columns = [
            self._moved(plan, array) if field.name in ("after", "before") else array
            for field, array in zip(schema, rows.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _moved(self, plan: Plan, image: pa.StructArray) -> pa.StructArray:
        if image.type == plan.struct:
            return image
        arrays = [
            array if array.type == own.type else zoned(array, own.column, self._policy)
            for own, array in zip(plan.columns, map(image.field, range(len(plan.columns))), strict=True)
        ]
        mask = image.is_null() if image.null_count else None
        return pa.StructArray.from_arrays(arrays, fields=list(plan.struct), mask=mask)


def native_rows(
    name: str,
    options: Options,
    policy: Policy,
    decoder: Decoder,
    plan_of: Callable[[TableSchema], Plan],
    *,
    before: bool,
) -> NativeRows | None:
    """The native kernel for messages of a protocol; None if it does not read them."""
    compression = options.large_message_handle_compression
    if compression is not Compression.NONE and name not in _PACKED_WHOLE:
        return None
    if options.integrity_check_level is not IntegrityCheck.NONE:
        return None
    if name not in kernel.native().PROTOCOLS:
        return None
    return NativeRows(name, policy, decoder, plan_of, before=before, compression=compression)


def _unpacked(values: Iterable[bytes | None], compression: Compression) -> Iterator[bytes]:
    """Values as they were before they were compressed; nothing in place of those that are left to Python."""
    room = _MOST_UNPACKED
    for value in values:
        found = _decompressed(value, compression) if value and room > 0 else b""
        room -= len(found)
        yield found


def _decompressed(value: bytes, compression: Compression) -> bytes:
    try:
        return decompress(value, compression)
    except ValueError:  # It is for the codec to say why.
        return b""


def _message(keys: pa.BinaryArray, values: pa.BinaryArray, place: int) -> Message:
    return Message(keys[place].as_py(), values[place].as_py())


def _runs(places: Sequence[int]) -> Iterator[Run]:
    """Ascending places as runs."""
    if not places:
        return
    ends = [number + 1 for number, (one, other) in enumerate(pairwise(places)) if other != one + 1]
    for first, end in pairwise([0, *ends, len(places)]):
        yield places[first], end - first


_Described = tuple[str, str, tuple[int, int], tuple[int, int], list[str]]


def _described(column: Column, policy: Policy) -> _Described | None:
    """A column as the kernel is told: name, kind, a decimal's digits, an integer's range, names of an ENUM or SET."""
    kind = _kind(column, policy)
    if kind is None or "\0" in column.name:  # The C data interface ends a name there.
        return None
    type_ = arrow_type(column)
    digits = (type_.precision, type_.scale) if kind == "decimal" else (0, 0)
    low, high = integer_range(column) if kind in ("int32", "int64") else (0, 0)
    names = [] if column.type not in ENUM_SET else ["", *column.elements] if kind == "enum" else [*column.elements]
    return column.name, kind, digits, (low, min(high, _MOST)), names


def _kind(column: Column, policy: Policy) -> str | None:
    """What the kernel calls the values of a column; None if it does not read them."""
    if policy.keeps_text(column):
        return "date text" if column.type in _DAYS else "clock text"
    if column.type in ENUM_SET and column.elements:
        return column.type.name.lower()
    if column.type in STRINGS:
        return "bytes" if column.is_binary else "text"
    if column.type in INTEGERS | ENUM_SET | {MySQLType.YEAR, MySQLType.BIT}:
        type_ = arrow_type(column)
        if type_ == UNSIGNED_BIGINT:
            return "wide" if column.type is MySQLType.BIGINT else "bits"
        return f"int{type_.bit_width}"
    if column.type is MySQLType.DECIMAL:
        return "decimal text" if arrow_type(column) == pa.string() else "decimal"
    if column.type is MySQLType.TIMESTAMP:
        return "instant" if policy.time_zone == _UTC else _LOCAL
    return _KINDS.get(column.type)


_MOST: Final = (1 << 63) - 1
_DAYS: Final = frozenset({MySQLType.DATE, MySQLType.NEWDATE})

_KINDS: Final = {
    **{type_: type_.name.lower() for type_ in FLOATS},
    **dict.fromkeys(_DAYS, "date"),
    MySQLType.DATETIME: "clock",
    MySQLType.TIME: "time",
    MySQLType.JSON: "text",
    MySQLType.VECTOR: "vector",
}
