"""A Spark session for each thread: what marks a commit is a setting, and threads must not share settings."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from pyspark.sql import SparkSession

from tidewire.spark.session import cloned


class ThreadSessions:
    """Clones of one session, one for each thread that asks."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._mine = threading.local()

    def get(self, settings: Mapping[str, str | None]) -> SparkSession:
        """The session of this thread, with these settings; ``None`` takes a setting away."""
        session: SparkSession | None = getattr(self._mine, "session", None)
        if session is None:
            session = self._mine.session = cloned(self._spark)
        for name, value in settings.items():
            if value is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, value)
        return session
