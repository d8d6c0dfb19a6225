"""Everything that runs on Spark: its jars, its session, and what is built on them."""
