"""Plain Spark sessions, as a user of the library has them: without Iceberg, Delta or any setting of ours.

``TIDEWIRE_SPARK`` says which: ``classic`` or ``connect``. ``make spark-matrix`` sets it and the version of pyspark.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

KIND = "TIDEWIRE_SPARK"

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}


@contextmanager
def plain_session(events: Path, **more: str) -> Iterator[SparkSession]:
    """A session of the kind that is asked for, which logs its events below a folder."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder: Any = SparkSession.builder
    connect = os.environ.get(KIND) == "connect"
    if connect:
        os.environ["SPARK_TESTING"] = "1"  # the server takes a free port, because other tests may run one too
    builder = builder.remote("local[2]") if connect else builder.master("local[2]")
    settings = SETTINGS | {"spark.eventLog.dir": events.as_uri()} | more
    spark = builder.config(map=settings).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
