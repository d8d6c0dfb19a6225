"""``tidewire cli`` against a real server, and ``tidewire server`` as a process that is stopped and killed."""

from __future__ import annotations

import json
import shlex
import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from changefeed.config.config_requests import table as any_table
from changefeed.http.servers import Api, process, server
from changefeed.service.upstreams import START, until
from integration.servers import free_port
from tidewire.changefeed.http.authentication import Credentials, Guard
from tidewire.cli.app import app
from tidewire.codec import protocol
from tidewire.model import RowChange
from tidewire.secrets import Secret
from tidewire.topic.files import FileTopics, messages_of
from tidewire.workload import Habits, Workload


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.chdir(tmp_path)
    with server(tmp_path) as running:
        monkeypatch.setenv("TIDEWIRE_SERVER", running.uri)
        yield running


def run(command: str, stdin: str = "") -> Result:
    """Type a command."""
    return CliRunner().invoke(app, shlex.split(command), input=stdin)


def done(command: str, stdin: str = "") -> str:
    result = run(command, stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


def printed(command: str) -> Any:
    return json.loads(done(command))


def refused(command: str, words: str, stdin: str = "") -> None:
    result = run(command, stdin)
    assert result.exit_code == 1, result.output
    assert words in result.stderr


def test_a_changefeed_is_made_as_the_documents_say(api: Api) -> None:
    Path("changefeed.toml").write_text('[sink]\nprotocol = "simple"\n')

    where = f'--server={api.uri} --changefeed-id="feed" --sink-uri="{api.sink("")}"'
    out = done(f"cli changefeed create {where} --config changefeed.toml")

    lines = out.splitlines()
    assert lines[:2] == ["Create changefeed successfully!", "ID: feed"]
    info = json.loads(lines[2].removeprefix("Info: "))
    assert (info["id"], info["state"], info["config"]["sink"]["protocol"]) == ("feed", "normal", "simple")
    assert lines[3:] == ["IneligibleTablesCount: 0", "EligibleTablesCount: 0", "AllTablesCount: 0"]


def test_an_equals_sign_may_stand_alone(api: Api) -> None:
    done(f'cli changefeed create -c feed --sink-uri = "{api.sink()}"')

    assert printed("cli changefeed query -c feed")["sink_uri"] == api.sink()


def test_the_verbs_one_after_the_other(api: Api) -> None:
    done("cli changefeed create -c feed --sink-uri blackhole:// --target-ts 500000000000000000")

    assert printed("cli changefeed list") == [
        {
            "id": "feed",
            "namespace": "default",
            "keyspace": "default",
            "summary": {"state": "normal", "tso": START, "checkpoint": "2026-10-25 05:55:14.843", "error": None},
        }
    ]
    meta = printed("cli changefeed query --changefeed-id=feed")
    assert meta.items() >= {"checkpoint_tso": START, "target_ts": 500000000000000000, "state": "normal"}.items()
    assert len(meta["create_time"]) == len("2006-01-02 15:04:05.000")
    assert printed("cli changefeed query -s -c feed").keys() >= {"checkpoint_tso", "state", "error"}
    assert [item["changefeed_id"] for item in printed("cli processor list")] == ["feed"]
    assert done("cli changefeed pause -c feed") == ""
    assert printed("cli changefeed list")[0]["summary"]["state"] == "stopped"
    assert done("cli changefeed resume -c feed") == ""
    assert printed("cli changefeed statistics -c feed --count 1") == {
        "sink_gap": "0ms",
        "replication_gap": "0ms",
    }
    assert done("cli changefeed remove -c feed").splitlines() == [
        "Changefeed remove successfully.",
        "ID: feed",
        f"CheckpointTs: {START}",
        "SinkURI: blackhole://",
    ]
    assert done("cli changefeed remove -c feed") == "Changefeed not found.\nID: feed\n"
    assert done("cli tso query").strip() == str(START)
    assert printed("cli capture list")[0]["is_owner"] is True


def test_finished_ones_are_listed_only_with_all(api: Api) -> None:
    api.live.begin()
    done(f"cli changefeed create -c feed --sink-uri blackhole:// --start-ts {START} --target-ts {START + 1}")
    until(lambda: api.service.views("default")[0].feed.state == "finished")

    assert printed("cli changefeed list") == []
    assert [item["id"] for item in printed("cli changefeed list -a")] == ["feed"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--sink-uri='kafka://127.0.0.1:9092/topic?protocol=avro' --schema-registry=http://127.0.0.1:8081", "{schema}"),
        ("--sink-uri=odd://", "CDC:ErrSinkURIInvalid"),
        ("--sink-uri=blackhole:// --start-ts 18446744073709551615", "CDC:ErrAPIInvalidParam"),
        ("--sink-uri=blackhole:// --config unknown.toml", "unknown keys: sink.prtocol"),
        ("--sink-uri=blackhole:// --config twice.toml", "CDC:ErrSinkInvalidConfig"),
        ("--sink-uri=blackhole:// --server=http://127.0.0.1:1", "no answer from http://127.0.0.1:1"),
    ],
)
def test_refusals_end_with_1_and_say_why(api: Api, flags: str, words: str) -> None:
    Path("unknown.toml").write_text('[sink]\nprtocol = "simple"\n')
    Path("twice.toml").write_text(
        '[sink]\ndispatchers = [{matcher = [\'*.*\'], dispatcher = "ts", partition = "table"}]\n'
    )

    refused(f"cli changefeed create -c feed --no-confirm {flags}", words)

    assert api.service.views("default") == []


