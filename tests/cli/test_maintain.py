"""``tidewire maintain``, as a person types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from growing_topic import JOB, Feed, table
from sync_checks import synced
from tidewire.cli.app import app
from tidewire.model import TableName
from tidewire.spark.ledger import ledger_of
from tidewire.spark.publications import Publications
from tidewire.spark.targets import open_target


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.slow
def test_a_target_is_looked_at_and_then_put_in_order(spark: SparkSession, tmp_path: Path) -> None:
    feed, target = Feed(tmp_path / "topics", [table(0)]), tmp_path / "lake"
    feed.create()
    for batch in range(5):
        feed.put(range(batch, batch + 5), f"b{batch}")
        synced(spark, feed.topics, target, JOB)

    looked = run("maintain", target, "--dry-run", "--output", "json", "--older-than", "0s", "--keep", "2")
    done = run("maintain", target, "--output", "json", "--older-than", "0s", "--keep", "2")
    shown = run("maintain", target)

    assert (looked.exit_code, done.exit_code, shown.exit_code) == (0, 0, 0), done.output
    before, plan = map(json.loads, looked.stdout.splitlines())
    after, total = map(json.loads, done.stdout.splitlines())
    assert before["before"] == before["after"] == after["before"]
    assert before["before"]["files"] >= 5
    assert after["table"] == "shop.t000"
    assert after["after"]["files"] == 1
    assert after["after"]["versions"] < after["before"]["versions"]
    assert (plan["publications_gone"], total["publications_gone"], total["publications_kept"]) == (3, 3, 2)
    assert (plan["dry_run"], total["dry_run"]) == (True, False)
    assert "shop.t000" in shown.stdout
    assert "publications gone" in shown.stdout

    published, name = Publications(ledger_of(str(target))).required(), TableName("shop", "t000")
    assert published.tables[name].version == open_target(spark, str(target), "iceberg").version(name)
    feed.put(range(20), "later")
    assert synced(spark, feed.topics, target, JOB).applied == feed.ts
    (listed,) = map(json.loads, run("show", target, "--output", "json").stdout.splitlines())
    assert listed["rows"] == 20


def test_what_cannot_be_maintained_is_said(tmp_path: Path) -> None:
    missing, wrong = run("maintain", tmp_path / "nothing"), run("maintain", tmp_path, "--older-than", "a while")

    assert (missing.exit_code, wrong.exit_code) == (2, 2)
    assert "no sync has written to" in missing.output
    assert "'a while' is not an age" in wrong.output


def test_how_often_a_sync_maintains_is_checked_before_it_begins(tmp_path: Path) -> None:
    config = tmp_path / "sync.toml"
    config.write_text('protocol = "avro"\nmaintain-every = "now and then"\n')

    for arguments in (("--protocol", "avro", "--maintain-every", "0b"), ("--config", config)):
        refused = run("sync", "file:topics", tmp_path / "lake", *arguments)
        assert refused.exit_code == 2
        assert "is neither a time such as 1h, nor batches such as 100b, nor never" in refused.output


def test_how_long_a_sync_waits_is_checked_before_it_begins(tmp_path: Path) -> None:
    config = tmp_path / "sync.toml"
    config.write_text('protocol = "avro"\npatience = "a lot"\n')

    for arguments in (("--protocol", "avro", "--patience", "soon"), ("--config", config)):
        refused = run("sync", "file:topics", tmp_path / "lake", *arguments)
        assert refused.exit_code == 2
        assert "option patience: '" in refused.output
