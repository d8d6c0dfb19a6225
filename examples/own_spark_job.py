"""Changes in a Spark job of one's own: a stream of messages, decoded, and each batch handed to a function."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame

import tidewire.spark as tw

COLUMNS = "topic string, partition int, offset long, key binary, value binary"


def look_at(batch: DataFrame, number: int) -> None:
    batch.groupBy("kind", "schema_name", "table_name", "op").count().orderBy("kind", "table_name", "op").show()


with TemporaryDirectory() as temporary:
    topics, tidewire = Path(temporary, "topics"), str(Path(sys.executable).with_name("tidewire"))
    subprocess.run(
        [tidewire, "generate", topics.as_uri(), "-p", "simple", "--transactions", "20", "--fault", "garbage"],
        check=True,
    )
    with tw.session(format="iceberg", conf={"spark.driver.memory": "1g"}) as spark:
        # Topics in files are Parquet; with Kafka this is spark.readStream.format("kafka").
        files = {"recursiveFileLookup": "true", "pathGlobFilter": "*.parquet"}
        schemas = tw.learn(spark.read.options(**files).parquet(str(topics)), "simple")
        messages = spark.readStream.schema(COLUMNS).options(**files).parquet(str(topics))
        changes = tw.decode(messages, "simple", schemas=schemas)
        writing = changes.writeStream.foreachBatch(look_at).option("checkpointLocation", f"{temporary}/checkpoint")
        writing.trigger(availableNow=True).start().awaitTermination()
