"""Whole topics with a known final state: a seeded workload, encoded by both servers' own encoders."""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

from tidewire.codec import Options, Resources, protocol
from tidewire.codec.parking import Parking
from tidewire.model import Event, Watermark
from tidewire.plain import message_from_plain
from tidewire.registry import MemoryRegistry

TOPICS = Path(__file__).parent / "topics"
PROTOCOLS = {"simple-json": "simple", "simple-avro": "simple"}
"""The protocol of a file, where it is not its name."""


def read(topic: str, file: str) -> str:
    """The text of a file."""
    with lzma.open(TOPICS / topic / f"{file}.xz", "rt", encoding="utf-8") as text:
        return text.read()


def names(topic: str) -> list[str]:
    """The files with a topic's messages, such as ``canal-json.faults``."""
    return sorted(path.name.removesuffix(".jsonl.xz") for path in (TOPICS / topic).glob("*.jsonl.xz"))


def lines(topic: str, name: str) -> list[dict[str, Any]]:
    """The messages of a topic in produced order."""
    return [json.loads(line) for line in read(topic, f"{name}.jsonl").splitlines()]


def lines_until(topic: str, name: str, ts: int) -> list[dict[str, Any]]:
    """The messages up to those with which every partition has the watermark of a recorded moment."""
    without = set(range(expected(topic)["partitions"]))
    found = []
    for line, ((_, partition), told) in zip(lines(topic, name), events(topic, name), strict=True):
        found.append(line)
        if Watermark(ts) in told:
            without.discard(partition)
        if not without:
            break
    return found


@cache
def expected(topic: str) -> dict[str, Any]:
    """The settings, and the tables' contents at several watermarks."""
    found: dict[str, Any] = json.loads(read(topic, "expected.json"))
    return found


def options(topic: str, name: str) -> Options:
    """The options a file was encoded with."""
    base = name.removesuffix(".faults")
    settings = dict(expected(topic)["options"][base])
    if base == "simple-avro":
        settings["encoding-format"] = "avro"
    return Options.parse(settings)


def registry(topic: str) -> MemoryRegistry:
    """The schemas of a topic's Avro file."""
    schemas = json.loads(read(topic, "avro.schemas.json"))["schemas"]
    return MemoryRegistry({int(number): text for number, text in schemas.items()})


@cache
def events(topic: str, name: str) -> tuple[tuple[tuple[str, int], tuple[Event, ...]], ...]:
    """The events of each message, with the topic and partition it is in."""
    base = PROTOCOLS.get(name.removesuffix(".faults"), name.removesuffix(".faults"))
    resources = Resources(registry=registry(topic))
    parking: Parking[None] = Parking(protocol(base).Decoder(options(topic, name), resources))
    found = []
    for line in lines(topic, name):
        decoded = tuple(event for _, event in parking.decode(message_from_plain(line), None))
        found.append(((line.get("topic", ""), line["partition"]), decoded))
    assert not parking.parked
    return tuple(found)
