"""``tidewire generate`` from the outside."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from tidewire.cli.app import app
from tidewire.codec import PROTOCOLS
from tidewire.topic.files import FileTopics

SMALL = ("--transactions", "20", "--tables", "3")


def generate(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["generate", folder.as_uri(), *arguments])


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_topic_in_every_protocol_can_be_decoded_with_the_options_it_says(tmp_path: Path, name: str) -> None:
    made = generate(tmp_path, "-p", name, *SMALL)
    assert made.exit_code == 0, made.output

    said = made.stderr.split("read them with ")[1].split()
    printed = CliRunner().invoke(app, ["topic", "cat", tmp_path.as_uri()])
    lines = [line for line in printed.stdout.splitlines() if json.loads(line)["value"]]
    decoded = CliRunner().invoke(app, ["decode", *said], input="\n".join(lines))

    assert decoded.exit_code == 0, decoded.output
    assert '"kind":"row"' in decoded.stdout


def test_the_same_seed_writes_the_same_topic(tmp_path: Path) -> None:
    for folder in ("one", "other"):
        generate(tmp_path / folder, "-p", "simple", "--seed", "9", "--fault", "restart", *SMALL)

    one, other = (
        [batch.select(["key", "value"]).to_pylist() for batch in FileTopics(tmp_path / folder).read("feed", 1)]
        for folder in ("one", "other")
    )
    assert one == other != []


def test_the_expected_state_has_the_form_of_recorded_topics(tmp_path: Path) -> None:
    file = tmp_path / "expected.json"

    made = generate(tmp_path / "topics", "-p", "open-protocol", "--fault", "garbage", "--expected", str(file), *SMALL)

    told = json.loads(file.read_text())
    assert made.exit_code == 0
    assert set(told["end"]["tables"]["shop.accounts"]) == {"key", "columns", "rows"}
    assert told["transactions"] == 20
    assert {bad["kind"] for bad in told["bad"]} >= {"truncated", "misfit"}
    ends = FileTopics(tmp_path / "topics").ends()
    assert sum(ends.values()) == told["messages"]
    assert all(bad["offset"] < ends[bad["topic"], bad["partition"]] for bad in told["bad"])


def test_rows_end_a_workload_too(tmp_path: Path) -> None:
    file = tmp_path / "expected.json"

    generate(tmp_path / "topics", "-p", "craft", "--rows", "50", "--expected", str(file))

    assert 50 <= json.loads(file.read_text())["row_events"] < 60


def test_partitions_and_dispatcher_are_obeyed(tmp_path: Path) -> None:
    generate(tmp_path, "-p", "canal-json", "--partitions", "5", "--dispatcher", "ts", *SMALL)

    assert FileTopics(tmp_path).partitions("feed") == [0, 1, 2, 3, 4]


def test_a_bulk_topic_comes_with_its_table(tmp_path: Path) -> None:
    file = tmp_path / "end.parquet"

    made = generate(tmp_path / "topics", "-p", "canal-json", "--columns", "6", "--rows", "500", "--expected", str(file))

    assert made.exit_code == 0, made.output
    assert pq.read_table(file).num_columns == 6
    assert sum(FileTopics(tmp_path / "topics").ends().values()) == 500 + 1 + 3


def test_a_topic_that_is_in_use_is_refused(tmp_path: Path) -> None:
    generate(tmp_path, "-p", "craft", *SMALL)
    before = FileTopics(tmp_path).ends()

    again = generate(tmp_path, "-p", "craft", *SMALL)

    assert again.exit_code == 2
    assert "messages in feed already" in again.stderr
    assert FileTopics(tmp_path).ends() == before


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--rows", "5", "--transactions", "5"), "exclude each other"),
        (("--columns", "6", "--fault", "restart"), "--columns goes with --rows only"),
        (("--dispatcher", "dice"), "'dice' is not one of table"),
        (("--fault", "rain"), "'rain' is not one of"),
        (("-o", "nonsense=1"), "option nonsense"),
    ],
)
def test_a_wrong_command_says_what_is_wrong(tmp_path: Path, arguments: tuple[str, ...], reason: str) -> None:
    made = generate(tmp_path, "-p", "craft", *arguments)

    assert made.exit_code == 2
    assert reason in made.stderr
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    made = generate(tmp_path / "topics", "-p", "craft", "--expected", str(tmp_path / "no" / "such.json"), *SMALL)

    assert made.exit_code == 1
    assert "such.json" in made.stderr
    assert not (tmp_path / "topics").exists()
