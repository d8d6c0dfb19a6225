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

folder = Path(sys.argv[1])
os.environ["PYTHONPATH"] = str(folder / "without")
with plain_session(folder) as spark:
    columns = "topic string, partition int, offset long, key binary, value binary"
    df = spark.createDataFrame([("t", 0, 0, None, b"x")], columns)
    try:
        tw.decode(df, "canal-json").collect()
    except Exception as error:
        print(str(error))
    spark.addArtifacts(tw.archive(), pyfile=True)
    print([row.kind for row in tw.decode(df, "canal-json").collect()])
"""


@pytest.mark.slow
def test_the_transforms_work_on_spark_connect() -> None:
    done = spark_versions.run(spark_versions.environment("connect"))

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_executors_without_the_package_say_so_and_can_be_sent_it(tmp_path: Path) -> None:
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
    assert done.stdout.splitlines()[-1] == "['bad']", done.stderr
