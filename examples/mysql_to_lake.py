"""Changes of MySQL or MariaDB into a topic, and the topic into Iceberg tables. A random workload plays the database
unless one is named: ``python mysql_to_lake.py mysql://reader:secret@127.0.0.1:3306/ FOLDER``."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import tidewire
from tidewire.changefeed.assembly import runner_for
from tidewire.changefeed.checkpoint import FileCheckpoints
from tidewire.changefeed.config.validate import Request, validate
from tidewire.changefeed.source import open_source
from tidewire.spark.loop import Job, Loop
from tidewire.spark.session import borrowed
from tidewire.spark.source import FileSource
from tidewire.spark.targets import open_target
from tidewire.topic.files import FileTopics

SECONDS = 10  # a database never ends; a second run goes on where this one stops


def replicate(upstream: str, folder: Path) -> None:
    source = open_source(upstream)
    checked = validate(Request(f"file-topic:{folder}/topics/feed?protocol=simple", "feed", source.now()))
    checkpoints = FileCheckpoints(folder / "checkpoint.json")
    end = source.now() + (SECONDS * 1000 << 18)
    runner_for(checked.settings, source, checkpoints, start_ts=checked.start_ts, target_ts=end).run()
    with borrowed() as spark:
        lake, topics = str(folder / "lake"), FileSource(FileTopics(folder / "topics"))
        Loop(spark, topics, open_target(spark, lake, "iceberg"), Job("simple")).run(once=True)
        for name, rows in tidewire.snapshot(spark, lake).items():
            print(name, rows.count(), "rows")


with TemporaryDirectory() as temporary:
    upstream, folder = sys.argv[1:] or ("workload://7?transactions=20", temporary)
    replicate(upstream, Path(folder))
