"""The tour: what it compares, what it draws, and that a sync of its workload is right."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from tidewire.cli.app import app
from tidewire.cli.demo_page import page
from tidewire.cli.demo_run import Outcome, Pass, Verdict, compare_rows, compare_tables, run
from tidewire.codec import Options
from tidewire.workload import Delivery, Habits, Workload, produce, states

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
"""PySpark leaves the socket of every ``collect`` to the garbage collector."""


def outcome(**changes: Any) -> Outcome:
    passes = [
        Pass(10.0, 4.0, {"feed 0": 4.0, "feed 1": 8.0}, 30, 100),
        Pass(20.0, 18.0, {"feed 0": 19.0, "feed 1": 18.0}, 2, 90),
    ]
    settings: dict[str, Any] = {"passes": passes, "verdicts": [Verdict("shop.a", True, "equal")], **changes}
    return Outcome("craft", 120, has_watermarks=True, **settings)


def test_the_page_is_whole_and_loads_nothing() -> None:
    text = page([outcome(), outcome(note="a < b & c")])

    body = ElementTree.fromstring(text.partition("<!doctype html>")[2].replace('<meta charset="utf-8">', ""))
    assert len(list(body.iter("svg"))) == 2
    assert "http" not in text
    assert "a &lt; b &amp; c" in text


def test_the_page_draws_a_line_for_each_partition_and_one_for_the_tables() -> None:
    has_watermarks, free = page([outcome()]), page([_free()])

    assert has_watermarks.count("<polyline") == 4  # upstream, two partitions, applied
    assert free.count("<polyline") == 1
    assert "no watermarks" in free


def _free() -> Outcome:
    return Outcome("avro", 3, has_watermarks=False, passes=[Pass(1.0, 0.0, {}, 0, 3)])


def test_a_wrong_table_is_named_in_the_picture() -> None:
    text = page([outcome(verdicts=[Verdict("shop.a", False, "3 rows differ")])])

    assert "shop.a: 3 rows differ" in text
    assert "✗ 0 of 1 tables right" in text


def test_tables_are_compared_row_by_row() -> None:
    upstream = {
        name: {"columns": ["id", "v"], "rows": [["1", "x"], ["2", None]]} for name in ("same", "less", "other", "gone")
    }
    rows: list[dict[str, Any]] = [{"id": "1", "v": "x"}, {"id": "2", "v": None}]
    found = {"same": rows[::-1], "less": rows[:1], "other": [rows[0], {"id": "2", "v": "y"}], "more": []}

    verdicts = {verdict.table: (verdict.right, verdict.text) for verdict in compare_tables(found, upstream)}

    assert verdicts == {
        "same": (True, "equal"),
        "less": (False, "1 rows differ"),
        "other": (False, "1 rows differ"),
        "gone": (False, "is missing"),
        "more": (False, "should not be there"),
    }


def test_without_ddl_the_last_image_of_each_row_counts() -> None:
    production = produce(
        Workload(1, transactions=40, tables=2, habits=Habits(statements=0)), Delivery("avro", Options())
    )
    (state,) = states(production.entries, [production.marks[-1]])
    tables = {
        name: [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
        for name, table in state["tables"].items()
    }

    assert all(verdict.right for verdict in compare_rows(tables, production))
    tables["shop.accounts"][0]["name"] = "somebody else"
    del tables["shop.order_items"][0]
    wrong = {verdict.table: verdict.text for verdict in compare_rows(tables, production)}
    assert wrong == {"shop.accounts": "1 rows differ", "shop.order_items": "1 rows differ"}


@pytest.mark.slow
def test_a_workload_with_faults_becomes_the_tables_it_should(spark: SparkSession, tmp_path: Path) -> None:
    workload = Workload(6, transactions=40, tables=2, habits=Habits(statements=0.05))

    found = run(spark, tmp_path, "simple", workload, ["restart", "duplicate"])

    assert [verdict for verdict in found.verdicts if not verdict.right] == []
    assert len(found.passes) >= 3
    assert found.passes[-1].applied > found.passes[0].applied
    assert sum(found.counts.values()) > 0


def test_the_help_has_an_example() -> None:
    assert "tidewire demo --protocol simple" in CliRunner().invoke(app, ["demo", "--help"]).stdout
