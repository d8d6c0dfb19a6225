"""What the changefeed verbs ask and print."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import click

from tidewire.changefeed.config.replica import ReplicaConfig, merged
from tidewire.changefeed.http.client import ApiClient, Document
from tidewire.changefeed.http.documents import clock_text
from tidewire.errors import ChangefeedError
from tidewire.model.tso import LOGICAL_BITS, physical_ms

DAY_MS = 24 * 60 * 60 * 1000
INVALID_CHECKPOINT = "CDC:ErrCliInvalidCheckpointTs"
_LARGEST_TSO = 2**64 - 1


def config_from(file: Path | None, over: ReplicaConfig) -> ReplicaConfig:
    """A configuration with a file's keys put over it; what the file's author should hear goes to stderr."""
    if file is None:
        return over
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise click.FileError(str(file), error.strerror) from error
    except UnicodeDecodeError as error:
        raise click.FileError(str(file), "it is not UTF-8") from error
    config, warnings = merged(over, text)
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    return config


def now(client: ApiClient) -> int:
    """The newest timestamp upstream."""
    tso = client.tso()
    return int(tso["timestamp"]) << LOGICAL_BITS | int(tso["logic_time"])


def moment(client: ApiClient, text: str) -> int:
    """The timestamp that ``now`` or a number means."""
    if text.lower() == "now":
        return now(client)
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) <= _LARGEST_TSO:
        raise ChangefeedError(INVALID_CHECKPOINT, f"{text!r} is neither now nor a timestamp above 0")
    return int(text)


def confirm_gap(client: ApiClient, ts: int) -> None:
    """Ask where a changefeed has more than a day to catch up."""
    gap = physical_ms(now(client)) - physical_ms(ts)
    if gap > DAY_MS:
        days = gap / DAY_MS
        click.confirm(f"The changefeed begins {days:.1f} days ago and has much to catch up. Go on?", abort=True)


def agreed_to_ignore(tables: Iterable[Document], config: ReplicaConfig) -> bool:
    """Ask whether tables whose rows cannot be told apart may be left out; no is the end."""
    names = _names(tables)
    if not names:
        return False
    what = "have neither a primary key nor a unique key that is NOT NULL"
    if config.force_replicate:
        click.echo(f"[WARN] These tables {what}, so their rows may come twice: {names}", err=True)
        return False
    click.echo(f"[WARN] These tables {what}: {names}", err=True)
    click.confirm("Leave them out and go on? (force-replicate in the configuration file takes them in)", abort=True)
    return True


def print_info(info: Document, tables: Document, verbose: bool) -> None:
    """A changefeed that was made or changed, and how many tables it has."""
    click.echo(f"ID: {info['id']}")
    click.echo(f"Info: {json.dumps(info, ensure_ascii=False, separators=(',', ':'))}")
    kinds = {"Ineligible": "ineligible_tables", "Eligible": "eligible_tables", "All": "all_tables"}
    for kind, name in kinds.items():
        click.echo(f"{kind}TablesCount: {len(tables[name])}")
    if verbose:
        for kind, name in kinds.items():
            click.echo(f"{kind}Tables: [{_names(tables[name])}]")


def printed_summary(item: Document) -> Document:
    """A changefeed as ``list`` prints it."""
    return {
        "id": item["id"],
        "namespace": item["namespace"],
        "keyspace": item["keyspace"],
        "summary": {
            "state": item["state"],
            "tso": item["checkpoint_tso"],
            "checkpoint": item["checkpoint_time"],
            "error": item["error"],
        },
    }


def printed_meta(info: Document) -> Document:
    """A changefeed as ``query`` prints it."""
    created = datetime.fromisoformat(info["create_time"])
    renamed = {"checkpoint_tso": info["checkpoint_ts"], "create_time": clock_text(created)}
    rest = {name: value for name, value in info.items() if name not in ("checkpoint_ts", "maintainer_addr")}
    return {"target_ts": 0, **rest, **renamed}


def _names(tables: Iterable[Document]) -> str:
    return ", ".join(f"{table['database_name']}.{table['table_name']}" for table in tables)
