"""Where changes go, and in which protocol."""

from __future__ import annotations

import re

from tidewire.changefeed.config.protocols import KNOWN, SPOKEN
from tidewire.changefeed.config.rules.draft import Draft, Rule, inside
from tidewire.changefeed.config.uri import BUILT, INVALID, SinkKind

UNKNOWN_PROTOCOL = "CDC:ErrSinkUnknownProtocol"
_NO_TOPIC = "CDC:ErrKafkaInvalidConfig"
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_LEVELS = frozenset({"none", "table"})


def _database_protocol(draft: Draft) -> str | None:
    if draft.uri.kind is not SinkKind.DATABASE or not draft.sink.protocol:
        return None
    return f"a {draft.uri.scheme} sink has no protocol; take {draft.sink.protocol!r} away"


def _pulsar_protocol(draft: Draft) -> str | None:
    if draft.uri.kind is not SinkKind.PULSAR or draft.protocol == "canal-json":
        return None
    return f"a {draft.uri.scheme} sink speaks canal-json only, not {draft.sink.protocol or ''!r}"


def _not_built(draft: Draft) -> str | None:
    if draft.uri.scheme in BUILT:
        return None
    return f"TiCDC has {draft.uri.scheme} sinks, but here they are not built; there are {', '.join(sorted(BUILT))}"


def _no_topic(draft: Draft) -> str | None:
    if not draft.uri.kind.has_topics or draft.uri.topic:
        return None
    return inside(_NO_TOPIC, f"no topic is specified in sink-uri {draft.uri}; it is the path, as in kafka://host/topic")


def _bad_topic(draft: Draft) -> str | None:
    if not draft.uri.kind.has_topics or _TOPIC.fullmatch(draft.uri.topic):
        return None
    reason = f"the topic {draft.uri.topic!r} of the sink-uri must be letters, digits, '.', '_' and '-', at most 249"
    return inside(_NO_TOPIC, reason)


def _no_folder(draft: Draft) -> str | None:
    if draft.uri.kind is not SinkKind.STORAGE or draft.uri.folder.strip("/"):
        return None
    return f"sink-uri {draft.uri} names no folder; write file:///whole/path/of/folder, or s3://bucket/prefix"


def _atomicity(draft: Draft) -> str | None:
    level = draft.sink.transaction_atomicity or "none"
    if level not in _LEVELS:
        return f"transaction-atomicity is none or table, not {level!r}"
    if level == "table" and draft.uri.kind.has_topics:
        return f"a {draft.uri.scheme} sink has no transaction-atomicity 'table'; set none"
    return None


def _unknown_protocol(draft: Draft) -> str | None:
    if draft.uri.kind not in SPOKEN or draft.protocol in KNOWN:
        return None
    known = ", ".join(sorted(SPOKEN[draft.uri.kind]))
    return f"unknown {draft.sink.protocol or ''!r} message protocol for a {draft.uri.scheme} sink; it has {known}"


def _unspoken_protocol(draft: Draft) -> str | None:
    spoken = SPOKEN.get(draft.uri.kind)
    if spoken is None or draft.protocol in spoken:
        return None
    where = " (topics in files are file-topic://)" if draft.uri.scheme == "file" else ""
    return f"a {draft.uri.scheme} sink has no encoder for {draft.protocol!r}; it has {', '.join(sorted(spoken))}{where}"


RULES = (
    Rule(INVALID, _database_protocol),
    Rule(INVALID, _pulsar_protocol),
    Rule(INVALID, _not_built),
    Rule(INVALID, _no_topic),
    Rule(INVALID, _bad_topic),
    Rule(INVALID, _no_folder),
    Rule(INVALID, _atomicity),
    Rule(UNKNOWN_PROTOCOL, _unknown_protocol),
    Rule(UNKNOWN_PROTOCOL, _unspoken_protocol),
)
