"""A topic into Iceberg tables, in a Spark session of one's own. A random workload plays the topic unless one is named:
``python topic_to_lake.py kafka://127.0.0.1:9092/orders canal-json FOLDER``."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import tidewire.spark as tw


def bring_up_to_date(topics: str, protocol: str, lake: Path) -> None:
    with tw.session(format="iceberg", conf={"spark.driver.memory": "1g"}) as spark:
        result = tw.Sync(topics, lake, protocol=protocol).run(spark)
        print("complete up to", result.ts, "with", len(result.holds), "holds and", result.rejects, "rejects")
        found = tw.Lake.for_path(spark, lake)
        now = found.snapshot()
        for name, view in now.create_views("now_").items():
            print(name, spark.table(view).count(), "rows")
        first = found.publications().first()
        if first is not None:
            print("at first:", {name: rows.count() for name, rows in found.snapshot(first.ts).items()})


with TemporaryDirectory() as temporary:
    if sys.argv[1:]:
        bring_up_to_date(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
    else:
        topics = Path(temporary, "topics").as_uri()
        tidewire = str(Path(sys.executable).with_name("tidewire"))
        subprocess.run([tidewire, "generate", topics, "-p", "simple", "--transactions", "20"], check=True)
        bring_up_to_date(topics, "simple", Path(temporary, "lake"))
