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
    text_literal,
)
from tidewire.spark.targets.delta import DeltaTarget
from tidewire.spark.targets.iceberg import IcebergTarget
from tidewire.spark.targets.iceberg_catalog import close_catalog

TARGETS: Mapping[str, Callable[[SparkSession, str], Target]] = {"iceberg": IcebergTarget, "delta": DeltaTarget}
"""The table formats by name."""


def open_target(
    spark: SparkSession, uri: str, format_: str, catalog: Mapping[str, str] = {}, format_version: int = 3
) -> Target:
    """The tables in a place, or in the Iceberg catalog with these settings of Spark's.

    ``format_version`` is that of Iceberg tables that are made from now on.
    """
    if catalog or format_ == "iceberg":
        return IcebergTarget(spark, uri, catalog or None, format_version)
    return TARGETS[format_](spark, uri)


def close_target(spark: SparkSession, target: Target) -> None:
    """Close a target, and the connections that this session, the target's own, has to its catalog."""
    target.close()
    if isinstance(target, IcebergTarget):
        close_catalog(spark, target.catalog)


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
    "close_target",
    "open_target",
    "quoted",
    "text_literal",
]
