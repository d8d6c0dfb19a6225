"""``tidewire sync``: topics to tables."""

from __future__ import annotations

import signal
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidewire.cli.lines import parse_settings
from tidewire.codec import PROTOCOLS
from tidewire.errors import MissingExtra, SyncError
from tidewire.sync.tables import wanted_by

if TYPE_CHECKING:
    from tidewire.spark.sync import Job, Sync

FORMATS = ("iceberg", "delta")
MODES = ("mirror", "history", "scd2")
ON_BAD = ("hold", "skip", "stop")


def _configured(ctx: click.Context, _: click.Parameter, value: str | None) -> str | None:
    """Read a file of defaults; what stands on the command line wins."""
    if value is None:
        return None
    try:
        settings = tomllib.loads(Path(value).read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise click.BadParameter(str(error)) from error
    known = {parameter.name: parameter for parameter in ctx.command.params}
    names = {name.replace("-", "_"): name for name in settings}
    aliases = {"option": "settings", "protocol": "protocol_name", "on_bad_message": "on_bad"}
    defaults: dict[str, Any] = {}
    for name, written in names.items():
        parameter = aliases.get(name, name)
        if parameter not in known or parameter == "config":
            raise click.BadParameter(f"{value}: {written!r} is no setting of a sync")
        found = settings[written]
        defaults[parameter] = [f"{key}={_text(item)}" for key, item in found.items()] if name == "option" else found
    ctx.default_map = {**(ctx.default_map or {}), **defaults}
    return value


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@click.command()
@click.argument("source")
@click.argument("target")
@click.option("--protocol", "-p", "protocol_name", type=click.Choice(list(PROTOCOLS)), required=True)
@click.option("--once", is_flag=True, help="Sync what there is and stop; otherwise run on.")
@click.option("--until", type=int, metavar="TSO", help="Apply nothing above this TSO, and stop when it is reached.")
@click.option("--target-format", type=click.Choice(FORMATS), default="iceberg", show_default=True)
@click.option("--mode", type=click.Choice(MODES), default="mirror", show_default=True, help="What a table holds.")
@click.option(
    "--tables", multiple=True, metavar="RULE", help="Tables to follow: shop.*, !shop.tmp_*. The last match decides."
)
@click.option(
    "--on-bad-message",
    "on_bad",
    type=click.Choice(ON_BAD),
    default="hold",
    show_default=True,
    help="What to do when a message cannot be read. It is always kept in the rejects table.",
)
@click.option("--option", "-o", "settings", multiple=True, metavar="NAME=VALUE", help="A codec option, TiCDC's name.")
@click.option("--parallel", type=click.IntRange(1), default=4, show_default=True, help="Tables merged at a time.")
@click.option("--spark", "spark_settings", multiple=True, metavar="NAME=VALUE", help="A setting for Spark.")
@click.option("--master", default="local[*]", show_default=True, help="The Spark master.")
@click.option(
    "--config", type=click.Path(dir_okay=False), callback=_configured, is_eager=True, help="A TOML file with settings."
)
def sync(
    source: str,
    target: str,
    protocol_name: str,
    once: bool,
    until: int | None,
    target_format: str,
    mode: str,
    tables: tuple[str, ...],
    on_bad: str,
    settings: tuple[str, ...],
    parallel: int,
    spark_settings: tuple[str, ...],
    master: str,
    config: str | None,
) -> None:
    """Bring the tables in TARGET up to the topics in SOURCE.

    The tables equal the upstream at a watermark, whatever duplicates, disorder, DDL, restarts or bad messages there
    were on the way. Stop it at any time; it goes on where it was.

    Exit codes: 0 all went well, 1 tables are held because of a bad message, 2 the command was wrong or the sync could
    not go on.

    \b
    Example:
      tidewire topic import topic.jsonl file:///data/topics --topic orders
      tidewire sync file:///data/topics /data/lake --protocol canal-json --once
      tidewire show /data/lake
    """
    try:
        from tidewire.cli.progress import progress
        from tidewire.spark.apply import Mode
        from tidewire.spark.guess import completed, gated
        from tidewire.spark.session import borrowed
        from tidewire.spark.source import open_source
        from tidewire.spark.sync import Job, Sync
        from tidewire.spark.targets import open_target
        from tidewire.spark.work import Work
        from tidewire.sync.state import OnBad
    except ImportError as error:
        raise MissingExtra(str(error.name or error), "sync") from error
    with borrowed("tidewire sync", master=master, conf=_pairs(spark_settings)) as spark:
        topics = open_source(spark, source)
        options = completed(protocol_name, parse_settings(settings), topics.sample(20))
        job = Job(
            protocol_name,
            options,
            gated=gated(protocol_name, options),
            mode=Mode(mode),
            format=target_format,
            on_bad=OnBad(on_bad),
            until=until,
            parallel=parallel,
            wants=wanted_by([rule for text in tables for rule in text.split(",")]),
        )
        _say_limits(job, len(topics.ends()))
        place = open_target(spark, target, target_format)
        with progress(job.gated) as observer:
            running = Sync(spark, topics, place, Work.of(target), job, observer)
            with _stopped_by_signals(running):
                state = running.run(once=once)
    for hold in state.holds:
        click.echo(
            f"held: {hold.table or 'every table'} stays at {hold.ts} because of {hold.at}: {hold.reason}\n"
            "      the message is in the rejects table; --on-bad-message skip goes on without it",
            err=True,
        )
    if state.holds:
        sys.exit(1)


@contextmanager
def _stopped_by_signals(running: Sync) -> Iterator[None]:
    """End after the running batch when somebody asks for it."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda _number, _frame: running.stop()) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _say_limits(job: Job, partitions: int) -> None:
    """What cannot be promised without commit ts and watermarks."""
    if job.gated:
        return
    if job.until is not None:
        raise SyncError(f"{job.protocol} has no watermarks here, so there is no moment for --until to stop at")
    if job.protocol == "canal-json" and partitions > 1:
        raise SyncError(
            f"Canal-JSON without enable-tidb-extension has no order between its {partitions} partitions: "
            "turn the extension on, or use topics of one partition"
        )
    click.echo(_LIMITS[job.protocol], err=True)


_LIMITS = {
    "avro": "note: Avro carries no DDL and no watermarks. Rows are applied in offset order, the tables are never "
    "called consistent, and TRUNCATE, DROP, RENAME and the defaults of new columns go unseen.",
    "canal-json": "note: without enable-tidb-extension there are no watermarks. Rows and DDL are applied in offset "
    "order, and the tables are never called consistent.",
}


def _pairs(settings: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for setting in settings:
        name, separator, value = setting.partition("=")
        if not separator:
            raise click.BadParameter(f"{setting!r} is not of the form NAME=VALUE", param_hint="--spark")
        pairs[name] = value
    return pairs
