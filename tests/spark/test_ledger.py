"""The ledger's documents, on a local folder and in a real S3: plans that collide, owners, requests, publications."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from object_stores import S3, s3_server
from tidewire.errors import AlreadyRunning, Fenced, StateError, SyncError
from tidewire.model import Column, TableName, TableSchema
from tidewire.spark.ledger import (
    Answer,
    KeptPlan,
    KeptPublication,
    KeptTable,
    Ledger,
    Owner,
    ask,
    leave,
    newest_plan,
    newest_state,
    owner_of,
    plan_numbers,
    required_owner,
)
from tidewire.spark.publications import Published, PublishedTable
from tidewire.storage import Storage, open_storage
from tidewire.sync.documents import encode
from tidewire.sync.state import State

OWNER = Owner("kafka://orders", "canal-json", "iceberg", "mirror", True, "UTC")
TABLE = TableSchema(TableName("shop", "orders"), (Column.of("id", "bigint", primary_key=True),))


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with s3_server() as server:
        yield server


@pytest.fixture(params=["folder", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """An empty place for a ledger."""
    if request.param == "folder":
        return open_storage(tmp_path)
    return open_storage(request.getfixturevalue("s3").uri())


def opened(storage: Storage, *, take_over: bool = False) -> Ledger:
    return Ledger.open(storage, OWNER, take_over=take_over)


def plain(ledger: Ledger, applied: int) -> KeptPlan:
    """Keep a plan without steps."""
    state = State(ledger.owner.id, applied=applied)
    return ledger.keep(lambda epoch, sequence, at: KeptPlan(epoch, sequence, at, state))


def test_plans_are_numbered_and_the_last_one_is_found(storage: Storage) -> None:
    ledger = opened(storage)
    kept = [plain(ledger, ts) for ts in (10, 20, 30)]
    ledger.close()

    assert [plan.sequence for plan in kept] == plan_numbers(storage) == [1, 2, 3]
    again = opened(storage)
    assert again.recover().state == kept[-1].state
    assert again.sequence == 3
    again.close()


def test_of_two_drivers_the_older_one_loses_the_plan(storage: Storage) -> None:
    older = opened(storage)
    plain(older, 10)
    newer = opened(storage, take_over=True)
    plain(newer, 20)

    with pytest.raises(Fenced, match=r"taken over|another driver"):
        plain(older, 15)

    found = newest_plan(storage)
    assert found is not None
    assert (found.epoch, found.state.applied) == (newer.epoch.number, 20)
    older.close()
    newer.close()


def test_the_newer_driver_adopts_a_plan_that_the_older_one_kept_meanwhile(storage: Storage) -> None:
    older = opened(storage)
    newer = opened(storage, take_over=True)
    late = plain(older, 10)  # before it saw the newer epoch

    adopted = plain(newer, 20)

    assert adopted == late
    assert plain(newer, 20).sequence == late.sequence + 1
    older.close()
    newer.close()


def test_a_target_has_one_owner_and_one_driver(storage: Storage) -> None:
    ledger = opened(storage)
    with pytest.raises(AlreadyRunning):
        opened(storage)
    ledger.close()
    other = msgspec.structs.replace(OWNER, protocol="craft")
    with pytest.raises(SyncError, match="belongs to another sync: its protocol is canal-json, not craft"):
        Ledger.open(storage, other)

    assert required_owner(storage).id == ledger.owner.id


def test_a_plan_with_steps_is_done_when_it_is_published(storage: Storage) -> None:
    ledger = opened(storage)
    publication = KeptPublication(30, (KeptTable(TABLE, "mirror"),))
    state = State(ledger.owner.id, applied=30)
    plan = ledger.keep(lambda epoch, sequence, at: KeptPlan(epoch, sequence, at, state, {}, publication))
    table = PublishedTable(TABLE, "uuid@1", "mirror")

    ledger.publish(Published(plan.sequence, 30, {TABLE.name: table}))

    assert ledger.recover().published == Published(plan.sequence, 30, {TABLE.name: table})
    assert newest_state(storage) == state
    ledger.close()


def test_requests_are_answered_once(storage: Storage) -> None:
    ledger = opened(storage)
    request = leave(storage, "release", {"hold": "3f9c21ab"})
    assert ledger.requests() == [request]

    ledger.answer(request.id, Answer(True, ("released",)))

    assert ledger.requests() == []
    ledger.close()
    assert ask(storage, "release", {}, seconds=1) is None  # no driver, no answer


def test_a_request_that_a_plan_carried_out_is_not_carried_out_again(storage: Storage) -> None:
    ledger = opened(storage)
    request = leave(storage, "release", {"hold": "3f9c21ab"})
    state = State(ledger.owner.id)
    answers = {request.id: ("released 3f9c21ab",)}
    ledger.keep(lambda epoch, sequence, at: KeptPlan(epoch, sequence, at, state, answers=answers))
    ledger.close()  # and dies before it answers

    again = opened(storage)
    again.recover()

    assert again.requests() == []
    again.close()


def test_an_answer_that_does_not_come_takes_the_request_back(storage: Storage) -> None:
    ledger = opened(storage)

    with pytest.raises(SyncError, match="did not answer within 1 seconds"):
        ask(storage, "maintain", {}, seconds=1, wait=lambda _: None)

    assert ledger.requests() == []
    ledger.close()


def test_a_document_of_a_newer_release_is_refused_by_name(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("tidewire.sync.documents.VERSION", 99)
        storage.put("owner", encode(OWNER))

    with pytest.raises(StateError, match="version 99"):
        owner_of(storage)
