"""A real HDFS on loopback, in one process: Hadoop's own cluster for tests."""

from __future__ import annotations

import json
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from integration.servers import CACHE, Jars, free_port, jdk, running

_START_SECONDS = 60
_SOURCE = Path(__file__).with_name("MiniDfs.java")
CLUSTER = Jars(
    (("org.apache.hadoop", "hadoop-client-minicluster", "3.4.2"),),
    "3c559e5396c4af8949c9f9a5b4bdc5fc0ec6dcf7c74dd2dc5e9ff860b951ed01",
)


@contextmanager
def hdfs() -> Iterator[str]:
    """An empty file system; its URI."""
    port, web = free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="hdfs-") as folder:
        command = (
            jdk(),
            "-Xmx512m",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-cp",
            CLUSTER.classpath(),
            str(_SOURCE),
            str(port),
            str(web),
            folder,
        )
        with running(command, Path(folder), CACHE / f"hdfs-{port}.log", f"http://127.0.0.1:{web}/jmx"):
            uri, deadline = f"hdfs://127.0.0.1:{port}", time.monotonic() + _START_SECONDS
            while not _has_node(web):
                if time.monotonic() > deadline:
                    raise RuntimeError("the data node of HDFS does not start")
                time.sleep(0.1)
            yield uri


def _has_node(web: int) -> bool:
    query = "qry=Hadoop:service=NameNode,name=FSNamesystemState"
    with urllib.request.urlopen(f"http://127.0.0.1:{web}/jmx?{query}", timeout=5) as answer:
        beans = json.load(answer)["beans"]
    return bool(beans and beans[0]["NumLiveDataNodes"])
