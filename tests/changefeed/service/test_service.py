"""The verbs of the service over a live upstream: what changefeeds send, and which state they are in."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from changefeed.config.config_requests import table as any_table
from changefeed.pieces import SetClock
from changefeed.service.upstreams import KEY, START, Live, until, until_checkpoint, until_state
from tidewire.changefeed.config.replica import from_toml
from tidewire.changefeed.service.lifecycle import Backoff, State
from tidewire.changefeed.service.service import Change, Service, Wanted
from tidewire.changefeed.service.store import FeedKey, Store
from tidewire.changefeed.source import Source, open_source
from tidewire.codec import protocol
from tidewire.errors import ChangefeedError
from tidewire.model import RowChange
from tidewire.secrets import Secret
from tidewire.topic.files import FileTopics, messages_of

QUICK = Backoff(first=0.01, most=0.01)
BLACKHOLE = Secret("blackhole://")
PASSING = ChangefeedError("CDC:ErrKafkaAsyncSendMessage", "no answer")


class House:
    """A service over a store and an upstream, which can be torn down and built again."""

    def __init__(self, folder: Path, open_upstream: Callable[[], Source] | None = None) -> None:
        self.folder = folder
        self.live = Live()
        self._open_upstream = open_upstream or self.live.open
        self.clock = SetClock(1_800_000_000.0)
        self.open()

    def open(self) -> None:
        """Start the server."""
        self.store = Store(self.folder / "data")
        self.service = Service(
            self.store, self._open_upstream, backoff=QUICK, clock=self.clock, secrets=["upstream-word"]
        )
        self.service.start()

    def close(self) -> None:
        """Stop it."""
        self.service.stop()
        self.store.close()

    def wanted(self, protocol_name: str = "canal-json&enable-tidb-extension=true") -> Wanted:
        """A changefeed into topics in files."""
        uri = f"file-topic://{self.folder}/topics/topic?protocol={protocol_name}&partition-num=1"
        return Wanted(Secret(uri), KEY.id)

    def sent(self) -> list[int]:
        """The keys of the rows that are in the topic."""
        topics = FileTopics(self.folder / "topics")
        decoder = protocol("canal-json").Decoder()
        messages = [message for batch in topics.read("topic", 0) for message in messages_of(batch)]
        events = [event for message in messages for event in decoder.decode(message)]
        return [int(str((event.after or {})["id"])) for event in events if isinstance(event, RowChange)]

    def state(self) -> State:
        """How the changefeed is doing."""
        return self.service.view(KEY).feed.state


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.close()


def refused(code: str) -> pytest.RaisesExc[ChangefeedError]:
    return pytest.RaisesExc(ChangefeedError, check=lambda error: error.code == f"CDC:{code}")


def test_a_changefeed_sends_what_happens_and_keeps_its_checkpoint(house: House) -> None:
    view = house.service.create("default", house.wanted())

    ts = house.live.begin(3)
    until_checkpoint(house.service, ts)

    assert (view.feed.state, view.feed.start_ts) == (State.NORMAL, START)
    assert house.sent() == [0, 1, 2]
    feed = house.service.view(KEY).feed
    assert feed.progress.checkpoint.place is not None
    assert feed.progress.synced_ts > START
    assert house.service.running() == [KEY]


def test_a_paused_changefeed_sends_nothing_until_it_goes_on_where_it_was(house: House) -> None:
    house.service.create("default", house.wanted())
    ts = house.live.begin(2)
    until_checkpoint(house.service, ts)

    house.service.pause(KEY)
    paused_at = house.service.view(KEY).feed.progress.checkpoint.ts
    house.live.insert(2, 3)
    assert (house.state(), house.service.running()) == (State.STOPPED, [])
    house.service.pause(KEY)
    house.service.resume(KEY)
    until_checkpoint(house.service, house.live.now)

    assert paused_at >= ts
    assert house.sent() == [0, 1, 2, 3]
    with refused("ErrChangefeedUpdateRefused"):
        house.service.resume(KEY)


def test_pausing_sends_what_was_read_and_keeps_it_as_the_checkpoint(house: House) -> None:
    house.service.create("default", house.wanted())
    ts = house.live.begin(5)
    until(lambda: house.service.view(KEY).resolved_ts >= ts)

    house.service.pause(KEY)

    assert house.sent() == [0, 1, 2, 3, 4]
    assert house.service.view(KEY).feed.progress.checkpoint.ts == ts


def test_resuming_at_an_earlier_moment_sends_again_and_at_a_later_one_leaves_out(house: House) -> None:
    house.service.create("default", house.wanted())
    first = house.live.begin(2)
    second = house.live.insert(2)
    until_checkpoint(house.service, second)

    house.service.pause(KEY)
    house.service.resume(KEY, first)
    until(lambda: house.sent() == [0, 1, 2, 2])
    house.service.pause(KEY)
    skipped = house.live.insert(3)
    house.live.insert(4)
    house.service.resume(KEY, skipped)
    until(lambda: house.sent() == [0, 1, 2, 2, 4])

    house.service.pause(KEY)
    with refused("ErrAPIInvalidParam"):
        house.service.resume(KEY, 2**63)
    assert house.state() is State.STOPPED


def test_a_changefeed_ends_at_its_target(house: House) -> None:
    target = house.live.begin(2)
    house.live.insert(2)
    house.service.create("default", replace(house.wanted(), start_ts=START, target_ts=target))

    until_state(house.service, State.FINISHED)

    assert house.sent() == [0, 1]
    assert house.service.view(KEY).feed.progress.checkpoint.ts == target
    assert house.service.running() == []


def test_a_restart_goes_on_with_what_ran_and_with_nothing_else(house: House) -> None:
    house.service.create("default", house.wanted())
    other = FeedKey("default", "other")
    house.service.create("default", Wanted(BLACKHOLE, other.id))
    house.service.pause(other)
    until_checkpoint(house.service, house.live.begin(2))

    house.close()
    house.live.insert(2)
    house.open()
    until_checkpoint(house.service, house.live.now)

    assert house.sent() == [0, 1, 2]
    assert house.service.view(other).feed.state is State.STOPPED
    assert house.service.running() == [KEY]


def test_an_error_is_a_warning_until_there_is_progress(house: House) -> None:
    house.service.create("default", house.wanted())
    until_checkpoint(house.service, house.live.begin(1))

    house.live.error = PASSING
    until_state(house.service, State.WARNING)
    failure = house.service.view(KEY).feed.life.failure
    house.live.error = None
    house.live.insert(1)
    until_state(house.service, State.NORMAL)

    assert failure is not None
    assert (failure.code, failure.message) == ("CDC:ErrKafkaAsyncSendMessage", str(PASSING))
    assert (failure.at, failure.addr) == (house.clock.now, "127.0.0.1:8300")
    assert house.service.view(KEY).feed.life.failure is None
    until(lambda: 1 in house.sent())


def test_trouble_for_half_an_hour_is_a_failure_and_can_be_resumed(house: House) -> None:
    house.live.error = PASSING
    house.service.create("default", house.wanted())
    until(lambda: house.service.view(KEY).feed.life.tries > 2)

    house.clock.now += 1799
    tries = house.service.view(KEY).feed.life.tries
    until(lambda: house.service.view(KEY).feed.life.tries > tries)
    house.clock.now += 1
    until_state(house.service, State.FAILED)
    until(lambda: house.service.running() == [])
    house.live.error = None
    house.live.begin(1)
    house.service.resume(KEY)

    until(lambda: house.sent() == [0])
    assert house.state() is State.NORMAL


def test_trouble_is_remembered_over_a_restart(house: House) -> None:
    house.live.error = PASSING
    house.service.create("default", house.wanted())
    until_state(house.service, State.WARNING)
    since = house.service.view(KEY).feed.life.since

    house.close()
    house.clock.now += 1800
    house.open()

    until_state(house.service, State.FAILED)
    assert house.service.view(KEY).feed.life.since == since


def test_an_error_that_does_not_pass_is_a_failure_at_once(house: House) -> None:
    house.live.error = ChangefeedError("CDC:ErrSyncRenameTableFailed", "a.b is renamed")
    house.service.create("default", house.wanted())

    until_state(house.service, State.FAILED)

    failure = house.service.view(KEY).feed.life.failure
    assert failure is not None
    assert failure.code == "CDC:ErrSyncRenameTableFailed"


def test_no_secret_is_in_an_error(house: House) -> None:
    uri = Secret("blackhole://me:sink-word@nowhere")
    config = from_toml('[sink.kafka-config]\nsasl-password = "config-word"').config
    house.live.error = RuntimeError("login with sink-word, config-word or upstream-word failed")
    house.service.create("default", Wanted(uri, KEY.id, config))

    until_state(house.service, State.WARNING)

    failure = house.service.view(KEY).feed.life.failure
    assert failure is not None
    assert failure.message == "RuntimeError: login with xxxxx, xxxxx or xxxxx failed"
    assert failure.code == "CDC:ErrUnknown"


def test_an_id_is_made_where_none_is_given_and_cannot_be_taken_twice(house: House) -> None:
    made = house.service.create("default", Wanted(BLACKHOLE)).feed.key

    uuid.UUID(made.id)
    with refused("ErrChangeFeedAlreadyExists"):
        house.service.create("default", Wanted(BLACKHOLE, made.id))
    house.service.create("other", Wanted(BLACKHOLE, made.id))
    assert [view.feed.key for view in house.service.views("other")] == [FeedKey("other", made.id)]


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (Wanted(), "ErrSinkURIInvalid"),
        (Wanted(BLACKHOLE, "no_id"), "ErrAPIInvalidParam"),
        (Wanted(BLACKHOLE, "feed", start_ts=2**63), "ErrAPIInvalidParam"),
        (Wanted(BLACKHOLE, "feed", start_ts=START, target_ts=START), "ErrTargetTsBeforeStartTs"),
        (Wanted(Secret("kafka://broker:9092/topic"), "feed"), "ErrSinkUnknownProtocol"),
        (Wanted(Secret("file-topic:///dev/null/topics/t?protocol=simple"), "feed"), "ErrSinkURIInvalid"),
    ],
)
def test_what_breaks_a_rule_is_refused_and_leaves_nothing_behind(house: House, wanted: Wanted, code: str) -> None:
    with refused(code):
        house.service.create("default", wanted)

    assert house.service.views("default") == []


def test_a_broker_that_does_not_answer_is_refused_with_the_client_s_words(house: House) -> None:
    uri = Secret("kafka://127.0.0.1:1/topic?protocol=simple&dial-timeout=100ms&read-timeout=100ms")

    with pytest.raises(ChangefeedError) as caught:
        house.service.create("default", Wanted(uri, "feed"))

    assert caught.value.code == "CDC:ErrSinkURIInvalid"
    assert "[CDC:ErrKafkaNewProducer]" in caught.value.reason


def test_a_namespace_is_a_word(house: House) -> None:
    with refused("ErrAPIInvalidParam"):
        house.service.create("no namespace", Wanted(BLACKHOLE))


def test_a_running_changefeed_cannot_be_changed_and_a_stopped_one_can(house: House) -> None:
    house.service.create("default", house.wanted())
    until_checkpoint(house.service, house.live.begin(1))
    with refused("ErrChangefeedUpdateRefused"):
        house.service.update(KEY, Change(target_ts=2**62))
    house.service.pause(KEY)

    changed = house.service.update(
        KEY, Change(BLACKHOLE, from_toml('[filter]\nrules = ["a.*"]').config, target_ts=2**62)
    ).feed

    assert house.service.view(KEY).feed == changed
    assert (changed.sink_uri, changed.config.filter.rules, changed.target_ts) == (BLACKHOLE, ("a.*",), 2**62)
    assert changed.state is State.STOPPED


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (Change(start_ts=5), "ErrAPIInvalidParam"),
        (Change(target_ts=START), "ErrChangefeedUpdateRefused"),
        (Change(Secret("nothing://")), "ErrSinkURIInvalid"),
        (Change(config=from_toml('[filter]\nrules = ["nodot"]').config), "ErrFilterRuleInvalid"),
    ],
)
def test_a_wrong_change_changes_nothing(house: House, change: Change, code: str) -> None:
    before = house.service.create("default", Wanted(BLACKHOLE, KEY.id)).feed
    house.service.pause(KEY)

    with refused(code):
        house.service.update(KEY, change)

    after = house.service.view(KEY).feed
    assert (after.sink_uri, after.config, after.target_ts) == (before.sink_uri, before.config, before.target_ts)


def test_an_update_takes_effect_when_the_changefeed_goes_on(house: House) -> None:
    house.service.create("default", house.wanted())
    until_checkpoint(house.service, house.live.begin(1))
    house.service.pause(KEY)
    house.service.update(KEY, Change(config=from_toml('[filter]\nrules = ["test.*", "!test.t"]').config))
    house.service.resume(KEY)

    until_checkpoint(house.service, house.live.insert(1))

    assert house.sent() == [0]


def test_removing_forgets_and_does_so_again(house: House) -> None:
    house.service.create("default", house.wanted())

    assert house.service.remove(KEY)
    assert not house.service.remove(KEY)

    assert house.service.running() == []
    for verb in (house.service.view, house.service.pause, house.service.resume, house.service.synced):
        with refused("ErrChangeFeedNotExists"):
            verb(KEY)


def test_tables_without_a_key_are_told_and_refused_or_left_out(house: House) -> None:
    house.live.tables = [any_table("test.good"), any_table("test.bad", key=False), any_table("other.bad", key=False)]
    config = from_toml('[filter]\nrules = ["test.*"]').config

    found = house.service.verify("default", Wanted(BLACKHOLE, config=config))

    assert [str(table.name) for table in found.eligible] == ["test.good"]
    assert [str(table.name) for table in found.ineligible] == ["test.bad"]
    assert len(found.all) == 2
    with refused("ErrTableIneligible"):
        house.service.create("default", Wanted(BLACKHOLE, "feed", config))
    house.service.create("default", Wanted(BLACKHOLE, "feed", replace(config, ignore_ineligible_table=True)))


def test_now_is_the_upstream_s_clock_and_ours_where_it_has_none(house: House) -> None:
    assert house.service.now() == START

    house.live.now = 0

    assert house.service.now() >> 18 == 1_800_000_000_000


def test_many_may_ask_at_once(house: House) -> None:
    house.service.create("default", house.wanted())
    house.live.begin(1)
    errors: list[Exception] = []

    def pause_and_resume() -> None:
        for _ in range(3):
            for verb in (house.service.pause, house.service.resume):
                try:
                    verb(KEY)
                except ChangefeedError as error:
                    if error.code != "CDC:ErrChangefeedUpdateRefused":
                        errors.append(error)

    threads = [threading.Thread(target=pause_and_resume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    house.service.pause(KEY)
    assert (house.state(), house.service.running()) == (State.STOPPED, [])


def test_the_topics_of_one_changefeed_are_the_upstream_of_another(house: House, tmp_path: Path) -> None:
    first = house.wanted()
    house.service.create("default", first)
    until_checkpoint(house.service, house.live.begin(3))
    house.service.pause(KEY)
    uri = f"{str.__str__(first.sink_uri)}&follow=false"
    second = House(tmp_path / "second", lambda: open_source(uri))

    view = second.service.create("default", second.wanted())
    until_state(second.service, State.FINISHED)

    assert view.feed.start_ts == 0
    assert second.sent() == [0, 1, 2]
    second.close()
