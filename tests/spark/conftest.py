"""One Spark session for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark_sessions import small_session


def pytest_configure(config: pytest.Config) -> None:
    """PySpark leaves the socket of every ``collect`` to the garbage collector, which may come in any later test."""
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A small session with Iceberg and Delta; settings a test changes on it stay changed for the next."""
    with small_session(tmp_path_factory.mktemp("warehouse")) as session:
        yield session
