"""Targets of both formats, a folder each."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tidewire.spark.targets import TARGETS, Target, open_target


@pytest.fixture(scope="session", params=sorted(TARGETS))
def target(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Target:
    """One target for all tests; each has tables of its own."""
    return open_target(spark, str(tmp_path_factory.mktemp(request.param)), request.param)
