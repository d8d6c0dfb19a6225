"""``tidewire sync``: topics to tables."""

from __future__ import annotations

import shlex
import socket
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import click
from click.core import ParameterSource

from tidewire.cli.config_file import config_file
from tidewire.cli.failures import hide, missing
from tidewire.cli.lines import parse_pairs
from tidewire.cli.progress import Progress, held_line, progress, ways_out
from tidewire.cli.spark_session import spark_session
from tidewire.cli.stopping import Stopping, stopping
from tidewire.codec import PROTOCOLS, Options
from tidewire.errors import OptionError, SyncError
from tidewire.kafka.uri import SCHEMES, KafkaAddress, parameters_of
from tidewire.sync.config import FORMAT_VERSIONS, FORMATS, MODES, SyncConfig
from tidewire.sync.rules import Rules, wanted_by
from tidewire.sync.state import Hold, OnBad
from tidewire.sync.toml_section import Secrets

if TYPE_CHECKING:
    from tidewire.spark.job import Job
    from tidewire.spark.source import Source

_ALIASES = {"default": "open-protocol", "flat-avro": "avro"}
_MASTER_SECONDS = 5.0
_SAMPLE = 20
_HOLDS_SHOWN = 20


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
        "format_version": None if config.format_version is None else str(config.format_version),
        "mode": config.mode,
        "on_bad": config.on_bad_message,
        "parallel": config.parallel,
        "maintain_every": config.maintain_every,
        "patience": config.patience,
        "master": config.master,
        "most_offsets": config.max_offsets_per_batch,
    }
    given = {name: found for name, found in defaults.items() if found is not None}
    ctx.default_map = {**(ctx.default_map or {}), **given}
    return config


