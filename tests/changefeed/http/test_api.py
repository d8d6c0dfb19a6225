"""Every path of the Open API against a real server: statuses, bodies, errors."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from changefeed.config.config_requests import table as any_table
from changefeed.http.servers import Api, server
from changefeed.service.upstreams import START, until
from tidewire import __version__
from tidewire.changefeed.config.replica import from_toml
from tidewire.changefeed.http.documents import toml_text
from tidewire.errors import ChangefeedError

FEEDS = "/api/v2/changefeeds"
FEED = f"{FEEDS}/feed"
AVRO = "kafka://127.0.0.1:9092/topic?protocol=avro"
REGISTRY = {"schema_registry": "http://127.0.0.1:8081"}
TOPICS = {"dispatchers": [{"matcher": ["*.*"], "topic": "a_{schema}_{table}"}]}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with server(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server for tests that make nothing."""
    with server(tmp_path_factory.mktemp("idle")) as running:
        yield running


def created(api: Api, **more: Any) -> dict[str, Any]:
    info: dict[str, Any] = ok(api.client.post(FEEDS, json={"changefeed_id": "feed", "sink_uri": api.sink(), **more}))
    return info


def ok(response: httpx.Response) -> Any:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("application/json")
    return response.json()


def refused(response: httpx.Response, code: str, status: int = 400) -> str:
    document = response.json()
    assert (response.status_code, document["error_code"]) == (status, f"CDC:{code}")
    assert document.keys() == {"error_msg", "error_code"}
    assert document["error_msg"].startswith(f"[CDC:{code}]")
    return str(document["error_msg"])


