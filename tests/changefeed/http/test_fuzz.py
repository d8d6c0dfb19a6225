"""Whatever is sent, the answer is one of TiCDC's, and no secret is in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from changefeed.http.servers import NODE, Api, server
from tidewire.changefeed.http.app import VERBS, answered
from tidewire.changefeed.http.handlers import INTERNAL, Answer, Call

SECRET = "aHVzaC1odXNo"
BODY: dict[str, Any] = {
    "changefeed_id": "feed",
    "sink_uri": f"kafka://me:{SECRET}@127.0.0.1:9092/topic?protocol=avro&sasl-password={SECRET}",
    "start_ts": 0,
    "target_ts": 0,
    "replica_config": {
        "memory_quota": 1,
        "changefeed_error_stuck_duration": "30m",
        "force_replicate": False,
        "filter": {"rules": ["*.*"], "event_filters": [{"matcher": ["a.b"], "ignore_event": ["insert"]}]},
        "sink": {
            "protocol": "avro",
            "schema_registry": f"http://me:{SECRET}@127.0.0.1:8081",
            "dispatchers": [{"matcher": ["*.*"], "topic": "a_{schema}_{table}", "partition": "ts"}],
            "column_selectors": [{"matcher": ["a.b"], "columns": ["*"]}],
            "kafka_config": {
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_password": SECRET,
                "sasl_oauth_client_id": "me",
                "sasl_oauth_client_secret": SECRET,
                "sasl_oauth_token_url": f"https://me:{SECRET}@auth/token",
                "large_message_handle": {"claim_check_storage_uri": f"s3://b/?secret-access-key={SECRET}"},
            },
        },
    },
}
PATHS: list[tuple[str | int, ...]] = []


def _collect(value: Any, path: tuple[str | int, ...]) -> None:
    PATHS.append(path)
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        _collect(item, (*path, name))


for _name, _value in BODY.items():
    _collect(_value, (_name,))

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)
odd_texts = st.sampled_from(
    ["", "\x00", "é", "{schema}", "../..", "-1", "5m", SECRET, f"x://{SECRET}@", "kafka://", "a.b", "/(/", "[a", "1e9"]
)

_LIKE: dict[type, st.SearchStrategy[Any]] = {
    str: odd_texts | st.text(max_size=20),
    bool: st.booleans(),
    int: st.integers(0, 2**64),
    list: st.lists(odd_texts, max_size=3),
}


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    """A good body with something odd in it."""
    body = deepcopy(BODY)
    for path in draw(st.lists(st.sampled_from(PATHS), min_size=1, max_size=3)):
        place: Any = body
        for step in path[:-1]:
            place = place[step] if _has(place, step) else None
        if _has(place, path[-1]):
            place[path[-1]] = draw(_LIKE.get(type(place[path[-1]]), anything) | anything)
    return body


def _has(place: Any, step: str | int) -> bool:
    if isinstance(place, dict):
        return step in place
    return isinstance(place, list) and isinstance(step, int) and step < len(place)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with server(tmp_path_factory.mktemp("fuzz")) as running:
        yield running


def check(answer: Answer, secret: str = SECRET) -> None:
    text = answer.body.decode()
    assert secret not in text
    document = json.loads(text)
    if answer.status != 200:
        assert answer.status in (400, 500)
        assert document["error_code"].startswith("CDC:Err")
        assert document["error_code"] != INTERNAL, text
        assert document["error_msg"].startswith(f"[{document['error_code']}]")


def test_the_good_body_is_good(api: Api) -> None:
    answer = answered(VERBS["/api/v2/verify_table"]["POST"], Call(api.service, NODE, json.dumps(BODY).encode()))

    assert answer.status == 200, answer.body


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=150)
@given(bodies())
def test_a_body_that_is_a_little_wrong(api: Api, body: dict[str, Any]) -> None:
    raw = json.dumps(body).encode()

    check(answered(VERBS["/api/v2/verify_table"]["POST"], Call(api.service, NODE, raw)))
    check(answered(VERBS["/api/v2/get_all_tables"]["POST"], Call(api.service, NODE, raw)))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=60)
@given(
    st.sampled_from([(path, method) for path, verbs in VERBS.items() for method in verbs]),
    st.binary(max_size=40) | anything.map(lambda value: json.dumps(value).encode()),
    st.text(max_size=10),
    st.text(max_size=10),
    st.sampled_from(["", "all", "normal", "x"]),
)
def test_any_body_for_any_verb(
    api: Api, verb: tuple[str, str], raw: bytes, name: str, namespace: str, state: str
) -> None:
    path, method = verb

    check(answered(VERBS[path][method], Call(api.service, NODE, raw, namespace, name, state)), "no secret here")


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=60)
@given(
    st.sampled_from(["blackhole://", "file-topic:", "odd://", "kafka://", ""]),
    st.text("ab/.%@:?&=[]\x00é ", max_size=20),
    st.dictionaries(st.sampled_from(["protocol", "sasl-password", "partition-num", "é"]), st.text("a1-%", max_size=5)),
)
def test_any_sink_uri(
    tmp_path_factory: pytest.TempPathFactory, api: Api, scheme: str, rest: str, more: dict[str, str]
) -> None:
    folder = f"{tmp_path_factory.getbasetemp()}/topics/" if scheme == "file-topic:" else ""
    rest = rest.replace("..", "")
    uri = f"{scheme}{folder}{rest}?{'&'.join(f'{name}={value}' for name, value in more.items())}"
    raw = json.dumps({"sink_uri": uri}).encode()

    check(answered(VERBS["/api/v2/verify_table"]["POST"], Call(api.service, NODE, raw)))
    answer = answered(VERBS["/api/v2/changefeeds"]["POST"], Call(api.service, NODE, raw))

    check(answer)
    if answer.status == 200:
        made = json.loads(answer.body)["id"]
        check(
            answered(VERBS["/api/v2/changefeeds/{changefeed_id}"]["GET"], Call(api.service, NODE, changefeed_id=made))
        )
        check(
            answered(
                VERBS["/api/v2/changefeeds/{changefeed_id}"]["DELETE"], Call(api.service, NODE, changefeed_id=made)
            )
        )
