"""Topics that are transcoded: the native kernel writes the readable codec's bytes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

import pyarrow as pa
import pytest

import topic_files
from encode_checks import ENCODINGS, any_options, outcome
from scanner_checks import NATIVE_IS_HERE, batch
from tidewire.arrow import BatchDecoder, Plan, Policy
from tidewire.arrow.encode.native import native_messages
from tidewire.codec import Resources
from tidewire.plain import message_from_plain
from tidewire.registry import MemoryRegistry

RESOURCES = Resources(registry=MemoryRegistry())
ROWS = 60
"""So many rows of each table, at most: the codec takes its time."""


@cache
def rows(topic: str) -> Sequence[tuple[Plan, pa.RecordBatch]]:
    messages = [message_from_plain(line) for line in topic_files.lines(topic, "simple-json")]
    return BatchDecoder("simple", topic_files.options(topic, "simple-json")).decode(batch(messages)).batches


@pytest.mark.skipif(not NATIVE_IS_HERE, reason="tidewire-native is not installed")
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("topic", ["seed11", "seed23-classic"])
def test_a_transcoded_topic_has_the_codecs_bytes(topic: str, encoding: str) -> None:
    chance, (name, options) = random.Random(topic + encoding), ENCODINGS[encoding]
    for plan, found in rows(topic):
        part = found.slice(chance.randrange(max(1, found.num_rows - ROWS)), ROWS)
        assert native_messages(name, plan.table, part, options, RESOURCES, Policy()) is not None
        for chosen in (options, any_options(chance, options)):
            fast, slow = (outcome(name, plan.table, part, chosen, fast=way) for way in (True, False))
            assert fast == slow, f"{plan.table.name} with {chosen}"
