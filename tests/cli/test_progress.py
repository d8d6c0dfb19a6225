"""What a running sync shows is true: rows that tables have, what is held and how to end it, one line of JSON a pass."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO

from rich.console import Console

from tidewire.cli.progress import IDLE_SECONDS, Lines, Screen, ways_out
from tidewire.model import Position, TableName
from tidewire.spark.report import PassReport, Point
from tidewire.sync.state import Hold

ORDERS, ITEMS = TableName("shop", "orders"), TableName("shop", "items")
HOLD = Hold(5, Position("feed", 0, 7), "canal-json: not JSON", ORDERS, since="2026-11-18T12:00:00+00:00")
IDLE = PassReport(
    sequence=3,
    messages=2,
    staged=0,
    tables={},
    rows={},
    steps=0,
    applied=449_000_000_000_000_000,
    watermark=449_000_000_000_000_000,
    rejected=0,
    parked=0,
    holds=(),
    notes=(),
    seconds={"stage": 0.1},
    known=(ORDERS, ITEMS),
)
BUSY = replace(IDLE, staged=40, steps=1, tables={ORDERS: 40}, rows={ORDERS: 7})


def screen(*reports: PassReport, height: int = 40) -> str:
    """What is on the screen after some passes."""
    console = Console(file=StringIO(), force_terminal=True, color_system=None, width=150, height=height)
    shown = Screen(console, "/data/lake")
    for report in reports:
        shown.finished(report)
    with console.capture() as captured:
        console.print(shown.picture())
    return captured.get()


def cells(text: str, table: TableName) -> list[str]:
    """The row of a table."""
    return next(line.split() for line in text.splitlines() if line.strip().startswith(str(table)))


def test_rows_are_those_of_the_table_and_changes_those_since_the_start() -> None:
    text = screen(BUSY, BUSY, IDLE, replace(BUSY, tables={ORDERS: 3}, rows={ORDERS: 8}), IDLE)

    assert cells(text, ORDERS) == ["shop.orders", "8", "83", "ok"]
    assert cells(text, ITEMS) == ["shop.items", "0", "ok"]  # how many rows it has is not known


def test_a_count_of_rows_that_is_out_of_date_is_not_shown() -> None:
    text = screen(BUSY, replace(BUSY, rows={}))

    assert cells(text, ORDERS) == ["shop.orders", "80", "ok"]


def test_a_table_with_another_name_has_its_rows() -> None:
    renamed = TableName("shop", "purchases")

    text = screen(BUSY, replace(IDLE, rows={renamed: 7}, known=(renamed, ITEMS)))

    assert cells(text, renamed) == ["shop.purchases", "7", "0", "ok"]


def test_a_table_that_was_dropped_is_not_shown_any_more() -> None:
    assert "shop.orders" not in screen(BUSY, replace(IDLE, known=(ITEMS,)))


def test_a_held_sync_does_not_look_healthy() -> None:
    text = screen(replace(BUSY, holds=(HOLD,), rejected_total=3))

    assert "held since 2026-11-18 12:00:00 UTC" in text
    assert cells(text, ITEMS)[-1] == "ok"
    assert "1 table held" in text
    assert "shop.orders: canal-json: not JSON" in text
    assert f"tidewire holds retry /data/lake {HOLD.id}" in text
    assert "3 messages rejected: tidewire rejects ls /data/lake" in text


def test_commands_are_told_without_the_secrets_of_the_target() -> None:
    target = "s3://bucket/lake?access-key=me&secret-access-key=hush-hush"

    (line,) = ways_out((HOLD,), target)

    assert "tidewire holds retry 's3://bucket/lake?" in line
    assert "hush-hush" not in line


def test_a_hold_of_all_tables_is_shown_at_each() -> None:
    text = screen(replace(BUSY, holds=(replace(HOLD, table=None),)))

    assert text.count("held since") == 2
    assert "all tables are held" in text
    assert "all tables: canal-json: not JSON" in text


def test_many_tables_and_holds_fit_the_screen_and_those_that_matter_stay() -> None:
    many = tuple(TableName("shop", f"t{number:03}") for number in range(200))
    holds = tuple(replace(HOLD, table=name, at=Position("feed", 0, place)) for place, name in enumerate(many[150:]))

    text = screen(replace(IDLE, known=many, holds=holds), height=30)

    assert len(text.splitlines()) <= 30
    assert "50 tables held" in text
    assert "tidewire holds ls /data/lake" in text
    assert "shop.t150" in text


def test_what_is_waited_for_is_shown_until_the_pass_goes_on() -> None:
    console = Console(file=StringIO(), force_terminal=True, width=150)
    shown = Screen(console, "lake")
    shown.note("starting Spark")
    shown.begin(has_watermarks=True)

    shown.note("waiting: Kafka at here:9092: connection refused")
    with console.capture() as waiting:
        console.print(shown.picture())
    shown.reached(Point.STAGED)
    with console.capture() as later:
        console.print(shown.picture())
    shown.close()

    assert isinstance(console.file, StringIO)
    assert "starting Spark" in console.file.getvalue().splitlines()[0]
    assert "connection refused" in waiting.get()
    assert "connection refused" not in later.get()


# Lines of JSON


class Written:
    """Lines that were written, and a clock that is set by hand."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.now = 0.0
        self.lines = Lines(self.texts.append, lambda: self.now)

    @property
    def sequences(self) -> list[int]:
        return [json.loads(text)["sequence"] for text in self.texts]


def test_idle_passes_make_a_line_now_and_then() -> None:
    written = Written()
    for second in range(25):
        written.now = float(second)
        written.lines.finished(replace(IDLE, sequence=second))

    assert written.sequences == [0, int(IDLE_SECONDS), 2 * int(IDLE_SECONDS)]
    written.lines.close()
    assert written.sequences[-1] == 24


def test_a_pass_with_something_to_say_makes_a_line_at_once() -> None:
    written = Written()
    passes = (
        IDLE,
        BUSY,
        replace(IDLE, rejected=1),
        replace(IDLE, notes=("a note",)),
        replace(IDLE, holds=(HOLD,)),
        replace(IDLE, holds=(HOLD,)),
        IDLE,
    )
    for sequence, report in enumerate(passes):
        written.lines.finished(replace(report, sequence=sequence))

    assert written.sequences == [0, 1, 2, 3, 4, 6]


def test_every_line_has_a_time() -> None:
    written = Written()
    written.lines.note("waiting: a store")
    written.lines.finished(replace(BUSY, holds=(HOLD,), rejected_total=3))

    note, line = map(json.loads, written.texts)
    assert note.keys() == {"time", "note"}
    assert line["time"] > "2026"
    assert (line["rows"], line["tables"], line["rejected_total"]) == ({"shop.orders": 7}, {"shop.orders": 40}, 3)
    assert line["held"][0]["since"] == HOLD.since
