"""Staging: a micro-batch of messages becomes typed Parquet files, and a small manifest of what was in it."""

from tidewire.spark.stage.job import stage, sweep, write_rejects
from tidewire.spark.stage.reader import Before, Reader, with_decimals
from tidewire.spark.stage.task import SEGMENT

__all__ = ["SEGMENT", "Before", "Reader", "stage", "sweep", "with_decimals", "write_rejects"]
