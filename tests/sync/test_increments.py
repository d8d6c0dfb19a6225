"""A state told by its differences is the state."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from growing_topic import table
from tidewire.model import TableName
from tidewire.sync.copies import Copy
from tidewire.sync.increments import Increment, increment, restored, size_of
from tidewire.sync.state import DdlId, State

NUMBERS = st.lists(st.integers(0, 9), unique=True, max_size=6)


@st.composite
def states(draw: st.DrawFn) -> State:
    tables = [table(number, draw(st.integers(2, 4))) for number in draw(NUMBERS)]
    log = [DdlId(ts, TableName("shop", "t"), f"statement {ts}") for ts in range(draw(st.integers(0, 4)))]
    return State(
        "s",
        sequence=draw(st.integers(0, 9)),
        applied=draw(st.integers(0, 9)),
        tables={each.name: each for each in tables},
        marks={TableName("shop", f"t{number}"): draw(st.integers(0, 3)) for number in draw(NUMBERS)},
        copies={each.name.folded: draw(st.sampled_from([None, Copy.of(each)])) for each in tables},
        log=tuple(log),
        schemas=tuple(tables[: draw(st.integers(0, 3))]),
    )


@given(states(), states())
def test_what_is_told_comes_back(base: State, state: State) -> None:
    found = increment(base, state)

    written = Increment.from_plain(json.loads(json.dumps(found.to_plain())))
    assert restored(State.from_plain(json.loads(json.dumps(base.to_plain()))), written) == state
    assert increment(state, state).told == 0


def test_one_table_among_many_is_told_alone() -> None:
    tables = [table(number) for number in range(300)]
    base = State("s", tables={each.name: each for each in tables}, marks={each.name: 1 for each in tables})
    changed = table(7, columns=3)
    state = replace(base, sequence=1, tables={**base.tables, changed.name: changed})

    found = increment(base, state)

    assert dict(found.part.tables) == {changed.name: changed}
    assert (found.told, size_of(base)) == (1, 600)
    assert len(json.dumps(found.to_plain())) < 2000
