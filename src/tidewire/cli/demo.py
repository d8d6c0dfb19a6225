"""``tidewire demo``: a small tour."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from decimal import Decimal

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tidewire.cli.inspect import print_fields
from tidewire.codec import PROTOCOLS, Options, Resources, protocol
from tidewire.codec.parking import Parking
from tidewire.model import (
    Column,
    Ddl,
    DdlType,
    EnumValue,
    Event,
    Index,
    Message,
    Row,
    RowChange,
    TableName,
    TableSchema,
    Timestamp,
    Watermark,
)
from tidewire.plain import event_to_plain
from tidewire.registry import MemoryRegistry

_NAME = TableName("shop", "orders")
_QUERY = (
    "CREATE TABLE `shop`.`orders` (`id` BIGINT UNSIGNED PRIMARY KEY,`customer` VARCHAR(40),"
    "`total` DECIMAL(10,2),`state` ENUM('new','paid'),`photo` VARBINARY(16),`placed` TIMESTAMP(3))"
)
_TABLE = TableSchema.build(
    _NAME,
    [
        Column.of("id", "bigint unsigned", primary_key=True),
        Column.of("customer", "varchar(40)"),
        Column.of("total", "decimal(10,2)"),
        Column.of("state", "enum('new','paid')"),
        Column.of("photo", "varbinary(16)"),
        Column.of("placed", "timestamp(3)"),
    ],
    [Index("PRIMARY", ("id",), unique=True, primary=True)],
    table_id=104,
    version=470490288428154800,
)
_NEW: Row = {
    "id": 2**64 - 1,
    "customer": "Zoë <zoe@example.org>",
    "total": Decimal("19.90"),
    "state": EnumValue(1, "new"),
    "photo": b"\x89PNG\r\n",
    "placed": Timestamp("2026-11-16 09:30:00.250"),
}
_PAID: Row = {**_NEW, "state": EnumValue(2, "paid"), "photo": None}
_TS = 470490288428154880

EVENTS: list[Event] = [
    Ddl(_NAME, _TS, _QUERY, DdlType.CREATE_TABLE, table_schema=_TABLE),
    RowChange(_TABLE, _TS + 10, after=_NEW, table_id=104),
    RowChange(_TABLE, _TS + 20, before=_NEW, after=_PAID, table_id=104),
    RowChange(_TABLE, _TS + 30, before=_PAID, table_id=104),
    Watermark(_TS + 40),
]
"""A table is made, a row comes, changes and goes, and a watermark says that this is all."""

_OPTIONS = Options(enable_tidb_extension=True, avro_enable_watermark=True, avro_include_before_value=True)


@click.command()
def demo() -> None:
    """A small tour: the same five events in every protocol, one message byte by byte, and back again."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.rule("[bold]five events")
    for event in EVENTS:
        console.print(_sentence(event))
    console.print()

    console.rule("[bold]encoded")
    table = Table(box=None, header_style="bold")
    table.add_column("protocol")
    table.add_column("messages", justify="right")
    table.add_column("bytes", justify="right")
    table.add_column("decoded again")
    for name in PROTOCOLS:
        messages, decoded = _there_and_back(name)
        size = sum(len(part) for message in messages for part in (message.key, message.value) if part)
        table.add_row(name, str(len(messages)), str(size), _verdict(decoded))
    console.print(table)
    console.print()

    console.rule("[bold]the watermark in Open Protocol, byte by byte")
    (message,) = protocol("open-protocol").encode(EVENTS[-1:])
    print_fields(console, protocol("open-protocol").inspect(message))
    console.print("[dim]Next: tidewire decode --help, tidewire encode --help, tidewire inspect --help[/dim]")


def _there_and_back(name: str) -> tuple[list[Message], list[Event]]:
    resources = Resources(registry=MemoryRegistry())
    codec = protocol(name)
    messages = list(codec.Encoder(_OPTIONS, resources).encode(EVENTS))
    parking: Parking[None] = Parking(codec.Decoder(_OPTIONS, resources))
    return messages, [event for message in messages for _, event in parking.decode(message, None)]


def _verdict(decoded: Iterable[Event]) -> Text:
    """Are the rows the ones that went in?"""
    rows = [(event.op, event.before, event.after) for event in decoded if isinstance(event, RowChange)]
    expected = [(event.op, event.before, event.after) for event in EVENTS if isinstance(event, RowChange)]
    same = sum(got == want for got, want in zip(rows, expected, strict=False))
    return Text(f"{same} of {len(expected)} row changes equal", style="green" if same == len(expected) else "yellow")


def _sentence(event: Event) -> Text:
    plain = event_to_plain(event)
    match plain["kind"]:
        case "row":
            rows = [f"{side} {plain[side]['state']['text']}" for side in ("before", "after") if plain[side]]
            return Text(
                f"  {plain['commit_ts']}  {plain['op']:<9} {plain['schema']}.{plain['table']}  {', '.join(rows)}"
            )
        case "ddl":
            return Text(f"  {plain['commit_ts']}  ddl       {plain['query'][:60]}…")
    return Text(f"  {plain['ts']}  {plain['kind']}")
