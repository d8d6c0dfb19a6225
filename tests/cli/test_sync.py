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


@pytest.fixture
def topics(tmp_path: Path) -> str:
    """Where a recorded topic was imported to."""
    lines, place = tmp_path / "lines.jsonl", (tmp_path / "topics").as_uri()
    lines.write_text(topic_files.read("seed23", "simple-json.jsonl"))
    imported = run("topic", "import", lines, place, "--topic", "feed")
    assert imported.exit_code == 0, imported.output
    return place


@pytest.mark.slow
def test_a_recorded_topic_is_imported_synced_and_shown(spark: SparkSession, tmp_path: Path, topics: str) -> None:
    target, moment = tmp_path / "lake", topic_files.expected("seed23")["watermarks"][10]

    synced = run("sync", topics, target, "--protocol", "simple", "--once", "--until", moment["ts"])
    listed = run("show", target, "--output", "json")

    assert (synced.exit_code, listed.exit_code) == (0, 0), synced.output
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


@pytest.mark.slow
def test_a_file_says_all_and_the_command_line_wins(spark: SparkSession, tmp_path: Path, topics: str) -> None:
    target, moment = tmp_path / "lake", topic_files.expected("seed23")["watermarks"][2]
    config = tmp_path / "sync.toml"
    config.write_text(
        f"""
        source = "{topics}"
        protocol = "simple"
        once = true
        until = 1
        parallel = 2
        [target]
        uri = "${{LAKE}}"
        [[tables]]
        match = ["test.*"]
        to = "lake.{{schema}}_{{table}}"
        """
    )

    synced = CliRunner().invoke(
        app, ["sync", "--config", str(config), "--until", str(moment["ts"])], env={"LAKE": str(target)}
    )

    assert synced.exit_code == 0, synced.output
    listed = [json.loads(line) for line in run("show", target, "--output", "json").stdout.splitlines()]
    assert {line["table"]: line["rows"] for line in listed} == {
        f"lake.{name.replace('.', '_')}": len(table["rows"]) for name, table in moment["tables"].items()
    }


@pytest.mark.slow
def test_tables_in_another_catalog_are_shown_and_maintained_with_the_file(
    spark: SparkSession, tmp_path: Path, topics: str
) -> None:
    target, moment = tmp_path / "lake", topic_files.expected("seed23")["watermarks"][2]
    config = tmp_path / "sync.toml"
    config.write_text(
        f"""
        include = ["test.accounts"]
        [target]
        uri = "{target}"
        [target.catalog]
        name = "elsewhere"
        type = "jdbc"
        uri = "jdbc:sqlite:{tmp_path}/elsewhere.db"
        warehouse = "{tmp_path}/elsewhere"
        "jdbc.schema-version" = "V1"
        """
    )

    synced = run("sync", topics, target, "-p", "simple", "--once", "--until", moment["ts"], "--config", config)

    assert synced.exit_code == 0, synced.output
    assert not (target / "catalog.db").exists()
    shown = run("show", target, "--output", "json", "--config", config)
    listed = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [(line["table"], line["rows"]) for line in listed] == [
        ("test.accounts", len(moment["tables"]["test.accounts"]["rows"]))
    ]
    maintained = run("maintain", target, "--config", config, "--output", "json")
    assert maintained.exit_code == 0, maintained.output
    for command in ("show", "maintain"):
        refused = run(command, target)
        assert (refused.exit_code, "the tables are in the catalog elsewhere" in refused.output) == (2, True)


def test_a_config_file_gives_settings_and_a_wrong_one_is_named(tmp_path: Path) -> None:
    config = tmp_path / "sync.toml"
    config.write_text('protocol = "avro"\nspeed = 3\n')

    found = run("sync", "file:topics", "lake", "--config", config)

    assert found.exit_code == 2
    assert "'speed' is no setting of a sync" in found.output


def refused(tmp_path: Path, text: str, *arguments: object, **environment: str) -> str:
    """What a command says that cannot begin, without its line breaks."""
    config = tmp_path / "sync.toml"
    config.write_text(text)
    found = CliRunner().invoke(app, ["sync", "--config", str(config), *map(str, arguments)], env=environment)
    assert found.exit_code == 2, found.output
    assert not isinstance(found.exception, AssertionError)
    return found.output


BROKEN = """
protocol = "canal-json"
target = "lake"
[source]
uri = "kafka://localhost:9092/orders"
sasl-user = "me"
sasl-password = "${PASSWORD}"
"""


@pytest.mark.parametrize(
    ("text", "arguments", "complaint"),
    [
        ('protocol = "avro"', (), "Missing argument 'SOURCE'"),
        ('protocol = "avro"\nsource = "file:topics"', (), "Missing argument 'TARGET'"),
        ('source = "file:topics"\ntarget = "lake"', (), "Missing option '--protocol'"),
        (BROKEN + 'sasl-mechanism = "${PASSWORD}"', (), "option sasl-mechanism: 'xxxxx' is none of"),
        (BROKEN + 'speed = "3"', (), "option speed: no option of a Kafka source"),
        (BROKEN + "[option]\nspeed = 3", (), "option option.speed"),
        (BROKEN, ("--spark", "speed"), "'speed' is not of the form NAME=VALUE"),
        (BROKEN, ("--tables", "speed"), "'speed' is not of the form schema.table"),
        (
            'protocol = "avro"\nsource = "file:topics"\ntarget = "lake"',
            ("--max-offsets-per-batch", 5),
            "source.max-offsets-per-batch: only a Kafka source has it",
        ),
        (BROKEN, ("kafka://localhost/orders",), "'localhost' is no broker"),
        (
            "max-offsets-per-batch = 5\n" + BROKEN,
            ("file:topics",),
            "source.max-offsets-per-batch: only a Kafka source has it",
        ),
        (BROKEN, ("--protocol", "avra"), "'avra' is not one of"),
        (
            BROKEN.replace('target = "lake"', "") + '[target]\nuri = "lake"\ncatalog = {name = "lake", type = "rest"}',
            ("--target-format", "delta"),
            "target.catalog: only Iceberg has catalogs",
        ),
    ],
)
def test_what_is_wrong_is_said_before_spark_starts_and_without_secrets(
    tmp_path: Path, text: str, arguments: tuple[object, ...], complaint: str
) -> None:
    output = refused(tmp_path, text, *arguments, PASSWORD="hush-hush")

    assert complaint in output
    assert "hush-hush" not in output
