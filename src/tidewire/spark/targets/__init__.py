"""Where a sync's tables are: one contract, a module per table format."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from tidewire.spark.targets.base import (
    AddColumn,
    ColumnChange,
    CommitTag,
    DropColumn,
    Field,
    MoveColumn,
    RenameColumn,
    Size,
    Target,
    TargetError,
    WidenColumn,
    quoted,
    run_statement,
    text_literal,
)
from tidewire.spark.targets.delta import DeltaTarget
from tidewire.spark.targets.iceberg import IcebergTarget

TARGETS: Mapping[str, Callable[[SparkSession, str], Target]] = {"iceberg": IcebergTarget, "delta": DeltaTarget}
"""The table formats by name."""


def open_target(spark: SparkSession, uri: str, format_: str, catalog: Mapping[str, str] = {}) -> Target:
    """The tables in a place, or in the Iceberg catalog with these settings of Spark's."""
    return IcebergTarget(spark, uri, catalog) if catalog else TARGETS[format_](spark, uri)


__all__ = [
    "TARGETS",
    "AddColumn",
    "ColumnChange",
    "CommitTag",
    "DeltaTarget",
    "DropColumn",
    "Field",
    "IcebergTarget",
    "MoveColumn",
    "RenameColumn",
    "Size",
    "Target",
    "TargetError",
    "WidenColumn",
    "open_target",
    "quoted",
    "run_statement",
    "text_literal",
]
