"""What the steps of a plan do to tables, as Spark SQL."""

from tidewire.spark.apply.casts import can_cast, cast_sql, literal_sql, may_fail, misfit_sql, spark_type
from tidewire.spark.apply.check import check
from tidewire.spark.apply.conversions import convert_sql
from tidewire.spark.apply.execute import ApplySettings, Outcome, execute, misfits
from tidewire.spark.apply.modes import Mode, current_rows, modes_of
from tidewire.spark.apply.run import Applier

__all__ = [
    "Applier",
    "ApplySettings",
    "Mode",
    "Outcome",
    "can_cast",
    "cast_sql",
    "check",
    "convert_sql",
    "current_rows",
    "execute",
    "literal_sql",
    "may_fail",
    "misfit_sql",
    "misfits",
    "modes_of",
    "spark_type",
]
