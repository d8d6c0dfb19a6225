"""Sessions with a server, its errors as ours, and retries. Only this module and ``binlog`` import the drivers."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import Event
from types import TracebackType
from typing import Any, TypeAlias

from tidewire.changefeed.source.mysql.uri import Settings
from tidewire.errors import ChangefeedError, MissingExtra

Answer: TypeAlias = tuple[bytes | None, ...]

CONNECT_SECONDS = 10
READ_SECONDS = 60
"""The seconds to wait for an answer before a server counts as lost."""

_LOST = frozenset({1040, 1053, 1077, 1079, 1080, 1152, 1158, 1159, 1160, 1161, 1184, 1203, 1927, 2002, 2003, 2006})
_LOST |= {2013, 2014, 2055, 0}
"""Errors that a new connection may not have: the server is full, stopping or gone, or the network is."""

_DENIED = frozenset({1044, 1045, 1142, 1227, 1370, 1698})


_SESSION = "time_zone = '+00:00', sql_mode = '', lock_wait_timeout = 30, net_write_timeout = 3600, wait_timeout = 28800"
"""A reader may take an hour for a part of an answer; a lock is waited for half a minute."""

_RETRY_WAITS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, *[5.0] * 10)
"""Seconds between attempts; about a minute in total."""


class ConnectionLost(Exception):
    """The connection was lost; a new one may work. This exception does not leave the package."""


class Refusal(Exception):
    """The server refused a statement. This exception does not leave the package."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


def driver(module: str, package: str) -> Any:
    """The module of an optional package; raises ``MissingExtra`` if it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtra(package, "mysql") from None


@contextmanager
def translated_errors(settings: Settings) -> Iterator[None]:
    """Raise our errors instead of the driver's."""
    errors = driver("pymysql", "pymysql").err
    try:
        yield
    except errors.MySQLError as error:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        message = str(error.args[-1]) if error.args else type(error).__name__
        if code in _DENIED:
            raise ChangefeedError(
                "CDC:ErrMySQLConnectionError",
                f"{settings.address} does not let the user {settings.user!r} do this: {message} ({code})",
            ) from None
        if code in _LOST:
            raise ConnectionLost(f"{settings.address}: {message} ({code})") from None
        raise Refusal(code, message) from None
    except OSError as error:
        raise ConnectionLost(f"{settings.address}: {error}") from None


def connection_arguments(settings: Settings) -> dict[str, Any]:
    """The arguments to connect with, for both drivers."""
    arguments: dict[str, Any] = {
        "host": settings.host,
        "port": settings.port,
        "user": settings.user,
        "password": settings.password,
        "charset": "utf8mb4",
        "connect_timeout": CONNECT_SECONDS,
        "read_timeout": READ_SECONDS,
        "autocommit": True,
    }
    if settings.tls:
        arguments["ssl"] = _tls(settings)
    return arguments


def _tls(settings: Settings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.ssl_ca)
        if settings.ssl_cert and settings.ssl_key:
            context.load_cert_chain(settings.ssl_cert, settings.ssl_key)
    except OSError as error:
        files = ", ".join(name for name in (settings.ssl_ca, settings.ssl_cert, settings.ssl_key) if name)
        raise ChangefeedError(
            "CDC:ErrMySQLInvalidConfig", f"the TLS files of the source URI cannot be read ({files}): {error}"
        ) from None
    return context


def close(connection: Any) -> None:
    """Close a connection, if it is still open."""
    if connection.open:
        connection.close()


class Session:
    """One connection that answers in UTF-8 and UTC, every value as its bytes."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        pymysql = driver("pymysql", "pymysql")
        with translated_errors(settings):
            self._connection = pymysql.connect(
                **connection_arguments(settings),
                use_unicode=False,
                conv={},
                init_command=f"SET SESSION {_SESSION}",
            )
        self._streaming = driver("pymysql.cursors", "pymysql").SSCursor

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        close(self._connection)

    def ask(self, sql: str) -> list[Answer]:
        """All rows of an answer."""
        with translated_errors(self._settings), self._connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def stream(self, sql: str, chunk: int) -> Iterator[list[Answer]]:
        """Yield an answer in chunks as they are read. A session whose answer is not read to the end must be closed."""
        with translated_errors(self._settings):
            cursor = self._connection.cursor(self._streaming)
            cursor.execute(sql)
        while True:
            with translated_errors(self._settings):
                rows = cursor.fetchmany(chunk)
            if not rows:
                break
            yield list(rows)
        with translated_errors(self._settings):
            cursor.close()


class Retries:
    """Waits between attempts, longer each time. Setting ``closing`` ends a wait."""

    def __init__(self, closing: Event) -> None:
        self._closing = closing
        self._failures = 0

    def restore(self) -> None:
        """Note a success: the next wait is the shortest again."""
        self._failures = 0

    def wait(self, failure: Exception) -> None:
        """Wait before the next attempt; raises ``ChangefeedError`` after too many failures in a row."""
        if self._failures == len(_RETRY_WAITS):
            raise ChangefeedError(
                "CDC:ErrMySQLConnectionError",
                f"{failure}; tried {self._failures} times for {sum(_RETRY_WAITS):.0f} seconds",
            ) from None
        self._closing.wait(_RETRY_WAITS[self._failures])
        self._failures += 1
