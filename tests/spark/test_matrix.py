"""Every recorded topic, in every protocol with watermarks, clean and faulty, format and mode: ``make matrix``.

``tidewire sync`` stops at some recorded moments and at the end, and ``tidewire maintain`` compacts the tables. Each
case stops at other moments, so that together the cases of a topic stop at all of them. Before and after maintenance,
pyiceberg or delta-rs reads every version that was published. Spark reads the first one before, and the last one after.
Cases that could not take longer are in ``test_sync_topics``, which every run of the tests has.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import topic_files
from sync_checks import assert_equal, assert_others_read, written
from tidewire.cli.app import app

pytestmark = pytest.mark.matrix

TOPICS = ("seed11", "seed11-classic", "seed23", "seed23-classic")
FORMATS: Mapping[str, tuple[str, int, list[object]]] = {
    "iceberg-3": ("iceberg", 3, []),
    "iceberg-2": ("iceberg", 3, ["--format-version", 2]),
    "delta": ("delta", 1, ["--target-format", "delta"]),
}
"""A target format, at how many recorded moments a sync stops before the end, and arguments of ``tidewire sync``."""

MODES = ("mirror", "history", "scd2")
FILES = [(topic, name) for topic in TOPICS for name in topic_files.names(topic) if not name.startswith("avro")]
CASES = [(format_, mode, topic, name) for format_ in FORMATS for mode in MODES for topic, name in FILES]


def stops(case: tuple[str, str, str, str]) -> list[Mapping[str, Any]]:
    """The recorded moments at which a case stops, in their order."""
    format_, _, topic, _ = case
    watermarks, times = topic_files.expected(topic)["watermarks"], FORMATS[format_][1]
    count, first = len(watermarks), [each for each in CASES if each[2] == topic].index(case)
    return [watermarks[index] for index in sorted((first + part * count // times) % count for part in range(times))]


@pytest.mark.parametrize("topic", TOPICS)
def test_together_the_cases_stop_at_every_recorded_moment(topic: str) -> None:
    found = {moment["ts"] for case in CASES if case[2] == topic for moment in stops(case)}

    assert found == {moment["ts"] for moment in topic_files.expected(topic)["watermarks"]}


def typed(*arguments: object) -> None:
    """Run a command as a person types it."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("case", CASES, ids=["-".join(case) for case in CASES])
def test_published_versions_equal_the_upstream(
    spark: SparkSession, tmp_path: Path, case: tuple[str, str, str, str]
) -> None:
    kind, mode, topic, name = case
    format_, _, arguments = FORMATS[kind]
    recorded, floats = topic_files.expected(topic), not name.startswith("craft")
    moments = stops(case)
    target = tmp_path / "lake"
    written(tmp_path / "topics", topic, name)
    base = name.removesuffix(".faults")
    protocol = topic_files.PROTOCOLS.get(base, base)
    sync = [
        "sync",
        (tmp_path / "topics").as_uri(),
        target,
        "--protocol",
        protocol,
        "--once",
        "--mode",
        mode,
        *arguments,
    ]

    for moment in moments:
        typed(*sync, "--until", moment["ts"])
    typed(*sync)

    moments.append(recorded["end"])
    first, end = moments[0], moments[-1]
    assert_equal(spark, target, first, first["ts"], floats=floats)
    count = sum(assert_others_read(spark, target, format_, each, each["ts"], floats=floats) for each in moments)
    typed("maintain", target)
    again = sum(assert_others_read(spark, target, format_, each, each["ts"], floats=floats) for each in moments)
    assert count == again >= len(moments)
    assert_equal(spark, target, end, floats=floats)
