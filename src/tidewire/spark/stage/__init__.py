"""Staging: messages become typed Parquet files, and a small manifest of what was in them."""

from tidewire.spark.stage.fold import folded
from tidewire.spark.stage.job import FOLDERS, Stage, write_rejects
from tidewire.spark.stage.reader import Before, Reader, with_decimals

__all__ = ["FOLDERS", "Before", "Reader", "Stage", "folded", "with_decimals", "write_rejects"]