@pytest.mark.parametrize(
    "command",
    [
        "cli changefeed create",
        "cli changefeed create --sink-uri=blackhole:// --config nowhere.toml --start-ts x",
        "cli changefeed query",
        "cli changefeed pause --odd",
    ],
)
def test_wrong_commands_end_with_2(api: Api, command: str) -> None:
    assert run(command).exit_code == 2


def test_tables_without_a_key_are_asked_about(api: Api) -> None:
    api.live.tables = [any_table("test.bad", key=False), any_table("test.good")]
    command = "cli changefeed create -c feed --sink-uri blackhole://"

    assert run(command, "n\n").exit_code == 1
    assert api.service.views("default") == []
    result = run(f"{command} -v", "y\n")
    assert "test.bad" in result.stderr
    assert "EligibleTables: [test.good]" in result.stdout
    done("cli changefeed create -c other --sink-uri blackhole:// --no-confirm")
    assert all(view.feed.config.ignore_ineligible_table for view in api.service.views("default"))


def test_a_start_long_ago_and_another_checkpoint_are_asked_about(api: Api) -> None:
    long_ago = START - (3 * 24 * 3600 * 1000 << 18)
    command = f"cli changefeed create -c feed --sink-uri blackhole:// --start-ts {long_ago}"

    refused(command, "Aborted", "n\n")
    assert "3.0 days ago" in done(command, "y\n")
    done("cli changefeed pause -c feed")
    refused("cli changefeed resume -c feed", "Aborted", "n\n")
    refused("cli changefeed resume -c feed --overwrite-checkpoint-ts now", "Aborted", "n\n")
    refused("cli changefeed resume -c feed --overwrite-checkpoint-ts 0", "CDC:ErrCliInvalidCheckpointTs")
    done("cli changefeed resume -c feed --overwrite-checkpoint-ts now --no-confirm")
    assert printed("cli changefeed query -c feed")["checkpoint_tso"] == START


def test_an_update_shows_its_differences_and_asks(api: Api) -> None:
    Path("new.toml").write_text('memory-quota = 5\n[filter]\nrules = ["a.*"]\n')
    uri = f"{api.sink()}&sasl-password=hush-hush"
    Path("old.toml").write_text('[sink.kafka-config]\nsasl-user = "me"\nsasl-password = "hush-hush"\n')
    done(f"cli changefeed create -c feed --sink-uri '{uri}' --config old.toml")
    refused("cli changefeed update -c feed --config new.toml --no-confirm", "CDC:ErrChangefeedUpdateRefused")
    done("cli changefeed pause -c feed")

    assert done("cli changefeed update -c feed").startswith("changefeed config is the same")
    assert "No update" in done("cli changefeed update -c feed --config new.toml", "n\n")
    out = done("cli changefeed update -c feed --config new.toml --target-ts 500000000000000000", "y\n")

    assert 'config.filter.rules: ["*.*"] -> ["a.*"]' in out
    assert "config.memory_quota: 1073741824 -> 5" in out
    assert "target_ts: 0 -> 500000000000000000" in out
    assert "Update changefeed config successfully!" in out
    assert "hush" not in out
    feed = api.service.views("default")[0].feed
    assert (feed.config.memory_quota, feed.target_ts) == (5, 500000000000000000)
    assert feed.config.sink.protocol == "simple"
    assert feed.config.sink.kafka_config is not None
    assert feed.config.sink.kafka_config.sasl_password == "hush-hush"
    assert str.__str__(feed.sink_uri) == uri


