"""Waiting for stores, registries, brokers and catalogs that do not answer.

Whatever is asked can be asked again: offset ranges are staged anew, documents are put with their own bytes, and steps
that are in their tables already are found. Errors in a message or a table are not waited for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from tidewire.errors import Fenced, SyncError
from tidewire.spark.targets.access import is_unavailable
from tidewire.spark.targets.base import root_cause

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0

_UNREACHABLE: Final = frozenset(
    {
        "ConnectException",
        "ConnectionClosedException",
        "HttpHostConnectException",
        "NoHttpResponseException",
        "NoRouteToHostException",
        "NotAuthorizedException",
        "RESTException",
        "SdkClientException",
        "ServiceFailureException",
        "ServiceUnavailableException",
        "SocketException",
        "SocketTimeoutException",
        "SQLTransientConnectionException",
        "TTransportException",
        "TruncatedChunkException",
        "UnknownHostException",
    }
)
"""Java exceptions of catalogs and stores that do not answer, by the names of their classes.

A catalog that does not take the credentials is among them: it took them when the sync began, so they have expired.
"""

_BUSY: Final = frozenset({429, 500, 502, 503, 504})
"""What services of AWS, and stores that speak S3, answer when they have too much to do."""

_EXPIRED: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
"""What they answer if credentials have expired, which may be renewed meanwhile."""

_OF_HADOOP: Final = ("java.io.IOException", "java.io.EOFException")
_BETWEEN_HOSTS: Final = "destination host is: "
"""What Hadoop's client raises if it loses a connection, and what all these errors say."""

_DISCONNECTED: Final = ("08", "57P")
"""What begins SQL states of connections that are lost, and of servers that stop."""

Result = TypeVar("Result")


class Patience:
    """Asks again until there is an answer, up to a number of seconds; a sync that is stopped does not wait."""

    def __init__(self, seconds: float, stopping: threading.Event, tell: Callable[[str], None]) -> None:
        self._seconds = seconds
        self._stopping = stopping
        self._tell = tell

    def __call__(self, ask: Callable[[], Result]) -> Result:
        """The answer; raises :class:`SyncError` in one line if it does not come in time."""
        began, pause = time.monotonic(), _FIRST_PAUSE
        while True:
            try:
                return ask()
            except Exception as error:
                if not is_transient(error):
                    raise
                waited = time.monotonic() - began
                if waited >= self._seconds or self._stopping.is_set():
                    raise SyncError(
                        f"{_line(error)}; waited {waited:.0f} seconds. Start the sync again when it answers"
                    ) from error
                self._tell(f"waiting: {_line(error)}")
            self._stopping.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def is_transient(error: BaseException) -> bool:
    """Is a service that does not answer the reason? Then the same may work later."""
    if isinstance(error, Fenced):
        return False
    return any(
        getattr(each, "transient", False) or _of_arrow(each) or any(map(_of_java, _java_exceptions(each)))
        for each in _causes(error)
    )


def _of_arrow(error: BaseException) -> bool:
    """Is it Arrow's error of a store that does not answer, or not now? Arrow names the store's code."""
    return isinstance(error, OSError) and is_unavailable(str(error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__


def _java_exceptions(error: BaseException) -> Iterator[Any]:
    """The Java exception behind an error, and its causes."""
    java: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while java is not None:
        yield java
        java = java.getCause()


def _of_java(java: Any) -> bool:
    """Is it Java's exception of a service that does not answer, or not now?"""
    name = str(java.getClass().getName())
    if name.rpartition(".")[2].rpartition("$")[2] in _UNREACHABLE:
        return True
    if name.startswith("software.amazon.awssdk.services."):
        details = java.awsErrorDetails()
        return int(java.statusCode()) in _BUSY or (details is not None and str(details.errorCode()) in _EXPIRED)
    if name in _OF_HADOOP and _BETWEEN_HOSTS in str(java.getMessage()):
        return True
    return name == "org.postgresql.util.PSQLException" and str(java.getSQLState()).startswith(_DISCONNECTED)


def _line(error: BaseException) -> str:
    if getattr(error, "java_exception", None) is not None:
        return root_cause(error)
    return str(error).strip().partition("\n")[0] or type(error).__name__
