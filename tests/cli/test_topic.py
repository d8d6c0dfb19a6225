"""``tidewire topic``, as a user types it."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import topic_files
from tidewire.cli.app import app

FILES = [
    (path.parent.name, path.name.removesuffix(".jsonl.xz")) for path in sorted(topic_files.TOPICS.rglob("*.jsonl.xz"))
]
LINE = {"partition": 0, "offset": 0, "key": None, "value": "YQ=="}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(app, ["topic", *arguments], input=stdin)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def text(*messages: dict[str, Any]) -> str:
    return "".join(json.dumps(message) + "\n" for message in messages)


def imported(*messages: dict[str, Any], topic: str = "t") -> None:
    result = run("import", "-", "file:topics", "--topic", topic, stdin=text(*messages))
    assert result.exit_code == 0, result.stderr


def by_partition(messages: list[dict[str, Any]]) -> dict[tuple[str, int], list[dict[str, Any]]]:
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for message in messages:
        found.setdefault((message["topic"], message["partition"]), []).append(message)
    return found


@pytest.mark.parametrize(("seed", "name"), FILES)
def test_every_topic_comes_back_as_it_was_imported(seed: str, name: str) -> None:
    source = str(topic_files.TOPICS / seed / f"{name}.jsonl.xz")

    result = run("import", source, "file:topics", "--topic", "orders")

    recorded = topic_files.lines(seed, name)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"{len(recorded)} messages imported\n"
    got = lines(run("cat", "file:topics").stdout)
    assert by_partition(got) == by_partition([{"topic": "orders"} | line for line in recorded])


@pytest.mark.parametrize("name", ["all.jsonl", "all.jsonl.gz", "all.jsonl.xz", "-"])
def test_what_is_exported_can_be_imported(name: str) -> None:
    imported(LINE, LINE | {"offset": 1, "key": "", "value": None, "headers": [["h", "YQ=="]]}, topic="a")
    imported(LINE | {"partition": 5}, topic="b")

    exported = run("export", "file:topics", name)
    again = run("import", name, "file:again", stdin=exported.stdout)

    assert (exported.exit_code, again.exit_code) == (0, 0)
    assert run("cat", "file:again").stdout == run("cat", "file:topics").stdout
    assert len(lines(run("cat", "file:again").stdout)) == 3


def test_exported_files_are_packed_as_their_names_say() -> None:
    imported(LINE)

    for name in ("t.jsonl.gz", "t.jsonl.xz"):
        assert run("export", "file:topics", name).exit_code == 0

    assert lines(gzip.decompress(Path("t.jsonl.gz").read_bytes()).decode()) == [LINE | {"topic": "t"}]
    assert lines(lzma.decompress(Path("t.jsonl.xz").read_bytes()).decode()) == [LINE | {"topic": "t"}]


def test_only_some_messages_can_be_printed_and_exported() -> None:
    imported(*(LINE | {"partition": partition, "offset": offset} for partition in (0, 1) for offset in range(5)))
    imported(LINE, topic="u")

    def places(*arguments: str) -> list[tuple[str, int, int]]:
        found = lines(run("cat", "file:topics", *arguments).stdout)
        return [(line["topic"], line["partition"], line["offset"]) for line in found]

    assert places("--topic", "u") == [("u", 0, 0)]
    assert places("--partition", "1", "--offset", "3") == [("t", 1, 3), ("t", 1, 4)]
    assert places("--limit", "6") == [*(("t", 0, offset) for offset in range(5)), ("t", 1, 0)]
    assert places("--limit", "0") == []
    assert lines(run("export", "file:topics", "-", "--topic", "u").stdout) == [LINE | {"topic": "u"}]


def test_partitions_are_listed_for_people_and_programs() -> None:
    imported(LINE, LINE | {"offset": 1}, LINE | {"partition": 2})

    table, plain = run("ls", "file:topics"), run("ls", "file:topics", "--output", "json")

    assert table.stdout.split()[:6] == ["topic", "partition", "first", "end", "segments", "bytes"]
    assert [line.split()[:5] for line in table.stdout.splitlines()[1:]] == [
        ["t", "0", "0", "2", "1"],
        ["t", "2", "0", "1", "1"],
    ]
    found = lines(plain.stdout)
    assert all(line.pop("bytes") > 0 for line in found)
    assert found == [
        {"topic": "t", "partition": 0, "first": 0, "end": 2, "segments": 1},
        {"topic": "t", "partition": 2, "first": 0, "end": 1, "segments": 1},
    ]


def test_importing_a_file_twice_is_refused() -> None:
    imported(LINE, LINE | {"offset": 1})

    result = run("import", "-", "file:topics", "--topic", "t", stdin=text(LINE, LINE | {"offset": 1}))

    assert result.exit_code == 1
    assert "t[0]@0 cannot be appended: partition 0 ends at 2, so that offset is taken" in result.stderr
    assert len(lines(run("cat", "file:topics").stdout)) == 2


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (LINE | {"offset": 3}, "there would be a gap"),
        (LINE | {"offset": 0}, "that offset is taken"),
        (LINE | {"offset": 1, "partition": -1}, "not a partition's number"),
        (LINE | {"offset": "1"}, "offset is not a whole number"),
        (LINE | {"offset": True}, "offset is not a whole number"),
        ({"offset": 1, "key": None, "value": None}, "partition is not a whole number"),
        (LINE | {"offset": 1, "topic": "a/b"}, "not a topic's name"),
        (LINE | {"offset": 1, "topic": 7}, "not a topic's name"),
        (LINE | {"offset": 1, "value": "no Base64!"}, "value is not Base64"),
        ({"partition": 0, "offset": 1}, "a message line has a key or a value"),
        ([], "not a JSON object"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_imported(bad: Any, why: str) -> None:
    result = run("import", "-", "file:topics", "--topic", "t", stdin=text(LINE, bad))

    assert result.exit_code == 1
    assert result.stderr.startswith("Error: line 1: ")
    assert why in result.stderr
    assert not list(Path().rglob("*.parquet"))


def test_text_that_is_no_json_is_named() -> None:
    result = run("import", "-", "file:topics", "--topic", "t", stdin="{\n")

    assert result.exit_code == 1
    assert result.stderr.startswith("Error: line 0: ")


@pytest.mark.parametrize(
    ("name", "data"), [("t.xz", b"?"), ("t.gz", b"?"), ("t.jsonl", b"\xff"), ("u.gz", b"\x1f\x8b")]
)
def test_a_file_that_cannot_be_unpacked_is_refused(name: str, data: bytes) -> None:
    Path(name).write_bytes(data)

    result = run("import", name, "file:topics", "--topic", "t")

    assert result.exit_code == 1
    assert "cannot be read" in result.stderr


def test_a_line_without_a_topic_needs_the_option() -> None:
    result = run("import", "-", "file:topics", stdin=text(LINE))

    assert result.exit_code == 1
    assert "it names no topic, and there is no --topic" in result.stderr


def test_a_lines_own_topic_wins_over_the_option() -> None:
    imported(LINE | {"topic": "own"}, LINE, topic="other")

    assert [line["topic"] for line in lines(run("cat", "file:topics").stdout)] == ["other", "own"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("ls", "file:nowhere"),
        ("cat", "file:nowhere"),
        ("export", "file:nowhere", "-"),
        ("ls", "kafka://127.0.0.1/t"),
        ("cat", "file:topics", "--topic", "missing"),
        ("cat", "file:topics", "--partition", "-1"),
        ("import", "file:topics"),
    ],
)
def test_a_command_that_is_wrong_says_so(arguments: tuple[str, ...]) -> None:
    imported(LINE)

    result = run(*arguments)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Error: " in result.stderr


@pytest.mark.parametrize("arguments", [("import", "no.jsonl", "file:t"), ("import", "no.xz", "file:t")])
def test_a_missing_file_is_named(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)

    assert result.exit_code == 1
    assert arguments[1] in result.stderr


@pytest.mark.parametrize("verb", ["ls", "cat", "import", "export"])
def test_help_has_an_example(verb: str) -> None:
    assert f"tidewire topic {verb}" in run(verb, "--help").stdout
