"""What leaves the driver so that tasks can open files in a store."""

from __future__ import annotations

import time
from typing import Any

import pytest
from py4j.protocol import Py4JError

from object_stores import Answer, http_server
from tidewire.errors import StorageError, SyncError
from tidewire.spark.patience import is_transient
from tidewire.spark.targets.access import IcebergAccess, _access, is_unavailable, lent

FOUND = Answer(200, {"Content-Length": "100000", "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"})
EXPIRED = Answer(400, {}, b"<Error><Code>ExpiredToken</Code><Message>Not now</Message></Error>")

GIVEN = {
    "s3.endpoint": "http://store:9000",
    "s3.path-style-access": "true",
    "s3.access-key-id": "key",
    "s3.secret-access-key": "hush",
    "uri": "jdbc:postgresql://catalog",
    "jdbc.password": "hush-hush",
    "credential": "me:hush-hush",
    "token": "hush-hush",
}


class Lent:
    """A credential as Java has it."""

    def __init__(self, prefix: str, **config: str) -> None:
        self._prefix = prefix
        self._config = {name.replace("_", "."): text for name, text in config.items()}

    def prefix(self) -> str:
        return self._prefix

    def config(self) -> dict[str, str]:
        return self._config


class Io:
    """A file IO as Java has it."""

    def __init__(self, *credentials: Lent) -> None:
        self._credentials = credentials

    def credentials(self) -> Any:
        if not self._credentials:
            raise Py4JError("Method credentials([]) does not exist")
        return self._credentials


def test_the_catalogs_passwords_stay_in_the_driver() -> None:
    access = _access(GIVEN, {})

    assert access.properties == {
        "s3.endpoint": "http://store:9000",
        "s3.force-virtual-addressing": "false",
        "s3.access-key-id": "key",
        "s3.secret-access-key": "hush",
        "s3.region": "us-east-1",
    }
    assert "hush" not in repr(access)


@pytest.mark.parametrize(
    ("given", "environment", "region"),
    [
        ({"client.region": "eu-west-1"}, {"AWS_REGION": "eu-west-2"}, "eu-west-1"),
        ({}, {"AWS_REGION": "eu-west-2", "AWS_DEFAULT_REGION": "eu-west-3"}, "eu-west-2"),
        ({}, {"AWS_REGION": "", "AWS_DEFAULT_REGION": "eu-west-3"}, "eu-west-3"),
        ({}, {}, None),
    ],
)
def test_the_region_is_that_of_the_settings_or_of_the_environment(
    given: dict[str, str], environment: dict[str, str], region: str | None
) -> None:
    assert _access(given, environment).properties.get("s3.region") == region


def test_remote_signing_is_refused_by_name() -> None:
    with pytest.raises(SyncError, match=r"s3\.remote-signing-enabled.*vended-credentials"):
        _access({"s3.remote-signing-enabled": "true"}, {})


def test_of_lent_credentials_those_of_the_longest_prefix_are_taken() -> None:
    io = Io(
        Lent("s3://b/", s3_token="wide"), Lent("s3://b/lake/", s3_token="lake"), Lent("s3://b/pond/", s3_token="pond")
    )

    assert lent(io, "s3://b/lake/t/data") == {"s3.token": "lake"}
    assert lent(io, "s3://b/other") == {"s3.token": "wide"}
    assert lent(io, "s3://c/other") == {}
    assert lent(Io(), "s3://c/other") == {}


@pytest.mark.parametrize(("seconds", "soon"), [(60, True), (3600, False)])
def test_credentials_that_end_soon_are_renewed(seconds: int, soon: bool) -> None:
    end = int((time.time() + seconds) * 1000)

    assert _access({"s3.session-token-expires-at-ms": str(end)}, {}).ends_soon is soon
    assert not IcebergAccess().ends_soon


@pytest.mark.parametrize("size", [8, len(EXPIRED.body) + 1, 1000])
def test_a_store_that_takes_no_expired_token_is_waited_for_however_little_is_read(size: int) -> None:
    with http_server(lambda request: FOUND if request.method == "HEAD" else EXPIRED) as store:
        properties = {"s3.endpoint": store.endpoint, "s3.region": "us-east-1", "s3.force-virtual-addressing": "false"}
        keys = {"s3.access-key-id": "key", "s3.secret-access-key": "secret"}
        with (
            IcebergAccess(properties | keys).input("s3://bucket/file") as opened,
            pytest.raises(OSError, match="AWS") as raised,
        ):
            opened.read(size)

    assert is_transient(raised.value)


@pytest.mark.parametrize(
    ("text", "waits"),
    [
        ("When uploading part for key 'x' in bucket 'b': AWS Error SLOW_DOWN during UploadPart operation: slow", True),
        ("AWS Error SERVICE_UNAVAILABLE (HTTP status 503) during PutObject operation", True),
        ("AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 7, Couldn't connect to server", True),
        ("AWS Error UNKNOWN (HTTP status 400) during GetObject: Unable to parse ExceptionName: ExpiredToken", True),
        ("AWS Error UNKNOWN (HTTP status 400) during GetObject operation: Unable to parse ExceptionName: X", False),
        ("AWS Error ACCESS_DENIED during PutObject operation: Access Denied", False),
        ("AWS Error NO_SUCH_BUCKET during PutObject operation", False),
        ("No space left on device", False),
    ],
)
def test_only_a_store_that_may_answer_later_is_waited_for(text: str, waits: bool) -> None:
    assert is_unavailable(text) is waits
    assert is_transient(OSError(text)) is waits


def test_a_store_that_does_not_answer_is_named() -> None:
    access = IcebergAccess(
        {
            "s3.endpoint": "http://127.0.0.1:1",
            "s3.access-key-id": "key",
            "s3.secret-access-key": "hush",
            "s3.region": "us-east-1",
            "s3.connect-timeout": "1",
        }
    )

    with pytest.raises(StorageError, match=r"storage bucket, 'lake/a\.parquet': ") as caught:
        access.input("s3://bucket/lake/a.parquet")

    assert is_transient(caught.value)
    assert "hush" not in str(caught.value)
