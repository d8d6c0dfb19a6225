"""Maintenance of a target: compaction, expiry of old versions, deletion of unused files."""

from __future__ import annotations

from tidewire.spark.maintain.by_hand import asked, maintained
from tidewire.spark.maintain.retention import parse_age
from tidewire.spark.maintain.run import Maintained, MaintenanceSettings, TableUpkeep, maintain
from tidewire.spark.maintain.schedule import DEFAULT, Every, Upkeep, upkeep_line

__all__ = [
    "DEFAULT",
    "Every",
    "Maintained",
    "MaintenanceSettings",
    "TableUpkeep",
    "Upkeep",
    "asked",
    "maintain",
    "maintained",
    "parse_age",
    "upkeep_line",
]
