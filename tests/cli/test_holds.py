"""``tidewire holds`` and ``tidewire rejects``: looking needs no Spark, and what is decided reaches the next sync."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tidewire.cli.app import app
from tidewire.cli.rejects import parsed_position
from tidewire.errors import OptionError
from tidewire.model import Message, Position, TableName
from tidewire.spark.ledger import Answer, Ledger, Owner, ledger_of, newest_state
from tidewire.spark.stage import write_rejects
from tidewire.storage import Storage
from tidewire.sync.manifest import Rejected
from tidewire.sync.state import Hold, HoldKind, State

OWNER = Owner("file:///topics", "canal-json", "iceberg", "mirror", True, "UTC")
SINCE = "2026-11-18T12:00:00+00:00"
BAD = Position("orders", 3, 1207)
MESSAGE = Hold(5, BAD, "canal-json: not JSON", TableName("shop", "orders"), since=SINCE)
STATEMENT = Hold(
    9, Position("orders", 0, 8), "MODIFY cannot be done", TableName("shop", "items"), HoldKind.STATEMENT, SINCE
)
POLICY = Hold(9, Position("orders", 0, 9), "a policy says freeze", TableName("shop", "users"), HoldKind.POLICY, SINCE)
LOST = Hold(3, Position("orders", 1, 7), "not JSON", None, since=SINCE)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def lines(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def held(folder: Path, *holds: Hold, value: bytes | None = b'{"id":1,"data') -> Storage:
    """The ledger of a sync that has ended and left holds, and a message that could not be read."""
    storage = ledger_of(str(folder))
    ledger = Ledger.open(storage, OWNER)
    ledger.remember(State(ledger.owner.id, holds=holds))
    kept = {BAD: Message(None, value)} if value is not None else {}
    write_rejects(storage, ledger.epoch.number, 1, [Rejected(BAD, MESSAGE.reason)], kept)
    ledger.close()
    return storage


def holds_of(storage: Storage) -> list[str]:
    state = newest_state(storage)
    assert state is not None
    return [hold.id for hold in state.holds]


def test_holds_are_listed_with_their_ways_out(tmp_path: Path) -> None:
    held(tmp_path / "the lake", MESSAGE, STATEMENT, LOST)

    first, second, third = lines(run("holds", "ls", tmp_path / "the lake", "--output", "json"))
    shown = run("holds", "ls", tmp_path / "the lake").stdout

    assert first == {
        "id": MESSAGE.id,
        "table": "shop.orders",
        "ts": 5,
        "at": "orders[3]@1207",
        "kind": "message",
        "since": SINCE,
        "reason": "canal-json: not JSON",
        "way_out": first["way_out"],
    }
    assert f"tidewire holds retry '{tmp_path}/the lake' {MESSAGE.id}" in str(first["way_out"])
    assert (second["kind"], third["table"]) == ("statement", "all tables")
    for text in (
        MESSAGE.id,
        LOST.id,
        "shop.items",
        "orders[1]@7",
        f"holds release '{tmp_path}/the lake' {STATEMENT.id}",
    ):
        assert text in shown
    assert shown.count(f"holds release '{tmp_path}/the lake' ID") == 1  # two messages, one way out
    assert "skip" not in shown


def test_one_hold_is_shown_with_the_command_for_its_bytes(tmp_path: Path) -> None:
    held(tmp_path, MESSAGE)

    shown = run("holds", "show", tmp_path, MESSAGE.id).stdout

    assert f"tidewire rejects show {tmp_path} 'orders[3]@1207'" in shown
    assert "canal-json: not JSON" in shown


def test_a_target_without_holds_says_so(tmp_path: Path) -> None:
    held(tmp_path)

    assert run("holds", "ls", tmp_path).stdout == "no table is held\n"
    assert run("holds", "ls", tmp_path, "--output", "json").stdout == ""
    assert run("holds", "retry", tmp_path).stdout == "there is nothing to try again\n"
    assert run("rejects", "retry", tmp_path).stdout == "no table is held by a message\n"


def test_looking_starts_no_spark(tmp_path: Path) -> None:
    held(tmp_path, MESSAGE)
    code = (
        "import sys; sys.modules['pyspark'] = sys.modules['py4j'] = None; "
        "from click.testing import CliRunner; from tidewire.cli.app import app; "
        f"typed = [['holds', 'ls'], ['holds', 'show', '{MESSAGE.id}'], ['rejects', 'ls'], "
        f"['rejects', 'show', '{BAD}']]; "
        f"found = [CliRunner().invoke(app, [*each[:2], {str(tmp_path)!r}, *each[2:]]) for each in typed]; "
        "sys.exit(''.join(each.output for each in found if each.exit_code) or 0)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_a_release_without_a_driver_changes_what_the_next_sync_goes_on_from(tmp_path: Path) -> None:
    storage = held(tmp_path, MESSAGE, STATEMENT)

    done = run("holds", "release", tmp_path, MESSAGE.id)

    assert done.stdout == f"released {MESSAGE.id} of shop.orders; the next tidewire sync goes on from there\n"
    assert holds_of(storage) == [STATEMENT.id]
    (loss,) = lines(run("holds", "ls", tmp_path, "--released", "--output", "json"))
    assert (loss["table"], loss["at"], loss["ts"]) == ("shop.orders", "orders[3]@1207", 5)


def test_a_statement_is_tried_again_by_the_next_sync(tmp_path: Path) -> None:
    storage = held(tmp_path, STATEMENT, POLICY)

    done = run("holds", "retry", tmp_path, STATEMENT.id)

    assert done.stdout == f"{STATEMENT.id} of shop.items: the next tidewire sync tries it again\n"
    assert holds_of(storage) == [POLICY.id]
    assert storage.list("requests") == []


def test_a_message_is_read_again_by_the_next_sync(tmp_path: Path) -> None:
    storage = held(tmp_path, MESSAGE, LOST)

    one = run("holds", "retry", tmp_path, MESSAGE.id)
    every = run("rejects", "retry", tmp_path)
    same = run("rejects", "retry", tmp_path, BAD)

    assert (one.exit_code, every.exit_code, same.exit_code) == (0, 0, 0)
    assert "orders[3]@1207: the next tidewire sync reads it again first" in every.stdout
    assert holds_of(storage) == [MESSAGE.id, LOST.id]
    ledger = Ledger.open(storage, OWNER)
    asked = [(request.verb, dict(request.arguments)) for request in ledger.requests()]
    ledger.close()
    assert asked == [
        ("retry", {"hold": MESSAGE.id}),
        ("retry", {"kind": "message"}),
        ("retry", {"hold": MESSAGE.id}),
    ]


def test_a_request_that_was_left_can_be_taken_back(tmp_path: Path) -> None:
    storage = held(tmp_path, MESSAGE)
    assert run("holds", "retry", tmp_path, MESSAGE.id).exit_code == 0

    (listed,) = lines(run("requests", "ls", tmp_path, "--output", "json"))
    unknown = run("requests", "cancel", tmp_path, "nothing")
    done = run("requests", "cancel", tmp_path, listed["id"])

    assert (listed["request"], listed["what"]) == ("retry", f"hold {MESSAGE.id}")
    assert (unknown.exit_code, "there is no request nothing" in unknown.stderr) == (2, True)
    assert done.stdout == f"{listed['id']} is taken back\n"
    assert run("requests", "ls", tmp_path).stdout == "nothing is asked for\n"
    assert storage.list("requests") == []


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (("holds", "show", "LAKE", "unknown"), f"there is no hold unknown; there are {MESSAGE.id}, {POLICY.id}"),
        (("holds", "retry", "LAKE", "unknown"), "there is no hold unknown"),
        (("holds", "release", "LAKE", "unknown"), "there is no hold unknown"),
        (("holds", "release", "LAKE", POLICY.id), "cannot be released, because the policy would stop the table again"),
        (("holds", "retry", "LAKE", POLICY.id), "is a policy's, which is asked again in every pass"),
        (("holds", "ls", "NOTHING"), "no sync has written to"),
        (("rejects", "show", "LAKE", "orders[0]@1"), "no message at orders[0]@1 was rejected"),
        (("rejects", "show", "LAKE", "orders@1"), "'orders@1' is not a position; write topic[partition]@offset"),
        (("rejects", "retry", "LAKE", "orders[0]@1"), "no message at orders[0]@1 was rejected"),
    ],
)
def test_what_cannot_be_done_is_one_line(tmp_path: Path, typed: tuple[str, ...], says: str) -> None:
    storage = held(tmp_path / "lake", MESSAGE, POLICY)
    places = {"LAKE": str(tmp_path / "lake"), "NOTHING": str(tmp_path / "nothing")}

    done = run(*(places.get(word, word) for word in typed))

    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1), done.output
    assert says in done.stderr
    assert holds_of(storage) == [MESSAGE.id, POLICY.id]
    assert storage.list("requests") == []


def test_a_message_that_holds_nothing_is_not_read_again(tmp_path: Path) -> None:
    held(tmp_path)

    done = run("rejects", "retry", tmp_path, BAD)

    assert done.exit_code == 2
    assert "its table has gone on without it" in done.stderr


# Rejects


def test_rejects_are_listed_and_shown_byte_by_byte(tmp_path: Path) -> None:
    held(tmp_path, MESSAGE, value=b'{"id":0,"database":"shop","table":"orders","type":"INSERT","isDdl":fa')

    (listed,) = lines(run("rejects", "ls", tmp_path, "--output", "json"))
    shown = run("rejects", "show", tmp_path, "orders[3]@1207")
    fields = lines(run("rejects", "show", tmp_path, "orders[3]@1207", "--output", "json"))

    assert listed == {"at": "orders[3]@1207", "reason": f"{MESSAGE.reason} in value", "bytes": 69, "hold": MESSAGE.id}
    assert shown.exit_code == 0, shown.output
    assert "orders[3]@1207: canal-json: not JSON" in shown.stdout
    assert "database" in shown.stdout
    assert {"at", "part", "offset", "bytes", "field", "meaning"} == fields[0].keys()
    assert MESSAGE.id in run("rejects", "ls", tmp_path).stdout


def test_bytes_that_were_not_kept_cannot_be_shown(tmp_path: Path) -> None:
    held(tmp_path, MESSAGE, value=None)

    done = run("rejects", "show", tmp_path, BAD)

    assert done.exit_code == 2
    assert "the bytes of orders[3]@1207 were not kept" in done.stderr


def test_positions_are_read_as_they_are_written() -> None:
    assert parsed_position(str(Position("odd[1]@2", 3, 4))) == Position("odd[1]@2", 3, 4)
    with pytest.raises(OptionError, match="is not a position"):
        parsed_position("orders[x]@1")


# Beside a driver


@contextmanager
def driving(storage: Storage, answers: Mapping[str, Answer]) -> Iterator[list[tuple[str, dict[str, str]]]]:
    """A driver that answers what it is asked, in a thread of its own; what that was."""
    ledger, over, asked = Ledger.open(storage, OWNER), threading.Event(), []

    def drive() -> None:
        while not over.wait(0.01):
            for request in ledger.requests():
                asked.append((request.verb, dict(request.arguments)))
                ledger.answer(request.id, answers[request.verb])

    thread = threading.Thread(target=drive)
    thread.start()
    try:
        yield asked
    finally:
        over.set()
        thread.join()
        ledger.close()


def test_a_running_sync_is_asked_and_its_answer_is_printed(tmp_path: Path) -> None:
    storage = held(tmp_path, MESSAGE)
    over, refused = Answer(True, ("it is over",)), Answer(False, ("there is no hold 7",))

    with driving(storage, {"retry": over, "release": refused}) as asked:
        retried = run("holds", "retry", tmp_path, MESSAGE.id)
        reread = run("rejects", "retry", tmp_path)
        released = run("holds", "release", tmp_path, "7", "--output", "json")

    assert (retried.exit_code, retried.stdout) == (0, "it is over\n")
    assert f"asked the running sync (process {os.getpid()} on" in retried.stderr
    assert (reread.exit_code, reread.stdout) == (0, "it is over\n")
    assert released.exit_code == 1
    assert json.loads(released.stdout) == {"ok": False, "lines": ["there is no hold 7"]}
    assert asked == [("retry", {"hold": MESSAGE.id}), ("retry", {"kind": "message"}), ("release", {"hold": "7"})]
    assert storage.list("requests") == storage.list("answers") == []
