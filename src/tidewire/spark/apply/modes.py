"""The modes a table can be kept in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from pyspark.sql import DataFrame

from tidewire.model import Column
from tidewire.spark.apply.history import History
from tidewire.spark.apply.layout import Layout
from tidewire.spark.apply.mirror import Mirror
from tidewire.spark.apply.scd2 import Scd2


class Mode(StrEnum):
    """How a table is kept: as upstream has it now, every change of it, or every version of its rows."""

    MIRROR = "mirror"
    HISTORY = "history"
    SCD2 = "scd2"


LAYOUTS: Mapping[Mode, Layout] = {Mode.MIRROR: Mirror(), Mode.HISTORY: History(), Mode.SCD2: Scd2()}


def current_rows(mode: Mode, rows: DataFrame, key: Sequence[Column]) -> DataFrame:
    """The rows a table has upstream, out of all rows of it here: in every mode those of a mirror.

    ``key`` are the columns of its handle key, with their collations.
    """
    return LAYOUTS[mode].current(rows, key)
