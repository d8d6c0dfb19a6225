"""The states of a changefeed: the table of moves, and what errors and progress do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewire.changefeed.service.errors import UNRETRYABLE, Failure
from tidewire.changefeed.service.lifecycle import (
    MOVES,
    Backoff,
    Life,
    Move,
    State,
    moved,
    next_try,
    progressed,
    struck,
)
from tidewire.errors import ChangefeedError

HALF_AN_HOUR = 1800.0
RETRYABLE = "CDC:ErrKafkaAsyncSendMessage"


def failure(at: float, code: str = RETRYABLE, message: str = "no answer") -> Failure:
    return Failure(at, "127.0.0.1:8300", code, message)


@pytest.mark.parametrize(
    ("move", "froms", "to"),
    [
        (Move.PAUSE, {"normal", "warning"}, "stopped"),
        (Move.RESUME, {"stopped", "failed", "finished"}, "normal"),
        (Move.ERROR, {"normal", "warning"}, "warning"),
        (Move.FATAL, {"normal", "warning"}, "failed"),
        (Move.STUCK, {"warning"}, "failed"),
        (Move.PROGRESS, {"normal", "warning"}, "normal"),
        (Move.END, {"normal", "warning"}, "finished"),
        (Move.REMOVE, set(State), "removed"),
    ],
)
def test_a_move_leads_to_one_state_and_only_from_some(move: Move, froms: set[str], to: str) -> None:
    assert {state for state in State if (state, move) in MOVES} == froms
    for state in froms:
        assert moved(State(state), move) == to


def test_a_move_that_is_not_there_is_refused_and_says_from_where_it_is() -> None:
    with pytest.raises(ChangefeedError, match="can only resume a changefeed that is failed or stopped or finished"):
        moved(State.NORMAL, Move.RESUME)


def test_an_error_that_may_pass_is_a_warning_and_keeps_when_it_began() -> None:
    first = struck(Life(), failure(100.0), 7, HALF_AN_HOUR)
    second = struck(first, failure(130.0, message="again"), 7, HALF_AN_HOUR)

    assert (first.state, first.since, first.tries, first.stuck_at) == (State.WARNING, 100.0, 1, 7)
    assert (second.state, second.since, second.tries) == (State.WARNING, 100.0, 2)
    assert second.failure is not None
    assert second.failure.message == "again"


def test_trouble_for_too_long_is_a_failure() -> None:
    warning = struck(Life(), failure(100.0), 7, HALF_AN_HOUR)

    assert struck(warning, failure(100.0 + HALF_AN_HOUR - 1), 7, HALF_AN_HOUR).state is State.WARNING
    assert struck(warning, failure(100.0 + HALF_AN_HOUR), 7, HALF_AN_HOUR).state is State.FAILED


@pytest.mark.parametrize("code", sorted(UNRETRYABLE))
def test_some_errors_are_final_at_once_also_inside_of_others(code: str) -> None:
    assert struck(Life(), failure(1.0, code), 7, HALF_AN_HOUR).state is State.FAILED
    assert struck(Life(), failure(1.0, message=f"[{code}]no"), 7, HALF_AN_HOUR).state is State.FAILED


def test_only_a_checkpoint_past_the_trouble_ends_it() -> None:
    warning = struck(Life(), failure(100.0), 7, HALF_AN_HOUR)

    assert progressed(warning, 7) is warning
    assert progressed(warning, 8) == Life()
    assert progressed(Life(State.STOPPED), 8) == Life(State.STOPPED)


def test_pauses_double_up_to_a_limit_and_the_last_try_is_when_time_is_up() -> None:
    backoff = Backoff(first=10.0, most=600.0)
    warning = struck(Life(), failure(100.0), 7, HALF_AN_HOUR)

    assert [backoff.pause(tries) for tries in (1, 2, 3, 7, 8, 1000)] == [10.0, 20.0, 40.0, 600.0, 600.0, 600.0]
    assert next_try(warning, 100.0, HALF_AN_HOUR, backoff) == 10.0
    assert next_try(warning, 1895.0, HALF_AN_HOUR, backoff) == 5.0
    assert next_try(warning, 5000.0, HALF_AN_HOUR, backoff) == 0.0


@given(st.lists(st.tuples(st.floats(0, 600), st.booleans()), max_size=40))
def test_whatever_comes_it_fails_exactly_after_too_long_without_progress(steps: list[tuple[float, bool]]) -> None:
    life, now, checkpoint, began = Life(), 1000.0, 1, None
    for passed, advances in steps:
        now += passed
        if advances:
            checkpoint += 1
            life, began = progressed(life, checkpoint), None
            assert life.state is State.NORMAL
            continue
        life = struck(life, failure(now), checkpoint, HALF_AN_HOUR)
        began = now if began is None else began
        assert life.state is (State.FAILED if now - began >= HALF_AN_HOUR else State.WARNING)
        if life.state is State.FAILED:
            return
        assert life.since == began
        assert next_try(life, now, HALF_AN_HOUR, Backoff()) <= began + HALF_AN_HOUR - now
