"""The one place where a Spark session is made, with Iceberg and Delta in it.

Every setting has its reason beside it. A caller's own settings win over these.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from tidewire.errors import MissingExtra, OptionError
from tidewire.spark.frames.executors import archive
from tidewire.spark.jars import complete_sets, java, spark_jars
from tidewire.spark.requirements import EMBEDDED, NEEDS, SESSION_CATALOG, check_version

try:
    from pyspark import SparkConf, SparkContext
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession
except ModuleNotFoundError as error:
    if error.name == "pyspark":
        raise MissingExtra("pyspark", "spark") from error
    check_version(import_module("pyspark").__version__, "this")
    raise

_HIDDEN = r"(?i)secret|password|passwd|token|credential|access[.-]?key|account[.-]?key|sas|private|ur[il]"
"""The names of settings whose values Spark must not show: Spark's own words, and those of catalogs and stores."""

_ROWS = {
    # A TIMESTAMP is an instant; nothing may depend on the zone of the machine that reads it.
    "spark.sql.session.timeZone": "UTC",
    # The default, INT96, reaches Arrow as nanoseconds, which hold the years 1677 to 2262 only.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A value that does not fit its column is an error, not NULL.
    "spark.sql.ansi.enabled": "true",
    # Rows cross to Python in columns; a type that cannot is an error, not a slow way round.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.pyspark.fallback.enabled": "false",
    # Rows can be of megabytes, and ten thousand of them are a batch; so many bytes are enough for one.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
}
"""What rows depend on, and can be set on any session."""

