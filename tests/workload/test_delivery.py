"""What a changefeed delivers, with all faults: nothing is lost, and what TiCDC promises holds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from tidewire.codec import PROTOCOLS, Options, Resources, protocol
from tidewire.codec.parking import Parking
from tidewire.dispatch import Rule
from tidewire.errors import DecodeError, OptionError, RegistryError, SchemaUnknown
from tidewire.model import Bootstrap, Ddl, Event, Message, RowChange, TableName, Watermark
from tidewire.registry import MemoryRegistry
from tidewire.workload import (
    FAULTS,
    Delivery,
    Habits,
    Kind,
    Production,
    Statement,
    Workload,
    events,
    expectation,
    produce,
    rule_for_all,
    states,
)
from tidewire.workload.garbage import kinds

CASES = [*((name, "json") for name in PROTOCOLS), ("simple", "avro")]
NEITHER = {"garbage", "late-schema"}
"""Faults that lose statements or add messages on purpose."""


@cache
def delivery_of(name: str, encoding: str = "json", rule: str = "index-value") -> Delivery:
    options = Options.parse({"enable-tidb-extension": "true", "encoding-format": encoding})
    return Delivery(name, options, rule_of=rule_for_all(Rule.parse(rule)))


@cache
def produced(delivery: Delivery, *faults: str, seed: int = 5) -> tuple[Production, MemoryRegistry]:
    registry = MemoryRegistry()
    workload = Workload(seed, transactions=70, tables=6, habits=Habits(statements=0.1))
    return produce(workload, delivery, faults, Resources(registry=registry)), registry


Place = tuple[str, int]


def decoded(made: tuple[Production, MemoryRegistry]) -> Iterator[tuple[Place, Event]]:
    """Each event with the partition its message is in."""
    production, registry = made
    delivery = production.delivery
    parking: Parking[Place] = Parking(
        protocol(delivery.protocol).Decoder(delivery.options, Resources(registry=registry))
    )
    for sent in production.sent:
        yield from parking.decode(sent.message, (sent.topic, sent.partition))
    assert not parking.parked


Keys = dict[TableName, tuple[str, ...]]


def identity(change: RowChange, keys: Keys | None = None) -> tuple[Any, ...]:
    """What tells a change from others: its row, or where only keys are known its key and whether it is gone."""
    row = change.before if change.after is None else change.after
    assert row is not None
    if keys is None:
        return (change.table.name, change.op, tuple(sorted(row.items())))
    return (change.table.name, change.after is None, tuple(row[name] for name in keys[change.table.name]))


@pytest.mark.parametrize(("name", "encoding"), CASES)
@pytest.mark.parametrize("faults", [(), tuple(FAULTS.keys() - NEITHER)], ids=["well", "badly"])
def test_every_row_and_statement_arrives(name: str, encoding: str, faults: tuple[str, ...]) -> None:
    made = produced(delivery_of(name, encoding), *sorted(faults))
    found, sent = list(decoded(made)), list(events(made[0].entries))
    rows = [event for event in sent if isinstance(event, RowChange)]
    statements = {event.query for event in sent if isinstance(event, Ddl)}
    if name == "avro":  # its key is the primary key, so nobody hears which row went from a table without one
        rows = [event for event in rows if event.table.primary_key or event.after is not None]
    # Avro's updates look like inserts, and its deletes have no more than a key.
    keys = {event.table.name: event.table.handle_key for event in rows} if name == "avro" else None

    assert {identity(event, keys) for _, event in found if isinstance(event, RowChange)} == {
        identity(event, keys) for event in rows
    }
    assert {event.query for _, event in found if isinstance(event, Ddl)} == (set() if name == "avro" else statements)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("rule", ["table", "index-value", "ts", "columns:status"])
def test_what_a_watermark_covers_was_there_before_it(rule: str, seed: int) -> None:
    made = produced(delivery_of("open-protocol", rule=rule), *sorted(FAULTS.keys() - NEITHER), seed=seed)
    seen: dict[Place, set[tuple[Any, ...]]] = {}
    covered: dict[Place, int] = {}

    for place, event in decoded(made):
        if isinstance(event, Watermark):
            covered[place] = max(event.ts, covered.get(place, 0))
        elif isinstance(event, RowChange | Ddl):
            what = (event.commit_ts, event.query if isinstance(event, Ddl) else identity(event))
            if what not in seen.setdefault(place, set()):
                assert event.commit_ts is not None
                assert event.commit_ts > covered.get(place, 0)
            seen[place].add(what)

    assert len(covered) == 5  # three, and two more after the growth
    assert set(covered.values()) == {made[0].marks[-1]}


@pytest.mark.parametrize("seed", range(2))
def test_a_statement_comes_after_the_rows_it_is_about_and_before_the_next(seed: int) -> None:
    made = produced(delivery_of("open-protocol"), "restart", "disorder", "ties", "parallel-ddl", seed=seed)
    shapes = [
        (name, entry.ts, None if table is None else {column.name for column in table.schema.columns})
        for entry in made[0].entries
        if isinstance(entry, Statement)
        for name, table in entry.tables.items()
    ]
    heard: dict[tuple[Place, Any], int] = {}

    for place, event in decoded(made):
        match event:
            case Ddl(table, ts) if ts is not None:
                for name in (table, event.old_name):
                    heard[place, name] = max(ts, heard.get((place, name), 0))
            case RowChange(table_schema, ts, before, after) if ts is not None:
                name = table_schema.name
                (moment, shape), *_ = reversed([(at, shape) for each, at, shape in shapes if each == name and at < ts])
                assert set(after or before or {}) == shape
                assert heard[place, name] >= moment


def test_canal_json_tells_only_the_first_partition_of_statements() -> None:
    places = {place[1] for place, event in decoded(produced(delivery_of("canal-json"))) if isinstance(event, Ddl)}

    assert places == {0}


def test_simple_tells_every_partition_the_schema_before_the_first_row() -> None:
    known: set[tuple[Place, int | None]] = set()
    for place, event in decoded(produced(delivery_of("simple"))):
        if isinstance(event, Bootstrap):
            known.add((place, event.table_schema.table_id))
        elif isinstance(event, RowChange):
            assert all((("feed", number), event.table.table_id) in known for number in range(3))


def test_avro_has_a_topic_for_each_table() -> None:
    for (topic, _), event in decoded(produced(delivery_of("avro"))):
        assert isinstance(event, RowChange)
        assert topic == f"shop_{event.table.name.table}"


def test_open_protocol_packs_rows_of_several_tables_and_moments() -> None:
    production, _ = produced(delivery_of("open-protocol"))
    decoder = protocol("open-protocol").Decoder(production.delivery.options)
    batches = [list(decoder.decode(sent.message)) for sent in production.sent]

    rows = [[event for event in batch if isinstance(event, RowChange)] for batch in batches]
    assert any(len({event.table.name for event in batch}) > 1 for batch in rows)
    assert any(len({event.commit_ts for event in batch}) > 1 for batch in rows)


def test_a_restart_repeats_and_the_watermark_falls_back() -> None:
    plain, restarted = (
        [event for _, event in decoded(produced(delivery_of("open-protocol"), *faults))]
        for faults in ((), ("restart",))
    )
    marks = [event.ts for event in restarted if isinstance(event, Watermark)]

    assert len(restarted) > len(plain)
    assert marks != sorted(marks)


def test_duplicates_are_the_same_message_twice_in_a_row() -> None:
    plain, twice = (produced(delivery_of("canal-json"), *faults)[0].sent for faults in ((), ("duplicate",)))

    assert len(twice) > len(plain)
    once = [sent for at, sent in enumerate(twice) if at == 0 or twice[at - 1] is not sent]
    assert once == list(plain)


def test_partitions_of_a_table_keep_their_own_order_only() -> None:
    found = decoded(produced(delivery_of("open-protocol", rule="table"), "disorder"))
    rows = [event for _, event in found if isinstance(event, RowChange) and event.partitioned]

    moments: dict[int | None, list[int]] = {}
    for row in rows:
        moments.setdefault(row.table_id, []).append(row.commit_ts or 0)
    everything = [row.commit_ts or 0 for row in rows]
    assert all(each == sorted(each) for each in moments.values())
    assert everything != sorted(everything)


def test_statements_on_different_tables_cross() -> None:
    habits = Habits(statements=0.5, kinds={Kind.ADD_COLUMN: 1})
    workload = Workload(2, transactions=40, habits=habits)
    delivery = delivery_of("canal-json")

    production = produce(workload, delivery, ["parallel-ddl"])

    decoder = protocol("canal-json").Decoder(delivery.options)
    found = [event for sent in production.sent for event in decoder.decode(sent.message) if isinstance(event, Ddl)]
    assert [event.commit_ts for event in found] != sorted(event.commit_ts or 0 for event in found)
    by_table: dict[Any, list[int]] = {}
    for event in found:
        by_table.setdefault(event.table, []).append(event.commit_ts or 0)
    assert all(each == sorted(each) for each in by_table.values())


@pytest.mark.parametrize("encoding", ["json", "avro"])
def test_rows_can_come_before_their_schema(encoding: str) -> None:
    delivery = delivery_of("simple", encoding)
    production, _ = produced(delivery, "late-schema")
    decoder = protocol("simple").Decoder(delivery.options)

    first = next(at for at, sent in enumerate(production.sent) if _is_row(decoder, sent.message))
    heard = [event for _, event in decoded((production, MemoryRegistry())) if isinstance(event, Bootstrap)]

    assert not any(
        isinstance(event, Bootstrap) for sent in production.sent[:first] for event in decoder.decode(sent.message)
    )
    assert heard


def _is_row(decoder: Any, message: Message) -> bool:
    try:
        return any(isinstance(event, RowChange) for event in decoder.decode(message))
    except SchemaUnknown:
        return True


@pytest.mark.parametrize(("name", "encoding"), CASES)
@pytest.mark.parametrize("seed", range(2))
def test_garbage_is_refused_and_only_garbage_is(name: str, encoding: str, seed: int) -> None:
    delivery = delivery_of(name, encoding)
    production, registry = produced(delivery, "garbage", seed=seed)
    parking: Parking[None] = Parking(protocol(name).Decoder(delivery.options, Resources(registry=registry)))
    refused = []

    for at, sent in enumerate(production.sent):
        try:
            list(parking.decode(sent.message, None))
        except (DecodeError, RegistryError):
            refused.append((at, sent.bad))

    assert refused == [(at, sent.bad) for at, sent in enumerate(production.sent) if sent.bad]
    assert sorted(kind or "" for _, kind in refused) == sorted(kinds(delivery))


def test_the_json_protocols_have_ten_kinds_of_garbage() -> None:
    for name in ("canal-json", "simple", "open-protocol"):
        assert len(kinds(delivery_of(name))) == 10


def test_an_expectation_says_where_garbage_is_and_what_the_tables_hold() -> None:
    production, _ = produced(delivery_of("canal-json"), "garbage")

    told = expectation(production, {"enable-tidb-extension": "true"}, ["garbage"])

    offsets: dict[Place, int] = {}
    for sent in production.sent:
        place = (sent.topic, sent.partition)
        offset = offsets[place] = offsets.get(place, -1) + 1
        bad = {"topic": place[0], "partition": place[1], "offset": offset, "kind": sent.bad}
        assert (bad in told["bad"]) == (sent.bad is not None)
    (end,) = states(production.entries, [production.marks[-1]])
    assert told["end"] == end
    assert [state["ts"] for state in told["watermarks"]] == sorted(state["ts"] for state in told["watermarks"])


def test_an_unknown_fault_is_named() -> None:
    with pytest.raises(OptionError, match="'rain' is not one of restart"):
        produce(Workload(1, transactions=1), delivery_of("craft"), ["rain"])
