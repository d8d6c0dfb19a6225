"""Any order of verbs, restarts and errors leaves every changefeed in the state the rules give it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from changefeed.service.upstreams import Live, until
from tidewire.changefeed.service.lifecycle import Backoff
from tidewire.changefeed.service.service import Change, Service, Wanted
from tidewire.changefeed.service.store import FeedKey, Store
from tidewire.errors import ChangefeedError
from tidewire.secrets import Secret

IDS = st.sampled_from(["a", "b"])
FATAL = ChangefeedError("CDC:ErrDispatcherFailed", "no column")


class Verbs(RuleBasedStateMachine):
    """A service, and beside it what every changefeed should be doing."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.live = Live()
        self.states: dict[str, str] = {}
        self.open()

    def open(self) -> None:
        """Start the server."""
        self.store = Store(self.folder)
        self.service = Service(self.store, self.live.open, backoff=Backoff(0.01, 0.01))
        self.service.start()

    def close(self) -> None:
        """Stop it."""
        self.service.stop()
        self.store.close()

    def teardown(self) -> None:
        """Leave nothing behind."""
        self.close()
        shutil.rmtree(self.folder)

    def tried(self, code: str | None, verb: str, *arguments: object) -> bool:
        """Do it: with the refusal that is due, or without one."""
        try:
            getattr(self.service, verb)(*arguments)
        except ChangefeedError as error:
            assert error.code == f"CDC:{code}"
            return False
        assert code is None
        return True

    @rule(name=IDS)
    def create(self, name: str) -> None:
        """Make one."""
        taken = "ErrChangeFeedAlreadyExists" if name in self.states else None
        if self.tried(taken, "create", "default", Wanted(Secret("blackhole://"), name)):
            self.states[name] = "normal"

    @rule(name=IDS)
    def pause(self, name: str) -> None:
        """Stop one."""
        missing = None if name in self.states else "ErrChangeFeedNotExists"
        if self.tried(missing, "pause", FeedKey("default", name)) and self.states[name] == "normal":
            self.states[name] = "stopped"

    @rule(name=IDS)
    def resume(self, name: str) -> None:
        """Go on with one."""
        codes = {None: "ErrChangeFeedNotExists", "normal": "ErrChangefeedUpdateRefused"}
        if self.tried(codes.get(self.states.get(name)), "resume", FeedKey("default", name)):
            self.states[name] = "normal"

    @rule(name=IDS)
    def update(self, name: str) -> None:
        """Change one."""
        codes = {None: "ErrChangeFeedNotExists", "normal": "ErrChangefeedUpdateRefused"}
        self.tried(codes.get(self.states.get(name)), "update", FeedKey("default", name), Change(target_ts=2**63))

    @rule(name=IDS)
    def remove(self, name: str) -> None:
        """Forget one."""
        assert self.service.remove(FeedKey("default", name)) is (name in self.states)
        self.states.pop(name, None)

    @rule()
    def restart(self) -> None:
        """Stop the server and start it again."""
        self.close()
        self.open()

    @rule()
    def trouble(self) -> None:
        """Let the upstream break for good; everything that runs fails."""
        self.live.error = FATAL
        self.states = {name: "failed" if state == "normal" else state for name, state in self.states.items()}
        until(lambda: self.service.running() == [])
        self.live.error = None

    @invariant()
    def every_state_is_as_it_should_be(self) -> None:
        """In the answers, and in the threads that run."""
        views = self.service.views("default")
        assert {view.feed.key.id: str(view.feed.state) for view in views} == self.states
        running = {key.id for key in self.service.running()}
        assert running == {name for name, state in self.states.items() if state == "normal"}


def test_any_order_of_verbs() -> None:
    run_state_machine_as_test(Verbs, settings=settings(max_examples=40, stateful_step_count=20, deadline=None))
