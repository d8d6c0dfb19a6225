"""Checks that a Spark session has what a sync needs, before anything is read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidewire.errors import SyncError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSION: Final = "4.1"
"""The Spark that Iceberg and Delta are built for and a sync runs on."""

ELSEWHERE: Final = "tw.decode, tw.rows, tw.learn and tw.infer work here"


class Needs(NamedTuple):
    """What a table format needs of a session: classes by the artifact that has them, and an extension of SQL."""

    name: str
    classes: Mapping[str, str]
    extension: str
    session_catalog: str | None = None


NEEDS: Final[dict[str, Needs]] = {
    "iceberg": Needs(
        "Iceberg",
        {"iceberg-spark-runtime-4.1_2.13": "org.apache.iceberg.spark.SparkCatalog"},
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    ),
    "delta": Needs(
        "Delta",
        {
            "delta-spark_4.1_2.13": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "delta-storage": "io.delta.storage.LogStore",
        },
        "io.delta.sql.DeltaSparkSessionExtension",
        "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    ),
}
"""What each format needs."""

EMBEDDED: Final[Mapping[str, str]] = {"sqlite-jdbc": "org.sqlite.JDBC"}
"""What the embedded Iceberg catalog needs beside it."""

SESSION_CATALOG: Final = "spark.sql.catalog.spark_catalog"
_EXTENSIONS: Final = "spark.sql.extensions"


def check_version(version: str, what: str) -> None:
    """Refuse a Spark that is not the one that tables can be written and read on."""
    if not version.startswith(f"{VERSION}."):
        raise SyncError(f"{what} needs Spark {VERSION}, and this is Spark {version}: {ELSEWHERE}")


def is_connect(spark: SparkSession) -> bool:
    """Is it a session of Spark Connect, which has no Java of its own?"""
    return type(spark).__module__.startswith("pyspark.sql.connect")


SETS: Final[Mapping[str, Mapping[str, str]]] = {
    "aws": {"iceberg-aws-bundle": "software.amazon.awssdk.services.s3.S3Client"},
    "postgresql": {"postgresql": "org.postgresql.Driver"},
}
"""What the sets of jars beside the base set bring."""


def check_session(spark: SparkSession, format_: str, *, embedded: bool = False, jars: Collection[str] = ()) -> None:
    """Refuse a session that cannot write tables of a format; :class:`SyncError` names all that it lacks.

    ``embedded`` and the sets of ``jars`` say what the target needs beside the format.
    """
    if is_connect(spark):
        raise SyncError(
            f"a sync needs Spark's driver in its own process, and this is Spark Connect: {ELSEWHERE}, and tw.Lake"
        )
    check_version(spark.version, "a sync")
    needs = NEEDS[format_]
    more = dict(EMBEDDED) if embedded and format_ == "iceberg" else {}
    for each in jars:
        more |= SETS.get(each, {})
    missing = list(_missing(spark, format_, more))
    if missing:
        raise SyncError(
            f"this Spark session cannot write {needs.name} tables, for it was started without {' and '.join(missing)}: "
            f"tw.session(format={format_!r}) starts one that can"
        )


def _missing(spark: SparkSession, format_: str, more: Mapping[str, str]) -> Iterator[str]:
    jvm: Any = spark._jvm
    for artifact, name in {**NEEDS[format_].classes, **more}.items():
        if not jvm.org.apache.spark.util.Utils.classIsLoadable(name):
            yield f"the jar {artifact}"
    yield from settings_missing(spark, format_)


def settings_missing(spark: SparkSession, format_: str) -> Iterator[str]:
    """The settings that a session was started without, though a format's tables need them."""
    extension, catalog = NEEDS[format_].extension, NEEDS[format_].session_catalog
    if extension not in (spark.conf.get(_EXTENSIONS, "") or ""):
        yield f"{_EXTENSIONS}={extension}"
    if catalog is not None and spark.conf.get(SESSION_CATALOG, None) != catalog:
        yield f"{SESSION_CATALOG}={catalog}"