_SETTINGS = {
    **_ROWS,
    # A few statements run at a time. Spark would keep up to a thousand threads for their shuffles and results.
    "spark.sql.shuffleExchange.maxThreadThreshold": "16",
    "spark.sql.resultQueryStage.maxThreadThreshold": "16",
    # Spark shows settings on its pages and in its logs.
    "spark.redaction.regex": _HIDDEN,
    # A command shows its own progress, and opens no port it was not asked for.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

LIGHT_JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
"""Options of a Java that plans and commits, while Python works on the rows. The optimising compiler, and a garbage
collector with threads of its own, take more time than they save there, in a sync that runs for long too. Without that
compiler Java would set aside too little room for code."""

LIGHT = {_JAVA_OPTIONS: LIGHT_JAVA}
"""Settings of a session whose Java has little to do: it is ready in two thirds of the time."""

# PySpark prints each error with its Java stack before it raises it; the code that catches it decides what to print.
_CHATTER = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

_LOOPBACK = "127.0.0.1"

_FILES = "fs.file.impl"
_LOCAL_FILES = Path(__file__).with_name("LocalFiles.java")


def session(
    name: str = "tidewire",
    *,
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    format: str | None = None,
    jars: Collection[str] | None = None,
) -> SparkSession:
    """A Spark session that can read and write the tables of a format, ``iceberg`` or ``delta``; of both without one.

    ``jars`` are the sets of jars that it starts with, such as ``("base", "aws")``; without it, all that were fetched.

    Where one is running already, that one comes back, with what can still be set of ``conf`` set on it. It must have
    been started with the format's extension, because that cannot be added later. In a process that ``spark-submit``
    started, the master, the jars and all settings it was given are left as they are. On a cluster executors get this
    very code of tidewire, whether they have it installed or not.
    """
    check_version(import_module("pyspark").__version__, "a session for syncs")
    if format is not None and format not in NEEDS:
        raise OptionError("format", f"{format!r} is not one of {', '.join(NEEDS)}")
    formats = tuple(NEEDS) if format is None else (format,)
    extensions = [NEEDS[each].extension for each in formats]
    usual = _SETTINGS | {"spark.sql.extensions": ",".join(extensions)}
    for each in formats:  # Delta wants to be the session catalog even where its tables are named by path
        usual |= {SESSION_CATALOG: found} if (found := NEEDS[each].session_catalog) else {}
    settings = dict(conf or {})
    builder = SparkSession.Builder().appName(name)
    begin = SparkSession.getActiveSession() is None
    if begin and _submitted():
        settings = _not_submitted(usual) | settings
    elif begin:
        settings = _started(master, usual | {"spark.jars": _jars(formats, jars)}, settings)
    if not _submitted():
        builder = builder.master(master)
    spark = builder.config(map=dict(settings)).getOrCreate()
    present = spark.conf.get("spark.sql.extensions", "") or ""
    for extension in extensions:
        if extension not in present:
            raise OptionError("spark.sql.extensions", f"the running Spark session was started without {extension}")
    if begin and not _submitted():
        if master.startswith("local"):
            _without_processes(spark)
        else:
            ship(spark)
    return spark


def _without_processes(spark: SparkSession) -> None:
    """Let Hadoop write local files without a process for each, and without a checksum beside each.

    A small commit writes five files, and a process takes longer than such a file. Hadoop has one file system for local
    files, whoever asks; it is replaced by ``LocalFiles.java``, which Spark's own compiler of Java compiles.
    """
    jvm: Any = spark._jvm
    context: Any = spark.sparkContext
    settings, files = context._jsc.hadoopConfiguration(), jvm.org.apache.hadoop.fs.FileSystem
    if os.name == "posix" and settings.get(_FILES) is None:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.cook(_LOCAL_FILES.read_text("utf-8"))
        found, own = compiler.getClassLoader(), settings.getClassLoader()
        files.getLocal(settings).close()  # and so it is forgotten
        settings.set(_FILES, "tidewire.LocalFiles")
        settings.setClassLoader(found)
        files.getLocal(settings)
        settings.unset(_FILES)
        settings.setClassLoader(own)
    files.getLocal(settings).setWriteChecksum(False)


def _submitted() -> bool:
    """Did ``spark-submit`` start this process?"""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _not_submitted(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that ``spark-submit`` was not given."""
    SparkContext._ensure_initialized()  # else the settings would be those of no Spark
    given = SparkConf()
    return {name: value for name, value in settings.items() if not given.contains(name)}


def _jars(formats: Iterable[str], sets: Collection[str] | None) -> str:
    """The jars of some formats and sets, as Spark takes them."""
    wanted = {name for each in formats for name in NEEDS[each].classes}
    wanted |= set(EMBEDDED) if "iceberg" in formats else set()
    return ",".join(map(str, spark_jars(sets=complete_sets() if sets is None else sets, artifacts=wanted)))


def _started(master: str, usual: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The settings of a Spark that this process starts itself."""
    java()
    python = given.get("spark.pyspark.python")
    if python is not None:  # Spark itself heeds this setting in spark-submit only
        os.environ["PYSPARK_PYTHON"] = python
    settings = {**usual, **_here(master), **given}
    logging = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    settings[_JAVA_OPTIONS] = f"{logging} {settings.get(_JAVA_OPTIONS, '')}".rstrip()
    for logger in _CHATTER:
        PySparkLogger.getLogger(logger).disabled = True
    return settings


def ship(spark: SparkSession) -> None:
    """Send tidewire's own code to the executors."""
    folder = Path(tempfile.mkdtemp(prefix="tidewire-", dir=spark.sparkContext._temp_dir))
    spark.sparkContext.addPyFile(archive(folder / "tidewire.zip"))


@contextmanager
def borrowed(
    name: str = "tidewire",
    *,
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    jars: Collection[str] | None = None,
) -> Iterator[SparkSession]:
    """A session for the time of a block; one that was running before goes on after it."""
    running = SparkSession.getActiveSession() is not None
    spark = session(name, master=master, conf=conf, jars=jars)
    try:
        yield spark
    finally:
        if not running:
            spark.stop()


def _here(master: str) -> dict[str, str]:
    """What a driver on this machine needs: its own Python for the workers, and an address that needs no network.

    Machines of a cluster are taken to have their Python in the same place, unless a setting says where.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if not master.startswith("local"):
        return {}
    os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    return {
        "spark.driver.host": _LOOPBACK,
        "spark.driver.bindAddress": _LOOPBACK,
        # Spark's 200 are meant for a cluster; here most of them would be empty.
        "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
        "spark.databricks.delta.snapshotPartitions": "2",
        # All tasks run here. Waiting for the machine that has an HDFS block would be in vain, and Spark waits long.
        "spark.locality.wait": "0s",
    }


def java_process(spark: SparkSession) -> int:
    """The number of the Java process that a session runs in."""
    jvm: Any = spark._jvm
    return int(jvm.java.lang.ProcessHandle.current().pid())


def cloned(spark: SparkSession) -> SparkSession:
    """A session with its own copy of all settings and temporary views, on the same Spark: one for each thread.

    ``newSession`` would start from the settings Spark was started with and forget a catalog that was added since.
    """
    return SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())


@contextmanager
def own_session(spark: SparkSession) -> Iterator[SparkSession]:
    """A clone with the settings that rows depend on, for the time of a block; the given session stays as it is."""
    own = cloned(spark)
    for name, value in (*_ROWS.items(), ("spark.sql.redaction.options.regex", _HIDDEN)):
        own.conf.set(name, value)
    try:
        yield own
    finally:
        activate(spark)


def activate(spark: SparkSession) -> None:
    """Make Java look at this session's settings in this thread; a statement in a clone makes it look at the clone's."""
    java: Any = SparkSession
    java._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)


def iceberg_catalog_conf(name: str, folder: str | Path) -> dict[str, str]:
    """The settings of an Iceberg catalog kept in a folder: SQLite for the names, the tables beside it.

    They can be given to ``session`` or set on a running session before the catalog is first used. pyiceberg's SQL
    catalog of the same name reads the same file. The folder must exist when the catalog is used.
    """
    root = Path(folder).absolute()
    if "?" in str(root):  # the driver takes what follows for its parameters, and would write to another file
        raise OptionError("folder", f"an embedded catalog cannot be in {root}: its name has a question mark")
    # Writers wait for one another, up to so many milliseconds; with a write-ahead log readers need not.
    database = f"jdbc:sqlite:{root / 'catalog.db'}?busy_timeout=30000&journal_mode=WAL"
    prefix = f"spark.sql.catalog.{name}"
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "jdbc",
        f"{prefix}.uri": database,
        f"{prefix}.warehouse": str(root),
        # Every session has a cache of its own, and would not see what another one commits.
        f"{prefix}.cache-enabled": "false",
        # V1 is the layout pyiceberg knows.
        f"{prefix}.jdbc.schema-version": "V1",
    }
