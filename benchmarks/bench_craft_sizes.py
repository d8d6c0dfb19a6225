"""How much smaller is Craft than JSON? The two cases of the Craft document's size table, encoded in this run.

The rows are those of TiCDC's own benchmark of 2021. The document gives 300 and 993 bytes for Craft: they were measured
before the format was released, with size tables of unsigned differences. The released format takes 301 and 997.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from tidewire.codec import craft, open_protocol
from tidewire.model import (
    Column,
    ColumnFlag,
    Date,
    DateTime,
    MySQLType,
    RowChange,
    TableName,
    TableSchema,
    Timestamp,
    Value,
)

COLUMNS: Sequence[tuple[str, MySQLType, Value, Value]] = (
    ("varchar", MySQLType.VARCHAR, "varchar0", "varchar1"),
    ("string", MySQLType.CHAR, "string0", "string1"),
    ("date", MySQLType.DATE, Date("2021/01/01"), Date("2021/01/02")),
    ("timestamp", MySQLType.TIMESTAMP, Timestamp("2021/01/01 00:00:00"), Timestamp("2021/01/02 00:00:00")),
    ("datetime", MySQLType.DATETIME, DateTime("2021/01/01 00:00:00"), DateTime("2021/01/02 00:00:00")),
    ("float", MySQLType.FLOAT, 1.0, 2.0),
    ("long", MySQLType.INT, 1000, 2000),
    ("null", MySQLType.NULL, None, None),
)


def row(table: str, commit_ts: int, partition: int | None = None) -> RowChange:
    """An update of all columns."""
    return RowChange(
        TableSchema(TableName("a", table), tuple(Column(name, type_, ColumnFlag(0)) for name, type_, _, _ in COLUMNS)),
        commit_ts,
        before={name: old for name, _, old, _ in COLUMNS},
        after={name: new for name, _, _, new in COLUMNS},
        table_id=partition,
        partitioned=partition is not None,
    )


CASES: Sequence[Sequence[RowChange]] = (
    [row("b", 424316552636792833)],
    [
        row("c", 424316553934667777),
        row("d", 424316554327097345),
        row("e", 424316554746789889),
        row("f", 424316555073945601, partition=6),
    ],
)


DOCUMENT: Sequence[Mapping[str, int]] = ({"craft": 300, "json": 708}, {"craft": 993, "json": 2816})
"""The bytes in the document's table."""


def size(codec: ModuleType, events: Sequence[RowChange]) -> int:
    """Bytes of keys and values together."""
    return sum(len(message.key or b"") + len(message.value or b"") for message in codec.encode(events))


def measure() -> list[dict[str, Any]]:
    """Each case: its rows, the bytes in Craft and in Open Protocol, what the document says, and how they compare."""
    sizes = [(size(craft, events), size(open_protocol, events)) for events in CASES]
    return [
        {
            "case": number,
            "rows": len(events),
            "craft": small,
            "document_craft": document["craft"],
            "json": large,
            "document_json": document["json"],
            "ratio": large / small,
        }
        for number, (events, (small, large), document) in enumerate(zip(CASES, sizes, DOCUMENT, strict=True))
    ]


def lines() -> Iterator[str]:
    """The table."""
    yield f"{'case':<6}{'rows':>6}{'craft':>8}{'json':>8}{'json/craft':>12}"
    for found in measure():
        yield f"{found['case']:<6}{found['rows']:>6}{found['craft']:>8}{found['json']:>8}{found['ratio']:>12.2f}"


if __name__ == "__main__":
    print(*lines(), sep="\n")
