"""Waiting for services that do not answer: until they do, until patience ends, or until the sync is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tidewire.errors import BrokerError, Fenced, StorageError, SyncError
from tidewire.spark import patience
from tidewire.spark.patience import Patience, is_transient


class Clock:
    """A clock that goes on when it is waited for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        self.stopping = threading.Event()
        monkeypatch.setattr(patience.time, "monotonic", lambda: self.now)  # type: ignore[attr-defined]
        monkeypatch.setattr(self.stopping, "wait", self._wait)

    def _wait(self, seconds: float | None = None) -> bool:
        self.pauses.append(seconds or 0.0)
        self.now += seconds or 0.0
        return False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def failing(times: int, error: Exception) -> Callable[[], str]:
    """A question that is answered after so many failures."""
    left = [times]

    def ask() -> str:
        left[0] -= 1
        if left[0] >= 0:
            raise error
        return "answer"

    return ask


BUSY = StorageError("s3://bucket", "plans/1", "503", transient=True)


def test_a_service_is_asked_again_until_it_answers(clock: Clock) -> None:
    lines: list[str] = []

    answer = Patience(300, clock.stopping, lines.append)(failing(7, BUSY))

    assert answer == "answer"
    assert clock.pauses == [1, 2, 4, 8, 16, 30, 30]
    assert lines == [f"waiting: {BUSY}"] * 7


def test_patience_ends_with_one_line(clock: Clock) -> None:
    with pytest.raises(SyncError, match=r"503.*; waited 61 seconds\. Start the sync again"):
        Patience(60, clock.stopping, lambda line: None)(failing(100, BUSY))


def test_what_java_says_is_told(clock: Clock) -> None:
    lines: list[str] = []
    refused = JavaError(Java("a.UncheckedSQLException", Java("java.net.ConnectException", says="refused\n\tat a.B")))

    Patience(60, clock.stopping, lines.append)(failing(1, refused))

    assert lines == ["waiting: ConnectException: refused"]


def test_a_sync_that_is_stopped_does_not_wait(clock: Clock) -> None:
    clock.stopping.set()

    with pytest.raises(SyncError, match="waited 0 seconds"):
        Patience(60, clock.stopping, lambda line: None)(failing(1, BUSY))


def test_what_is_wrong_for_good_is_raised_at_once(clock: Clock) -> None:
    denied = BrokerError("127.0.0.1:9092", "wrong password", transient=False)

    with pytest.raises(BrokerError):
        Patience(60, clock.stopping, lambda line: None)(failing(1, denied))
    assert clock.pauses == []


class Java:
    """A Java exception, as far as it is looked at."""

    def __init__(
        self,
        name: str,
        cause: Java | None = None,
        *,
        status: int = 0,
        state: str | None = None,
        says: str = "",
        code: str | None = None,
    ) -> None:
        self._name = name
        self._code = code
        self._says = says
        self._cause = cause
        self._status = status
        self._state = state

    def getClass(self) -> Java:  # noqa: N802
        return self

    def getName(self) -> str:  # noqa: N802
        return self._name

    def getSimpleName(self) -> str:  # noqa: N802
        return self._name.rpartition(".")[2]

    def getMessage(self) -> str:  # noqa: N802
        return self._says

    def statusCode(self) -> int:  # noqa: N802
        return self._status

    def awsErrorDetails(self) -> Java | None:  # noqa: N802
        return None if self._code is None else self

    def errorCode(self) -> str | None:  # noqa: N802
        return self._code

    def getSQLState(self) -> str | None:  # noqa: N802
        return self._state

    def getCause(self) -> Java | None:  # noqa: N802
        return self._cause


class JavaError(Exception):
    """An error that came from Java."""

    def __init__(self, java: Java) -> None:
        super().__init__("An error occurred while calling o1.commit.")
        self.java_exception = java


def test_a_catalog_that_cannot_be_reached_is_waited_for_also_behind_other_errors() -> None:
    unreachable = JavaError(Java("UncheckedSQLException", Java("SQLException", Java("java.net.ConnectException"))))
    behind = SyncError("shop.a could not be committed")
    behind.__cause__ = unreachable

    assert is_transient(unreachable)
    assert is_transient(behind)
    assert not is_transient(JavaError(Java("ValidationException")))
    assert not is_transient(SyncError("the salt is another one"))


HOSTS = 'local host is: "here/127.0.0.1"; destination host is: "localhost":8020'


@pytest.mark.parametrize(
    ("java", "waits"),
    [
        (Java("software.amazon.awssdk.services.s3.model.S3Exception", status=503), True),
        (Java("software.amazon.awssdk.services.glue.model.GlueException", status=429), True),
        (Java("software.amazon.awssdk.services.s3.model.S3Exception", status=403), False),
        (Java("software.amazon.awssdk.services.s3.model.S3Exception", status=400, code="ExpiredToken"), True),
        (Java("software.amazon.awssdk.services.s3.model.S3Exception", status=400, code="InvalidArgument"), False),
        (Java("org.apache.iceberg.exceptions.NotAuthorizedException"), True),
        (Java("software.amazon.awssdk.core.exception.SdkClientException"), True),
        (Java("org.postgresql.util.PSQLException", state="57P01"), True),
        (Java("org.postgresql.util.PSQLException", state="08006"), True),
        (Java("org.postgresql.util.PSQLException", state="28P01"), False),
        (Java("org.postgresql.util.PSQLException"), False),
        (Java("java.io.EOFException", says=f"End of File Exception between {HOSTS}; : java.io.EOFException"), True),
        (Java("java.io.IOException", says=f"Failed on local exception: Broken pipe; Host Details : {HOSTS};"), True),
        (Java("java.io.EOFException", says="Reached the end of a manifest"), False),
    ],
)
def test_stores_and_catalogs_are_waited_for_if_they_may_answer_later(java: Java, waits: bool) -> None:
    assert is_transient(JavaError(Java("UncheckedIOException", java))) is waits


def test_a_driver_that_was_replaced_never_waits() -> None:
    fenced = Fenced("epoch 2 has taken over")
    fenced.__cause__ = BUSY

    assert not is_transient(fenced)
