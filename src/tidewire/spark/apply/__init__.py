"""What the steps of a plan do to tables, as Spark SQL."""

from tidewire.spark.apply.casts import cast_sql, may_fail, misfit_sql, spark_type
from tidewire.spark.apply.conversions import convert_sql
from tidewire.spark.apply.execute import Journal, MemoryJournal, Outcome, Settings, execute, misfits
from tidewire.spark.apply.literals import literal_sql
from tidewire.spark.apply.modes import Mode, current_rows, modes_of
from tidewire.spark.apply.run import run_steps

__all__ = [
    "Journal",
    "MemoryJournal",
    "Mode",
    "Outcome",
    "Settings",
    "cast_sql",
    "convert_sql",
    "current_rows",
    "execute",
    "literal_sql",
    "may_fail",
    "misfit_sql",
    "misfits",
    "modes_of",
    "run_steps",
    "spark_type",
]
