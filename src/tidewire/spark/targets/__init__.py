"""Where a sync's tables are: one contract, a module per table format."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from tidewire.spark.catalogs import spark_settings
from tidewire.spark.targets.base import (
    AddColumn,
    Adoptable,
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
from tidewire.spark.targets.commits import Together
from tidewire.spark.targets.delta import DeltaTarget
from tidewire.spark.targets.iceberg import IcebergTarget
from tidewire.spark.targets.iceberg_catalog import close_catalog
from tidewire.sync.catalog_settings import CatalogSettings

TARGETS: Mapping[str, Callable[[SparkSession, str], Target]] = {"iceberg": IcebergTarget, "delta": DeltaTarget}
"""The table formats by name."""


def open_target(
    spark: SparkSession, uri: str, format_: str, catalog: CatalogSettings | None = None, format_version: int = 3
) -> Target:
    """The tables in a place, or in an Iceberg catalog.

    ``format_version`` is that of Iceberg tables that are made from now on.
    """
    if format_ == "iceberg":
        settings = None if catalog is None else spark_settings(catalog, uri)
        return IcebergTarget(spark, uri, settings, format_version)
    return TARGETS[format_](spark, uri)


def together(target: Target) -> Together:
    """What commits to several tables of a target at once; ``OptionError`` if its catalog cannot do that."""
    assert isinstance(target, IcebergTarget)  # a job refuses another one
    return target.together()


def close_target(spark: SparkSession, target: Target) -> None:
    """Close a target, and the connections that this session, the target's own, has to its catalog."""
    target.close()
    if isinstance(target, IcebergTarget):
        close_catalog(spark, target.catalog)


__all__ = [
    "TARGETS",
    "AddColumn",
    "Adoptable",
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
    "Together",
    "WidenColumn",
    "close_target",
    "open_target",
    "quoted",
    "text_literal",
    "together",
]
