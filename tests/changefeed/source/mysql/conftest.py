"""One MariaDB for all tests of the source; each test has databases of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.mariadb import MariaDB, mariadb


@pytest.fixture(scope="session")
def server() -> Iterator[MariaDB]:
    with mariadb() as running:
        yield running


@pytest.fixture
def db(server: MariaDB) -> Iterator[MariaDB]:
    """The server without anybody's databases."""
    _clear(server)
    yield server
    _clear(server)


def _clear(server: MariaDB) -> None:
    connection = server.connect()
    with connection.cursor() as cursor:
        cursor.execute("SHOW DATABASES")
        for (name,) in cursor.fetchall():
            if name not in ("information_schema", "mysql", "performance_schema", "sys"):
                cursor.execute(f"DROP DATABASE `{name}`")
    connection.close()
