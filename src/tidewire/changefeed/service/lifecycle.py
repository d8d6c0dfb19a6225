"""The states of a changefeed and the ways between them, as TiCDC has them.

::

    create -> normal ;  normal|warning --pause--> stopped ;  stopped|failed|finished --resume--> normal
    normal --error--> warning --progress--> normal ;  warning --stuck--> failed
    normal|warning --fatal error--> failed ;  normal|warning --target-ts reached--> finished ;  any --remove--> removed
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from tidewire.changefeed.service.errors import Failure, is_fatal
from tidewire.errors import ChangefeedError

REFUSED = "CDC:ErrChangefeedUpdateRefused"


class State(StrEnum):
    """What a changefeed is doing."""

    NORMAL = "normal"
    WARNING = "warning"
    """An error occurred; the changefeed is retried after longer and longer pauses."""
    FAILED = "failed"
    STOPPED = "stopped"
    FINISHED = "finished"
    REMOVED = "removed"

    @property
    def runs(self) -> bool:
        """Does the changefeed run, or retry?"""
        return self in (State.NORMAL, State.WARNING)


class Move(StrEnum):
    """What takes a changefeed from one state to another."""

    PAUSE = "pause"
    RESUME = "resume"
    REMOVE = "remove"
    ERROR = "error"
    FATAL = "fatal"
    STUCK = "stuck"
    PROGRESS = "progress"
    END = "end"


MOVES: Mapping[tuple[State, Move], State] = {
    **{(state, Move.PAUSE): State.STOPPED for state in (State.NORMAL, State.WARNING)},
    **{(state, Move.RESUME): State.NORMAL for state in (State.STOPPED, State.FAILED, State.FINISHED)},
    **{(state, Move.REMOVE): State.REMOVED for state in State},
    **{(state, Move.ERROR): State.WARNING for state in (State.NORMAL, State.WARNING)},
    **{(state, Move.FATAL): State.FAILED for state in (State.NORMAL, State.WARNING)},
    (State.WARNING, Move.STUCK): State.FAILED,
    **{(state, Move.PROGRESS): State.NORMAL for state in (State.NORMAL, State.WARNING)},
    **{(state, Move.END): State.FINISHED for state in (State.NORMAL, State.WARNING)},
}
"""All allowed moves; others are refused."""

UPDATABLE = frozenset({State.STOPPED, State.FAILED})
"""The states in which a changefeed's configuration can be changed."""


def moved(state: State, move: Move) -> State:
    """The state after a move; raises ``CDC:ErrChangefeedUpdateRefused`` if the move is not allowed."""
    after = MOVES.get((state, move))
    if after is None:
        froms = " or ".join(before for before in State if (before, move) in MOVES)
        raise ChangefeedError(REFUSED, f"can only {move} a changefeed that is {froms}, but this one is {state}")
    return after


@dataclass(frozen=True, slots=True)
class Backoff:
    """The pause before a changefeed is retried, in seconds: twice as long each time, up to a limit."""

    first: float = 10.0
    most: float = 1800.0

    def pause(self, tries: int) -> float:
        """The pause after a number of failed tries in a row."""
        return min(self.first * 2.0 ** min(tries - 1, 32), self.most)


@dataclass(frozen=True, slots=True)
class Life:
    """The state of a changefeed, and its last error.

    While it is ``warning``: ``since`` is the time of the first error, in seconds since the epoch, ``tries`` the number
    of errors since then, and ``stuck_at`` the checkpoint at the first error.
    """

    state: State = State.NORMAL
    failure: Failure | None = None
    since: float = 0.0
    tries: int = 0
    stuck_at: int = 0


def struck(life: Life, failure: Failure, checkpoint_ts: int, stuck_after: float) -> Life:
    """The life after an error ended a run. After ``stuck_after`` seconds in ``warning`` the changefeed fails."""
    if is_fatal(failure):
        return replace(life, state=moved(life.state, Move.FATAL), failure=failure)
    in_trouble = life.state is State.WARNING
    if in_trouble and failure.at - life.since >= stuck_after:
        return replace(life, state=moved(life.state, Move.STUCK), failure=failure)
    return Life(
        moved(life.state, Move.ERROR),
        failure,
        life.since if in_trouble else failure.at,
        life.tries + 1 if in_trouble else 1,
        life.stuck_at if in_trouble else checkpoint_ts,
    )


def progressed(life: Life, checkpoint_ts: int) -> Life:
    """The life after a checkpoint was stored: a checkpoint after ``stuck_at`` ends the state ``warning``."""
    if life.state is not State.WARNING or checkpoint_ts <= life.stuck_at:
        return life
    return Life(moved(life.state, Move.PROGRESS))


def next_try(life: Life, now: float, stuck_after: float, backoff: Backoff) -> float:
    """Seconds until a changefeed in ``warning`` is retried; the last retry is exactly when ``stuck_after`` is over."""
    return max(0.0, min(backoff.pause(life.tries), life.since + stuck_after - now))
