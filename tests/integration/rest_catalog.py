"""Iceberg's REST catalog for tests: its reference servlet in front of a JDBC catalog on SQLite."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyiceberg.catalog import load_catalog

from integration.servers import CACHE, Jars, free_port, jdk, running
from tidewire.spark.jars import fetch

_SOURCE = Path(__file__).with_name("RestServer.java")
_ICEBERG = "1.11.0"
SERVER = Jars(
    (
        ("org.apache.iceberg", "iceberg-core", _ICEBERG),
        ("org.apache.iceberg", "iceberg-core", _ICEBERG, "tests"),
        ("org.apache.iceberg", "iceberg-aws", _ICEBERG),
        ("org.eclipse.jetty.ee10", "jetty-ee10-servlet", "12.0.20"),
        ("org.slf4j", "slf4j-simple", "2.0.17"),
        ("software.amazon.awssdk", "url-connection-client", "2.54.17"),  # the HTTP client that both versions know
    ),
    "178b7b36144dd7209cdb2b582db2b585284ed70ce43f39bc1e40a565fae4ef23",
)


def drop_tables(uri: str) -> None:
    """Drop all tables of a catalog."""
    names = load_catalog("rest", type="rest", uri=uri)
    for namespace in names.list_namespaces():
        for name in names.list_tables(namespace):
            names.drop_table(name)


@contextmanager
def rest_catalog(warehouse: str, settings: Mapping[str, str] = {}) -> Iterator[str]:
    """An empty catalog whose tables are below ``warehouse``; its URI. ``settings`` are those of its file IO."""
    hadoop = Path(pyspark.__file__).parent.joinpath("jars").glob("hadoop-client-*.jar")
    ours = (path for path in fetch(sets=("base", "aws")) if path.name.startswith(("sqlite", "iceberg-aws")))
    classpath = ":".join((SERVER.classpath(), *map(str, (*hadoop, *ours))))
    port = free_port()
    uri = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="rest-") as folder:
        given = {
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri": f"jdbc:sqlite:{folder}/catalog.db?busy_timeout=30000&journal_mode=WAL",
            "jdbc.schema-version": "V1",
            "warehouse": warehouse,
            "http-client.type": "urlconnection",
            **settings,
        }
        command = (
            jdk(),
            "-Xmx256m",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-cp",
            classpath,
            str(_SOURCE),
            str(port),
            *(f"{name}={value}" for name, value in given.items()),
        )
        with running(command, Path(folder), CACHE / f"rest-{port}.log", f"{uri}/v1/config"):
            yield uri
