"""The misbehaviours of real servers, each a small function over what is delivered.

None of them changes what the tables must hold in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TypeAlias

from tidewire.model import Bootstrap, Ddl, DdlType, Event, RowChange, Watermark
from tidewire.workload.delivery import Delivery, Growth, Packet, Sent, since
from tidewire.workload.workload import Entry, Habits, ResolvedTs, Transaction

Shuffle: TypeAlias = Callable[[list[Packet], Random], list[Packet]]
"""Another order of packets."""

Run: TypeAlias = Callable[[Sequence[Entry]], list[Packet]]
"""What one process of a changefeed sends of a workload."""

_DUPLICATES = 0.05
_RECENT = 3
"""The last watermarks from one of which a restarted changefeed continues."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A misbehaviour: what it is, and where it comes in. One that changes none of these is for ``produce`` to apply."""

    about: str
    habits: Callable[[Habits], Habits] = lambda habits: habits
    delivery: Callable[[Delivery, Sequence[Entry]], Delivery] = lambda delivery, entries: delivery
    shuffle: Shuffle = lambda packets, random: packets


def restarted(entries: Sequence[Entry], run: Run, random: Random, restarts: int = 2) -> Iterator[Packet]:
    """What processes that die send: each goes on from an older watermark, and the last packets of each are lost.

    A process first repeats the watermark it goes on from, and then sends everything after it again.
    """
    packets = run(entries)
    resolved = [entry.ts for entry in entries if isinstance(entry, ResolvedTs)]
    for _ in range(restarts):
        stop = random.randint(len(packets) // 3, 2 * len(packets) // 3)
        reached = next((ts for packet in packets[stop:] if (ts := _first_ts(packet)) is not None), None)
        known = [ts for ts in resolved if reached is not None and ts < reached]
        if not known:
            break
        yield from _without_tail(packets[:stop], known[-1], random)
        packets = run(since(entries, random.choice(known[-_RECENT:])))
    yield from packets


def _first_ts(packet: Packet) -> int | None:
    return next((ts for event in packet.events if (ts := _ts(event)) is not None), None)


def _ts(event: Event) -> int | None:
    match event:
        case Watermark(ts):
            return ts
        case Bootstrap():
            return None
        case _:
            return event.commit_ts


def _without_tail(packets: list[Packet], known: int, random: Random) -> Iterator[Packet]:
    """Messages without some of the last rows of each partition: those that were not acknowledged."""
    first = len(packets)
    while first and packets[first - 1].holds_rows and (_first_ts(packets[first - 1]) or 0) > known:
        first -= 1
    yield from packets[:first]
    tail = packets[first:]
    kept = {place: random.randint(0, 3) for place in {packet[:2] for packet in tail}}
    for packet in tail:
        kept[packet[:2]] -= 1
        if kept[packet[:2]] >= 0:
            yield packet


def disordered(packets: list[Packet], random: Random) -> list[Packet]:
    """Rows of a partitioned table, one of its partitions after the other.

    Each keeps its own order; between two broadcast messages no other order is guaranteed.
    """
    out: list[Packet] = []
    for rows, stretch in _stretches(packets):
        out += _by_physical(stretch, random) if rows else stretch
    return out


def _stretches(packets: Iterable[Packet]) -> Iterator[tuple[bool, list[Packet]]]:
    """Runs of packets with rows, and runs of others."""
    stretch: list[Packet] = []
    for packet in packets:
        if stretch and packet.holds_rows != stretch[0].holds_rows:
            yield stretch[0].holds_rows, stretch
            stretch = []
        stretch.append(packet)
    if stretch:
        yield stretch[0].holds_rows, stretch


def _by_physical(packets: list[Packet], random: Random) -> list[Packet]:
    queues: dict[tuple[object, ...], list[Event]] = {}
    for packet in packets:
        for event in packet.events:
            if isinstance(event, RowChange) and event.partitioned:
                queues.setdefault((*packet[:2], event.table.table_id), []).append(event)
    for rows in queues.values():
        order: dict[object, float] = {}
        rows.sort(key=lambda row: order.setdefault(getattr(row, "table_id", None), random.random()))
        rows.reverse()  # so that the next one can be taken from the end
    return [
        packet._replace(
            events=tuple(
                queues[(*packet[:2], event.table.table_id)].pop()
                if isinstance(event, RowChange) and event.partitioned
                else event
                for event in packet.events
            )
        )
        for packet in packets
    ]


def crossed(packets: list[Packet], random: Random) -> list[Packet]:
    """DDL of two tables in the other order, where nothing between them says which is first."""
    out, at = list(packets), 0
    while at < len(out):
        first = _statement(out, at)
        between = at + len(first)
        second_at = between
        while second_at < len(out) and out[second_at].holds_rows and not _about(out[second_at], first):
            second_at += 1
        second = _statement(out, second_at) if first else []
        if second and _apart(first, second):
            out[at : second_at + len(second)] = [*out[between:second_at], *second, *first]
            at = second_at + len(second)
        else:
            at += max(1, len(first))
    return out


def _statement(packets: list[Packet], at: int) -> list[Packet]:
    """The packets from a place on that carry one and the same statement."""
    if at >= len(packets) or not isinstance(packets[at].events[0], Ddl):
        return []
    end = at
    while end < len(packets) and packets[end].events == packets[at].events:
        end += 1
    return packets[at:end]


def _about(packet: Packet, statement: list[Packet]) -> bool:
    ddl = statement[0].events[0] if statement else None
    return any(
        isinstance(event, RowChange) and isinstance(ddl, Ddl) and event.table.name in (ddl.table, ddl.old_name)
        for event in packet.events
    )


_ALONE = frozenset({DdlType.CREATE_TABLE, DdlType.DROP_TABLE, DdlType.RENAME_TABLE})
"""Statements that a changefeed holds all others up for."""


def _apart(first: list[Packet], second: list[Packet]) -> bool:
    one, other = first[0].events[0], second[0].events[0]
    assert isinstance(one, Ddl)
    assert isinstance(other, Ddl)
    return one.table != other.table and one.type not in _ALONE and other.type not in _ALONE


def unannounced(packets: list[Packet], random: Random) -> list[Packet]:
    """Tables that are older than the feed: without CREATE TABLE, and with BOOTSTRAP after the first rows."""
    first_rows = next((at for at, packet in enumerate(packets) if packet.holds_rows), 0)
    out: list[Packet] = []
    late: list[Packet] = []
    for at, packet in enumerate(packets):
        match packet.events[0]:
            case Ddl(type=DdlType.CREATE_TABLE) if at < first_rows:
                continue
            case Bootstrap():
                late.append(packet)
                continue
            case RowChange():
                out.append(packet)
            case _:
                out += late
                late.clear()
                out.append(packet)
    return out + late


def duplicated(messages: Iterable[Sent], random: Random) -> Iterator[Sent]:
    """Some messages twice: the producer heard nothing and sent again."""
    for sent in messages:
        yield sent
        if random.random() < _DUPLICATES:
            yield sent


def scattered(messages: Iterable[Sent], more: Iterable[Sent], random: Random) -> list[Sent]:
    """Other messages among these, anywhere in the second half."""
    out = list(messages)
    for sent in more:
        out.insert(random.randint(len(out) // 2, len(out)), sent)
    return out


def _growing(delivery: Delivery, entries: Sequence[Entry]) -> Delivery:
    """Half way the topic gets two more partitions."""
    moments = [entry.ts for entry in entries if isinstance(entry, Transaction)]
    return (
        replace(delivery, growth=Growth(moments[len(moments) // 2], delivery.partitions + 2)) if moments else delivery
    )


FAULTS: Mapping[str, Fault] = {
    "restart": Fault("the producer restarts twice, repeats what it sent since an older watermark, and lost some rows"),
    "duplicate": Fault("every twentieth message is sent twice"),
    "disorder": Fault("partitions of a partitioned table are not in order with each other", shuffle=disordered),
    "ties": Fault(
        "transactions and statements share commit timestamps", habits=lambda habits: replace(habits, ties=0.3)
    ),
    "growth": Fault("half way the topic gets two more partitions", delivery=_growing),
    "late-schema": Fault(
        "no CREATE TABLE for the first tables, and BOOTSTRAP after the first rows (Simple)", shuffle=unannounced
    ),
    "parallel-ddl": Fault(
        "statements on different tables are out of order",
        habits=lambda habits: replace(habits, pairs=0.5),
        shuffle=crossed,
    ),
    "garbage": Fault("messages of every kind that cannot be read"),
}
"""Every fault by its name."""
