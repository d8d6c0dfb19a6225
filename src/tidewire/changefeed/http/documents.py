"""What the Open API answers: changefeeds, tables and servers as plain documents, and how these are written.

All times are in UTC. The standard library reads TOML only, so it is written here.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, TypeAlias

from tidewire import __version__
from tidewire.changefeed.config.durations import Nanoseconds, duration_text
from tidewire.changefeed.config.reading import toml_names, written
from tidewire.changefeed.config.replica import ReplicaConfig, to_json
from tidewire.changefeed.service.errors import Failure
from tidewire.changefeed.service.lifecycle import State
from tidewire.changefeed.service.service import MatchedTables, Synced, View
from tidewire.changefeed.service.store import Feed, FeedKey
from tidewire.model import TableSchema
from tidewire.model.tso import logical, physical_ms, to_datetime
from tidewire.secrets import redacted

_BARE = re.compile(r"[A-Za-z0-9_-]+")
Document: TypeAlias = dict[str, Any]

_ADMIN_JOBS: Mapping[State, int] = {State.STOPPED: 1, State.FAILED: 1, State.REMOVED: 3, State.FINISHED: 4}
"""``admin_job_type``: the last operation on a changefeed, by a user or by the server; empty while it runs."""

_TROUBLED = frozenset({State.WARNING, State.FAILED})
"""The states in which the last error is shown."""


def rfc3339_text(time: datetime) -> str:
    """A time in RFC 3339, as in ``create_time``.

    >>> rfc3339_text(datetime(2024, 2, 26, 5, 1, 1, 858000, tzinfo=timezone.utc))
    '2024-02-26T05:01:01.858000Z'
    """
    return time.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


def seconds_text(seconds: float) -> str:
    """Seconds since the epoch in RFC 3339."""
    return rfc3339_text(datetime.fromtimestamp(seconds, timezone.utc))


def clock_text(time: datetime) -> str:
    """Date and time to the millisecond, as in ``checkpoint_time``."""
    return time.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def tso_text(tso: int) -> str:
    """Date and time of a timestamp.

    >>> tso_text(447984084414103554)
    '2024-02-26 05:01:01.858'
    """
    return clock_text(to_datetime(tso))


def toml_text(document: Mapping[str, Any]) -> str:
    """A document of texts, whole numbers, truth values, lists and sections, as TOML.

    >>> print(toml_text({"id": "feed", "config": {"rules": ["*.*"], "sink": {"protocol": "simple"}}}), end="")
    id = "feed"
    <BLANKLINE>
    [config]
    rules = ["*.*"]
    <BLANKLINE>
    [config.sink]
    protocol = "simple"
    """
    return "".join(f"{line}\n" for line in _toml_lines(document, ()))


def _toml_lines(section: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    for name, value in section.items():
        if not isinstance(value, Mapping):
            yield f"{_toml_key(name)} = {_toml_value(value)}"
    for name, value in section.items():
        if isinstance(value, Mapping):
            yield ""
            yield f"[{'.'.join(map(_toml_key, (*path, name)))}]"
            yield from _toml_lines(value, (*path, name))


def _toml_key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _toml_string(name)


def _toml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml_key(name)} = {_toml_value(item)}" for name, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    return _toml_string(value) if isinstance(value, str) else json.dumps(value)


def _toml_string(text: str) -> str:
    """A TOML string; it differs from JSON in one control character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


@dataclass(frozen=True, slots=True)
class Node:
    """The server that answers. ``id`` is new with every start; ``upstream_id`` stays with the upstream."""

    id: str
    addr: str
    upstream_id: int = 0
    cluster_id: str = "default"


def changefeed_info(view: View, node: Node) -> Document:
    """Everything about a changefeed, without its secrets."""
    feed = view.feed
    checkpoint_ts = feed.progress.checkpoint.ts
    return {
        **_identity(feed, node),
        "sink_uri": redacted(str.__str__(feed.sink_uri)),
        "create_time": rfc3339_text(feed.created),
        "start_ts": feed.start_ts,
        **({"target_ts": feed.target_ts} if feed.target_ts else {}),
        **({"admin_job_type": _ADMIN_JOBS[feed.state]} if feed.state in _ADMIN_JOBS else {}),
        "config": to_json(feed.shown_config, redact=True),
        "state": str(feed.state),
        **_error(feed, "error"),
        "creator_version": feed.creator_version,
        "resolved_ts": view.resolved_ts,
        "checkpoint_ts": checkpoint_ts,
        "checkpoint_time": tso_text(checkpoint_ts),
        **({"maintainer_addr": node.addr} if feed.state.runs else {}),
    }