@click.command()
@click.argument("source")
@click.argument("target")
@click.option(
    "--protocol",
    "-p",
    "protocol_name",
    type=click.Choice(list(PROTOCOLS)),
    help="The wire protocol. Not needed if the URI of SOURCE has ?protocol=….",
)
@click.option("--once", is_flag=True, help="Sync what there is and stop; otherwise run on.")
@click.option("--until", type=int, metavar="TSO", help="Apply nothing above this TSO, and stop when it is reached.")
@click.option("--target-format", type=click.Choice(FORMATS), default="iceberg", show_default=True)
@click.option(
    "--format-version",
    type=click.Choice(FORMAT_VERSIONS),
    default="3",
    show_default=True,
    help="The version of Iceberg's format that new tables have. Athena and others read no version 3.",
)
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
    metavar="TIME|PASSES",
    help="How often tables are compacted and old versions expired: 1h, 100b, or never.",
)
@click.option(
    "--patience",
    default="5m",
    show_default=True,
    metavar="TIME",
    help="How long to wait for a broker, registry or store that does not answer any more.",
)
@click.option("--take-over", is_flag=True, help="Replace the sync that runs now: it is fenced off and stops.")
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
    protocol_name: str | None,
    once: bool,
    until: int | None,
    target_format: str,
    format_version: str,
    mode: str,
    tables: tuple[str, ...],
    on_bad: str,
    settings: tuple[str, ...],
    parallel: int,
    maintain_every: str,
    patience: str,
    take_over: bool,
    spark_settings: tuple[str, ...],
    master: str,
    most_offsets: int | None,
    config: SyncConfig,
) -> None:
    """Bring the tables in TARGET up to the topics in SOURCE.

    The tables equal the upstream at a watermark, whatever duplicates, disorder, DDL, restarts or bad messages there
    were on the way. Stop it at any time with Ctrl-C or SIGTERM: it ends after the pass that is running, and the next
    start goes on from there. SOURCE and TARGET can stand in the file of --config.

    \b
    Exit codes:
      0  all went well
      1  tables are held: see tidewire holds ls TARGET
      2  the command was wrong, or the sync could not go on
      3  another sync already drives TARGET
      4  a newer driver has taken over TARGET
    A supervisor must not start it again after 3 and 4.

    \b
    Example:
      tidewire topic import topic.jsonl file:///data/topics --topic orders
      tidewire sync file:///data/topics /data/lake --protocol canal-json --once
      tidewire show /data/lake
    """
    parameters = config.parameters if ctx.get_parameter_source("source") is ParameterSource.DEFAULT_MAP else {}
    given, conf = parse_pairs(settings, "--option"), parse_pairs(spark_settings, "--spark")
    secrets = Secrets({*config.secrets.texts})
    for name, text in {"source": source, "target": target, **given, **conf}.items():
        secrets.add(name, text)
    hide(secrets)
    place = _place(source, parameters, most_offsets)
    protocol_name = _protocol(place, protocol_name, ctx)
    options = dict(config.option) | given
    _check_options(options)
    rules = _rules(tables, config)
    _check_catalog(target_format, config.catalog)
    with stopping() as signals, progress(target) as shown:
        shown.told(secrets.hide(f"reading {place.partition('?')[0]} as {protocol_name}"))
        try:
            from tidewire.spark.apply import Mode
            from tidewire.spark.job import Job
            from tidewire.spark.maintain import Every, parse_age
            from tidewire.spark.source import open_source
            from tidewire.spark.source.detect import check_readable, completed, has_watermarks
        except ModuleNotFoundError as error:
            raise missing(error, "sync") from error
        every, waits = Every.parse(maintain_every), parse_age(patience, "patience").total_seconds()
        with closing(open_source(place)) as topics:
            sample = topics.sample(_SAMPLE)
            options = completed(protocol_name, dict(topics.options) | options, sample)
            check_readable(protocol_name, options, sample)
            job = Job(
                protocol_name,
                options,
                has_watermarks=has_watermarks(protocol_name, options),
                mode=Mode(mode),
                format_version=int(format_version),
                format=target_format,
                catalog=config.catalog_name,
                on_bad=OnBad(on_bad),
                until=until,
                parallel=parallel,
                maintain=every,
                rules=rules,
                keep_rejected=config.keep_rejected_bytes is not False,
                patience=waits,
            )
            _check_limits(job, topics, shown)
            _check_target(target, topics, job, take_over)
            _check_master(master)
            shown.told("starting Spark" if master.startswith("local") else f"starting Spark on {master}")
            with spark_session("tidewire sync", signals, master=master, conf=dict(config.spark) | conf) as spark:
                holds = _run(spark, topics, target, config, job, shown, signals, once=once, take_over=take_over)
    for hold in holds[:_HOLDS_SHOWN]:
        click.echo(_held(hold), err=True)
    if len(holds) > _HOLDS_SHOWN:
        more = len(holds) - _HOLDS_SHOWN
        click.echo(f"and {more:,} more holds: tidewire holds ls {shlex.quote(target)}", err=True)
    for line in ways_out(holds, target):
        click.echo(f"way out for a {line}", err=True)
    if holds:
        click.echo(held_line(holds), err=True)
        sys.exit(1)


def _run(
    spark: Any,
    topics: Source,
    target: str,
    config: SyncConfig,
    job: Job,
    shown: Progress,
    signals: Stopping,
    *,
    once: bool,
    take_over: bool,
) -> tuple[Hold, ...]:
    """Run the sync until it ends or a signal stops it; what is held then."""
    from tidewire.spark.loop import Sync
    from tidewire.spark.targets import open_target

    running = Sync(
        spark, topics, open_target(spark, target, job.format, config.catalog, job.format_version), job, shown
    )

    def stop() -> bool:
        if running.is_driving:
            shown.told("stopping after this pass; Ctrl-C once more stops at once")
            running.stop()
        return running.is_driving

    signals.in_order(stop)
    shown.begin(has_watermarks=job.has_watermarks)
    try:
        return running.run(once=once, take_over=take_over).holds
    except SyncError as error:
        if not (signals.asked and getattr(error.__cause__, "transient", False)):
            raise
        shown.told(f"stopped while waiting: {error.__cause__}")
        return ()


