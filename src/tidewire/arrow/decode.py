"""Many messages at once to typed columns per table.

A protocol's *scanner* takes the rows it is sure of out of the messages, without making event objects. Everything else
(DDL, watermarks, large messages kept elsewhere, anything odd or broken) it leaves to the readable codec, which also
says what is wrong with a bad message. So there is one set of rules, and a scanner is a faster way to the same rows.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.convert import value_reader
from tidewire.arrow.kernel import KERNEL, Kernel
from tidewire.arrow.native import KernelFault, NativeRows, native_rows
from tidewire.arrow.plan import BufferedRow, Groups, Notice, OpCode, Plan, joined
from tidewire.arrow.policy import Policy
from tidewire.arrow.scan import encoding_name, scanner_for
from tidewire.arrow.scan.records import keep
from tidewire.codec import Decoder, Options, Resources, protocol
from tidewire.errors import DecodeError, SchemaUnknown
from tidewire.model import Event, Message, Op, RowChange, TableSchema

_SLICE_MESSAGES: Final = 1024
_SLICE_BYTES: Final = 1 << 18
"""How much is read at once, at most: its rows are Python objects, several times larger than the messages."""

_FULL: Final = 1024
_MOST: Final = 4 * _FULL
"""A plan is flushed to columns when it has ``_FULL`` rows; all plans are, when they have ``_MOST`` together."""

_CODES: Mapping[Op, OpCode] = {Op.INSERT: OpCode.INSERT, Op.UPDATE: OpCode.UPDATE, Op.DELETE: OpCode.DELETE}


@dataclass(frozen=True, slots=True)
class Reject:
    """A message that cannot be read, whole and with the reason."""

    pos: int
    reason: str
    at: int | str | None
    part: str | None
    key: bytes | None
    value: bytes | None


class Rows(NamedTuple):
    """The changes of one table in a batch: its plan, and the record batch that the plan describes."""

    plan: Plan
    batch: pa.RecordBatch

    def after(self) -> pa.Table:
        """The new rows as a flat table, for pandas or polars: ``_op``, ``_commit_ts`` and the row's columns.

        Deleted rows have none. ``_op`` is ``insert`` or ``update``.
        """
        return self._flat("after")

    def before(self) -> pa.Table:
        """The old rows as a flat table, as :meth:`after`; inserted rows have none. NULL if a row leaves one out."""
        return self._flat("before")

    def _flat(self, image: str) -> pa.Table:
        rows = self.batch.filter(self.batch.column(image).is_valid())
        words = pa.array([code.name.lower() for code in OpCode], pa.string()).take(rows.column("_op"))
        names = ["_op", "_commit_ts", *(field.name for field in self.plan.struct)]
        return pa.table([words, rows.column("_commit_ts"), *rows.column(image).flatten()], names)


@dataclass(slots=True)
class Decoded:
    """What a batch of messages holds. ``pos`` is a message's place in the batch, ``sub`` an event's in its message.

    ``warnings`` are about the columns of the tables in ``batches``, ``counts`` what the policy did to values.
    """

    batches: list[Rows] = field(default_factory=list)
    controls: list[tuple[int, int, Event]] = field(default_factory=list)
    parked: list[tuple[int, SchemaUnknown]] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    warnings: list[Notice] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


def decode_batch(
    protocol_name: str,
    messages: pa.RecordBatch,
    options: Options = Options(),
    resources: Resources = Resources(),
    *,
    policy: Policy | None = None,
    before: bool = True,
) -> Decoded:
    """The rows, controls and rejects of one batch of messages; use a :class:`BatchDecoder` for many."""
    return BatchDecoder(protocol_name, options, resources, policy=policy, before=before).decode(messages)


class BatchDecoder:
    """Decodes batches of one protocol. It keeps plans, and what the codec remembers, from batch to batch."""

    def __init__(
        self,
        protocol_name: str,
        options: Options = Options(),
        resources: Resources = Resources(),
        *,
        policy: Policy | None = None,
        before: bool = True,
        fast: bool = True,
        decoder: Decoder | None = None,
        kernel: Kernel | None = None,
    ) -> None:
        """``before``: are old rows wanted? ``fast``: may a kernel be used? Without it only the codec reads.

        ``decoder``: one of the codec's that knows schemas already, in place of a new one. ``kernel``: which one reads,
        by default the one of this process.
        """
        self.policy = Policy(options.time_zone) if policy is None else policy
        self._decoder = protocol(protocol_name).Decoder(options, resources) if decoder is None else decoder
        self._given = (protocol_name, options, resources, before, fast, kernel)
        self._before = before
        self._scanner = scanner_for(protocol_name, options, self.policy, self._decoder) if fast else None
        self._plans: dict[TableSchema, Plan] = {}
        self._native = None
        if fast and (kernel or KERNEL) is Kernel.NATIVE:
            name = encoding_name(protocol_name, options)
            self._native = native_rows(name, options, self.policy, self._decoder, self._plan, before=before)

    def __reduce__(self) -> tuple[Any, ...]:
        """What it has remembered of schemas goes along; plans are made anew."""
        return _rebuilt, (*self._given, self.policy, self._decoder)

    def decode(self, messages: pa.RecordBatch) -> Decoded:
        """The rows, controls and rejects of a batch with the columns ``key`` and ``value``.

        Raises ValueError if one of these arrays is broken, so that reading it would lead outside of its memory.
        """
        for part in ("key", "value"):
            try:
                messages.column(part).validate(full=True)
            except pa.ArrowInvalid as error:
                raise ValueError(f"the column {part!r} is a broken Arrow array: {error}") from None
        if self._native is not None:
            try:
                return self._decode(messages, self._native)
            except KernelFault as fault:
                warnings.warn(f"{fault} in the native kernel: the Python kernel reads instead", stacklevel=2)
                self._native = None
        return self._decode(messages, None)

    def _decode(self, messages: pa.RecordBatch, native: NativeRows | None) -> Decoded:
        decoded, groups, built = Decoded(), Groups(), _Built(self.policy, before=self._before)
        counted = Counter(self.policy.counts)
        for first, count in ((0, messages.num_rows),) if native is None else native.runs(messages):
            for start, part in _slices(messages.slice(first, count), first):
                keys, values = part.column("key").to_pylist(), part.column("value").to_pylist()
                left: Iterable[int] = range(start, start + len(values))
                if self._scanner is not None:
                    left = self._scanner.scan(keys, values, groups, start)
                for pos in left:
                    self._read(pos, keys[pos - start], values[pos - start], groups, decoded)
                for plan, rows in groups.take(_FULL, _MOST):
                    built.add(plan, rows)
        for plan, rows in groups.take(0, 0):
            built.add(plan, rows)
        for pos in sorted(built.again):
            self._read(pos, messages.column("key")[pos].as_py(), messages.column("value")[pos].as_py(), groups, decoded)
        for plan, rows in groups.take(0, 0):
            built.add(plan, rows)
        if native is not None:
            built.put(native.batches())
        self._finish(messages, built, decoded)
        decoded.counts = dict(Counter(self.policy.counts) - counted)
        return decoded

    def _plan(self, table: TableSchema) -> Plan:
        plan = self._plans.get(table)
        if plan is None:
            plan = keep(self._plans, table, Plan(table, value_reader, self.policy, by_codec=True))
        return plan

    def _read(self, pos: int, key: bytes | None, value: bytes | None, groups: Groups, decoded: Decoded) -> None:
        try:
            events = list(self._decoder.decode(Message(key, value)))
        except SchemaUnknown as missing:
            decoded.parked.append((pos, missing))
            return
        except DecodeError as error:
            decoded.rejects.append(Reject(pos, error.reason, error.at, error.part, key, value))
            return
        for sub, event in enumerate(events):
            if isinstance(event, RowChange):
                self._add(pos, sub, event, groups)
            else:
                decoded.controls.append((pos, sub, event))

    def _add(self, pos: int, sub: int, event: RowChange, groups: Groups) -> None:
        op, partition = _CODES[event.op], event.partition_id
        row = (pos, sub, op, event.commit_ts, partition, event.handle_key_only, event.after, event.before)
        groups[self._plan(event.table)].append(row)

    def _finish(self, messages: pa.RecordBatch, built: _Built, decoded: Decoded) -> None:
        """Put together what was built; a message with a row that does not fit goes as a whole."""
        decoded.batches = list(built.batches())
        decoded.warnings = list(dict.fromkeys(notice for plan, _ in decoded.batches for notice in plan.warnings))
        if built.invalid:
            decoded.controls = [control for control in decoded.controls if control[0] not in built.invalid]
        keys, values = messages.column("key"), messages.column("value")
        for pos, reason in built.invalid.items():
            decoded.rejects.append(Reject(pos, reason, None, "value", keys[pos].as_py(), values[pos].as_py()))
        decoded.rejects.sort(key=lambda reject: reject.pos)
        decoded.parked.sort(key=itemgetter(0))


def _rebuilt(
    name: str,
    options: Options,
    resources: Resources,
    before: bool,
    fast: bool,
    kernel: Kernel | None,
    policy: Policy,
    decoder: Decoder,
) -> BatchDecoder:
    return BatchDecoder(
        name, options, resources, policy=policy, before=before, fast=fast, decoder=decoder, kernel=kernel
    )


def _slices(messages: pa.RecordBatch, first: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The messages in order, as many at once as keep Python's objects for them few, each with its first one's place.

    The first of all has the place ``first``.
    """
    count = messages.num_rows
    size = min(max(count * _SLICE_BYTES // max(messages.nbytes, 1), 1), _SLICE_MESSAGES)
    for start in range(0, count, size):
        yield first + start, messages.slice(start, size)


class _Built:
    """The columns of a batch so far, and the messages with a value that was not taken.

    A value that a scanner's plan does not take is the codec's: ``again`` are the messages to be read by it. What the
    codec's plan does not take is ``invalid``. Rows of a message can be in several plans, and in columns that are built
    already; so those of a message that is not taken leave at the end.
    """

    def __init__(self, policy: Policy, *, before: bool) -> None:
        self.invalid: dict[int, str] = {}
        self.again: set[int] = set()
        self._policy = policy
        self._before = before
        self._parts: dict[Plan, list[pa.RecordBatch]] = {}

    def add(self, plan: Plan, rows: Sequence[BufferedRow]) -> None:
        """Build the columns of more rows."""
        counts = dict(self._policy.counts)
        part, invalid = plan.batch(rows, before=self._before)
        if invalid and not plan.by_codec:
            self.again.update(rows[row][0] for row in invalid)
            rows = [row for row in rows if row[0] not in self.again]
            # What was counted for rows that the codec reads again is counted then.
            self._policy.counts.clear()
            self._policy.counts.update(counts)
            part, invalid = plan.batch(rows, before=self._before)
        for row, reason in invalid.items():
            self.invalid.setdefault(rows[row][0], reason)
        self._parts.setdefault(plan, []).append(part)

    def put(self, batches: Iterable[tuple[Plan, pa.RecordBatch]]) -> None:
        """Keep columns that are built already."""
        for plan, part in batches:
            self._parts.setdefault(plan, []).append(part)

    def batches(self) -> Iterator[Rows]:
        """One batch for each table shape, of the messages that were taken, in order; the parts are given away."""
        invalid, again = pa.array(self.invalid, pa.int32()), pa.array({*self.invalid, *self.again}, pa.int32())
        plans: dict[TableSchema, list[Plan]] = {}
        for plan in self._parts:
            plans.setdefault(plan.table, []).append(plan)
        for same in plans.values():
            parts = []
            for plan in same:
                lost = invalid if plan.by_codec else again
                parts += [_without(part, lost) if len(lost) else part for part in self._parts.pop(plan)]
            batch = _ordered(parts[0] if len(parts) == 1 else joined(parts))
            if batch.num_rows:
                yield Rows(same[0], batch)


def _ordered(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows in the order of their messages: who read a message does not show."""
    positions, subs = rows.column("_pos"), rows.column("_sub")
    rising = pc.less(positions[:-1], positions[1:])
    if not pc.all(rising, min_count=0).as_py():
        same = pc.and_(pc.equal(positions[:-1], positions[1:]), pc.less_equal(subs[:-1], subs[1:]))
        if not pc.all(pc.or_(rising, same)).as_py():
            places = pc.add(pc.shift_left(positions.cast(pa.int64()), 32), subs.cast(pa.int64()))
            return rows.take(pc.sort_indices(places))
    return rows


def _without(part: pa.RecordBatch, bad: pa.Array) -> pa.RecordBatch:
    lost = pc.is_in(part.column("_pos"), bad)
    return part.filter(pc.invert(lost)) if pc.any(lost).as_py() else part
