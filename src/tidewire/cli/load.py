"""``tidewire load``: what tables held before their topic began."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from tidewire.cli.config_file import config_file
from tidewire.cli.failures import hide, missing
from tidewire.cli.lines import parse_pairs
from tidewire.cli.progress import as_argument, way_out
from tidewire.cli.spark_session import spark_session
from tidewire.cli.stopping import stopping
from tidewire.errors import OptionError
from tidewire.model.tso import to_datetime
from tidewire.sync.config import FORMAT_VERSIONS, FORMATS, MODES, SyncConfig
from tidewire.sync.state import OnBad
from tidewire.sync.toml_section import Secrets

if TYPE_CHECKING:
    from tidewire.spark.load.run import Asked, Loaded, LoadProgress
    from tidewire.spark.report import PassReport, Point

_LINE_SECONDS: Final = 5.0
"""The seconds between two lines of progress, without a terminal."""

_HOLDS_SHOWN: Final = 20


@click.command()
@click.argument("source")
@click.argument("target")
@click.option(
    "--tables",
    multiple=True,
    metavar="RULE",
    help="Tables to load: shop.*, !shop.tmp_*. All by default; the last match decides.",
)
@click.option("--at", type=int, metavar="TSO", help="The moment of the dump, if its metadata does not name a TSO.")
@click.option(
    "--option", "-o", "settings", multiple=True, metavar="NAME=VALUE", help="An option that the dump was made with."
)
@click.option(
    "--replace", "replaces", is_flag=True, help="Load tables anew that TARGET has; its sync puts them in their place."
)
@click.option(
    "--adopt",
    type=int,
    metavar="TSO",
    help="Take over tables that are in TARGET, loaded by another program as of TSO; of SOURCE only schemas count.",
)
@click.option("--target-format", type=click.Choice(FORMATS), help="As for the sync; iceberg by default.")
@click.option("--format-version", type=click.Choice(FORMAT_VERSIONS), help="As for the sync; 3 by default.")
@click.option("--catalog", "catalog_name", metavar="NAME", help="As for the sync: a [catalog.NAME] of --config.")
@click.option("--mode", type=click.Choice(MODES), help="As for the sync; mirror by default.")
@click.option(
    "--on-bad-row",
    "on_bad",
    type=click.Choice([str(each) for each in OnBad]),
    help="What to do about rows that do not fit: hold their table after the load (the default), skip them, or stop.",
)
@click.option(
    "--parallel", type=click.IntRange(1), help="The number of tables that are written at the same time; 4 by default."
)
@click.option("--take-over", is_flag=True, help="Replace the process that drives the target now.")
@click.option("--spark", "spark_settings", multiple=True, metavar="NAME=VALUE", help="A setting for Spark.")
@click.option("--master", help="The Spark master; local[*] by default.")
@click.option(
    "--config",
    type=click.Path(dir_okay=False),
    callback=lambda _context, _parameter, path: config_file(path),
    help="The sync's TOML file: what it says of Spark, the target and its tables holds for the load too.",
)
def load(
    source: str,
    target: str,
    tables: tuple[str, ...],
    at: int | None,
    settings: tuple[str, ...],
    replaces: bool,
    adopt: int | None,
    target_format: str | None,
    format_version: str | None,
    catalog_name: str | None,
    mode: str | None,
    on_bad: str | None,
    parallel: int | None,
    take_over: bool,
    spark_settings: tuple[str, ...],
    master: str | None,
    config: SyncConfig,
) -> None:
    """Load the tables of a dump or a server into TARGET, before a sync.

    SOURCE is dumpling:FOLDER, dumpling+s3://bucket/prefix, or a server such as mysql://user:password@host:3306/,
    as a changefeed's source is written. Give a dump's own options with -o: csv-separator,
    csv-delimiter, csv-null-value, csv-line-terminator, csv-output-dialect, no-header, escape-backslash, and time-zone
    for the time zone of the session that wrote the dump. If a load was killed, give the same command again: a dump
    goes on from there, MySQL and MariaDB are read anew.

    With --replace, tables of TARGET are loaded anew. The running sync, or the next one, fills them beside the old ones,
    reads its topic again for them, and puts them in place of the old ones when they are at the moment of all others. If
    no sync has read a topic into TARGET yet, a load does it, also one of other tables that runs.

    With --adopt, tables become the sync's that another program has put into TARGET. Their columns, types and key must
    be those of the CREATE TABLE statements in SOURCE. Files are not rewritten.

    \b
    Exit codes:
      0  all went well
      1  rows do not fit and their tables are held: see tidewire holds ls TARGET; or the sync cannot replace the tables
      2  the command was wrong, or the load could not go on
      3  another process drives TARGET
      4  a newer driver has taken over TARGET

    \b
    Example:
      tiup dumpling -h tidb -o /data/dump --filetype csv -r 200000
      tidewire load dumpling:/data/dump /data/lake
      tidewire sync kafka://broker:9092/orders /data/lake --protocol canal-json
    """
    if adopt is not None and (replaces or at is not None):
        raise OptionError("adopt", "it names the moment itself, and replaces nothing: leave out --at and --replace")
    options, conf = parse_pairs(settings, "--option"), parse_pairs(spark_settings, "--spark")
    secrets = Secrets({*config.secrets.texts})
    for name, text in {"source": source, "target": target, **conf}.items():
        secrets.add(name, text)
    hide(secrets)
    asked = replace(
        config,
        target=target,
        target_format=target_format or config.target_format,
        format_version=config.format_version if format_version is None else int(format_version),
        catalog=catalog_name or config.catalog,
        mode=mode or config.mode,
        on_bad_message=on_bad or config.on_bad_message,
        parallel=parallel or config.parallel,
    )
    master = master or config.master or "local[*]"
    rules = [rule for text in tables for rule in text.split(",")]
    try:
        from tidewire.spark.load.prepare import prepared_load
        from tidewire.spark.load.run import load as run
        from tidewire.spark.load.run import replace_tables
        from tidewire.spark.sessions import LIGHT
    except ModuleNotFoundError as error:
        raise missing(error, "sync") from error
    with stopping() as signals, _shown() as shown:
        ready = prepared_load(
            source,
            asked,
            tables=rules,
            at=at if adopt is None else adopt,
            options=options,
            take_over=take_over,
            replaces=replaces,
        )
        for skipped in ready.skipped:
            shown.note(f"{skipped} is a view or a sequence, and left out")
        shown.note("starting Spark" if master.startswith("local") else f"starting Spark on {master}")
        with (
            spark_session(
                "tidewire load", signals, master=master, conf=LIGHT | dict(config.spark) | conf, jars=ready.needed_jars
            ) as spark,
            ready.target(spark) as (own, place),
        ):
            if not replaces:
                found = run(
                    own,
                    place,
                    ready.job,
                    ready.load,
                    shown,
                    on_progress=shown.progress,
                    take_over=take_over,
                    adopts=adopt is not None,
                )
            else:
                left = replace_tables(own, place, ready.job, ready.load, shown, on_progress=shown.progress)
        if replaces:
            _tell_replaced(left, target, shown.note)
            return
    _tell(found, target, ready.rewinds)


def _tell_replaced(left: Asked, target: str, tell: Callable[[str], None]) -> None:
    """Wait for the process that drives the target to replace the tables; without one, say who does it."""
    from tidewire.spark.driver import living_driver
    from tidewire.spark.ledger import await_answer, ledger_of

    ledger = ledger_of(target)
    names = ", ".join(map(str, left.tables))
    if living_driver(ledger) is not None:
        tell(f"{names}: the rows as of {left.ts} are read; waiting until they replace the old ones. Ctrl-C is safe")
    answer = await_answer(ledger, left.request)
    if answer is None:
        click.echo(f"no sync of {target} runs: the next tidewire sync replaces {names}")
        return
    for line in answer.lines:
        click.echo(line, err=not answer.ok)
    if not answer.ok:
        sys.exit(1)


def _tell(found: Loaded, target: str, rewinds: bool) -> None:
    """Say what was loaded, and what does not fit."""
    moment = f"{to_datetime(found.ts):%Y-%m-%d %H:%M:%S} UTC ({found.ts})"
    if found.was_done:
        click.echo(f"these tables were loaded before, as of {moment}")
    else:
        for name, rows in sorted(found.rows.items()):
            click.echo(f"{name}: {rows:,} rows")
        begun = f"with --start-ts {found.ts} or earlier" if rewinds else "that began before"
        click.echo(f"loaded as of {moment}; a changefeed {begun} continues it")
    for hold in found.holds[:_HOLDS_SHOWN]:
        click.echo(f"held {hold.id}: {hold.table}: {hold.reason}", err=True)
        click.echo(f"  {way_out(hold, target)}", err=True)
    if found.rejected:
        click.echo(f"{found.rejected:,} rows do not fit: tidewire rejects ls {as_argument(target)}", err=True)
    if found.holds:
        sys.exit(1)


@contextmanager
def _shown() -> Iterator[_Lines | _Bar]:
    if not sys.stdout.isatty():
        yield _Lines()
        return
    with _Bar() as bar:
        yield bar


class _Lines:
    """Lines of JSON, each with the time."""

    def __init__(self) -> None:
        self._written = float("-inf")

    def note(self, line: str) -> None:
        self._write({"note": line})

    def progress(self, found: LoadProgress) -> None:
        if found.done < found.all and time.monotonic() - self._written < _LINE_SECONDS:
            return
        self._written = time.monotonic()
        sizes = {"files": found.files, "bytes": found.done, "all_bytes": found.all}
        self._write({"rows": found.rows} | (sizes if found.all_files else {"all_rows": found.all}))

    def reached(self, point: Point) -> None:
        if point == "staged":
            self._write({"note": "all rows are read; making the tables"})

    def finished(self, report: PassReport) -> None:
        """There are no passes."""

    def _write(self, line: dict[str, Any]) -> None:
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        click.echo(json.dumps({"time": now} | line, ensure_ascii=False))


class _Bar:
    """A bar with rows, files, rate and the time that is left."""

    def __init__(self) -> None:
        self._console = Console()
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[told]}"), TimeRemainingColumn()
        )
        self._task: TaskID | None = None
        self._began = 0.0
        self._first = 0

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def note(self, line: str) -> None:
        self._console.print(line)

    def progress(self, found: LoadProgress) -> None:
        if self._task is None:
            self._bar.start()
            self._task = self._bar.add_task("reading", total=found.all, told="")
            self._began, self._first = time.monotonic(), found.rows
        rate = (found.rows - self._first) / max(time.monotonic() - self._began, 0.001)
        files = f", {found.files:,} of {found.all_files:,} files" if found.all_files else ""
        told = f"{found.rows:,} rows{files}, {rate:,.0f} rows a second"
        self._bar.update(self._task, completed=found.done, told=told)

    def reached(self, point: Point) -> None:
        if self._task is not None and point == "staged":
            self._bar.update(self._task, description="making the tables")

    def finished(self, report: PassReport) -> None:
        """There are no passes."""