def test_a_new_changefeed_is_told_completely(api: Api) -> None:
    info = created(api, target_ts=2**63, replica_config={"filter": {"rules": ["shop.*"]}})

    assert (
        info.items()
        >= {
            "upstream_id": 77,
            "namespace": "default",
            "keyspace": "default",
            "id": "feed",
            "sink_uri": api.sink(),
            "start_ts": START,
            "target_ts": 2**63,
            "state": "normal",
            "checkpoint_ts": START,
            "resolved_ts": START,
            "checkpoint_time": "2026-10-25 05:55:14.843",
            "creator_version": __version__,
        }.items()
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", info["create_time"])
    assert info["config"]["filter"]["rules"] == ["shop.*"]
    assert info["config"]["changefeed_error_stuck_duration"] == 1_800_000_000_000
    assert info["config"]["sink"]["protocol"] == "simple"
    assert "csv" not in info["config"]["sink"]
    assert not info.keys() & {"error", "admin_job_type"}
    assert ok(api.client.get(FEED))["id"] == "feed"


def test_an_empty_wish_gets_an_id_of_its_own_but_needs_a_sink(api: Api) -> None:
    assert re.fullmatch(r"[0-9a-f-]{36}", ok(api.client.post(FEEDS, json={"sink_uri": "blackhole://"}))["id"])
    refused(api.client.post(FEEDS, json={}), "ErrSinkURIInvalid")
    refused(api.client.post(FEEDS), "ErrSinkURIInvalid")


@pytest.mark.parametrize(
    ("wrong", "code", "status"),
    [
        ({"sink_uri": "kafka://127.0.0.1:9092/?protocol=simple"}, "ErrSinkURIInvalid", 400),
        ({"sink_uri": "kafka://127.0.0.1:9092/topic?protocol=wrong"}, "ErrSinkUnknownProtocol", 500),
        ({"sink_uri": "kafka://127.0.0.1:9092/topic?protocol=avro"}, "ErrCodecInvalidConfig", 500),
        ({"sink_uri": AVRO, "replica_config": {"sink": REGISTRY}}, "ErrKafkaInvalidConfig", 500),
        (
            {"sink_uri": AVRO, "replica_config": {"sink": {**REGISTRY, **TOPICS}, "force_replicate": True}},
            "ErrCodecInvalidConfig",
            500,
        ),
        ({"changefeed_id": "no_id"}, "ErrAPIInvalidParam", 400),
        ({"start_ts": 2**64 - 1}, "ErrAPIInvalidParam", 400),
        ({"start_ts": 2**64}, "ErrAPIInvalidParam", 400),
        ({"start_ts": -1}, "ErrAPIInvalidParam", 400),
        ({"start_ts": "5"}, "ErrAPIInvalidParam", 400),
        ({"start_ts": 1.5}, "ErrAPIInvalidParam", 400),
        ({"start_ts": True}, "ErrAPIInvalidParam", 400),
        ({"start_ts": 9, "target_ts": 9}, "ErrTargetTsBeforeStartTs", 400),
        ({"sink_uri": 5}, "ErrAPIInvalidParam", 400),
        ({"replica_config": []}, "ErrAPIInvalidParam", 400),
        ({"replica_config": {"memory_quota": "much"}}, "ErrAPIInvalidParam", 400),
        ({"replica_config": {"filter": {"rules": ["nodot"]}}}, "ErrFilterRuleInvalid", 400),
        ({"replica_config": {"filter": {"rules": ["@/etc/passwd"]}}}, "ErrFilterRuleInvalid", 400),
        ({"replica_config": {"changefeed_error_stuck_duration": "1m"}}, "ErrInvalidReplicaConfig", 500),
    ],
)
def test_a_wrong_wish_is_refused_under_ticdc_s_code(idle: Api, wrong: dict[str, Any], code: str, status: int) -> None:
    body = {"changefeed_id": "feed", "sink_uri": "blackhole://", **wrong}

    refused(idle.client.post(FEEDS, json=body), code, status)

    assert ok(idle.client.get(FEEDS, params={"state": "all"})) == {"total": 0, "items": []}


@pytest.mark.parametrize(
    "raw",
    [b"{", b"[]", b'"text"', b"\xff\xfe", b'{"start_ts": NaN}', b'{"sink_uri": "\\ud800"}', b"[" * 100_000, b"7"],
)
def test_a_body_that_is_no_object_is_refused(idle: Api, raw: bytes) -> None:
    refused(idle.client.post(FEEDS, content=raw), "ErrAPIInvalidParam")


def test_a_body_without_end_is_refused(idle: Api) -> None:
    refused(idle.client.post(FEEDS, content=b" " * (5 << 20)), "ErrAPIInvalidParam")


def test_an_id_is_taken_once_in_each_namespace(api: Api) -> None:
    created(api)

    refused(
        api.client.post(FEEDS, json={"changefeed_id": "feed", "sink_uri": "blackhole://"}), "ErrChangeFeedAlreadyExists"
    )
    other = {"changefeed_id": "feed", "sink_uri": "blackhole://"}
    assert ok(api.client.post(FEEDS, params={"namespace": "team"}, json=other))["namespace"] == "team"
    assert ok(api.client.get(FEED, params={"keyspace": "team"}))["sink_uri"] == "blackhole://"
    assert ok(api.client.get(FEEDS, params={"keyspace": "team"}))["total"] == 1


def test_lists_are_by_state(api: Api) -> None:
    for name in ("runs", "stopped", "done"):
        target = {"target_ts": START + 1, "start_ts": START} if name == "done" else {}
        ok(api.client.post(FEEDS, json={"changefeed_id": name, "sink_uri": "blackhole://", **target}))
    api.live.begin()
    until(lambda: ok(api.client.get(f"{FEEDS}/done"))["state"] == "finished")
    ok(api.client.post(f"{FEEDS}/stopped/pause"))

    def ids(**query: str) -> list[str]:
        listed = ok(api.client.get(FEEDS, params=query))
        assert listed["total"] == len(listed["items"])
        return [item["id"] for item in listed["items"]]

    assert ids() == ["runs", "stopped"]
    assert ids(state="all") == ["done", "runs", "stopped"]
    assert ids(state="finished") == ["done"]
    assert ids(state="stopped") == ["stopped"]
    assert ids(state="failed") == []
    refused(api.client.get(FEEDS, params={"state": "odd"}), "ErrAPIInvalidParam")
    item = ok(api.client.get(FEEDS, params={"state": "stopped"}))["items"][0]
    assert item.keys() == {
        "upstream_id", "namespace", "keyspace", "id", "state", "checkpoint_tso", "checkpoint_time", "error"
    }  # fmt: skip
    assert ok(api.client.get(f"{FEEDS}/done"))["admin_job_type"] == 4


def test_pause_update_resume_remove(api: Api) -> None:
    created(api)
    refused(api.client.put(FEED, json={"target_ts": 2**63}), "ErrChangefeedUpdateRefused")
    refused(api.client.post(f"{FEED}/resume"), "ErrChangefeedUpdateRefused")

    assert ok(api.client.post(f"{FEED}/pause")) == {}
    assert ok(api.client.get(FEED)).items() >= {"state": "stopped", "admin_job_type": 1}.items()
    refused(api.client.put(FEED, json={"start_ts": 5}), "ErrAPIInvalidParam")
    changed = ok(api.client.put(FEED, json={"target_ts": 2**63, "replica_config": {"filter": {"rules": ["a.*"]}}}))
    assert (changed["target_ts"], changed["config"]["filter"]["rules"]) == (2**63, ["a.*"])
    assert ok(api.client.post(f"{FEED}/resume")) == {}
    assert ok(api.client.get(FEED))["state"] == "normal"
    assert ok(api.client.post(f"{FEED}/pause")) == {}
    assert ok(api.client.post(f"{FEED}/resume", json={"overwrite_checkpoint_ts": START - 5})) == {}
    assert ok(api.client.delete(FEED)) == {}
    assert ok(api.client.delete(FEED)) is None


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("PUT", ""), ("POST", "/pause"), ("POST", "/resume"), ("GET", "/status"), ("GET", "/synced")],
)
def test_what_is_not_there_is_400_and_not_404(idle: Api, method: str, path: str) -> None:
    refused(idle.client.request(method, f"{FEEDS}/nobody{path}"), "ErrChangeFeedNotExists")


