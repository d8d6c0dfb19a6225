"""What another process asks of a running sync: to try a hold again, to release one, to maintain or replace tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol

import msgspec

from tidewire.errors import SyncError
from tidewire.model import Position, TableName
from tidewire.spark.execution import Execution
from tidewire.spark.ledger import Request, now
from tidewire.spark.maintain import Maintained, MaintenanceSettings, parse_age
from tidewire.spark.rejects import find_rejects
from tidewire.storage import Storage
from tidewire.sync.holds import find_hold, release, retry
from tidewire.sync.state import Hold, State


class Driving(Protocol):
    """What a running sync can do for a request."""

    @property
    def execution(self) -> Execution:
        """Its state."""
        ...

    @property
    def storage(self) -> Storage:
        """Where its ledger is."""
        ...

    @property
    def reads_topics(self) -> bool:
        """Whether it has a source. A load has none."""
        ...

    def read_again(self, messages: Mapping[Position, str]) -> None:
        """Read messages again that are kept in files, and go on from there."""
        ...

    def catch_up(self) -> None:
        """Do what can be done without new messages."""
        ...

    def maintain(self, settings: MaintenanceSettings) -> Maintained:
        """Do a whole round of maintenance."""
        ...

    def replace(self, request: Request) -> tuple[str, ...] | None:
        """Go on with replacing tables; ``None`` if there is more to do."""
        ...

    def cancel(self, request: str) -> tuple[str, ...] | None:
        """Take a request back, and remove what was made for it; ``None`` if that goes on."""
        ...


def carry_out(sync: Driving, request: Request) -> tuple[str, ...] | None:
    """Carry out a request; the lines of its answer, ``None`` if it goes on after the next pass.

    :class:`SyncError` says why it cannot be done.
    """
    found = _VERBS.get(request.verb)
    if found is None:
        raise SyncError(f"this sync does not know how to {request.verb}; it may be an older release")
    if request.verb not in (REPLACE, CANCEL) and not sync.reads_topics:
        raise SyncError("a load drives this target now: give the command again when the load has ended")
    return found(sync, request)


def _release(sync: Driving, request: Request) -> tuple[str, ...]:
    """Go on without a message or statement."""
    execution = sync.execution
    hold = find_hold(execution.state, request.arguments["hold"])
    line = f"released {hold.id} of {_table(hold)}"
    execution.change(release(execution.state, hold.id, now()))
    execution.save({request.id: (line,)})
    sync.catch_up()
    return line, *_still_held(execution.state, hold.table)


def _retry(sync: Driving, request: Request) -> tuple[str, ...]:
    """Read messages again that are kept, or try a statement again."""
    execution, wanted, kind = sync.execution, request.arguments.get("hold"), request.arguments.get("kind")
    every = [hold for hold in execution.state.holds if hold.kind != "policy" and kind in (None, hold.kind)]
    holds = [find_hold(execution.state, wanted)] if wanted else every
    found = find_rejects(sync.storage, {hold.at for hold in holds if hold.kind == "message"})
    for hold in holds:
        if hold.kind in ("statement", "rows"):
            execution.forget_failures()
            execution.change(retry(execution.state, hold.id))
    if found:
        sync.read_again(found)
    sync.catch_up()
    held = {hold.id for hold in execution.state.holds}
    lines = [f"{hold.id} of {_table(hold)}: {_outcome(hold, held, found)}" for hold in holds]
    return tuple(lines or ["there is nothing to try again"])


def _maintain(sync: Driving, request: Request) -> tuple[str, ...]:
    given = request.arguments
    done = sync.maintain(MaintenanceSettings(parse_age(given["older-than"]), int(given["keep"])))
    return (msgspec.json.encode(done, enc_hook=str).decode(),)


def _replace(sync: Driving, request: Request) -> tuple[str, ...] | None:
    return sync.replace(request)


def _cancel(sync: Driving, request: Request) -> tuple[str, ...] | None:
    return sync.cancel(request.arguments["request"])


REPLACE: Final = "replace"
"""The verb of requests to put tables of a load in the place of others."""

CANCEL: Final = "cancel"
"""The verb of requests to take another request back."""

_VERBS: Final[Mapping[str, Callable[[Driving, Request], tuple[str, ...] | None]]] = {
    "release": _release,
    "retry": _retry,
    "maintain": _maintain,
    REPLACE: _replace,
    CANCEL: _cancel,
}


def _table(hold: Hold) -> str:
    return "all tables" if hold.table is None else str(hold.table)


def _outcome(hold: Hold, held: Collection[str], found: Mapping[Position, str]) -> str:
    if hold.id not in held:
        return "it is over"
    if hold.kind == "message" and hold.at not in found:
        return "its bytes were not kept, so it cannot be read again; replay it, or release it"
    return f"still held: {hold.reason}"


def _still_held(state: State, table: TableName | None) -> list[str]:
    """What still holds a table back."""
    return [f"still held by {hold.id}: {hold.reason}" for hold in state.holds if hold.table in (table, None)]