def test_a_new_password_alone_is_a_change(api: Api) -> None:
    done(f"cli changefeed create -c feed --sink-uri '{api.sink()}&sasl-password=old-word'")
    done("cli changefeed pause -c feed")

    out = done(f"cli changefeed update -c feed --no-confirm --sink-uri '{api.sink()}&sasl-password=new-word'")

    assert "secrets only" in out
    assert str.__str__(api.service.views("default")[0].feed.sink_uri).endswith("new-word")


def test_credentials_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with server(tmp_path, Guard(Credentials(Secret("the-token")))) as api:
        command = f"cli changefeed list --server={api.uri}"
        refused(command, "CDC:ErrUnauthorized")
        monkeypatch.setenv("TIDEWIRE_AUTH_TOKEN", "the-token")
        assert printed(command) == []


@pytest.mark.parametrize("flags", ["--basic-user me --basic-password wo:rd", "--basic-user me:wo:rd"])
def test_a_user_and_a_password_may_stand_together(tmp_path: Path, flags: str) -> None:
    with server(tmp_path, Guard(Credentials(user="me", password=Secret("wo:rd")))) as api:
        assert printed(f"cli changefeed list --server={api.uri} {flags}") == []


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--upstream workload://1 --addr 0.0.0.0:0", "is open to other machines"),
        ("--upstream workload://1 --addr nowhere", "is not HOST:PORT"),
        ("--upstream workload://1 --addr 127.0.0.1:99999", "is not HOST:PORT"),
        ("--upstream workload://1 --basic-user me", "TIDEWIRE_BASIC_PASSWORD"),
        ("--upstream workload://1 --basic-password word", "--basic-user"),
        ("--upstream workload://1 --tz Nowhere/Land", "there is no time zone"),
        ("--upstream odd://1", "'odd' is not a source"),
        ("", "--upstream"),
    ],
)
def test_a_server_that_cannot_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)

    result = run(f"server {flags}")

    assert result.exit_code == 2
    assert words in result.stderr


def info(port: int) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"http://127.0.0.1:{port}/api/v2/changefeeds/feed", trust_env=False).json()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("last_signal", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_that_is_ended_goes_on_where_it_was(tmp_path: Path, last_signal: signal.Signals) -> None:
    port, upstream = free_port(), "workload://11?transactions=250&tables=2"
    uri = f"file-topic://{tmp_path}/topics/topic?protocol=canal-json&enable-tidb-extension=true&partition-num=1"
    with process(tmp_path, port, upstream) as running:
        body = {"changefeed_id": "feed", "sink_uri": uri}
        made = httpx.post(f"http://127.0.0.1:{port}/api/v2/changefeeds", json=body, trust_env=False).json()
        until(lambda: info(port)["checkpoint_ts"] > made["start_ts"])
        running.send_signal(last_signal)
        code = running.wait()
    with process(tmp_path, port, upstream):
        begun = info(port)
        until(lambda: info(port)["state"] == "finished")

    assert code == (0 if last_signal is signal.SIGTERM else -last_signal)
    assert begun["checkpoint_ts"] > made["start_ts"]
    assert (tmp_path / "server.log").read_text().count("listening on") == 2
    happened = {row.commit_ts for entry in Workload(11, 250, None, 2, "shop", Habits(raw=True)) for row in rows(entry)}
    sent = received(tmp_path / "topics")
    assert set(sent) == happened
    # In order, and at most once again from a checkpoint on, which may be before the last row that was sent.
    steps_back = sum(later < earlier for earlier, later in pairwise(sent))
    assert steps_back <= 1


def rows(entry: Any) -> tuple[RowChange, ...]:
    return tuple(getattr(entry, "rows", ()))


def received(folder: Path) -> list[int]:
    """The commit timestamps of the rows in the topic."""
    decoder = protocol("canal-json").Decoder()
    messages = [message for batch in FileTopics(folder).read("topic", 0) for message in messages_of(batch)]
    events = [event for message in messages for event in decoder.decode(message)]
    return [event.commit_ts or 0 for event in events if isinstance(event, RowChange)]
