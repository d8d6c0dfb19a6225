"""From a user's request to settings that a changefeed can run with, or an error with TiCDC's code."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tidewire.changefeed.config.dispatching import dispatching
from tidewire.changefeed.config.parameters import of_sink, overlaid
from tidewire.changefeed.config.replica import DEFAULT, ReplicaConfig, settled
from tidewire.changefeed.config.resolve import resolved
from tidewire.changefeed.config.rules import (
    IDENTITY_RULES,
    REPLICA_RULES,
    SINK_RULES,
    STORAGE_RULES,
    CandidateConfig,
    Rule,
)
from tidewire.changefeed.config.rules_messages import CODEC_RULES, DISPATCH_RULES, LARGE_MESSAGE_RULES, kafka_rules
from tidewire.changefeed.config.settings import Settings
from tidewire.changefeed.config.uri import SinkKind, SinkURI
from tidewire.changefeed.config.warnings import warnings
from tidewire.model import TableName, TableSchema


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that a changefeed is created from.

    ``now`` is the newest timestamp upstream, and the start if ``start_ts`` is 0. A ``target_ts`` of 0 means no end.
    ``taken`` are the ids of other changefeeds; ``server`` and ``time_zone`` those of the server.
    """

    sink_uri: str = field(repr=False)
    changefeed_id: str
    now: int
    config: ReplicaConfig = DEFAULT
    start_ts: int = 0
    target_ts: int = 0
    tables: Sequence[TableSchema] = ()
    taken: Collection[str] = ()
    gc_safe_point: int = 0
    namespace: str = "default"
    server: str = "127.0.0.1:8300"
    time_zone: str = "UTC"


class Checked(NamedTuple):
    """A request that obeys the rules.

    ``start_ts`` is where it begins. ``eligible`` are the tables that are replicated; ``ineligible`` match the rules but
    are left out because their rows cannot be told apart.
    """

    settings: Settings
    start_ts: int
    eligible: tuple[TableName, ...] = ()
    ineligible: tuple[TableName, ...] = ()
    warnings: tuple[str, ...] = ()


def validate(request: Request) -> Checked:
    """Check a request, and resolve it; ``ChangefeedError`` for the first rule it breaks.

    What needs a broker is not checked: the real number of partitions, ``min.insync.replicas``.
    """
    uri = SinkURI.parse(request.sink_uri)
    config, ignored = overlaid(uri, request.config)
    start_ts = request.start_ts or request.now
    candidate = CandidateConfig(
        uri,
        request.config,
        config,
        request.changefeed_id,
        start_ts,
        request.target_ts,
        request.now,
        request.gc_safe_point,
        request.taken,
    )
    for rule in rules_for(uri.kind):
        rule.check(candidate)
    kept = of_sink(uri, settled(_as_stored(request.config, config)))
    settings = resolved(
        uri,
        overlaid(uri, kept).config,
        kept,
        request.changefeed_id,
        request.namespace,
        request.server,
        request.time_zone,
    )
    parsed = dispatching(settings)
    parsed.verify(request.tables, ignore_ineligible=config.ignore_ineligible_table)
    matched = [table for table in request.tables if parsed.filter.rules.matches(table.name)]
    return Checked(
        settings,
        start_ts,
        tuple(table.name for table in matched if parsed.filter.takes(table)),
        tuple(table.name for table in matched if not parsed.filter.takes(table)),
        (*ignored, *warnings(candidate), *parsed.warnings),
    )


def rules_for(kind: SinkKind) -> tuple[Rule, ...]:
    """All rules for a kind of sink, in the order of checking."""
    return (
        *IDENTITY_RULES,
        *SINK_RULES,
        *REPLICA_RULES,
        *LARGE_MESSAGE_RULES,
        *kafka_rules(kind),
        *CODEC_RULES,
        *(STORAGE_RULES if kind is SinkKind.STORAGE else ()),
        *DISPATCH_RULES,
    )


def _as_stored(given: ReplicaConfig, config: ReplicaConfig) -> ReplicaConfig:
    """The configuration as TiCDC stores it: as given, but protocol and atomicity from the URI."""
    sink = replace(given.sink, protocol=config.sink.protocol, transaction_atomicity=config.sink.transaction_atomicity)
    return replace(given, sink=sink)
