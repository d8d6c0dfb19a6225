"""``tidewire sync``: topics to tables."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tidewire.cli.config_file import config_file
from tidewire.cli.failures import hide, missing
from tidewire.cli.lines import parse_pairs
from tidewire.cli.progress import Progress, as_argument, held_line, progress, ways_out
from tidewire.cli.spark_session import spark_session
from tidewire.cli.stopping import Stopping, stopping
from tidewire.codec import SYNC_PROTOCOLS
from tidewire.kafka.uri import parameters_of
from tidewire.sync.beginnings import incomplete, missing_rows
from tidewire.sync.config import FORMAT_VERSIONS, FORMATS, MODES, SyncConfig
from tidewire.sync.rules import Rules, wanted_by
from tidewire.sync.state import Hold, OnBad, State
from tidewire.sync.toml_section import Secrets

if TYPE_CHECKING:
    from tidewire.spark.prepare import Prepared

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
        "catalog_name": config.catalog,
        "staging": config.staging,
        "format_version": None if config.format_version is None else str(config.format_version),
        "mode": config.mode,
        "on_bad": config.on_bad_message,
        "parallel": config.parallel,
        "atomic": config.atomic,
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
    type=click.Choice(list(SYNC_PROTOCOLS)),
    help="The wire protocol. Not needed if the URI of SOURCE has ?protocol=…. CSV is in files of a storage sink only.",
)
@click.option("--once", is_flag=True, help="Stop when everything that is in the topics now is synced.")
@click.option("--until", type=int, metavar="TSO", help="Apply nothing above this TSO, and stop there.")
@click.option("--target-format", type=click.Choice(FORMATS), default="iceberg", show_default=True)
@click.option(
    "--format-version",
    type=click.Choice(FORMAT_VERSIONS),
    default="3",
    show_default=True,
    help="The version of Iceberg's format that new tables have. Athena and others read no version 3.",
)
@click.option(
    "--catalog",
    "catalog_name",
    metavar="NAME",
    help="The Iceberg catalog that keeps the tables: [catalog.NAME] of --config. A local folder needs none.",
)
@click.option("--staging", metavar="URI", help="Where to keep staged files, if not in TARGET.")
@click.option("--mode", type=click.Choice(MODES), default="mirror", show_default=True, help="Which rows a table keeps.")
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
@click.option(
    "--option",
    "-o",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A codec option by TiCDC's name, or one of sink.csv. May be repeated.",
)
@click.option(
    "--parallel",
    type=click.IntRange(1),
    default=4,
    show_default=True,
    help="The number of tables that are written at the same time.",
)
@click.option(
    "--atomic",
    is_flag=True,
    help="Commit the rows of all tables of a pass at once. Iceberg tables in a REST catalog only.",
)
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
@click.option("--take-over", is_flag=True, help="Replace a sync that is running; it stops.")
@click.option(
    "--spark", "spark_settings", multiple=True, metavar="NAME=VALUE", help="A setting of Spark. May be repeated."
)
@click.option("--master", default="local[*]", show_default=True, help="The Spark master.")
@click.option(
    "--max-offsets-per-batch", "most_offsets", type=click.IntRange(1), help="Kafka: the most messages in one pass."
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
    catalog_name: str | None,
    staging: str | None,
    mode: str,
    tables: tuple[str, ...],
    on_bad: str,
    settings: tuple[str, ...],
    parallel: int,
    atomic: bool,
    maintain_every: str,
    patience: str,
    take_over: bool,
    spark_settings: tuple[str, ...],
    master: str,
    most_offsets: int | None,
    config: SyncConfig,
) -> None:
    """Sync the topics in SOURCE into the tables in TARGET.

    SOURCE can be the files of a storage sink too, such as s3://bucket/prefix. The tables equal the upstream at a
    watermark, whatever duplicates, disorder, DDL, restarts or bad messages there were on the way. Stop it at any time
    with Ctrl-C or SIGTERM: it ends after the pass that is running, and the next start goes on from there. SOURCE and
    TARGET can stand in the file of --config.

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
    asked = replace(
        config,
        source=source,
        parameters=parameters,
        protocol=protocol_name,
        option=dict(config.option) | given,
        target=target,
        target_format=target_format,
        format_version=int(format_version),
        catalog=catalog_name,
        staging=staging,
        mode=mode,
        on_bad_message=on_bad,
        until=until,
        parallel=parallel,
        atomic=atomic,
        maintain_every=maintain_every,
        patience=patience,
        max_offsets_per_batch=most_offsets,
        rules=_rules(tables, config),
    )
    _check_protocol(asked, ctx)
    with stopping() as signals, progress(target) as shown:
        shown.note(secrets.hide(f"reading {source.partition('?')[0]}"))
        try:
            from tidewire.spark.prepare import prepared
            from tidewire.spark.services import check_master
            from tidewire.spark.sessions import LIGHT
        except ModuleNotFoundError as error:
            raise missing(error, "sync") from error
        with closing(prepared(asked, take_over=take_over)) as ready:
            for note in ready.notes:
                shown.note(note)
            check_master(master)
            shown.note("starting Spark" if master.startswith("local") else f"starting Spark on {master}")
            conf, jars = LIGHT | dict(config.spark) | conf, ready.needed_jars
            with spark_session("tidewire sync", signals, master=master, conf=conf, jars=jars) as spark:
                state = _run(spark, ready, shown, signals, once=once, take_over=take_over)
    if state is None:
        return
    for lacking, since in sorted(incomplete(state.tables, state.beginnings).items()):
        click.echo(missing_rows(lacking, since), err=True)
    holds = state.holds
    for hold in holds[:_HOLDS_SHOWN]:
        click.echo(_held(hold), err=True)
    if len(holds) > _HOLDS_SHOWN:
        more = len(holds) - _HOLDS_SHOWN
        click.echo(f"and {more:,} more holds: tidewire holds ls {as_argument(target)}", err=True)
    for line in ways_out(holds, target):
        click.echo(f"way out for a {line}", err=True)
    if holds:
        click.echo(held_line(holds), err=True)
        sys.exit(1)


def _run(
    spark: Any, ready: Prepared, shown: Progress, signals: Stopping, *, once: bool, take_over: bool
) -> State | None:
    """Run the sync until it ends or a signal stops it; the state then, ``None`` if it was waiting for a service."""
    from tidewire.spark.prepare import driven

    with ready.loop(spark, shown) as loop:

        def stop() -> bool:
            begun: bool = loop.is_driving
            if begun:
                shown.note("stopping after this pass; Ctrl-C once more stops at once")
                loop.stop()
            return begun

        signals.in_order(stop)
        shown.begin(has_watermarks=ready.job.has_watermarks)
        return driven(loop, shown, once=once, take_over=take_over)


def _held(hold: Hold) -> str:
    return f"held {hold.id}: {hold.table or 'all tables'} at {hold.at} since {hold.since}: {hold.reason}"


def _check_protocol(asked: SyncConfig, ctx: click.Context) -> None:
    """Refuse a sync whose protocol is neither on the command line nor in the file nor in the URI of the source."""
    if asked.protocol is None and "protocol" not in parameters_of((asked.source or "").partition("?")[2]):
        parameter = next(each for each in ctx.command.params if each.name == "protocol_name")
        raise click.MissingParameter(ctx=ctx, param=parameter)


def _rules(tables: tuple[str, ...], config: SyncConfig) -> Rules:
    """The rules of the file, about the tables that the command line follows if it says which."""
    follow = tuple(rule for text in tables for rule in text.split(","))
    wanted_by(follow)
    return replace(config.rules, follow=follow or config.rules.follow)
