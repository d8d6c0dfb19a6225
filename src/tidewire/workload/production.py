"""From a workload to the messages of its topics, with everything that goes wrong on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from random import Random
from typing import Any

from tidewire.codec import Resources
from tidewire.dispatch import Dispatcher, Rule
from tidewire.dispatch.partition import columns_of
from tidewire.errors import OptionError
from tidewire.model import Position, RowChange, TableSchema
from tidewire.model.tso import physical_ms
from tidewire.workload.delivery import Delivery, Packet, Sent, deliver, encoded
from tidewire.workload.faults import FAULTS, Fault, duplicated, restarted, scattered
from tidewire.workload.garbage import spoiled
from tidewire.workload.statements import Statement
from tidewire.workload.workload import Entry, ResolvedTs, Transaction, Workload, events, states

_MOST_STATES = 10
"""The watermarks whose state is written down, beside the last one."""


@dataclass(frozen=True, slots=True)
class Production:
    """What was made: the entries upstream, and the messages in the order they were sent."""

    workload: Workload
    delivery: Delivery
    entries: Sequence[Entry]
    sent: Sequence[Sent]

    def placed(self, ends: Mapping[tuple[str, int], int] = {}) -> Iterable[tuple[Position, Sent]]:
        """The messages with their offsets, which go on where the partitions end."""
        next_offsets = dict(ends)
        for sent in self.sent:
            offset = next_offsets.get((sent.topic, sent.partition), 0)
            next_offsets[sent.topic, sent.partition] = offset + 1
            yield Position(sent.topic, sent.partition, offset), sent

    @property
    def marks(self) -> list[int]:
        """The watermarks, in order."""
        return [entry.ts for entry in self.entries if isinstance(entry, ResolvedTs)]


def produce(
    workload: Workload, delivery: Delivery, faults: Iterable[str] = (), resources: Resources = Resources()
) -> Production:
    """Run a workload through a changefeed that has these faults."""
    chosen = {name: _fault(name) for name in faults}
    workload = replace(
        workload, habits=reduce(lambda habits, fault: fault.habits(habits), chosen.values(), workload.habits)
    )
    entries = list(workload)
    delivery = reduce(lambda made, fault: fault.delivery(made, entries), chosen.values(), delivery)
    random = Random(f"{workload.seed} on its way")
    resources = replace(resources, clock=lambda: physical_ms(entries[-1].ts))

    def run(part: Sequence[Entry]) -> list[Packet]:
        packets = list(deliver(part, delivery, random))
        return reduce(lambda order, fault: fault.shuffle(order, random), chosen.values(), packets)

    packets = restarted(entries, run, random) if "restart" in chosen else run(entries)
    sent = encoded(packets, delivery, resources)
    if "duplicate" in chosen:
        sent = duplicated(sent, random)
    if "garbage" in chosen:
        rows = [event for event in events(entries) if isinstance(event, RowChange)]
        sent = iter(scattered(sent, spoiled(rows, delivery, resources, random), random))
    return Production(workload, delivery, entries, list(sent))


def _fault(name: str) -> Fault:
    if name not in FAULTS:
        raise OptionError("fault", f"{name!r} is not one of {', '.join(FAULTS)}")
    return FAULTS[name]


def rule_for_all(rule: Rule) -> Callable[[TableSchema], Rule]:
    """A rule for tables that have what it goes by; the others go by their name."""

    def rule_of(table: TableSchema) -> Rule:
        try:
            columns_of(table, rule)
        except OptionError:
            return Rule(Dispatcher.TABLE)
        return rule

    return rule_of


def expectation(production: Production, options: Mapping[str, Any], faults: Iterable[str]) -> dict[str, Any]:
    """What a consumer of the topic must come to: settings, statements, bad messages, and tables at watermarks."""
    entries, marks = production.entries, production.marks
    some = sorted({marks[-1], *marks[:: max(1, len(marks) // _MOST_STATES)]})
    *known, end = states(entries, some)
    statements = [entry.ddl for entry in entries if isinstance(entry, Statement)]
    return {
        "origin": "tidewire generate",
        "seed": production.workload.seed,
        "protocol": production.delivery.protocol,
        "partitions": production.delivery.partitions,
        "options": {production.delivery.protocol: dict(options)},
        "time_zone": production.delivery.options.time_zone,
        "faults": list(faults),
        "messages": len(production.sent),
        "transactions": sum(isinstance(entry, Transaction) for entry in entries),
        "row_events": sum(len(entry.rows) for entry in entries if isinstance(entry, Transaction)),
        "ddl_events": [{"commit_ts": ddl.commit_ts, "query": ddl.query, "type_code": ddl.type} for ddl in statements],
        "bad": [
            {"topic": at.topic, "partition": at.partition, "offset": at.offset, "kind": sent.bad}
            for at, sent in production.placed()
            if sent.bad is not None
        ],
        "watermarks": known,
        "end": end,
    }
