"""What a batch decoder promises for every protocol: policies, warnings, all or nothing, however rows are cut."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import topic_files
from scanner_checks import batch, damaged_messages, outcome, rows
from tidewire.arrow import BatchDecoder, Decoded, Policy, ZeroDates, declared, encode_batch
from tidewire.codec import Options, Resources, protocol
from tidewire.model import (
    Bootstrap,
    Column,
    Date,
    DateTime,
    Event,
    Index,
    Message,
    Row,
    RowChange,
    TableName,
    TableSchema,
    Timestamp,
)
from tidewire.plain import message_from_plain
from tidewire.registry import MemoryRegistry

SETTINGS: dict[str, tuple[str, Options]] = {
    "avro": ("avro", Options(enable_tidb_extension=True)),
    "canal-json": ("canal-json", Options(enable_tidb_extension=True)),
    "craft": ("craft", Options()),
    "open-protocol": ("open-protocol", Options()),
    "simple-json": ("simple", Options()),
    "simple-avro": ("simple", Options.parse({"encoding-format": "avro"})),
}
EVERY_WAY = [(case, fast) for case in SETTINGS for fast in (True, False)]
TOLD_SCALES = {"avro", "simple-json", "simple-avro"}
"""The protocols that send the scale of a DECIMAL."""

TABLE = TableSchema.build(
    TableName("s", "t"),
    [
        Column.of("id", "int", primary_key=True),
        Column.of("d", "date"),
        Column.of("m", "datetime(3)"),
        Column.of("w", "timestamp"),
        Column.of("n", "decimal(40,2)"),
    ],
    [Index("PRIMARY", ("id",), unique=True, primary=True)],
    version=7,
    table_id=5,
)
FINE: Row = {
    "id": 1,
    "d": Date("2024-02-29"),
    "m": DateTime("2024-02-29 12:00:00.500"),
    "w": Timestamp("2024-02-29 12:00:00"),
    "n": Decimal("1.50"),
}
ZERO: Row = {
    "id": 2,
    "d": Date("0000-00-00"),
    "m": DateTime("2023-02-30 00:00:00.000"),
    "w": Timestamp("0000-00-00 00:00:00"),
    "n": None,
}
EVENTS = [RowChange(TABLE, ts, after=row, table_id=5) for ts, row in ((1, FINE), (2, ZERO))]


class Case:
    """Messages of one protocol, and how they are decoded."""

    def __init__(self, name: str, events: Sequence[Event]) -> None:
        self.protocol, self.options = SETTINGS[name]
        self.resources = Resources(registry=MemoryRegistry(), clock=lambda: 0)
        if self.protocol == "simple":
            events = [Bootstrap(TABLE), *events]
        options = replace(self.options, max_batch_size=1)
        self.messages = list(protocol(self.protocol).Encoder(options, self.resources).encode(events))

    def decode(self, policy: Policy, *, fast: bool = True) -> Decoded:
        return BatchDecoder(self.protocol, self.options, self.resources, policy=policy, fast=fast).decode(
            batch(self.messages)
        )


@pytest.mark.parametrize(("name", "fast"), EVERY_WAY)
def test_dates_that_the_calendar_does_not_have_become_null_and_are_counted(name: str, fast: bool) -> None:
    decoded = Case(name, EVENTS).decode(Policy(), fast=fast)

    fine, zero = (row["after"] for row in rows(decoded))
    assert (fine["d"], fine["m"]) == (date(2024, 2, 29), datetime(2024, 2, 29, 12, 0, 0, 500000))
    assert fine["w"] == datetime(2024, 2, 29, 12, tzinfo=timezone.utc)
    assert zero["d"] is zero["m"] is zero["w"] is None
    assert decoded.counts == {"zero dates": 3}


@pytest.mark.parametrize(("name", "fast"), EVERY_WAY)
def test_or_their_message_is_rejected(name: str, fast: bool) -> None:
    case = Case(name, EVENTS)

    decoded = case.decode(Policy(zero_dates=ZeroDates.REJECT), fast=fast)

    assert [row["after"]["id"] for row in rows(decoded)] == [1]
    assert [reject.pos for reject in decoded.rejects] == [len(case.messages) - 1]
    assert decoded.counts == {}


@pytest.mark.parametrize(("name", "fast"), EVERY_WAY)
def test_or_all_dates_stay_text(name: str, fast: bool) -> None:
    case, policy = Case(name, EVENTS), Policy(zero_dates=ZeroDates.TEXT)

    decoded = case.decode(policy, fast=fast)

    ((plan, found),) = decoded.batches
    assert [found.schema.field("after").type.field(part).type for part in "dmw"] == [pa.string()] * 3
    images = found.column("after").to_pylist()
    assert [[image[part] for part in "dmw"] for image in images] == [
        [str(row[c]) for c in "dmw"] for row in (FINE, ZERO)
    ]
    assert (decoded.counts, decoded.rejects) == ({}, [])
    typed, misfits = declared(found, TABLE)
    assert misfits == {}
    assert typed.column("after").field("d").to_pylist() == ["2024-02-29", "0000-00-00"]
    again = encode_batch(
        case.protocol, plan.table, found, replace(case.options, max_batch_size=1), case.resources, policy=policy
    )
    assert again.column("value").to_pylist() == [message.value for message in case.messages[-2:]]


@pytest.mark.parametrize("name", SETTINGS)
def test_what_is_no_date_at_all_is_rejected_under_every_policy(name: str) -> None:
    bad = RowChange(TABLE, 3, after={**FINE, "m": DateTime("2024-02-29 25:61:00.000")}, table_id=5)
    case = Case(name, [*EVENTS[:1], bad, *EVENTS[:1]])

    for policy in (Policy(zero_dates=how) for how in ZeroDates):
        for fast in (True, False):
            decoded = case.decode(policy, fast=fast)
            assert len(rows(decoded)) == 2
            assert [reject.pos for reject in decoded.rejects] == [len(case.messages) - 2]


def test_a_timestamp_kept_as_text_is_in_the_servers_zone_whichever_it_was_sent_in() -> None:
    sent = [Timestamp("2024-01-01 08:00:00.50"), Timestamp("0000-00-00 00:00:00")]
    events = [RowChange(TABLE, 1, after={**FINE, "w": value}, table_id=5) for value in sent]
    options = Options(time_zone="Asia/Shanghai")
    messages = list(protocol("simple").Encoder(options).encode([Bootstrap(TABLE), *events]))
    policy = Policy("Europe/Berlin", ZeroDates.TEXT)

    for fast in (True, False):
        decoded = BatchDecoder("simple", options, policy=policy, fast=fast).decode(batch(messages))
        assert [row["after"]["w"] for row in rows(decoded)] == ["2024-01-01 01:00:00.50", "0000-00-00 00:00:00"]


@pytest.mark.parametrize(("name", "fast"), EVERY_WAY)
def test_a_decimal_of_too_many_digits_is_text_and_there_is_a_warning_once(name: str, fast: bool) -> None:
    decoded = Case(name, EVENTS).decode(Policy(), fast=fast)

    assert rows(decoded)[0]["after"]["n"] == "1.50"
    text = "decimal(40,2) has more than 38 digits and is kept as text"
    assert decoded.warnings == ([(TABLE.name, "n", text)] if name in TOLD_SCALES else [])


def test_counts_and_warnings_are_each_batchs_own() -> None:
    case = Case("canal-json", EVENTS)
    policy = Policy()
    decoder = BatchDecoder(case.protocol, case.options, policy=policy)

    assert [decoder.decode(batch(case.messages)).counts for _ in range(2)] == [{"zero dates": 3}] * 2
    assert decoder.decode(batch([])).counts == {}
    assert policy.counts == {"zero dates": 6}


TOPICS = [("seed11-classic", name) for name in SETTINGS]


def topic(seed: str, name: str, count: int) -> tuple[Options, Resources, list[Message]]:
    messages = [message_from_plain(line) for line in topic_files.lines(seed, f"{name}.faults")[:count]]
    return topic_files.options(seed, name), Resources(registry=topic_files.registry(seed)), messages


@pytest.mark.parametrize(("seed", "name"), TOPICS)
def test_what_is_rejected_does_not_depend_on_whether_old_rows_are_wanted(seed: str, name: str) -> None:
    options, resources, messages = topic(seed, name, 150)
    spoiled = batch(damaged_messages(messages, random.Random(5)))

    found = [
        BatchDecoder(SETTINGS[name][0], options, resources, before=before, fast=fast).decode(spoiled)
        for before in (True, False)
        for fast in (True, False)
    ]

    assert found[0].rejects
    for other in found[1:]:
        assert [reject.pos for reject in other.rejects] == [reject.pos for reject in found[0].rejects]
        assert [row["after"] for row in rows(other)] == [row["after"] for row in rows(found[0])]


@pytest.mark.parametrize("sizes", [(1, 1 << 18, 1, 1), (7, 1 << 18, 5, 20), (2048, 1, 3, 1000)])
@pytest.mark.parametrize(("seed", "name"), TOPICS)
def test_columns_built_piece_by_piece_are_the_same(
    seed: str, name: str, sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    options, resources, messages = topic(seed, name, 120)
    spoiled = batch(damaged_messages(messages * 2, random.Random(6)))
    whole = BatchDecoder(SETTINGS[name][0], options, resources).decode(spoiled)
    for limit, size in zip(("_SLICE_MESSAGES", "_SLICE_BYTES", "_FULL", "_MOST"), sizes, strict=True):
        monkeypatch.setattr(f"tidewire.arrow.decode.{limit}", size)

    pieces = BatchDecoder(SETTINGS[name][0], options, resources).decode(spoiled)

    assert outcome(pieces) == outcome(whole)
    assert reasons(pieces) == reasons(whole)
    assert all(in_order(found) for _, found in pieces.batches)


def reasons(decoded: Decoded) -> list[Any]:
    return [(reject.pos, reject.key, reject.value) for reject in decoded.rejects]


def in_order(found: pa.RecordBatch) -> bool:
    places = list(zip(found.column("_pos").to_pylist(), found.column("_sub").to_pylist(), strict=True))
    return places == sorted(places)


def test_a_row_that_does_not_fit_takes_along_rows_of_its_message_that_are_columns_already(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = replace(TABLE, name=TableName("s", "other"))
    bad: Row = {**FINE, "m": DateTime("2024-02-29 25:61:00.000")}
    good = [RowChange(TABLE, ts, after=FINE, table_id=5) for ts in range(1, 6)]
    events = [*good[:3], RowChange(other, 4, after=bad, table_id=5), *good]
    messages = list(protocol("open-protocol").Encoder(Options(max_batch_size=4)).encode(events))
    monkeypatch.setattr("tidewire.arrow.decode._FULL", 2)
    monkeypatch.setattr("tidewire.arrow.decode._SLICE_MESSAGES", 1)

    decoded = BatchDecoder("open-protocol").decode(batch(messages))

    assert [reject.pos for reject in decoded.rejects] == [0]
    assert [row["_pos"] for row in rows(decoded)] == [1, 1, 1, 1, 2]
