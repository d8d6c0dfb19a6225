"""``tidewire topic import``, ``sync`` and ``show``, as a person types them."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

import topic_files
from command_line import SMALL, finished, lines_of, started
from growing_topic import Feed
from growing_topic import table as growing_table
from scripted import OPTIONS, Script, table
from tidewire.cli.app import app
from tidewire.codec import Options, Resources, protocol
from tidewire.codec.claim_check import open_store
from tidewire.model import RowChange
from tidewire.spark.driver import take
from tidewire.spark.ledger import ledger_of


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
def test_a_topic_that_begins_after_its_tables_is_synced_and_says_what_is_missing(
    spark: SparkSession, tmp_path: Path
) -> None:
    lines, place, target = tmp_path / "lines.jsonl", (tmp_path / "topics").as_uri(), tmp_path / "lake"
    lines.write_text("".join(_without_creates("seed23", "canal-json")))
    assert run("topic", "import", lines, place, "--topic", "feed").exit_code == 0
    moment = topic_files.expected("seed23")["watermarks"][3]
    command = (
        "sync",
        place,
        target,
        "-p",
        "canal-json",
        "--once",
        "--until",
        moment["ts"],
        "--tables",
        "test.accounts",
    )

    synced = run(*command)
    listed = run("show", target)

    assert synced.exit_code == 0, synced.output
    assert "test.accounts: rows from before 2026-" in synced.stderr
    assert "tidewire load --replace brings them" in synced.stderr
    assert "test.accounts: rows from before 2026-" in listed.output
    assert "test.accounts: rows from before" in run(*command).stdout


def test_tables_in_a_folder_cannot_be_committed_together(tmp_path: Path, topics: str) -> None:
    refused = run("sync", topics, tmp_path / "lake", "-p", "simple", "--once", "--atomic")

    assert refused.exit_code == 2
    assert refused.stderr.splitlines() == [
        "Error: option atomic: only Iceberg tables in a REST catalog can be committed together; leave it out"
    ]


def _without_creates(topic: str, name: str) -> Iterator[str]:
    """The messages of a recorded topic whose tables were there before it began."""
    offsets: Counter[int] = Counter()
    for line in map(json.loads, topic_files.read(topic, f"{name}.jsonl").splitlines()):
        if b"CREATE TABLE" not in base64.b64decode(line["value"]):
            yield json.dumps(line | {"offset": offsets[line["partition"]]}) + "\n"
            offsets[line["partition"]] += 1


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
def test_a_target_remembers_the_catalog_that_its_tables_are_in(
    spark: SparkSession, tmp_path: Path, topics: str
) -> None:
    target, moment = tmp_path / "lake", topic_files.expected("seed23")["watermarks"][2]
    config = tmp_path / "sync.toml"
    config.write_text(
        f"""
        include = ["test.accounts"]
        [target]
        uri = "{target}"
        [catalog.elsewhere]
        type = "jdbc"
        uri = "jdbc:sqlite:{tmp_path}/elsewhere.db"
        warehouse = "{tmp_path}/elsewhere"
        "jdbc.schema-version" = "V1"
        """
    )

    synced = run("sync", topics, target, "-p", "simple", "--once", "--until", moment["ts"], "--config", config)

    assert synced.exit_code == 0, synced.output
    assert not (target / "catalog.db").exists()
    shown = run("show", target, "--output", "json")
    listed = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [(line["table"], line["rows"]) for line in listed] == [
        ("test.accounts", len(moment["tables"]["test.accounts"]["rows"]))
    ]
    maintained = run("maintain", target, "--output", "json")
    assert maintained.exit_code == 0, maintained.output
    (target / "_tidewire" / "catalog").unlink()  # as a sync of before left it
    for command in ("show", "maintain"):
        refused = run(command, target)
        assert (refused.exit_code, "the tables are in the catalog elsewhere" in refused.output) == (2, True)
        assert run(command, target, "--config", config).exit_code == 0


@pytest.mark.slow
def test_held_tables_are_listed_and_go_on_when_they_are_released(spark: SparkSession, tmp_path: Path) -> None:
    script, target = Script(), tmp_path / "lake"
    orders = table("orders", id="bigint", label="varchar(20)")
    script.ddl("orders", "CREATE TABLE orders (id BIGINT PRIMARY KEY, label VARCHAR(20))")
    script.insert(orders, id=1, label="one")
    script.watermark()
    script.bad(b"garbage")
    script.insert(orders, id=2, label="two")
    script.watermark()
    script.write(tmp_path / "topics")
    typed = ("sync", (tmp_path / "topics").as_uri(), target, "--protocol", "canal-json", "--once")

    synced = run(*typed)
    (hold,) = map(json.loads, run("holds", "ls", target, "--output", "json").stdout.splitlines())

    assert synced.exit_code == 1, synced.output
    first, second, last = synced.stderr.splitlines()
    assert first.startswith(f"held {hold['id']}: all tables at t[0]@3 since {hold['since']}: ")
    assert second.startswith("way out for a message: ")
    assert f"tidewire holds release {target} {hold['id']}" in second
    assert last == "all tables are held"
    assert "skip" not in synced.stderr
    assert json.loads(synced.stdout.splitlines()[-1])["rows"] == {"shop.orders": 1}
    assert "t[0]@3" in run("rejects", "show", target, "t[0]@3").stdout

    released = run("holds", "release", target, hold["id"])
    again = run(*typed)

    assert (released.exit_code, again.exit_code) == (0, 0), again.output
    (shown,) = map(json.loads, run("show", target, "--output", "json").stdout.splitlines())
    assert shown["rows"] == 2


@pytest.mark.slow
def test_a_message_is_read_again_after_its_cause_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    claims, target = tmp_path / "claims", tmp_path / "lake"
    claims.mkdir()
    options = {
        **OPTIONS,
        "max-message-bytes": "1000",
        "large-message-handle-option": "claim-check",
        "claim-check-storage-uri": claims.as_uri(),
    }
    script, docs = Script(), table("docs", id="bigint", text="longtext")
    script.ddl("docs", "CREATE TABLE docs (id BIGINT PRIMARY KEY, text LONGTEXT)")
    script.watermark()
    large = RowChange(docs, script.ts + 1, after={"id": 1, "text": "x" * 2000})
    encoder = protocol("canal-json").Encoder(Options.parse(options), Resources(open_store(claims.as_uri())))
    script.messages += encoder.encode([large])
    script.watermark()
    script.write(tmp_path / "topics")
    typed = ["sync", (tmp_path / "topics").as_uri(), target, "--protocol", "canal-json", "--once"]
    typed += [f"--option={name}={value}" for name, value in options.items()]
    (claim,) = claims.rglob("*.json")
    content = claim.read_bytes()

    claim.unlink()
    held = run(*typed)
    assert held.exit_code == 1, held.output
    claim.write_bytes(content)
    retried = run("holds", "retry", target)
    healed = run(*typed)

    assert (retried.exit_code, healed.exit_code) == (0, 0), healed.output
    assert "the next tidewire sync tries it again" in retried.stdout
    assert run("holds", "ls", target).stdout == "no table is held\n"
    (shown,) = map(json.loads, run("show", target, "shop.docs", "--output", "json").stdout.splitlines())
    assert shown["id"] == 1 or shown["id"] == "1"


@pytest.mark.slow
def test_a_running_sync_carries_out_requests_and_is_the_only_driver(tmp_path: Path) -> None:
    feed, target = Feed(tmp_path / "topics", [growing_table(0)]), tmp_path / "lake"
    feed.create()
    for text in "ab":
        feed.put(range(5), text)
    typed = ("sync", feed.folder.as_uri(), target, "-p", "canal-json")

    with started(*typed, *SMALL) as running:
        assert running.stdout is not None
        while lines_of(running.stdout.readline())[0].get("applied", 0) < feed.ts:
            pass
        second = finished(*typed)
        maintained = finished("maintain", target, "--output", "json")
        retried = finished("holds", "retry", target)
        take(ledger_of(str(target)), take_over=True).end()
        output, errors = running.communicate()

    assert (second.returncode, len(second.stderr.splitlines())) == (3, 1)
    assert f"a sync already writes to {target}/_tidewire: process {running.pid} on" in second.stderr
    assert maintained.returncode == 0, maintained.stderr
    table, total = lines_of(maintained.stdout)
    assert (table["table"], total["tables"], total["dry_run"]) == ("shop.t000", 1, False)
    assert (retried.returncode, retried.stdout) == (0, "there is nothing to try again\n")
    assert "retry: there is nothing to try again" in [line.get("note") for line in lines_of(output)]
    assert running.returncode == 4
    assert errors.startswith("Error: process ")
    assert len(errors.splitlines()) == 1


def test_a_config_file_gives_settings_and_a_wrong_one_is_named(tmp_path: Path) -> None:
    config = tmp_path / "sync.toml"
    config.write_text('protocol = "avro"\nspeed = 3\n')

    found = run("sync", "file:topics", "lake", "--config", config)

    assert found.exit_code == 2
    assert found.output.startswith(f"Error: {config}: speed: 'speed' is not a setting of a sync; known are ")
    assert len(found.output.splitlines()) == 1


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
        (BROKEN + 'sasl-mechanism = "${PASSWORD}"', (), "gssapi, oauthbearer, not 'xxxxx'"),
        (BROKEN + 'speed = "3"', (), "option speed: a Kafka source has no such option"),
        (BROKEN + "[option]\nspeed = 3", (), "option speed: there is no such option"),
        (BROKEN + "[option]\ntimezone = 3", (), "there is no such option; did you mean time-zone?"),
        (BROKEN, ("--spark", "speed"), "'speed' is not of the form NAME=VALUE"),
        (BROKEN, ("--tables", "speed"), "'speed' is not of the form schema.table"),
        (
            'protocol = "avro"\nsource = "file:topics"\ntarget = "lake"',
            ("--max-offsets-per-batch", 5),
            "source.max-offsets-per-batch: only a Kafka source has it",
        ),
        (BROKEN, ("kafka://localhost:many/orders",), "one of its brokers is not a host and port"),
        (
            "max-offsets-per-batch = 5\n" + BROKEN,
            ("file:topics",),
            "source.max-offsets-per-batch: only a Kafka source has it",
        ),
        (BROKEN, ("--protocol", "avra"), "'avra' is not one of"),
        (BROKEN + 'protocol = "avro"', (), "the URI of the source says avro, but canal-json is given"),
        (BROKEN + 'protocol = "maxwell"', (), "says maxwell, which is not one of open-protocol, canal-json"),
        (
            BROKEN + '[catalog.lake]\ntype = "rest"',
            ("--target-format", "delta"),
            "option catalog: only Iceberg has catalogs",
        ),
        (
            BROKEN + '[catalog.lake]\ntype = "rest"\n[catalog.pond]\ntype = "glue"',
            (),
            "option catalog: name one of lake, pond",
        ),
        (
            BROKEN.replace('target = "lake"', 'target = "s3://bucket/lake"'),
            (),
            "option catalog: the embedded catalog needs a local folder, and the target is in a store",
        ),
        (
            BROKEN.replace('target = "lake"', 'target = "s3://bucket/lake"'),
            ("--target-format", "delta"),
            "option target-format: Delta tables are kept in local folders only",
        ),
    ],
)
def test_what_is_wrong_is_said_before_spark_starts_and_without_secrets(
    tmp_path: Path, text: str, arguments: tuple[object, ...], complaint: str
) -> None:
    output = refused(tmp_path, text, *arguments, PASSWORD="hush-hush")

    assert complaint in output
    assert "hush-hush" not in output
