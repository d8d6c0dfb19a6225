"""Which topics and partitions tables go to."""

from __future__ import annotations

from tidewire.changefeed.config.parameters import KAFKA_INVALID
from tidewire.changefeed.config.rules.candidate import CandidateConfig, Rule
from tidewire.changefeed.config.rules.codec import SINK_INVALID


def _two_names(candidate: CandidateConfig) -> str | None:
    for number, rule in enumerate(candidate.sink.dispatchers):
        if rule.dispatcher and rule.partition:
            return f"sink.dispatchers[{number}] has both partition and its old name dispatcher; keep partition"
    return None


def _avro_topics(candidate: CandidateConfig) -> str | None:
    if candidate.protocol != "avro":
        return None
    if any("{schema}" in rule.topic and "{table}" in rule.topic for rule in candidate.sink.dispatchers):
        return None
    return (
        "Avro needs a topic for each table, but no rule of sink.dispatchers has a topic with both {schema} and "
        "{table}; add one such as {matcher = ['*.*'], topic = \"tidb_{schema}_{table}\"}"
    )


RULES = (Rule(SINK_INVALID, _two_names), Rule(KAFKA_INVALID, _avro_topics))
