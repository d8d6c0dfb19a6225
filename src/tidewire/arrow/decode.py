"""Many messages at once to typed columns per table.

A protocol's *scanner* takes the rows it is sure of out of the messages, without making event objects. Everything else
(DDL, watermarks, large messages kept elsewhere, anything odd or broken) it leaves to the readable codec, which also
says what is wrong with a bad message. So there is one set of rules, and a scanner is a faster way to the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, cast

import pyarrow as pa

from tidewire.arrow.convert import Policy, value_reader
from tidewire.arrow.plan import OpCode, Plan, Rows
from tidewire.codec import Options, Resources, protocol
from tidewire.codec.base import Decoder
from tidewire.errors import DecodeError, SchemaUnknown
from tidewire.model import Event, Message, Op, RowChange, TableSchema

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


@dataclass(slots=True)
class Decoded:
    """What a batch of messages holds. ``pos`` is a message's place in the batch, ``sub`` an event's in its message."""

    batches: list[tuple[Plan, pa.RecordBatch]] = field(default_factory=list)
    controls: list[tuple[int, int, Event]] = field(default_factory=list)
    parked: list[tuple[int, SchemaUnknown]] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)


class Groups:
    """The rows of a batch by plan."""

    def __init__(self) -> None:
        self.rows: dict[Plan, Rows] = {}

    def of(self, plan: Plan) -> Rows:
        """The rows of a plan so far."""
        rows = self.rows.get(plan)
        if rows is None:
            rows = self.rows[plan] = Rows()
        return rows


class Scanner(Protocol):
    """Takes rows out of messages of one protocol."""

    def scan(self, keys: Sequence[bytes | None], values: Sequence[bytes | None], groups: Groups) -> Iterable[int]:
        """Put rows into groups; the places of the messages that were left alone.

        The codec reads each place as it is given out. A scanner that needs what the codec learns from a message for
        the messages after it is a generator.
        """
        ...


SCANNERS: Mapping[str, str] = {
    "avro": "tidewire.arrow.avro",
    "canal-json": "tidewire.arrow.canal_json",
    "craft": "tidewire.arrow.craft",
    "open-protocol": "tidewire.arrow.open_protocol",
    "simple": "tidewire.arrow.simple",
}
"""The module of each protocol's scanner, loaded when first asked for."""


def scanner_for(protocol_name: str, options: Options, policy: Policy, decoder: Decoder) -> Scanner | None:
    """The scanner of a protocol, if it has one; ``decoder`` reads what it leaves, and knows what came before."""
    module = SCANNERS.get(protocol_name)
    return None if module is None else cast("Scanner", import_module(module).Scanner(options, policy, decoder))


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
    ) -> None:
        """``before``: are old rows wanted? ``fast``: may the scanner be used? Without it only the codec reads."""
        self.policy = Policy(options.time_zone) if policy is None else policy
        self._decoder = protocol(protocol_name).Decoder(options, resources)
        self._before = before
        self._scanner = scanner_for(protocol_name, options, self.policy, self._decoder) if fast else None
        self._plans: dict[TableSchema, Plan] = {}

    def decode(self, messages: pa.RecordBatch) -> Decoded:
        """The rows, controls and rejects of a batch with the columns ``key`` and ``value``."""
        keys, values = messages.column("key").to_pylist(), messages.column("value").to_pylist()
        groups, decoded = Groups(), Decoded()
        left: Iterable[int] = range(len(values))
        if self._scanner is not None:
            left = self._scanner.scan(keys, values, groups)
        for pos in left:
            self._read(pos, keys[pos], values[pos], groups, decoded)
        self._build(keys, values, groups, decoded)
        decoded.rejects.sort(key=lambda reject: reject.pos)
        return decoded

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
        plan = self._plans.get(event.table)
        if plan is None:
            plan = self._plans[event.table] = Plan(event.table, lambda column: value_reader(column, self.policy))
        groups.of(plan).add(
            pos,
            sub,
            _CODES[event.op],
            event.commit_ts,
            event.partition_id,
            event.handle_key_only,
            event.after,
            event.before,
        )

    def _build(self, keys: Sequence[Any], values: Sequence[Any], groups: Groups, decoded: Decoded) -> None:
        """Columns out of rows; a message with a row that does not fit goes as a whole."""
        reasons: dict[int, str] = {}
        built = []
        for plan, rows in groups.rows.items():
            batch, misfits = plan.batch(rows, before=self._before)
            for row, reason in misfits.items():
                reasons.setdefault(rows.positions[row], reason)
            built.append((plan, rows, batch))
        for plan, rows, batch in built:
            if reasons:
                kept = [row for row, pos in enumerate(rows.positions) if pos not in reasons]
                batch = batch if len(kept) == batch.num_rows else batch.take(pa.array(kept, pa.int32()))
            if batch.num_rows:
                decoded.batches.append((plan, batch))
        if reasons:
            decoded.controls = [control for control in decoded.controls if control[0] not in reasons]
        for pos, reason in reasons.items():
            decoded.rejects.append(Reject(pos, reason, None, "value", keys[pos], values[pos]))
