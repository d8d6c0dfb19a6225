"""A program with a Spark session of its own, started with one table format only, that runs syncs in it.

It prints one line of JSON. ``test_own_session`` says what must be in it.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import tidewire
import tidewire.spark as tw
from growing_topic import Feed, table
from plain_spark import plain_session
from tidewire.spark.jars import spark_jars
from tidewire.spark.report import PassReport
from tidewire.spark.requirements import EMBEDDED, NEEDS, SESSION_CATALOG


def settings(*formats: str) -> dict[str, str]:
    """What a user's session is started with, by the manuals of the formats."""
    needs = [NEEDS[each] for each in formats]
    artifacts = {name for each in needs for name in each.classes} | (set(EMBEDDED) if "iceberg" in formats else set())
    found = {
        "spark.jars": ",".join(map(str, spark_jars(artifacts=artifacts))),
        "spark.sql.extensions": ",".join(each.extension for each in needs),
        # Settings of people that must not matter.
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.ansi.enabled": "false",
        "spark.eventLog.enabled": "false",
        "spark.databricks.delta.snapshotPartitions": "2",
    }
    catalogs = [each.session_catalog for each in needs if each.session_catalog]
    return found | dict.fromkeys([SESSION_CATALOG] if catalogs else [], "".join(catalogs))


class Awaited:
    """Hears reports, and waits until one has come so far."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._applied = 0

    def __call__(self, report: PassReport) -> None:
        """A pass is done."""
        with self._changed:
            self._applied = report.applied
            self._changed.notify_all()

    def wait(self, ts: int) -> bool:
        """Wait for a TSO."""
        with self._changed:
            return self._changed.wait_for(lambda: self._applied >= ts, 120)


def told(spark: SparkSession) -> dict[str, str]:
    """All settings of a session."""
    return {row.key: row.value for row in spark.sql("SET").collect()}


def main(format_: str, folder: Path) -> dict[str, Any]:
    """Two syncs in one session."""
    feeds = [Feed(folder / f"topics{number}", [table(0)]) for number in range(2)]
    for feed in feeds:
        feed.create()
        feed.put(range(50), "a")
    lakes = [folder / f"lake{number}" for number in range(2)]
    syncs = [
        tw.Sync(feed.folder.as_uri(), lake, protocol="canal-json", format=format_)
        for feed, lake in zip(feeds, lakes, strict=True)
    ]
    with plain_session(folder, **settings(format_)) as spark:
        before = told(spark)
        once = syncs[0].run(spark)
        heard = [Awaited(), Awaited()]
        one, other = (sync.start(spark, hears) for sync, hears in zip(syncs, heard, strict=True))
        feeds[0].put(range(10), "b")
        feeds[1].put(range(60, 70), "b")
        came = [hears.wait(feed.ts) for hears, feed in zip(heard, feeds, strict=True)]
        running = [one.status, other.status]
        stopped = one.stop()
        feeds[1].put(range(70, 80), "c")
        came.append(heard[1].wait(feeds[1].ts))
        after = [one.status, other.status, one.await_termination(0), other.await_termination(0)]
        stopped &= other.stop() and other.await_termination(0)
        unchanged = told(spark) == before and spark.getActiveSession() is not None
        failing = tw.Sync(feeds[0].folder.as_uri(), lakes[0], protocol="canal-json", format=format_, mode="scd2")
        try:
            failing.start(spark)
            refused = ""
        except tidewire.TidewireError as error:
            refused = str(error)
        lake = tw.Lake.for_path(spark, lakes[1])
        first = lake.publications().collect()[0].ts
        return {
            "once": [once.rows, once.ts is not None, len(once.holds), once.rejects],
            "came": came,
            "running": running,
            "after": after,
            "stopped": stopped,
            "unchanged": unchanged,
            "results": [each.result.rows for each in (one, other) if each.result is not None],
            "ends": [one.last_report.applied == feeds[0].ts, other.last_report.applied == feeds[1].ts]
            if one.last_report is not None and other.last_report is not None
            else [],
            "refused": refused,
            "counts": [tidewire.snapshot(spark, str(each))["shop.t000"].count() for each in lakes],
            "first": lake.snapshot(first)["shop.t000"].count(),
            "maintained": [row.table for row in lake.maintain().collect()],
        }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))
