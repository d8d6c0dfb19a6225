"""Staging: a micro-batch of messages becomes typed Parquet files, and a small manifest of what was in it."""

from tidewire.spark.stage.job import stage, sweep, write_rejects
from tidewire.spark.stage.reader import Before, Reader

__all__ = ["Before", "Reader", "stage", "sweep", "write_rejects"]
