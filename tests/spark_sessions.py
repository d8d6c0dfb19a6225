"""A Spark session for tests: small, and sooner ready than fast."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidewire.spark.jars import SETS, fetch
from tidewire.spark.sessions import LIGHT_JAVA, session

QUICK = f"{LIGHT_JAVA} -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""Java's options in tests. The jars' checksums are known, so that nobody needs to look at their code once more: that is
a sixth of the work."""

SMALL = {
    "spark.driver.extraJavaOptions": QUICK,
    # Two test processes share a machine of two cores.
    "spark.driver.memory": "1500m",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
}


@contextmanager
def small_session(folder: Path) -> Iterator[SparkSession]:
    """One session with its files below a folder, stopped in the end; skipped where there is no Java."""
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        pytest.skip("Java 17 or newer is needed")
    fetch(sets=SETS)
    spark = session("tidewire tests", master="local[2]", conf=SMALL | {"spark.sql.warehouse.dir": str(folder)})
    try:
        yield spark
    finally:
        spark.stop()
