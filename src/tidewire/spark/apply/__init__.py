"""What the steps of a plan do to tables: rows to write, and rows that die."""

from tidewire.spark.apply.check import check
from tidewire.spark.apply.execute import ApplySettings, Outcome, execute, invalid_changes
from tidewire.spark.apply.layout import Mode, spark_type
from tidewire.spark.apply.modes import current_rows, modes_of
from tidewire.spark.apply.run import Applier

__all__ = [
    "Applier",
    "ApplySettings",
    "Mode",
    "Outcome",
    "check",
    "current_rows",
    "execute",
    "invalid_changes",
    "modes_of",
    "spark_type",
]
