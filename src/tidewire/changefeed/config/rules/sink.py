"""Where changes go, and in which protocol."""

from __future__ import annotations

import re

from tidewire.changefeed.config.protocols import KNOWN, SPOKEN
from tidewire.changefeed.config.rules.candidate import CandidateConfig, Rule, inside
from tidewire.changefeed.config.uri import BUILT, INVALID, SinkKind

UNKNOWN_PROTOCOL = "CDC:ErrSinkUnknownProtocol"
_NO_TOPIC = "CDC:ErrKafkaInvalidConfig"
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_LEVELS = frozenset({"none", "table"})


def _database_protocol(candidate: CandidateConfig) -> str | None:
    if candidate.uri.kind is not SinkKind.DATABASE or not candidate.sink.protocol:
        return None
    return f"a {candidate.uri.scheme} sink has no protocol; take {candidate.sink.protocol!r} away"


def _pulsar_protocol(candidate: CandidateConfig) -> str | None:
    if candidate.uri.kind is not SinkKind.PULSAR or candidate.protocol == "canal-json":
        return None
    return f"a {candidate.uri.scheme} sink speaks canal-json only, not {candidate.sink.protocol or ''!r}"


def _not_built(candidate: CandidateConfig) -> str | None:
    if candidate.uri.scheme in BUILT:
        return None
    return f"TiCDC has {candidate.uri.scheme} sinks, but here they are not built; there are {', '.join(sorted(BUILT))}"


def _no_topic(candidate: CandidateConfig) -> str | None:
    if not candidate.uri.kind.has_topics or candidate.uri.topic:
        return None
    return inside(
        _NO_TOPIC, f"no topic is specified in sink-uri {candidate.uri}; it is the path, as in kafka://host/topic"
    )


def _bad_topic(candidate: CandidateConfig) -> str | None:
    if not candidate.uri.kind.has_topics or _TOPIC.fullmatch(candidate.uri.topic):
        return None
    reason = f"the topic {candidate.uri.topic!r} of the sink-uri must be letters, digits, '.', '_' and '-', at most 249"
    return inside(_NO_TOPIC, reason)


def _no_folder(candidate: CandidateConfig) -> str | None:
    if candidate.uri.kind is not SinkKind.STORAGE or candidate.uri.folder.strip("/"):
        return None
    return f"sink-uri {candidate.uri} names no folder; write file:///whole/path/of/folder, or s3://bucket/prefix"


def _atomicity(candidate: CandidateConfig) -> str | None:
    level = candidate.sink.transaction_atomicity or "none"
    if level not in _LEVELS:
        return f"transaction-atomicity is none or table, not {level!r}"
    if level == "table" and candidate.uri.kind.has_topics:
        return f"a {candidate.uri.scheme} sink has no transaction-atomicity 'table'; set none"
    return None


def _unknown_protocol(candidate: CandidateConfig) -> str | None:
    if candidate.uri.kind not in SPOKEN or candidate.protocol in KNOWN:
        return None
    known = ", ".join(sorted(SPOKEN[candidate.uri.kind]))
    return (
        f"unknown {candidate.sink.protocol or ''!r} message protocol for a {candidate.uri.scheme} sink; it has {known}"
    )


def _unspoken_protocol(candidate: CandidateConfig) -> str | None:
    spoken = SPOKEN.get(candidate.uri.kind)
    if spoken is None or candidate.protocol in spoken:
        return None
    where = " (topics in files are file-topic://)" if candidate.uri.scheme == "file" else ""
    known = ", ".join(sorted(spoken))
    return f"a {candidate.uri.scheme} sink has no encoder for {candidate.protocol!r}; it has {known}{where}"


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
