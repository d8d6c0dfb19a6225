"""``tidewire cli changefeed``: the changefeeds of a server, by the commands of TiCDC's documents."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import click

from tidewire.changefeed.config.replica import DEFAULT, from_json, to_json, with_schema_registry
from tidewire.changefeed.config.validate import Request, validate
from tidewire.changefeed.http.client import ApiClient, Document
from tidewire.changefeed.service.store import NO_SAFE_POINT, NOT_EXISTS, FeedKey, unknown
from tidewire.cli.changefeed_prompts import (
    agreed_to_ignore,
    config_from,
    confirm_gap,
    moment,
    print_info,
    printed_meta,
    printed_summary,
)
from tidewire.cli.connection import CHANGEFEED_ID, NO_CONFIRM, ApiGroup, connected, print_json
from tidewire.cli.document_diff import differences
from tidewire.errors import ChangefeedError
from tidewire.model.tso import physical_ms
from tidewire.secrets import redacted

_TSO = click.IntRange(0, 2**64 - 1)
_FILE = click.Path(dir_okay=False, path_type=Path)
_CONFIG = click.option("--config", "file", type=_FILE, help="A configuration file, in TOML.")
_REGISTRY = click.option("--schema-registry", default="", metavar="URL", help="The schema registry for Avro.")
_TARGET = click.option("--target-ts", type=_TSO, default=0, metavar="TSO", help="Stop at this TSO.")


@click.group(cls=ApiGroup)
def changefeed() -> None:
    """Create, list, change and stop changefeeds.

    \b
    Example:
      tidewire cli changefeed create --changefeed-id=orders \\
        --sink-uri='kafka://127.0.0.1:9092/orders?protocol=canal-json'
    """


@changefeed.command()
@connected
@click.option("--sink-uri", required=True, metavar="URI", help="The sink: where changes go, and in which protocol.")
@click.option("--changefeed-id", "-c", default="", metavar="ID", help="The name of the changefeed; a UUID by default.")
@_CONFIG
@_REGISTRY
@click.option("--start-ts", type=_TSO, default=0, metavar="TSO", help="Begin at this TSO; by default now.")
@_TARGET
@NO_CONFIRM
@click.option("--disable-gc-check", is_flag=True, help="Do not ask whether the upstream still has the history.")
@click.option("--verbose", "-v", is_flag=True, help="Name all tables.")
def create(
    client: ApiClient,
    sink_uri: str,
    changefeed_id: str,
    file: Path | None,
    schema_registry: str,
    start_ts: int,
    target_ts: int,
    no_confirm: bool,
    disable_gc_check: bool,
    verbose: bool,
) -> None:
    """Make a changefeed and start it.

    It asks before it leaves out tables without a key and before it starts far in the past; --no-confirm answers yes.

    \b
    Example:
      tidewire cli changefeed create --server=http://127.0.0.1:8300 --changefeed-id=orders \\
        --sink-uri='kafka://127.0.0.1:9092/orders?protocol=canal-json' --config changefeed.toml
    """
    config = with_schema_registry(config_from(file, DEFAULT), schema_registry)
    if disable_gc_check:
        config = replace(config, check_gc_safe_point=False)
    validate(Request(sink_uri, changefeed_id or "unnamed", start_ts, config, start_ts, gc_safe_point=NO_SAFE_POINT))
    if start_ts and not no_confirm:
        confirm_gap(client, start_ts)
    body = {
        "changefeed_id": changefeed_id,
        "sink_uri": sink_uri,
        "start_ts": start_ts,
        "target_ts": target_ts,
        "replica_config": to_json(config),
    }
    tables = client.verify_table(body)
    ignored = no_confirm or agreed_to_ignore(tables["ineligible_tables"], config)
    body["replica_config"] = to_json(replace(config, ignore_ineligible_table=ignored))
    info = client.create(body)
    click.echo("Create changefeed successfully!")
    print_info(info, tables, verbose)


@changefeed.command("list")
@connected
@click.option("--all", "-a", "everything", is_flag=True, help="List finished and removed changefeeds too.")
def list_all(client: ApiClient, everything: bool) -> None:
    """List changefeeds.

    \b
    Example:
      tidewire cli changefeed list --server=http://127.0.0.1:8300 --all
    """
    found = client.list_all()
    print_json([printed_summary(item) for item in found if everything or item["state"] not in ("finished", "removed")])


@changefeed.command()
@connected
@CHANGEFEED_ID
@click.option("--simple", "-s", is_flag=True, help="Print the state and the checkpoint only.")
def query(client: ApiClient, changefeed_id: str, simple: bool) -> None:
    """Show a changefeed.

    \b
    Example:
      tidewire cli changefeed query --server=http://127.0.0.1:8300 --changefeed-id=orders
    """
    if not simple:
        print_json(printed_meta(client.query(changefeed_id)))
        return
    found = [item for item in client.list_all() if item["id"] == changefeed_id]
    if not found:
        raise unknown(FeedKey(client.namespace, changefeed_id))
    print_json(found[0])


@changefeed.command()
@connected
@CHANGEFEED_ID
def pause(client: ApiClient, changefeed_id: str) -> None:
    """Pause a changefeed once everything that it has sent is written.

    \b
    Example:
      tidewire cli changefeed pause --server=http://127.0.0.1:8300 --changefeed-id=orders
    """
    client.pause(changefeed_id)


@changefeed.command()
@connected
@CHANGEFEED_ID
@click.option(
    "--overwrite-checkpoint-ts",
    "checkpoint",
    metavar="now|TSO",
    help="Continue at this time instead of the checkpoint.",
)
@NO_CONFIRM
def resume(client: ApiClient, changefeed_id: str, checkpoint: str | None, no_confirm: bool) -> None:
    """Resume a changefeed that was paused, failed or finished.

    \b
    Example:
      tidewire cli changefeed resume --server=http://127.0.0.1:8300 --changefeed-id=orders
    """
    info = client.query(changefeed_id)
    checkpoint_ts = 0 if checkpoint is None else moment(client, checkpoint)
    if checkpoint_ts and not no_confirm:
        click.confirm(
            f"The checkpoint of {changefeed_id} becomes {checkpoint_ts}. Changes may be lost or sent again. Go on?",
            abort=True,
        )
    elif not no_confirm:
        confirm_gap(client, info["checkpoint_ts"])
    client.resume(changefeed_id, checkpoint_ts)


@changefeed.command()
@connected
@CHANGEFEED_ID
def remove(client: ApiClient, changefeed_id: str) -> None:
    """Stop a changefeed and delete it.

    If it does not exist, that is not an error.

    \b
    Example:
      tidewire cli changefeed remove --server=http://127.0.0.1:8300 --changefeed-id=orders
    """
    try:
        info = client.query(changefeed_id)
    except ChangefeedError as error:
        if error.code != NOT_EXISTS:
            raise
        click.echo(f"Changefeed not found.\nID: {changefeed_id}")
        return
    client.remove(changefeed_id)
    click.echo("Changefeed remove successfully.")
    click.echo(f"ID: {changefeed_id}\nCheckpointTs: {info['checkpoint_ts']}\nSinkURI: {info['sink_uri']}")


@changefeed.command()
@connected
@CHANGEFEED_ID
@click.option("--sink-uri", default="", metavar="URI", help="The new sink.")
@_CONFIG
@_REGISTRY
@_TARGET
@NO_CONFIRM
@click.option("--verbose", "-v", is_flag=True, help="Name all tables.")
def update(
    client: ApiClient,
    changefeed_id: str,
    sink_uri: str,
    file: Path | None,
    schema_registry: str,
    target_ts: int,
    no_confirm: bool,
    verbose: bool,
) -> None:
    """Change a changefeed that is paused or failed.

    The keys of the file are put over the present configuration, the differences are shown, and asked about.

    \b
    Example:
      tidewire cli changefeed pause --changefeed-id=orders
      tidewire cli changefeed update --changefeed-id=orders --config changefeed.toml
      tidewire cli changefeed resume --changefeed-id=orders
    """
    info = client.query(changefeed_id)
    old = from_json(info["config"]).config
    new = with_schema_registry(config_from(file, old), schema_registry)
    before = {"sink_uri": info["sink_uri"], "target_ts": info.get("target_ts", 0), "config": to_json(old, redact=True)}
    after = {
        "sink_uri": redacted(sink_uri) if sink_uri else info["sink_uri"],
        "target_ts": target_ts or before["target_ts"],
        "config": to_json(new, redact=True),
    }
    different = list(differences(before, after))
    secret_only = bool(sink_uri and sink_uri != after["sink_uri"]) or to_json(old) != to_json(new)
    if not different and not secret_only:
        click.echo("changefeed config is the same with the old one, do nothing")
        return
    click.echo("Diff of changefeed config:")
    click.echo("\n".join(different or ["secrets only"]))
    if not no_confirm and not click.confirm("Apply these changes?"):
        click.echo("No update to changefeed.")
        return
    tables = client.get_all_tables({"replica_config": to_json(new)})
    ignored = no_confirm or agreed_to_ignore(tables["ineligible_tables"], new)
    body: Document = {"replica_config": to_json(replace(new, ignore_ineligible_table=ignored))}
    body |= {"sink_uri": sink_uri} if sink_uri else {}
    body |= {"target_ts": target_ts} if target_ts else {}
    updated = client.update(changefeed_id, body)
    click.echo("Update changefeed config successfully!")
    print_info(updated, tables, verbose)


@changefeed.command()
@connected
@CHANGEFEED_ID
@click.option(
    "--interval", "-I", type=click.FloatRange(0), default=10, show_default=True, help="Seconds between two lines."
)
@click.option("--count", type=click.IntRange(1), metavar="N", help="Stop after this many lines; by default at Ctrl-C.")
def statistics(client: ApiClient, changefeed_id: str, interval: float, count: int | None) -> None:
    """Print repeatedly how far a changefeed is behind.

    \b
    Example:
      tidewire cli changefeed statistics --changefeed-id=orders --interval 1 --count 3
    """
    looked = 0
    while True:
        info, now = client.query(changefeed_id), client.tso()
        sent = physical_ms(info["checkpoint_ts"])
        print_json(
            {
                "sink_gap": f"{physical_ms(info['resolved_ts']) - sent}ms",
                "replication_gap": f"{max(0, now['timestamp'] - sent)}ms",
            }
        )
        looked += 1
        if looked == count:
            return
        time.sleep(interval)
