"""``tw.Sync`` in sessions that it did not start, and ``tw.Lake`` over Spark Connect."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import spark_versions

TESTS = Path(__file__).parent.parent

READER = """
import json, sys
from pathlib import Path

from own_session import settings
from plain_spark import plain_session
import tidewire.spark as tw

folder, found = Path(sys.argv[1]), {}
with plain_session(folder, **settings("iceberg", "delta")) as spark:
    for name in ("iceberg", "delta"):
        lake = tw.Lake.for_path(spark, folder / name / "lake1")
        rows = lake.snapshot()
        moments = [row.ts for row in lake.publications().collect()]
        views = rows.create_views("now_")
        found[name] = {
            "tables": {table: frame.count() for table, frame in rows.items()},
            "at first": lake.snapshot(moments[0])["shop.t000"].count(),
            "moments": len(moments) > 1 and rows.ts == moments[-1],
            "views": views,
            "seen": spark.sql("SELECT count(*) FROM now_shop_t000").collect()[0][0],
            "holds": lake.holds().count(),
            "rejects": lake.rejects().count(),
        }
    refused = []
    for work in (
        lambda: tw.Sync((folder / "topics").as_uri(), folder / "lake", protocol="avro").run(spark),
        lambda: lake.maintain(),
    ):
        try:
            work()
        except Exception as error:
            refused.append(str(error))
    print(json.dumps({"found": found, "refused": refused}))
"""


def printed(kind: str, *arguments: object) -> Any:
    """What a program of its own prints in its last line."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=dict(spark_versions.environment(kind, TESTS)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lakes")


@pytest.mark.slow
@pytest.mark.parametrize("format_", ["iceberg", "delta"])
def test_two_syncs_run_in_a_session_with_one_format_only(folder: Path, format_: str) -> None:
    (folder / format_).mkdir()

    found = printed("classic", TESTS / "own_session.py", format_, folder / format_)

    assert "belongs to another sync" in found.pop("refused")
    counts: list[dict[str, int]] = [{}, {}] if format_ == "delta" else [{"shop.t000": 50}, {"shop.t000": 70}]
    assert found == {
        "once": [counts[0], True, 0, 0],
        "came": [True, True, True],
        "running": ["running", "running"],
        "after": ["stopped", "running", True, False],
        "stopped": True,
        "unchanged": True,
        "results": counts,
        "ends": [True, True],
        "counts": [50, 70],
        "first": 60,
        "maintained": ["shop.t000"],
    }


@pytest.mark.slow
def test_a_lake_is_read_over_spark_connect(folder: Path) -> None:
    """It reads what the test before it wrote."""
    found = printed("connect", "-c", READER, folder)

    assert found["found"] == {
        name: {
            "tables": {"shop.t000": 70},
            "at first": 60,
            "moments": True,
            "views": {"shop.t000": "now_shop_t000"},
            "seen": 70,
            "holds": 0,
            "rejects": 0,
        }
        for name in ("iceberg", "delta")
    }
    assert all(each.startswith("a sync needs Spark's driver in its own process") for each in found["refused"])
    assert len(found["refused"]) == 2