def _held(hold: Hold) -> str:
    return f"held {hold.id}: {hold.table or 'all tables'} at {hold.at} since {hold.since}: {hold.reason}"


def _place(source: str, parameters: Mapping[str, str], most_offsets: int | None) -> str:
    """The source's URI with the parameters that are given elsewhere."""
    limit = {} if most_offsets is None else {"max-offsets-per-batch": str(most_offsets)}
    given = dict(parameters) | limit
    if not source.startswith(SCHEMES):
        _check_scheme(source)
        if given:
            raise OptionError(f"source.{next(iter(given))}", "only a Kafka source has it")
        return source
    base, _, query = source.partition("?")
    named = [pair for pair in query.split("&") if pair and pair.partition("=")[0] not in given]
    place = "?".join(filter(None, [base, "&".join([*named, *([urlencode(given)] if given else [])])]))
    KafkaAddress.parse(place)
    return place


def _check_scheme(source: str) -> None:
    scheme = source.partition(":")[0]
    if scheme != "file":
        near = get_close_matches(scheme, ("kafka", "kafka+ssl", "file"), n=1)
        advice = f"; did you mean {near[0]}?" if near else ""
        raise OptionError("source", f"{source!r} is neither kafka://host:port/topic nor file:FOLDER{advice}")


def _protocol(place: str, given: str | None, ctx: click.Context) -> str:
    """The protocol of the command line, of the settings, or of the URI; they must not contradict each other."""
    query = place.partition("?")[2] if place.startswith(SCHEMES) else ""
    text = parameters_of(query).get("protocol")
    found = None if text is None else _ALIASES.get(text.lower(), text.lower())
    if found is not None and found not in PROTOCOLS:
        raise OptionError("protocol", f"the URI of the source says {text}, which is not one of {', '.join(PROTOCOLS)}")
    if given is None and found is None:
        parameter = next(each for each in ctx.command.params if each.name == "protocol_name")
        raise click.MissingParameter(ctx=ctx, param=parameter)
    if given is not None and found is not None and given != found:
        raise OptionError("protocol", f"the URI of the source says {found}, --protocol says {given}; give one of them")
    return given or found or ""


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


def _check_limits(job: Job, topics: Source, shown: Progress) -> None:
    """Refuse what cannot be done without commit ts and watermarks, and say what cannot be promised."""
    if job.has_watermarks:
        return
    if job.until is not None:
        raise OptionError(
            "until", f"{job.protocol} has no watermarks here, so the sync cannot stop at a TSO; leave it out"
        )
    partitions = len(topics.partitions())
    if job.protocol == "canal-json" and partitions > 1:
        raise SyncError(
            f"Canal-JSON without enable-tidb-extension has no order between its {partitions} partitions: "
            "turn the extension on, or use topics of one partition"
        )
    shown.told(_LIMITS[job.protocol])


_LIMITS = {
    "avro": "note: Avro carries no DDL and no watermarks. Rows are applied in offset order, the tables are never "
    "called consistent, and TRUNCATE, DROP, RENAME and the defaults of new columns go unseen.",
    "canal-json": "note: without enable-tidb-extension there are no watermarks. Rows and DDL are applied in offset "
    "order, and the tables are never called consistent.",
}


def _check_target(target: str, topics: Source, job: Job, take_over: bool) -> None:
    """Refuse a target of another sync, or one that has a driver on this machine, before Spark is started."""
    from tidewire.spark.ledger import ledger_of, refuse_other_sync

    refuse_other_sync(ledger_of(target), job.owner(topics), take_over=take_over)


def _check_master(master: str) -> None:
    """Refuse a Spark master that does not answer; Spark itself would try for a minute."""
    if not master.startswith("spark://"):
        return
    problems = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _MASTER_SECONDS):
                return
        except (OSError, ValueError) as error:
            problems.append(f"{address}: {error}")
    raise OptionError("master", f"the Spark master does not answer ({'; '.join(problems)}); check the address")
