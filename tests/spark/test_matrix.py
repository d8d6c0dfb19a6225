"""Every recorded topic, in every protocol, format and mode, through the commands a person types: ``make matrix``.

Each case stops at another recorded moment, so that together they stop at all of them. Cases that could not take longer
are in ``test_sync_topics``, which every run of the tests has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import topic_files
from sync_checks import comparable
from tidewire.cli.app import app
from tidewire.spark.snapshot import snapshot

pytestmark = pytest.mark.matrix

TOPICS = ("seed11", "seed11-classic", "seed23", "seed23-classic")
FORMATS = ("iceberg", "delta")
MODES = ("mirror", "history", "scd2")
FILES = [(topic, name) for topic in TOPICS for name in topic_files.names(topic) if not name.startswith("avro")]
CASES = [(topic, name, format_, mode) for mode in MODES for format_ in FORMATS for topic, name in FILES]


def typed(*arguments: object) -> list[dict[str, Any]]:
    """What a command prints."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize(("number", "case"), [*enumerate(CASES)], ids=["-".join(case) for case in CASES])
def test_shown_tables_equal_the_upstream(
    spark: SparkSession, tmp_path: Path, number: int, case: tuple[str, str, str, str]
) -> None:
    topic, name, format_, mode = case
    recorded = topic_files.expected(topic)
    moment = recorded["watermarks"][number * 17 % len(recorded["watermarks"])]
    lines, topics, target = tmp_path / "lines.jsonl", (tmp_path / "topics").as_uri(), tmp_path / "lake"
    lines.write_text(topic_files.read(topic, f"{name}.jsonl"))
    base = name.removesuffix(".faults")
    sync = ["sync", topics, target, "--protocol", topic_files.PROTOCOLS.get(base, base), "--once"]
    sync += ["--target-format", format_, "--mode", mode]
    floats = base != "craft"

    typed_import = CliRunner().invoke(app, ["topic", "import", str(lines), topics, "--topic", topic])
    assert typed_import.exit_code == 0, typed_import.output
    typed(*sync, "--until", moment["ts"])
    assert_shown(spark, target, moment, floats=floats)
    typed(*sync)
    assert_shown(spark, target, recorded["end"], floats=floats)
    assert_shown(spark, target, moment, "--at", moment["ts"], floats=floats)


def assert_shown(spark: SparkSession, target: Path, moment: Mapping[str, Any], *at: object, floats: bool) -> None:
    """``tidewire show`` prints the tables of a recorded moment: names, keys, columns in order, and rows."""
    listed = {line["table"]: line for line in typed("show", target, *at, "--output", "json")}
    assert sorted(listed) == sorted(moment["tables"])
    known = snapshot(spark, str(target), *at[1:]).tables  # type: ignore[arg-type]
    for table, published in known.items():
        wanted = moment["tables"][str(table)]
        rows = typed("show", target, table, *at, "--output", "json")
        assert listed[str(table)]["columns"] == wanted["columns"], table
        assert listed[str(table)]["key"] == wanted["key"], table
        assert listed[str(table)]["rows"] == len(wanted["rows"]), table
        columns = published.schema.columns
        assert all(list(row) == wanted["columns"] for row in rows), table
        shown = comparable([list(row.values()) for row in rows], columns, floats)
        assert shown == comparable(wanted["rows"], columns, floats), table
