"""What all tests share: Hypothesis looks for new examples on a developer's machine and repeats itself in CI; one Spark.

PySpark is imported where a test asks for it, so that the others start at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How long an example takes depends on what else the machine does.
settings.register_profile("tidewire", deadline=None)
settings.register_profile("ci", settings.get_profile("tidewire"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "tidewire")


def pytest_configure(config: pytest.Config) -> None:
    """PySpark leaves the socket of every ``collect`` to the garbage collector, which may come in any later test."""
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files whose tests take long come first, so that no process is left alone with one in the end."""
    ranks: dict[Path, int] = {}
    for item in items:
        rank = 0 if item.get_closest_marker("integration") else 1 if item.get_closest_marker("slow") else 2
        ranks[item.path] = min(rank, ranks.get(item.path, rank))
    items.sort(key=lambda item: ranks[item.path])


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A small session with Iceberg and Delta; settings a test changes on it stay changed for the next."""
    from spark_sessions import small_session

    with small_session(tmp_path_factory.mktemp("warehouse")) as session:
        yield session
