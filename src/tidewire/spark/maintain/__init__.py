"""Keeping a target in order while it lives on: few files, few versions, nothing left lying about."""

from __future__ import annotations

from tidewire.spark.maintain.ages import parse_age
from tidewire.spark.maintain.records import moved_on
from tidewire.spark.maintain.run import Maintained, Settings, TableUpkeep, maintain
from tidewire.spark.maintain.schedule import DEFAULT, Every, Schedule
from tidewire.spark.maintain.turns import turn

__all__ = [
    "DEFAULT",
    "Every",
    "Maintained",
    "Schedule",
    "Settings",
    "TableUpkeep",
    "maintain",
    "moved_on",
    "parse_age",
    "turn",
]