def changefeed_toml(view: View, node: Node) -> Document:
    """The same under the names of a configuration file, so that ``config`` can be used as one."""
    info = changefeed_info(view, node)
    plain = {name.replace("_", "-"): value for name, value in info.items() if name != "config"}
    return {**plain, "config": _toml_config(view.feed.shown_config)}


def _toml_config(config: ReplicaConfig) -> Document:
    texts = {
        toml_names(item)[0]: duration_text(value)
        for item in dataclasses.fields(config)
        if isinstance(value := getattr(config, item.name), Nanoseconds)
    }
    return written(config, toml_names, redact=True) | texts


def changefeed_item(view: View, node: Node) -> Document:
    """A changefeed in a list."""
    checkpoint_ts = view.feed.progress.checkpoint.ts
    return {
        **_identity(view.feed, node),
        "state": str(view.feed.state),
        "checkpoint_tso": checkpoint_ts,
        "checkpoint_time": tso_text(checkpoint_ts),
        "error": _error(view.feed, "error").get("error"),
    }


def changefeed_status(view: View) -> Document:
    """The state of a changefeed, in short."""
    feed = view.feed
    name = "last_error" if feed.state is State.FAILED else "last_warning"
    return {
        "state": str(feed.state),
        "resolved_ts": view.resolved_ts,
        "checkpoint_ts": feed.progress.checkpoint.ts,
        **_error(feed, name),
    }


def _identity(feed: Feed, node: Node) -> Document:
    """The keys of a changefeed: classic servers say namespace, newer ones keyspace, so both are there."""
    namespace = feed.key.namespace
    return {"upstream_id": node.upstream_id, "namespace": namespace, "keyspace": namespace, "id": feed.key.id}


def _error(feed: Feed, name: str) -> Document:
    failure = feed.life.failure
    return {name: _failure(failure)} if failure is not None and feed.state in _TROUBLED else {}


def _failure(failure: Failure) -> Document:
    return {
        "time": seconds_text(failure.at),
        "addr": failure.addr,
        "code": failure.code,
        "message": failure.message,
    }


def synced_status(synced: Synced) -> Document:
    """Whether everything has arrived."""
    return {
        "synced": synced.synced,
        "sink_checkpoint_ts": tso_text(synced.checkpoint_ts),
        "puller_resolved_ts": tso_text(synced.resolved_ts),
        "last_synced_ts": tso_text(synced.synced_ts),
        "now_ts": tso_text(synced.now_ts),
        "info": synced.info,
    }


def tables_document(tables: MatchedTables) -> Document:
    """Tables of the upstream."""
    return {
        "ineligible_tables": [_table(table) for table in tables.ineligible],
        "eligible_tables": [_table(table) for table in tables.eligible],
        "all_tables": [_table(table) for table in tables.all],
    }


def _table(table: TableSchema) -> Document:
    return {
        "database_name": table.name.schema,
        "table_name": table.name.table,
        "table_id": table.table_id or 0,
        "is_partition": False,
    }


def tso_document(tso: int) -> Document:
    """The two halves of a timestamp."""
    return {"timestamp": physical_ms(tso), "logic_time": logical(tso)}


def listed(items: Iterable[Document]) -> Document:
    """Documents and their number."""
    found = list(items)
    return {"total": len(found), "items": found}


def server_status(node: Node) -> Document:
    """The status of the server."""
    return {
        "version": f"v{__version__}",
        "git_hash": "",
        "id": node.id,
        "cluster_id": node.cluster_id,
        "pid": os.getpid(),
        "is_owner": True,
        "liveness": 0,
    }


def capture_item(node: Node) -> Document:
    """The server as the only member of a cluster."""
    return {
        "id": node.id,
        "is_owner": True,
        "is_coordinator": True,
        "address": node.addr,
        "cluster_id": node.cluster_id,
    }


def processor_item(key: FeedKey, node: Node) -> Document:
    """A changefeed that runs, and where."""
    return {
        "namespace": key.namespace,
        "keyspace": key.namespace,
        "changefeed_id": key.id,
        "capture_id": node.id,
    }
