"""Spark Connect, and executors that do not have tidewire: each in processes of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import spark_versions

TESTS = Path(__file__).parent.parent

WITHOUT = """
import sys
sys.path[:] = [path for path in sys.path if not path.endswith("src")]
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in repr(finder)]
"""
"""What a worker runs first, so that it does not find tidewire."""

PROGRAM = """
import os, sys
from pathlib import Path

from plain_spark import plain_session
import tidewire.spark as tw
from tidewire.errors import SyncError
from tidewire.spark.frames.executors import check_executors

folder = Path(sys.argv[1])
os.environ["PYTHONPATH"] = str(folder / "without")
with plain_session(folder) as spark:
    columns = "topic string, partition int, offset long, key binary, value binary"
    df = spark.createDataFrame([("t", 0, 0, None, b"x")], columns)
    try:
        tw.decode(df, "canal-json").collect()
    except Exception as error:
        print(str(error))
    try:
        check_executors(spark)
    except SyncError as error:
        print(str(error))
    spark.addArtifacts(tw.archive(), pyfile=True)
    check_executors(spark)
    for name in ("iceberg", "delta"):
        try:
            tw.Sync("file:" + str(folder / "nothing"), folder / "lake", protocol="avro", format=name).run(spark)
        except Exception as error:
            print(str(error))
    print([row.kind for row in tw.decode(df, "canal-json").collect()])
"""


@pytest.mark.slow
def test_the_transforms_work_on_spark_connect() -> None:
    done = spark_versions.run(spark_versions.environment("connect"))

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_executors_without_the_package_and_a_session_without_jars_say_so(tmp_path: Path) -> None:
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "sitecustomize.py").write_text(WITHOUT)

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env=dict(spark_versions.environment("classic", TESTS)),
        capture_output=True,
        text=True,
        check=False,
    )

    assert (
        "RuntimeError: the executors do not have the Python package tidewire: install tidewire[decode]" in done.stdout
    )
    *_, sync, iceberg, delta, last = done.stdout.splitlines()
    assert sync.startswith(
        "the executors do not have the Python package tidewire: install tidewire[sync] there, or send"
    )
    assert last == "['bad']", done.stderr
    assert iceberg.startswith("this Spark session cannot write Iceberg tables, for it was started without the jar ")
    assert "the jar sqlite-jdbc" in iceberg
    assert delta.startswith("this Spark session cannot write Delta tables, for it was started without the jar delta-")
    assert delta.endswith("tw.session(format='delta') starts one that can")
    assert "Iceberg" not in delta
