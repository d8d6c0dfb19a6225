"""The command line, as a user types it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from tidewire.cli.app import app
from vector_files import VECTORS, Vector, files, vectors


def run(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(app, list(arguments), input=stdin)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def recorded_lines(protocol: str, name: str) -> list[dict[str, Any]]:
    return [vector.line for vector in vectors(protocol, name)]


def vector_file(protocol: str, name: str) -> str:
    return str(VECTORS / protocol / f"{name}.jsonl.gz")


FOLDERS = {
    "open-protocol": "open-protocol",
    "canal-json": "canal-json",
    "craft": "craft",
    "avro": "avro",
    "simple-json": "simple",
    "simple-avro": "simple",
}
"""The protocol of each folder of vectors."""


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_vector_file_decodes(folder: str) -> None:
    for file in files(folder):
        result = run("decode", "--protocol", FOLDERS[folder], vector_file(folder, file))

        readable = [(number, vector) for number, vector in enumerate(vectors(folder, file)) if not is_untold(vector)]
        parked = schemaless(folder, file)
        assert result.exit_code == 0 or parked or len(readable) < len(vectors(folder, file)), (file, result.stderr)
        events = lines(result.stdout)
        expected = [
            (number, vector.id, plain["kind"])
            for number, vector in readable
            for plain in vector.plain
            if number not in parked
        ]
        assert sorted((event["message"], event["id"], event["kind"]) for event in events) == sorted(expected), file


def is_untold(vector: Vector) -> bool:
    """Is this a delete of a table without a primary key in Avro? It has neither key nor row."""
    return (
        "schema_ids" in vector.line
        and vector.message.key is None
        and vector.plain[0].get("op") == "delete"
        and not vector.line["schema_ids"]["value"]
    )


def schemaless(folder: str, file: str) -> set[int]:
    """The lines whose schema is nowhere in the file, because the server refused its BOOTSTRAP as too large."""
    if not folder.startswith("simple"):
        return set()
    known = {
        (plain["table_schema"]["schema"], plain["table_schema"]["table"], plain["table_schema"]["version"])
        for vector in vectors(folder, file)
        for plain in vector.plain
        if plain.get("table_schema")
    }
    return {
        number
        for number, vector in enumerate(vectors(folder, file))
        for plain in vector.plain
        if plain["kind"] == "row" and (plain["schema"], plain["table"], plain["schema_version"]) not in known
    }


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_refused_input_is_named(folder: str) -> None:
    protocol = FOLDERS[folder]
    for file in files(folder, "*.errors"):
        result = run("encode", "--protocol", protocol, vector_file(folder, file))

        assert result.exit_code == 1
        assert result.stdout == ""
        complaints = result.stderr.splitlines()
        assert len(complaints) == len(vectors(folder, file))
        for number, (complaint, vector) in enumerate(zip(complaints, vectors(folder, file), strict=True)):
            assert complaint.startswith(f"error: line {number} ({vector.id}): {protocol}: ")
            assert vector.error is not None
            assert vector.error in complaint


def test_lists_of_events_become_the_recorded_messages() -> None:
    file = vector_file("open-protocol", "types.batch.ticdc")

    result = run("encode", "-p", "open-protocol", file)

    recorded = recorded_lines("open-protocol", "types.batch.ticdc")
    assert [(line["id"], line["key"], line["value"]) for line in lines(result.stdout)] == [
        (line["id"], line["key"], line["value"]) for line in recorded
    ]


def test_a_claim_check_comes_along() -> None:
    result = run("encode", "-p", "open-protocol", vector_file("open-protocol", "types.claim-check.ticdc"))

    kept = [line for line in lines(result.stdout) if "claim_check_files" in line]
    assert len(kept) == 9
    again = run("decode", "-p", "open-protocol", stdin=_claim_checks_options(kept))
    assert again.exit_code == 0, again.stderr
    assert len(lines(again.stdout)) == 9


def _claim_checks_options(kept: list[dict[str, Any]]) -> str:
    options = {"large-message-handle-option": "claim-check"}
    return "\n".join(json.dumps(line | {"options": options}) for line in kept)


def test_decode_and_encode_are_inverse_in_a_pipe() -> None:
    file = vector_file("open-protocol", "types.batch.ticdc")

    decoded = run("decode", "-p", "open-protocol", file)
    encoded = run("encode", "-p", "open-protocol", "-", stdin=decoded.stdout)

    recorded = recorded_lines("open-protocol", "types.batch.ticdc")
    assert [line["value"] for line in lines(encoded.stdout)] == [line["value"] for line in recorded]


def test_a_bad_line_costs_only_itself() -> None:
    good = json.dumps(recorded_lines("canal-json", "types.default.ticdc")[0])
    stdin = "\n".join([good, "{", "[]", '{"value":"?"}', '{"value":"e30="}', "", good])

    result = run("decode", "-p", "canal-json", stdin=stdin)

    assert result.exit_code == 1
    assert [event["message"] for event in lines(result.stdout)] == [0, 6]
    assert [complaint.split(":")[1] for complaint in result.stderr.splitlines()] == [f" line {n}" for n in (1, 2, 3, 4)]


def test_a_bad_event_costs_only_itself() -> None:
    row = {
        "kind": "row",
        "schema": "s",
        "table": "t",
        "commit_ts": 1,
        "columns": [{"name": "a", "mysql_type": "int"}],
        "after": {"a": "1"},
    }
    bad = row | {"commit_ts": None}
    worse = row | {"after": {"a": "x"}}
    stdin = "\n".join(json.dumps(line) for line in (row, row, bad, worse, row, {"kind": "watermark", "ts": 2}))

    result = run("encode", "-p", "open-protocol", stdin=stdin)

    assert result.exit_code == 1
    assert [complaint.split(":")[1] for complaint in result.stderr.splitlines()] == [" line 2", " line 3"]
    again = run("decode", "-p", "open-protocol", stdin=result.stdout)
    assert [event["kind"] for event in lines(again.stdout)] == ["row", "row", "row", "watermark"]


def test_a_message_is_shown_byte_by_byte() -> None:
    file = vector_file("open-protocol", "types.default.ticdc")

    table = run("inspect", "-p", "open-protocol", "--message", "1", file)
    fields = lines(run("inspect", "-p", "open-protocol", "-n", "1", "--output", "json", file).stdout)

    assert table.exit_code == 0
    assert "commit ts, 2026-11-15" in table.stdout
    assert [field["field"] for field in fields[:3]] == ["version", "length of event 0", "$"]
    recorded = vectors("open-protocol", "types.default.ticdc")[1].message
    assert "".join(field["bytes"] for field in fields if field["part"] == "key") == (recorded.key or b"").hex()
    assert "".join(field["bytes"] for field in fields if field["part"] == "value") == (recorded.value or b"").hex()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["decode"], "Missing option '--protocol'"),
        (["decode", "-p", "morse"], "'morse' is not one of"),
        (["decode", "-p", "canal-json", "-o", "speed"], "not of the form NAME=VALUE"),
        (["decode", "-p", "canal-json", "-o", "speed=9"], "option speed: there is no such option; known are"),
        (["decode", "-p", "canal-json", "-o", "enable-tidb-extension=maybe"], "must be true or false"),
        (["encode", "-p", "canal-json", "no such file"], "No such file"),
    ],
)
def test_a_wrong_command_is_refused_at_once(arguments: list[str], complaint: str) -> None:
    result = run(*arguments)

    assert result.exit_code != 0
    assert complaint in result.stderr


def test_every_verb_has_help_with_an_example() -> None:
    for verb in app.commands:
        result = run(verb, "--help")

        assert result.exit_code == 0
        assert "Example:" in result.stdout


def groups(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Group]]:
    """A group and all groups in it, with what is typed for them."""
    yield path, group
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from groups(command, (*path, name))


@pytest.mark.parametrize("path", [path for path, _ in groups(app)], ids=" ".join)
def test_summaries_of_verbs_are_whole(path: tuple[str, ...]) -> None:
    commands = run(*path, "--help").stdout.partition("Commands:")[2]

    assert commands.strip()
    assert "..." not in commands


def test_the_installed_command_streams(tmp_path: Path) -> None:
    """Output comes while input is still open, so files larger than memory pass."""
    command = [str(Path(sys.executable).parent / "tidewire"), "decode", "-p", "canal-json"]
    line = json.dumps(recorded_lines("canal-json", "types.default.ticdc")[0])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line + "\n")
        process.stdin.flush()
        first = process.stdout.readline()
        process.stdin.close()

    assert json.loads(first)["message"] == 0
    assert process.returncode == 0
