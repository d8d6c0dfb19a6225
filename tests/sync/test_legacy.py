"""The state of tidewire 0.1 is read exactly. 0.1 wrote ``state_0_1.json.gz``: a state, and the one after it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tidewire.errors import StateError
from tidewire.model import Position, TableName
from tidewire.sync.documents import decode, encode
from tidewire.sync.frontier import Progress
from tidewire.sync.legacy import state_from_documents
from tidewire.sync.manifest import Manifest, Partition
from tidewire.sync.plan import plan
from tidewire.sync.state import HoldKind, State

ITEMS, ORDERS, PEOPLE = (TableName("shop", name) for name in ("items", "orders", "people"))


@pytest.fixture
def documents() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress((Path(__file__).parent / "state_0_1.json.gz").read_bytes()))
    return found


@pytest.fixture
def state(documents: dict[str, Any]) -> State:
    return state_from_documents(documents["part"], documents["whole"])


def test_a_state_told_by_its_difference_is_the_state(documents: dict[str, Any], state: State) -> None:
    assert state == state_from_documents(documents["after"])
    assert state != state_from_documents(documents["whole"])
    assert decode(encode(state), State) == state


def test_everything_is_there(state: State) -> None:
    assert (state.sequence, state.batch, state.applied, state.rejected) == (2, 2, 43, 2)
    assert state.frontier.partitions[Partition("feed", 0)] == Progress(16, 50, 30, 0)
    assert {*state.tables} == {ITEMS, TableName("shop", "gone"), TableName("shop", "Orders"), PEOPLE}
    assert state.last_ddl_ts == {ITEMS: 20, TableName("shop", "gone"): 22}
    assert [found.ddl.commit_ts for found in state.queue] == [40, 41, 45]
    assert state.queue[0].ddl.table_schema is not None
    assert [each.ts for each in state.log] == [5, 20, 22]
    assert [(each.table, each.version, each.commit_ts) for each in state.parked] == [(PEOPLE, 77, 44)]
    assert [(each.file.table, each.since, each.fresh) for each in state.pending] == [
        (ITEMS, 0, 0),
        (TableName("shop", "Orders"), 0, 0),
    ]
    masked, renamed = state.target_tables[PEOPLE], state.target_tables[ITEMS]
    assert masked is not None
    assert renamed is not None
    assert masked.table.column("v").length == 64
    assert masked.table.column("raw").default == b"\x00\xff"
    assert masked.table.column("kind").elements == ("a", "b")
    assert renamed.differing == {"v": "w"}


def test_holds_say_what_they_are(state: State) -> None:
    assert [(hold.table, hold.ts, hold.kind) for hold in state.holds] == [
        (PEOPLE, 42, HoldKind.MESSAGE),
        (PEOPLE, 30, HoldKind.MESSAGE),
        (ITEMS, 39, HoldKind.POLICY),
        (TableName("shop", "Orders"), 40, HoldKind.STATEMENT),
    ]
    assert [hold.at for hold in state.holds[:2]] == [Position("feed", 1, 2), Position("feed", 1, 3)]


def test_a_message_hold_of_0_1_may_stand_for_further_messages(documents: dict[str, Any]) -> None:
    document = documents["after"]
    document["rejected"] = 9

    assert [hold.count for hold in state_from_documents(document).holds] == [8, 8, 1, 1]


def test_the_sync_goes_on_from_it(state: State) -> None:
    planned = plan(state, Manifest(2, ends={at: each.next or 0 for at, each in state.frontier.partitions.items()}))

    assert planned.state.applied == 50
    assert [hold.kind for hold in planned.state.holds] == [hold.kind for hold in state.holds if hold.table != ITEMS]


@pytest.mark.parametrize("damage", [{"version": 1}, {"tables": [99]}, {"holds": [[]]}, {"shapes": [{}]}])
def test_what_cannot_be_read_is_refused(documents: dict[str, Any], damage: dict[str, Any]) -> None:
    with pytest.raises(StateError, match=r"the state document of tidewire 0\.1"):
        state_from_documents(documents["after"] | damage)


def test_a_partition_with_a_hole_is_refused(documents: dict[str, Any]) -> None:
    document = documents["after"]
    document["partitions"][0][-1] = [[20, 30, 0, 0]]

    with pytest.raises(StateError, match="has read past offset 16"):
        state_from_documents(document)
