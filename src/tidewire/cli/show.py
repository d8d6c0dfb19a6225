"""``tidewire show``: the tables of a target as of an upstream moment."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from tidewire.cli.config_file import catalog_option
from tidewire.cli.failures import missing
from tidewire.cli.lines import write_line
from tidewire.cli.spark_session import spark_session
from tidewire.cli.stopping import stopping
from tidewire.errors import SyncError
from tidewire.model.tso import to_datetime
from tidewire.sync.beginnings import missing_rows
from tidewire.sync.config import SyncConfig

if TYPE_CHECKING:
    import pyarrow as pa

    from tidewire.model import TableSchema
    from tidewire.spark.snapshot import Snapshot


@click.command()
@click.argument("target")
@click.argument("table", required=False)
@click.option("--at", type=int, metavar="TSO", help="Show the newest publication that is not after this TSO.")
@click.option("--changes", is_flag=True, help="With modes history and scd2: show old versions too.")
@click.option("--limit", type=click.IntRange(0), help="Print at most this many rows.")
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@catalog_option
def show(
    target: str, table: str | None, at: int | None, changes: bool, limit: int | None, output: str, config: SyncConfig
) -> None:
    """Print the tables in TARGET, or the rows of one TABLE.

    With --output json, one line per row: column name to value, in the canonical form of `tidewire decode`.

    \b
    Example:
      tidewire show /data/lake
      tidewire show /data/lake shop.orders --at 470490294578577416 --output json
    """
    try:
        from tidewire.spark.catalogs import catalog_of, needed_jars
        from tidewire.spark.lake import Lake
        from tidewire.spark.ledger import ledger_of, required_owner
        from tidewire.spark.services import check_catalog_answers
        from tidewire.spark.sessions import LIGHT
    except ModuleNotFoundError as error:
        raise missing(error, "sync") from error
    storage, conf = ledger_of(target), LIGHT | dict(config.spark)
    owner = required_owner(storage)
    catalog = catalog_of(storage, owner, config.catalogs)
    check_catalog_answers(catalog)
    jars = needed_jars(target, catalog)
    with stopping() as signals, spark_session("tidewire show", signals, conf=conf, jars=jars) as spark:
        found = Lake(spark, target, owner, catalog).snapshot(at)
        lines = _tables(found) if table is None else _rows(found, _named(found, table), changes, limit)
    if output == "json":
        for line in lines:
            write_line(line)
    else:
        _print(table or _moment(found.ts), lines)
        for name, each in sorted(found.tables.items()) if table is None else ():
            if each.rows_since is not None:
                click.echo(missing_rows(name, each.rows_since))


def _moment(ts: int | None) -> str:
    return "" if ts is None else f"as of {ts}, {to_datetime(ts):%Y-%m-%d %H:%M:%S} UTC"


def _named(found: Snapshot, table: str) -> str:
    folded = {name.lower(): name for name in found}
    if table.lower() not in folded:
        raise SyncError(f"there is no table {table!r}; there are {', '.join(sorted(found)) or 'none'}")
    return folded[table.lower()]


def _tables(found: Snapshot) -> list[dict[str, Any]]:
    return [
        {
            "table": str(name),
            "rows": found[str(name)].count(),
            "key": list(table.schema.handle_key),
            "columns": [column.name for column in table.schema.columns],
            "ts": found.ts if table.held is None else table.held,
            **({} if table.held is None else {"held": True}),
            **({} if table.rows_since is None else {"rows_since": table.rows_since}),
        }
        for name, table in sorted(found.tables.items())
    ]


def _rows(found: Snapshot, name: str, changes: bool, limit: int | None) -> list[dict[str, Any]]:
    schema = next(table.schema for each, table in found.tables.items() if str(each) == name)
    rows = found.changes(name) if changes else found[name]
    ordered = rows.orderBy(*(f"`{column}`" for column in _order(schema, rows.columns)))
    chosen = ordered if limit is None else ordered.limit(limit)
    return canonical(chosen.toArrow(), schema, found.time_zone)


def _order(schema: TableSchema, columns: list[str]) -> list[str]:
    return [name.replace("`", "``") for name in schema.handle_key or columns if name in columns]


def canonical(table: pa.Table, schema: TableSchema, time_zone: str) -> list[dict[str, Any]]:
    """Rows of a table in canonical form; columns that are not the upstream's come after its own."""
    from tidewire.arrow.to_model import model_values
    from tidewire.plain import value_to_plain

    known = {column.name: column for column in schema.columns}
    names = [*known, *(name for name in table.column_names if name not in known)]
    columns = {}
    for name in names:
        column = known.get(name)
        values = table.column(name)
        if column is None:
            columns[name] = [str(value) if value is not None else None for value in values.to_pylist()]
        else:
            columns[name] = [value_to_plain(value, column) for value in model_values(values, column, time_zone)]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _print(title: str, lines: list[dict[str, Any]]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 160)
    shown = Table(title=title, title_justify="left", box=None, header_style="bold")
    names = dict.fromkeys(name for line in lines for name in line)
    for name in names:
        shown.add_column(name, overflow="fold")
    for line in lines:
        shown.add_row(*(_cell(line[name]) if name in line else "" for name in names))
    console.print(shown)
    console.print(f"[dim]{len(lines)} rows[/dim]" if title else "")


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, dict):
        return str(value.get("text", value.get("base64", value.get("index"))))
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