def test_errors_are_told_where_they_count(api: Api) -> None:
    created(api)
    api.live.error = ChangefeedError("CDC:ErrKafkaAsyncSendMessage", "no answer for upstream-word")
    until(lambda: ok(api.client.get(FEED))["state"] == "warning")

    error = ok(api.client.get(FEED))["error"]
    assert error.keys() == {"time", "addr", "code", "message"}
    assert (error["code"], error["message"]) == (
        "CDC:ErrKafkaAsyncSendMessage",
        "[CDC:ErrKafkaAsyncSendMessage]no answer for xxxxx",
    )
    assert ok(api.client.get(f"{FEED}/status"))["last_warning"]["code"] == "CDC:ErrKafkaAsyncSendMessage"
    assert ok(api.client.get(FEEDS))["items"][0]["error"]["code"] == "CDC:ErrKafkaAsyncSendMessage"
    ok(api.client.post(f"{FEED}/pause"))
    assert "error" not in ok(api.client.get(FEED))

    api.live.error = ChangefeedError("CDC:ErrDispatcherFailed", "no column")
    ok(api.client.post(f"{FEED}/resume"))
    until(lambda: ok(api.client.get(FEED))["state"] == "failed")
    status = ok(api.client.get(f"{FEED}/status"))
    assert status.keys() == {"state", "resolved_ts", "checkpoint_ts", "last_error"}
    assert status["last_error"]["code"] == "CDC:ErrDispatcherFailed"


def test_synced_tells_moments(api: Api) -> None:
    created(api)

    synced = ok(api.client.get(f"{FEED}/synced"))

    assert synced.keys() == {
        "synced", "sink_checkpoint_ts", "puller_resolved_ts", "last_synced_ts", "now_ts", "info"
    }  # fmt: skip
    assert synced["synced"] is True
    assert synced["sink_checkpoint_ts"] == synced["now_ts"] == "2026-10-25 05:55:14.843"


