"""``tidewire generate``: a workload with a known state, written to a topic."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidewire.cli.lines import parse_settings, protocol_options
from tidewire.codec import Options, Resources
from tidewire.dispatch import Rule
from tidewire.errors import MissingExtra
from tidewire.registry import open_registry
from tidewire.topic import open_topics
from tidewire.workload import FAULTS, Delivery, Habits, Workload, expectation, produce, rule_for_all

if TYPE_CHECKING:
    from tidewire.topic.files import FileTopics

USUAL: Mapping[str, Mapping[str, str]] = {
    "canal-json": {"enable-tidb-extension": "true"},
    "avro": {"enable-tidb-extension": "true"},
}
"""Options that are set unless the command line says otherwise: those that add commit timestamps."""

_TRANSACTIONS = 300


_FAULTS = "\n".join(f"  {name:<13} {fault.about}" for name, fault in FAULTS.items())


@click.command(epilog=f"\b\nFaults:\n{_FAULTS}")
@click.argument("uri")
@protocol_options
@click.option(
    "--topic",
    default="feed",
    show_default=True,
    help="The name of the topic. Avro gets a topic for each table instead.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed makes the same messages.")
@click.option("--transactions", type=click.IntRange(1), help=f"The number of transactions.  [default: {_TRANSACTIONS}]")
@click.option("--rows", type=click.IntRange(1), help="Stop after this many row changes instead.")
@click.option("--tables", type=click.IntRange(1), help="The number of tables.  [default: 5]")
@click.option("--partitions", type=click.IntRange(1), default=3, show_default=True)
@click.option(
    "--dispatcher",
    default="index-value",
    show_default=True,
    metavar="RULE",
    help="How rows are spread: table, ts, index-value[:INDEX], columns:NAME,NAME. Tables that do not have what the "
    "rule goes by are spread by table.",
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    type=click.Choice(list(FAULTS)),
    help="A fault to add, see below. May be repeated.",
)
@click.option("--columns", type=click.IntRange(2), help="Write one table with this many columns, without DDL; fast.")
@click.option(
    "--expected", type=click.Path(dir_okay=False, path_type=Path), help="Write the expected state to this file."
)
def generate(
    uri: str,
    protocol_name: str,
    settings: tuple[str, ...],
    topic: str,
    seed: int,
    transactions: int | None,
    rows: int | None,
    tables: int | None,
    partitions: int,
    dispatcher: str,
    faults: tuple[str, ...],
    columns: int | None,
    expected: Path | None,
) -> None:
    """Write a random workload with a known state to new topics.

    The tables have all types. Inserts, updates, deletes, changed keys and DDL come as TiCDC would send them. The state
    in --expected is JSON: settings, statements, the offsets of bad messages, and every row of every table at several
    watermarks. With --columns it is a Parquet file with the rows of the one table.

    \b
    Example:
      tidewire generate file:topics -p open-protocol --fault restart --expected expected.json
      tidewire sync file:topics lake -p open-protocol --once
    """
    if transactions is not None and rows is not None:
        raise click.UsageError("--transactions and --rows exclude each other")
    if columns is not None and (transactions is not None or tables is not None or faults):
        raise click.UsageError("--columns goes with --rows only: no --transactions, --tables or --fault")
    topics = open_topics(uri)
    options = _options(protocol_name, parse_settings(settings), topics)
    parsed = Options.parse(options)
    resources = Resources(registry=open_registry(parsed.schema_registry) if parsed.schema_registry else None)
    delivery = Delivery(protocol_name, parsed, topic, partitions, rule_for_all(Rule.parse(dispatcher)))
    if columns is not None:
        count = _bulk(topics, delivery, resources, seed, rows or 1_000_000, columns, expected)
    else:
        habits = Habits(raw=parsed.output_raw_change_event)
        if rows is None and transactions is None:
            transactions = _TRANSACTIONS
        workload = Workload(seed, transactions, rows, tables or 5, habits=habits)
        count = _workload(topics, delivery, resources, workload, options, faults, expected)
    made = " ".join(f"--option {name}={value}" for name, value in options.items())
    click.echo(f"{count} messages generated; read them with --protocol {protocol_name} {made}".rstrip(), err=True)


def _options(protocol_name: str, given: Mapping[str, str], topics: FileTopics) -> dict[str, str]:
    options = {**USUAL.get(protocol_name, {}), **given}
    if protocol_name == "avro":
        options.setdefault("schema-registry", (topics.folder / "schemas.json").as_uri())
    return options


def _workload(
    topics: FileTopics,
    delivery: Delivery,
    resources: Resources,
    workload: Workload,
    options: Mapping[str, str],
    faults: tuple[str, ...],
    expected: Path | None,
) -> int:
    production = produce(workload, delivery, faults, resources)
    _refuse_used(topics, {sent.topic for sent in production.sent})
    if expected is not None:
        _write(expected, expectation(production, options, faults))
    with topics.appending() as appending:
        for at, sent in production.placed():
            appending.add(at, sent.message)
    return len(production.sent)


def _bulk(
    topics: FileTopics,
    delivery: Delivery,
    resources: Resources,
    seed: int,
    rows: int,
    columns: int,
    expected: Path | None,
) -> int:
    try:
        import pyarrow.parquet as pq

        from tidewire.workload.bulk import Bulk
    except ImportError as error:
        raise MissingExtra(str(error.name or error), "sync") from error
    bulk = Bulk(seed, rows, columns)
    count = 0
    for part in bulk.parts(delivery, resources):
        if count == 0:
            _refuse_used(topics, {part.topic})
        topics.append(part.topic, part.partition, part.messages)
        count += part.messages.num_rows
    if expected is not None:
        pq.write_table(bulk.end(), expected)
    return count


def _refuse_used(topics: FileTopics, names: set[str]) -> None:
    """Refuse topics that have messages: the expected state would be wrong."""
    used = sorted(names & set(topics.topics()))
    if used:
        raise click.UsageError(f"there are messages in {', '.join(used)} already; take another --topic or folder")


def _write(path: Path, document: Mapping[str, Any]) -> None:
    try:
        path.write_text(json.dumps(document, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise click.FileError(str(path), error.strerror) from error
