"""``tidewire sync``: topics to tables."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import click
from click.core import ParameterSource

from tidewire.cli.config_file import config_file, hidden
from tidewire.cli.lines import parse_pairs
from tidewire.codec import PROTOCOLS, Options
from tidewire.errors import MissingExtra, OptionError, SyncError
from tidewire.spark.kafka_place import SCHEMES, KafkaPlace
from tidewire.sync.config import FORMATS, MODES, SyncConfig
from tidewire.sync.document import Secrets
from tidewire.sync.rules import Rules
from tidewire.sync.state import OnBad
from tidewire.sync.tables import wanted_by

if TYPE_CHECKING:
    from tidewire.spark.sync import Job, Sync


def _configured(ctx: click.Context, _: click.Parameter, value: str | None) -> SyncConfig:
    """Read a file of settings; what stands on the command line wins."""
    config = config_file(value)
    defaults: dict[str, Any] = {
        "source": config.source,
        "target": config.target,
        "protocol_name": config.protocol,
        "once": config.once,
        "until": config.until,
        "target_format": config.target_format,
        "mode": config.mode,
        "on_bad": config.on_bad_message,
        "parallel": config.parallel,
        "maintain_every": config.maintain_every,
        "master": config.master,
        "most_offsets": config.max_offsets_per_batch,
    }
    given = {name: found for name, found in defaults.items() if found is not None}
    ctx.default_map = {**(ctx.default_map or {}), **given}
    return config


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
    type=click.Choice([str(each) for each in OnBad]),
    default="hold",
    show_default=True,
    help="What to do when a message cannot be read. It is always kept in the rejects table.",
)
@click.option("--option", "-o", "settings", multiple=True, metavar="NAME=VALUE", help="A codec option, TiCDC's name.")
@click.option("--parallel", type=click.IntRange(1), default=4, show_default=True, help="Tables merged at a time.")
@click.option(
    "--maintain-every",
    default="100b",
    show_default=True,
    metavar="TIME|BATCHES",
    help="How often tables are compacted and old versions expired: 1h, 100b, or never.",
)
@click.option("--spark", "spark_settings", multiple=True, metavar="NAME=VALUE", help="A setting for Spark.")
@click.option("--master", default="local[*]", show_default=True, help="The Spark master.")
@click.option(
    "--max-offsets-per-batch", "most_offsets", type=click.IntRange(1), help="Kafka: at most so many messages at a time."
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False),
    callback=_configured,
    is_eager=True,
    help="A TOML file with all of this and rules about tables; the command line wins.",
)
@click.pass_context
def sync(
    ctx: click.Context,
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
    maintain_every: str,
    spark_settings: tuple[str, ...],
    master: str,
    most_offsets: int | None,
    config: SyncConfig,
) -> None:
    """Bring the tables in TARGET up to the topics in SOURCE.

    The tables equal the upstream at a watermark, whatever duplicates, disorder, DDL, restarts or bad messages there
    were on the way. Stop it at any time; it goes on where it was. SOURCE and TARGET can stand in the file of --config.

    Exit codes: 0 all went well, 1 tables are held because of a bad message or a DDL policy, 2 the command was wrong or
    the sync could not go on.

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
        from tidewire.spark.maintain import Every
        from tidewire.spark.session import borrowed
        from tidewire.spark.source import open_source
        from tidewire.spark.sync import Job, Sync
        from tidewire.spark.targets import open_target
        from tidewire.spark.work import Work
    except ImportError as error:
        raise MissingExtra(str(error.name or error), "sync") from error
    parameters = config.parameters if ctx.get_parameter_source("source") is ParameterSource.DEFAULT_MAP else {}
    secrets = Secrets({*config.secrets.texts})
    given, conf = parse_pairs(settings, "--option"), parse_pairs(spark_settings, "--spark")
    for name, text in {"source": source, **given, **conf}.items():
        secrets.add(name, text)
    with hidden(secrets):
        place = _place(source, parameters, most_offsets)
        told = dict(config.option) | given
        _check_options(told)
        rules = _rules(tables, config)
        _check_catalog(target_format, config.catalog)
        every = Every.parse(maintain_every)
        with borrowed("tidewire sync", master=master, conf=dict(config.spark) | conf) as spark:
            topics = open_source(spark, place)
            options = completed(protocol_name, dict(topics.options) | told, topics.sample(20))
            job = Job(
                protocol_name,
                options,
                gated=gated(protocol_name, options),
                mode=Mode(mode),
                format=target_format,
                catalog=config.catalog_name,
                on_bad=OnBad(on_bad),
                until=until,
                parallel=parallel,
                maintain=every,
                rules=rules,
                keep_rejected=config.keep_rejected_bytes is not False,
            )
            _say_limits(job, len(topics.ends()))
            lake = open_target(spark, target, target_format, config.catalog)
            with progress(job.gated) as observer:
                running = Sync(spark, topics, lake, Work.of(target), job, observer)
                with _stopped_by_signals(running):
                    state = running.run(once=once)
    for hold in state.holds:
        click.echo(
            f"held: {hold.table or 'every table'} stays at {hold.ts} because of {hold.at}: {hold.reason}"
            + ("" if hold.frozen else _SKIP),
            err=True,
        )
    if state.holds:
        sys.exit(1)


_SKIP = "\n      the message is in the rejects table; --on-bad-message skip goes on without it"


def _place(source: str, parameters: Mapping[str, str], most_offsets: int | None) -> str:
    """The source's URI with the parameters that stand elsewhere, checked as far as that is possible without Spark."""
    limit = {} if most_offsets is None else {"max-offsets-per-batch": str(most_offsets)}
    given = dict(parameters) | limit
    if not source.startswith(SCHEMES):
        if given:
            raise OptionError(f"source.{next(iter(given))}", "only a Kafka source has it")
        return source
    base, _, query = source.partition("?")
    named = [pair for pair in query.split("&") if pair and pair.partition("=")[0] not in given]
    place = "?".join(filter(None, [base, "&".join([*named, *([urlencode(given)] if given else [])])]))
    KafkaPlace.parse(place)
    return place


def _check_options(options: Mapping[str, str]) -> None:
    try:
        Options.parse(options)
    except OptionError as error:
        raise OptionError(f"option.{error.name}", error.reason) from error


def _rules(tables: tuple[str, ...], config: SyncConfig) -> Rules:
    """The rules of the file, about the tables that the command line follows if it says which."""
    follow = tuple(rule for text in tables for rule in text.split(","))
    wanted_by(follow)
    return replace(config.rules, follow=follow or config.rules.follow)


def _check_catalog(format_: str, catalog: Mapping[str, str]) -> None:
    if catalog and format_ != "iceberg":
        raise OptionError("target.catalog", f"only Iceberg has catalogs, and the format is {format_}")


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