def test_tables_are_told_before_a_changefeed_is_made(api: Api) -> None:
    api.live.tables = [any_table("test.good"), any_table("test.bad", key=False)]
    body = {"sink_uri": "blackhole://"}

    tables = ok(api.client.post("/api/v2/verify_table", json=body))

    bad = {"database_name": "test", "table_name": "bad", "table_id": 0, "is_partition": False}
    assert tables["ineligible_tables"] == [bad]
    assert [table["table_name"] for table in tables["eligible_tables"]] == ["good"]
    assert len(tables["all_tables"]) == 2
    assert ok(api.client.post("/api/v2/get_all_tables", json={})) == tables
    refused(api.client.post("/api/v2/verify_table", json={"sink_uri": "odd://"}), "ErrSinkURIInvalid")
    refused(api.client.post(FEEDS, json=body), "ErrTableIneligible")
    ignoring = {**body, "replica_config": {"ignore_ineligible_table": True}}
    ok(api.client.post(FEEDS, json=ignoring))


def test_the_server_tells_about_itself(api: Api) -> None:
    created(api)

    assert ok(api.client.get("/api/v2/health")) == {}
    assert ok(api.client.get("/api/v2/status")).items() >= {"id": "capture", "is_owner": True, "liveness": 0}.items()
    assert ok(api.client.get("/status"))["version"] == f"v{__version__}"
    assert ok(api.client.get("/api/v2/captures"))["items"][0]["address"] == "127.0.0.1:8300"
    processors = ok(api.client.get("/api/v2/processors"))
    assert (processors["total"], processors["items"][0]["changefeed_id"]) == (1, "feed")
    assert ok(api.client.post("/api/v2/owner/resign")) == {}
    assert ok(api.client.post("/api/v2/tso")) == {"timestamp": START >> 18, "logic_time": START & 0x3FFFF}


def test_the_log_level_can_be_changed(idle: Api) -> None:
    assert ok(idle.client.post("/api/v2/log", json={"log_level": "WARN"})) == {}
    refused(idle.client.post("/api/v2/log", json={"log_level": "loud"}), "ErrAPIInvalidParam")
    assert ok(idle.client.post("/api/v2/log", json={})) == {}


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/api/v3", 404), ("PATCH", FEEDS, 405)])
def test_other_paths_and_verbs_are_not_there(idle: Api, method: str, path: str, status: int) -> None:
    refused(idle.client.request(method, path), "ErrAPIInvalidParam", status)


def test_a_changefeed_as_toml_has_a_configuration_file_in_it(api: Api) -> None:
    config = {
        "changefeed_error_stuck_duration": "1h",
        "sink": {"dispatchers": [{"matcher": ["*.*"], "partition": "ts", "topic": "a_{schema}"}]},
    }
    created(api, replica_config=config)

    response = api.client.get(FEED, headers={"Accept": "Application/TOML; charset=utf-8"})

    assert response.headers["content-type"].startswith("application/toml")
    document = tomllib.loads(response.text)
    assert document["sink-uri"] == api.sink()
    assert document["config"]["changefeed-error-stuck-duration"] == "1h"
    again = from_toml(toml_text(document["config"])).config
    assert again.sink.dispatchers[0].topic == "a_{schema}"


def test_secrets_are_masked_and_stay_where_a_change_does_not_touch_them(api: Api) -> None:
    config = {"sink": {"kafka_config": {"sasl_user": "me", "sasl_password": "config-word"}}}
    uri = f"{api.sink()}&sasl-password=uri-word"
    info = created(api, sink_uri=uri, replica_config=config)
    ok(api.client.post(f"{FEED}/pause"))

    changed = ok(api.client.put(FEED, json={"sink_uri": info["sink_uri"], "replica_config": info["config"]}))

    assert info["sink_uri"] == f"{api.sink()}&sasl-password=xxxxx"
    assert info["config"]["sink"]["kafka_config"]["sasl_password"] == "xxxxx"
    feed = api.service.views("default")[0].feed
    assert str.__str__(feed.sink_uri) == uri
    assert feed.config.sink.kafka_config is not None
    assert feed.config.sink.kafka_config.sasl_password == "config-word"
    assert not {"uri-word", "config-word"} & set(re.findall(r"[\w-]+", str(changed)))
