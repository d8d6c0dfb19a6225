"""``tidewire topic import``, ``sync`` and ``show``, as a person types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

import topic_files
from tidewire.cli.app import app


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.slow
def test_a_recorded_topic_is_imported_synced_and_shown(spark: SparkSession, tmp_path: Path) -> None:
    lines, topics, target = tmp_path / "lines.jsonl", (tmp_path / "topics").as_uri(), tmp_path / "lake"
    lines.write_text(topic_files.read("seed23", "simple-json.jsonl"))
    moment = topic_files.expected("seed23")["watermarks"][10]

    imported = run("topic", "import", lines, topics, "--topic", "feed")
    synced = run("sync", topics, target, "--protocol", "simple", "--once", "--until", moment["ts"])
    listed = run("show", target, "--output", "json")

    assert (imported.exit_code, synced.exit_code, listed.exit_code) == (0, 0, 0), synced.output
    report = json.loads(synced.stdout.splitlines()[-1])
    assert report["applied"] == moment["ts"]
    tables = {line["table"]: line for line in map(json.loads, listed.stdout.splitlines())}
    assert {name: table["rows"] for name, table in tables.items()} == {
        name: len(table["rows"]) for name, table in moment["tables"].items()
    }
    for name in ("test.accounts", "test.sessions"):
        shown = run("show", target, name, "--at", moment["ts"], "--output", "json")
        wanted = moment["tables"][name]
        rows = [json.loads(line) for line in shown.stdout.splitlines()]
        assert [list(row) for row in rows] == [wanted["columns"]] * len(rows)
        assert sorted(json.dumps([*row.values()]) for row in rows) == sorted(map(json.dumps, wanted["rows"]))
    assert "test.accounts" in run("show", target).stdout
    assert "there is no table 'test.nothing'" in run("show", target, "test.nothing").output
    refused = run("sync", topics, target, "--protocol", "simple", "--once", "--mode", "scd2")
    assert refused.exit_code == 2
    assert "belongs to another sync" in refused.output


def test_a_config_file_gives_settings_and_a_wrong_one_is_named(tmp_path: Path) -> None:
    config = tmp_path / "sync.toml"
    config.write_text('protocol = "avro"\nspeed = 3\n')

    found = run("sync", "file:topics", "lake", "--config", config)

    assert found.exit_code == 2
    assert "'speed' is no setting of a sync" in found.output
