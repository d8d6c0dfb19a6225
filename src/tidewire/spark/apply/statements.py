"""Statements that change tables, in the session a target gives for them."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tidewire.spark.targets import Mark, Target

_SOURCE = "_tw_source"


def run(target: Target, mark: Mark | None, statement: str) -> None:
    """Run a statement; its commit carries the mark."""
    target.session(mark).sql(statement)


def run_with(target: Target, mark: Mark, source: DataFrame, statement: str) -> None:
    """Run a statement in which ``{source}`` stands for rows of this thread's session."""
    source.createOrReplaceTempView(_SOURCE)
    session = target.session(mark)
    try:
        session.sql(statement.replace("{source}", _SOURCE))
    finally:
        session.catalog.dropTempView(_SOURCE)
