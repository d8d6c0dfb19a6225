"""Messages that could not be read: how they are listed and found again."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from staging import TABLE, MemorySource, Messages, encoded, insert
from tidewire.model import Message, Position
from tidewire.spark.rejects import find_rejects, list_rejects
from tidewire.spark.source import OffsetRange
from tidewire.spark.stage import Reader, Stage, write_rejects
from tidewire.storage import Storage, open_storage
from tidewire.sync.manifest import Manifest, Partition, Rejected
from tidewire.sync.replays import Replays

CANAL = Reader("canal-json", {"enable-tidb-extension": "true"})


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path)


def staged(storage: Storage, found: Messages, reader: Reader = CANAL, *, epoch: int = 1, number: int = 0) -> Manifest:
    """A pass that stages all messages of one partition, in the driver."""
    ranges = [OffsetRange(Partition("t", 0), 0, 1 + max(at.offset for at in found))]
    stage = Stage(None, MemorySource(dict(found)), storage, epoch)  # type: ignore[arg-type]
    return stage.run(ranges, number, reader, Replays(), ends=dict)


def test_rejects_are_listed_with_their_bytes_and_reasons(storage: Storage) -> None:
    manifest = staged(storage, encoded(CANAL, b"first", insert(1, 6), b"second"))

    first, second = list_rejects(storage)

    assert [first.at.offset, second.at.offset] == [0, 2]
    assert (first.message, second.message) == (Message(None, b"first"), Message(None, b"second"))
    assert [first.reason, second.reason] == [rejected.reason for rejected in manifest.rejected]
    assert {first.path, second.path} == {*manifest.reject_files}
    assert first.part == "value"


def test_a_message_that_was_met_twice_is_listed_once_as_it_was_met_last(storage: Storage) -> None:
    found = encoded(CANAL, b"garbage")
    before = staged(storage, found, epoch=1, number=9)
    after = staged(storage, found, epoch=2, number=0)
    for age, manifest in enumerate((after, before)):
        for path in manifest.reject_files:
            os.utime(path, (10**9 - age, 10**9 - age))

    (listed,) = list_rejects(storage)

    assert (listed.path,) == after.reject_files
    assert find_rejects(storage, {listed.at}) == {listed.at: listed.path}


def test_only_what_is_asked_for_and_was_kept_is_found(storage: Storage) -> None:
    found = encoded(CANAL, b"a", b"b", b"c")
    staged(storage, found)
    first, *_ = found
    elsewhere = replace(first, partition=3)

    assert find_rejects(storage, ()) == {}
    assert find_rejects(storage, {first, elsewhere}).keys() == {first}


def test_a_message_whose_bytes_are_not_kept_is_listed_but_cannot_be_read_again(storage: Storage) -> None:
    found = encoded(CANAL, b"secret")
    staged(storage, found, replace(CANAL, keep_rejected=False))
    (at,) = found

    (listed,) = list_rejects(storage)

    assert (listed.at, listed.message) == (at, Message(None, None))
    assert find_rejects(storage, {at}) == {}


def test_bytes_that_were_kept_once_are_found_although_a_later_pass_kept_none(storage: Storage) -> None:
    found = encoded(CANAL, b"secret")
    kept = staged(storage, found)
    staged(storage, found, replace(CANAL, keep_rejected=False), number=1)
    (at,) = found

    assert find_rejects(storage, {at}) == {at: kept.reject_files[0]}


def test_rows_that_their_tables_cannot_hold_are_kept_like_bad_messages(storage: Storage) -> None:
    here, gone = Position("t", 0, 4), Position("t", 0, 5)
    rejected = [Rejected(at, "out of range", table=TABLE.name) for at in (here, gone)]

    path = write_rejects(storage, 1, 2, rejected, {here: Message(b"k", b"v")})

    assert [(each.at, each.message, each.reason, each.path) for each in list_rejects(storage)] == [
        (here, Message(b"k", b"v"), "out of range", path),
        (gone, Message(None, None), "out of range", path),
    ]
    assert find_rejects(storage, {here, gone}) == {here: path}


def test_there_may_be_no_rejects(storage: Storage) -> None:
    assert list_rejects(storage) == []
