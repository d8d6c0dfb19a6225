"""``tidewire demo``: the tour. One workload goes through five protocols into tables, and every row is checked."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tidewire.cli.failures import missing
from tidewire.cli.inspect import print_fields
from tidewire.cli.spark_session import spark_session
from tidewire.cli.stopping import stopping
from tidewire.codec import PROTOCOLS, protocol
from tidewire.model import Watermark
from tidewire.workload import Habits, Kind, ResolvedTs, Statement, Transaction, Workload

if TYPE_CHECKING:
    from tidewire.cli.demo_run import Outcome

FAULTS = ("restart", "duplicate")
_STATEMENTS = {
    Kind.ADD_COLUMN: 3.0,
    Kind.RENAME_COLUMN: 1.0,
    Kind.MODIFY_COLUMN: 1.0,
    Kind.DROP_COLUMN: 1.0,
    Kind.TRUNCATE: 1.0,
    Kind.RENAME_TABLE: 1.0,
}
_ROWS = 1000
_TABLES = 3
_SHOWN_ROWS = 3


@click.command()
@click.option("--seed", type=int, default=149, show_default=True, help="The seed of the random workload.")
@click.option(
    "--dir", "folder", type=click.Path(file_okay=False, path_type=Path), help="Keep topics and tables in this folder."
)
@click.option(
    "--protocol",
    "-p",
    "names",
    multiple=True,
    type=click.Choice(list(PROTOCOLS)),
    help="Only this protocol. May be repeated.",
)
def demo(seed: int, folder: Path | None, names: tuple[str, ...]) -> None:
    """Run the demo: five protocols become tables, checked row by row.

    It takes a minute or two, needs no server, and leaves a picture of how each sync went.
    The exit code is 1 if a table differs from what is expected.

    \b
    Example:
      tidewire demo --protocol simple --seed 3
    """
    try:
        from tidewire.cli.demo_page import page
        from tidewire.cli.demo_run import run
        from tidewire.spark.sessions import LIGHT
    except ModuleNotFoundError as error:
        raise missing(error, "sync") from error
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    folder = (folder or Path(tempfile.mkdtemp(prefix="tidewire-demo-"))).absolute()
    workload = Workload(
        seed, rows=_ROWS, tables=_TABLES, habits=Habits(most_rows=8, statements=0.03, kinds=_STATEMENTS, marks=0.15)
    )
    _show_message(console)
    _show_workload(console, workload)

    console.rule("[bold]five protocols, five syncs")
    console.print(f"[dim]with faults: {', '.join(FAULTS)}. Starting Spark …[/dim]")
    outcomes = []
    with (
        stopping() as signals,
        spark_session("tidewire demo", signals, master="local[2]", conf=LIGHT | _SMALL) as spark,
    ):
        for name in names or PROTOCOLS:
            with console.status(f"{name} …"):
                outcome = run(spark, folder / name, name, workload, FAULTS)
            outcomes.append(outcome)
            _show_outcome(console, outcome)
        console.print()
        _show_tables(console, outcomes[0])

    picture = folder / "frontier.html"
    picture.write_text(page(outcomes), encoding="utf-8")
    console.print(f"The picture of it: {picture.as_uri()}", soft_wrap=True)
    console.print(f"[dim]The tables are in {folder}/<protocol>/lake; see tidewire show --help[/dim]", soft_wrap=True)
    if not all(outcome.right for outcome in outcomes):
        sys.exit(1)


_SMALL = {
    "spark.driver.memory": "1500m",
    # A thousand rows need no more, and every task more would cost its start.
    "spark.sql.shuffle.partitions": "2",
}


def _show_message(console: Console) -> None:
    console.rule("[bold]one message, byte by byte")
    console.print("[dim]a watermark in Open Protocol: everything up to this moment has been sent[/dim]")
    (message,) = protocol("open-protocol").encode([Watermark(470490288428154920)])
    print_fields(console, protocol("open-protocol").inspect(message))


def _show_workload(console: Console, workload: Workload) -> None:
    console.rule("[bold]the workload")
    entries = list(workload)
    changes = [change for entry in entries if isinstance(entry, Transaction) for change in entry.rows]
    ops = Counter(str(change.op) for change in changes)
    done = ", ".join(f"{count} {op}s" for op, count in sorted(ops.items()))
    transactions = sum(isinstance(entry, Transaction) for entry in entries)
    watermarks = sum(isinstance(entry, ResolvedTs) for entry in entries)
    console.print(f"{done} in {transactions} transactions, with {watermarks} watermarks, and these statements:")
    for entry in entries:
        if isinstance(entry, Statement):
            text = Text(f"  {entry.ts}  {entry.ddl.query}", style="cyan")
            console.print(text, no_wrap=True, overflow="ellipsis")
    console.print()


def _show_outcome(console: Console, outcome: Outcome) -> None:
    mark, style = ("✓", "green") if outcome.right else ("✗", "bold red")
    console.print(
        Text.assemble(
            (f"{mark} {outcome.protocol:<14}", style),
            f"{outcome.messages:>5} messages, {len(outcome.passes)} passes, {outcome.seconds:5.1f} s   ",
            (outcome.summary, style),
        )
    )
    for verdict in outcome.verdicts:
        if not verdict.right:
            console.print(Text(f"    {verdict.table}: {verdict.text}", style="red"))
    if outcome.note:
        console.print(Text(f"    {outcome.note}", style="dim"))


def _show_tables(console: Console, outcome: Outcome) -> None:
    console.rule(f"[bold]the tables, from {outcome.protocol}")
    for name, rows in outcome.samples.items():
        shown = Table(title=f"{name}, {outcome.counts[name]} rows", title_justify="left", box=None, header_style="bold")
        for column in rows[0] if rows else ():
            shown.add_column(column, overflow="ellipsis", no_wrap=True, max_width=18)
        for row in rows[:_SHOWN_ROWS]:
            shown.add_row(*(Text(_cell(value)) for value in row.values()))
        console.print(shown)
        console.print()


def _cell(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case {"text": text}:
            return str(text)
        case {"base64": text}:
            return f"base64 {text}"
        case _:
            return " ".join(str(value).split())
