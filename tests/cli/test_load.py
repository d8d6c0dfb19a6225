"""``tidewire load``, as a person types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

import topic_files
from dump_files import ODD_DIALECT, SEED11_TS, unpack
from tidewire.cli.app import app


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.slow
def test_a_dump_is_loaded_shown_and_continued(spark: SparkSession, tmp_path: Path) -> None:
    dump, target, place = unpack("seed11", tmp_path) / "csv-odd", tmp_path / "lake", (tmp_path / "topics").as_uri()
    options = [part for name, value in ODD_DIALECT.items() for part in ("-o", f"{name}={value}")]
    (tmp_path / "lines.jsonl").write_text(topic_files.read("seed11", "canal-json.jsonl"))
    assert run("topic", "import", tmp_path / "lines.jsonl", place, "--topic", "feed").exit_code == 0
    later = next(each for each in topic_files.expected("seed11")["watermarks"] if each["ts"] > SEED11_TS)

    file, staging = tmp_path / "sync.toml", tmp_path / "staging"
    file.write_text(f'staging = "{staging}"\n')

    loaded = run("load", f"dumpling:{dump}", target, *options, "--tables", "test.accounts,test.wide", "--config", file)
    listed = run("show", target, "--output", "json")

    assert (loaded.exit_code, listed.exit_code) == (0, 0), loaded.output
    assert "test.accounts: 25 rows" in loaded.stdout
    assert f"a changefeed with --start-ts {SEED11_TS} or earlier continues it" in loaded.stdout
    tables = {line["table"]: line for line in map(json.loads, listed.stdout.splitlines())}
    assert {name: (table["rows"], table["ts"]) for name, table in tables.items()} == {
        "test.accounts": (25, SEED11_TS),
        "test.wide": (24, SEED11_TS),
    }
    again = run("load", f"dumpling:{dump}", target, *options, "--tables", "test.accounts,test.wide")
    assert (again.exit_code, "these tables were loaded before" in again.stdout) == (0, True), again.output
    beside = run("load", f"dumpling:{dump}", target, *options, "--tables", "test.metrics", "--config", file)
    assert beside.exit_code == 0, beside.output
    synced = run("sync", place, target, "-p", "canal-json", "--once", "--until", later["ts"], "--config", file)
    assert synced.exit_code == 0, synced.output
    assert list(staging.rglob("*.parquet"))
    shown = run("show", target, "test.accounts", "--output", "json")
    rows = [[*json.loads(line).values()] for line in shown.stdout.splitlines()]
    assert sorted(map(json.dumps, rows)) == sorted(map(json.dumps, later["tables"]["test.accounts"]["rows"]))
    late = run("load", f"dumpling:{dump}", target, *options, "--tables", "test.sessions")
    assert late.exit_code == 2
    assert "what changed since then would be lost. Give --replace" in late.stderr
    anew = ("load", f"dumpling:{dump}", target, *options, "--tables", "test.accounts", "--replace")
    others = run(*anew)
    assert (others.exit_code, "the rules of the target's sync are others" in others.stderr) == (0, False), others.output
    replaced = run(*anew, "--config", file)
    assert (replaced.exit_code, "the next tidewire sync replaces test.accounts" in replaced.stdout) == (0, True)
    synced = run("sync", place, target, "-p", "canal-json", "--once", "--config", file)
    assert synced.exit_code == 0, synced.output
    assert f"test.accounts is replaced by the load of {SEED11_TS}" in synced.output
    shown = run("show", target, "test.accounts", "--output", "json")
    rows = [[*json.loads(line).values()] for line in shown.stdout.splitlines()]
    end = topic_files.expected("seed11")["end"]["tables"]["test.accounts"]["rows"]
    assert sorted(map(json.dumps, rows)) == sorted(map(json.dumps, end))


@pytest.mark.slow
def test_rows_that_do_not_fit_are_named_with_file_and_line(spark: SparkSession, tmp_path: Path) -> None:
    dump, target = unpack("seed11", tmp_path) / "csv", tmp_path / "lake"
    file = dump / "test.accounts.000000000.csv"
    lines = file.read_bytes().split(b"\r\n")
    lines[3], lines[5] = lines[3].replace(b",", b",,", 1), b"many" + lines[5]
    bad = b"\r\n".join(lines)
    typed = ("load", f"dumpling:{dump}", target, "--tables", "test.accounts")

    file.write_bytes(bad)
    stopped = run(*typed, "--on-bad-row", "stop")
    file.write_bytes(bad.replace(b"many", b"0000"))  # a correction of the same length
    corrected = run(*typed, "--on-bad-row", "stop")
    file.write_bytes(bad)
    loaded = run(*typed)
    listed = run("rejects", "ls", target, "--output", "json")

    assert stopped.exit_code == 2
    assert "2 rows do not fit, the first: test.accounts.000000000.csv line 4: it has" in stopped.stderr
    assert "1 row does not fit, the first: test.accounts.000000000.csv line 4: it has" in corrected.stderr
    assert loaded.exit_code == 1
    assert "test.accounts: 23 rows" in loaded.stdout
    assert "not loaded: test.accounts.000000000.csv line 4: it has" in loaded.stderr
    assert "and 1 more row" in loaded.stderr
    assert "test.accounts.000000000.csv line 6: column id" in listed.stdout


@pytest.mark.parametrize(
    ("source", "options", "reason"),
    [
        ("somewhere", (), "for a folder that Dumpling wrote give dumpling:somewhere, else dumpling+s3://bucket/prefix"),
        ("dumpling:{dump}", ("-o", "csv-sep=;"), "csv-separator"),
        ("dumpling:{dump}", ("--tables", "nothing.*"), "the dump has no table that is wanted; it has test.accounts"),
        ("dumpling:{dump}", ("--at", "5"), "5 is not a TSO"),
        ("dumpling:{dump}/nothing", (), "csv/nothing: check the folder"),
        ("mysql://reader:secret@127.0.0.1:1/", (), "127.0.0.1:1: Can't connect"),
        ("tidb://reader@127.0.0.1:1/", ("-o", "no-header=true"), "no-header: it is an option of dumps"),
        ("mysql://reader@127.0.0.1/shop", (), "filter rules choose tables"),
    ],
)
def test_what_is_wrong_is_said_before_spark_starts(
    tmp_path: Path, source: str, options: tuple[str, ...], reason: str
) -> None:
    dump = unpack("seed11", tmp_path) / "csv"

    found = run("load", source.format(dump=dump), tmp_path / "lake", *options)

    assert found.exit_code == 2
    assert reason in found.stderr
    assert len(found.stderr.splitlines()) == 1
