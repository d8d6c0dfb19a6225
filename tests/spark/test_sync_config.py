"""Syncs by a file: routed, masked and selected tables in modes of their own, and what each DDL policy does."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from staging import encoded
from sync_checks import synced
from tidewire.codec import PROTOCOLS
from tidewire.errors import OptionError, SyncError, SyncStopped
from tidewire.model import Column, Ddl, Event, RowChange, TableName, TableSchema, Watermark
from tidewire.spark.apply import Mode
from tidewire.spark.ledger import Request, ledger_of
from tidewire.spark.loop import Job
from tidewire.spark.report import Point, Silent
from tidewire.spark.snapshot import snapshot
from tidewire.spark.stage import Reader
from tidewire.spark.targets import open_target
from tidewire.sync.catalog_settings import CatalogSettings
from tidewire.sync.config import MODES, read_config
from tidewire.sync.documents import encode
from tidewire.sync.rules import hashed
from tidewire.sync.state import HoldKind
from tidewire.topic.files import FileTopics

OPTIONS = {"enable-tidb-extension": "true"}


def job(text: str, **environment: str) -> Job:
    """The sync that a file describes."""
    return Job("canal-json", OPTIONS, rules=read_config(text, environment, list(PROTOCOLS)).rules)


def table(name: str, *columns: str) -> TableSchema:
    """A table whose first column is its key."""
    given = [column.split(" ", 1) for column in columns]
    made = (Column.of(one, two, primary_key=not number, nullable=False) for number, (one, two) in enumerate(given))
    return TableSchema.build(TableName("shop", name), made, table_id=7)


def created(ts: int, schema: TableSchema) -> Ddl:
    """The statement that makes a table."""
    columns = ", ".join(f"{column.name} {column.mysql_type}" for column in schema.columns)
    return Ddl(schema.name, ts, f"CREATE TABLE {schema.name.table} ({columns}, PRIMARY KEY ({schema.handle_key[0]}))")


def put(ts: int, schema: TableSchema, *values: Any) -> RowChange:
    """A row that came."""
    return RowChange(schema, ts, after=dict(zip([c.name for c in schema.columns], values, strict=True)), table_id=7)


def appended(topics: FileTopics, *events: Event) -> None:
    """Write events to the end of the topic."""
    first = next(iter(topics.ends().values()), 0)
    with topics.appending() as appending:
        for at, message in encoded(Reader("canal-json", OPTIONS), *events, first=first).items():
            appending.add(at, message)


def rows(spark: SparkSession, target: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a table, by the first column."""
    found = [row.asDict() for row in snapshot(spark, str(target))[name].collect()]
    return sorted(found, key=lambda row: str(next(iter(row.values()))))


class StagedColumns(Silent):
    """Looks into the staged files before anything becomes of them."""

    def __init__(self, target: Path) -> None:
        self._folder = target / "_tidewire" / "staged"
        self.seen: dict[str, set[Any]] = {}

    def reached(self, point: Point) -> None:
        """Take note of every value in every image."""
        if point is not Point.STAGED:
            return
        for path in self._folder.rglob("*.parquet"):
            for row in pq.read_table(path).to_pylist():
                for image in filter(None, (row["after"], row["before"])):
                    for name, value in image.items():
                        self.seen.setdefault(name, set()).add(value)


RULES = """
exclude = ["shop.tmp_*"]

[mask]
salt = "${SALT}"

[[tables]]
match = ["shop.users"]
to = "lake.people"
mode = "scd2"
columns = ["*", "!secret*"]
mask = { email = "hash", phone = "redact", note = "drop", id = "hash" }

[[tables]]
match = ["shop.*"]
to = "lake_{schema}.{table}"
format-version = 2
"""
USERS = table("users", "id bigint", "email varchar(20)", "phone varchar(20)", "note text", "secret_a int", "age int")
ORDERS = table("orders", "id bigint", "v varchar(20)")
TMP = table("tmp_1", "id bigint", "v varchar(20)")


def test_the_file_knows_the_modes_there_are() -> None:
    assert set(MODES) == set(map(str, Mode))


@pytest.mark.parametrize(
    ("format_", "kind"), [("iceberg", None), ("iceberg", "jdbc"), ("iceberg", "glue"), ("delta", None)]
)
def test_tables_outside_a_rest_catalog_cannot_be_committed_together(format_: str, kind: str | None) -> None:
    catalog = None if kind is None else CatalogSettings("lake", {"type": kind})

    with pytest.raises(OptionError, match="atomic: only Iceberg tables in a REST catalog can be committed together"):
        Job("canal-json", format=format_, catalog=catalog, atomic=True)


def test_versions_of_the_format_are_refused_for_delta() -> None:
    rules = job('[[tables]]\nmatch = ["a.b"]\nformat-version = 2').rules

    with pytest.raises(OptionError, match=r"tables\[0\]\.format-version: only Iceberg's format has versions"):
        Job("canal-json", format="delta", rules=rules)
    with pytest.raises(OptionError, match="format-version: only Iceberg's format has versions"):
        Job("canal-json", format="delta", format_version=2)


@pytest.mark.slow
def test_tables_are_routed_masked_and_kept_in_their_modes(spark: SparkSession, tmp_path: Path) -> None:
    topics, target = FileTopics(tmp_path / "topics"), tmp_path / "target"
    appended(
        topics,
        *(created(10, schema) for schema in (USERS, ORDERS, TMP)),
        put(20, USERS, 1, "a@x.org", "0123", "likes tea", 5, 30),
        put(20, ORDERS, 1, "one"),
        put(20, TMP, 1, "gone"),
        Watermark(30),
    )
    looking = StagedColumns(target)

    first = synced(spark, topics, target, job(RULES, SALT="pepper"), looking)

    assert not first.holds
    key, email = hashed(1, "pepper"), hashed("a@x.org", "pepper")
    found = snapshot(spark, str(target))
    assert {name: str(found.tables[found._names[name]].mode) for name in found} == {
        "lake.people": "scd2",
        "lake_shop.orders": "mirror",
    }
    place = open_target(spark, str(target), "iceberg")
    assert [place.stored(TableName(*name.split("."))).format for name in sorted(found)] == [3, 2]
    assert rows(spark, target, "lake.people") == [{"id": key, "email": email, "phone": None, "age": 30}]
    assert looking.seen["email"] == {email}
    assert looking.seen["id"] == {key, 1}
    assert not {"note", "secret_a"} & looking.seen.keys()
    assert looking.seen["v"] == {"one"}

    appended(
        topics,
        RowChange(
            USERS,
            40,
            before=put(0, USERS, 1, "a@x.org", "0123", "likes tea", 5, 30).after,
            after=put(0, USERS, 1, "b@x.org", "0123", "likes tea", 5, 31).after,
            table_id=7,
        ),
        Ddl(TableName("shop", "archive"), 50, "RENAME TABLE `shop`.`orders` TO `shop`.`archive`"),
        Ddl(USERS.name, 50, "ALTER TABLE users ADD COLUMN state VARCHAR(9) NOT NULL DEFAULT 'new'"),
        put(60, replace(ORDERS, name=TableName("shop", "archive")), 2, "two"),
        Watermark(70),
    )
    synced(spark, topics, target, job(RULES, SALT="pepper"))

    person = {"id": key, "email": hashed("b@x.org", "pepper"), "phone": None, "age": 31, "state": "new"}
    assert rows(spark, target, "lake.people") == [person]
    versions = snapshot(spark, str(target)).changes("lake.people").collect()
    assert sorted((row.age, row._tw_valid_from, row._tw_valid_to) for row in versions) == [(30, 20, 40), (31, 40, None)]
    assert rows(spark, target, "lake_shop.archive") == [{"id": 1, "v": "one"}, {"id": 2, "v": "two"}]
    assert sorted(snapshot(spark, str(target))) == ["lake.people", "lake_shop.archive"]
    for changed, complaint in (
        (RULES.replace("lake.people", "lake.users"), "its name in the target is lake.people, and would be lake.users"),
        (RULES.replace('note = "drop", ', ""), "its mask of note is drop, and would be none"),
        (RULES.replace('mode = "scd2"', ""), "its mode is scd2, and would be mirror"),
        (f'{RULES}partition = ["bucket(4, id)"]', r"its partition is none, and would be bucket\(4, id\)"),
        (f'{RULES}sort = ["v", "id"]', "its sort is none, and would be v, id"),
    ):
        with pytest.raises(SyncError, match=complaint):
            synced(spark, topics, target, job(changed, SALT="pepper"))
    with pytest.raises(SyncError, match="the salt is not the one"):
        synced(spark, topics, target, job(RULES, SALT="salt"))


@pytest.mark.slow
def test_a_rule_that_does_not_fit_holds_its_table_until_it_is_corrected(spark: SparkSession, tmp_path: Path) -> None:
    topics, target = FileTopics(tmp_path / "topics"), tmp_path / "target"
    rule = '[[tables]]\nmatch = ["shop.orders"]\npartition = ["bucket(2, nothing)"]\n'
    rows_ = (put(20, ORDERS, 1, "one"), put(20, TMP, 1, "other"))
    appended(topics, created(9, TMP), created(10, ORDERS), *rows_, Watermark(30))

    (hold,) = synced(spark, topics, target, job(rule)).holds

    assert hold.table == ORDERS.name
    assert "the rule for shop.orders has column nothing in its partition, which the table does not have" in hold.reason
    assert rows(spark, target, "shop.tmp_1") == [{"id": 1, "v": "other"}]
    ledger_of(str(target)).put("requests/r", encode(Request("r", "retry", {})))
    state = synced(spark, topics, target, job(rule.replace("nothing", "ID")))
    assert not state.holds
    assert rows(spark, target, "shop.orders") == [{"id": 1, "v": "one"}]
    assert open_target(spark, str(target), "iceberg").partition_columns(ORDERS.name) == ("id",)


@pytest.mark.slow
def test_what_cannot_be_is_refused_when_the_tables_are_known(spark: SparkSession, tmp_path: Path) -> None:
    topics = FileTopics(tmp_path / "topics")
    appended(topics, created(10, ORDERS), created(10, TMP), put(20, ORDERS, 1, "one"), Watermark(30))
    keyless = '[[tables]]\nmatch = ["shop.*"]\nmask = {id = "redact"}'
    together = '[[tables]]\nmatch = ["shop.*"]\nto = "lake.all"'

    with pytest.raises(OptionError, match=re.escape("tables[0].mask.id: id is in the key of shop.orders")):
        synced(spark, topics, tmp_path / "one", job(keyless))
    with pytest.raises(SyncStopped, match=r"shop.tmp_1 and shop.orders would both be lake.all"):
        synced(spark, topics, tmp_path / "two", job(together))


POLICIES = """
[ddl]
create-table = "evolve"

[[tables]]
match = ["shop.lenient"]
ddl = { default = "lenient" }

[[tables]]
match = ["shop.ignore"]
ddl = { default = "ignore", create-table = "evolve" }

[[tables]]
match = ["shop.freeze"]
ddl = { drop-column = "freeze" }
"""
NAMES = ("evolve", "lenient", "ignore", "freeze")


def altered(ts: int, statement: str) -> list[Ddl]:
    """A statement about each of the tables, one after the other."""
    return [Ddl(TableName("shop", name), ts + n, statement.format(name)) for n, name in enumerate(NAMES)]


@pytest.mark.slow
def test_every_policy_does_what_it_says(spark: SparkSession, tmp_path: Path) -> None:
    topics, target = FileTopics(tmp_path / "topics"), tmp_path / "target"
    before = {name: table(name, "id bigint", "v varchar(20)", "n int") for name in NAMES}
    after = {name: table(name, "id bigint", "w int", "m bigint") for name in NAMES}
    appended(
        topics,
        *(created(10 + number, schema) for number, schema in enumerate(before.values())),
        *(put(20, schema, 1, "one", 5) for schema in before.values()),
        *altered(30, "ALTER TABLE {} ADD COLUMN w INT DEFAULT 8 AFTER v"),
        *altered(40, "ALTER TABLE {} CHANGE COLUMN n m BIGINT"),
        *altered(50, "ALTER TABLE {} DROP COLUMN v"),
        *(put(60, schema, 2, 9, 6) for schema in after.values()),
        *altered(70, "TRUNCATE TABLE {}"),
        *(put(80, schema, 3, 10, 7) for schema in after.values()),
        Watermark(90),
    )

    held = synced(spark, topics, target, job(POLICIES))

    assert [(str(hold.table), hold.ts, hold.kind) for hold in held.holds] == [("shop.freeze", 52, HoldKind.POLICY)]
    assert "the policy for drop-column is freeze" in held.holds[0].reason
    assert rows(spark, target, "shop.evolve") == [{"id": 3, "w": 10, "m": 7}]
    assert rows(spark, target, "shop.lenient") == [
        {"id": 1, "v": "one", "w": 8, "m": 5},
        {"id": 2, "v": None, "w": 9, "m": 6},
        {"id": 3, "v": None, "w": 10, "m": 7},
    ]
    assert rows(spark, target, "shop.ignore") == [
        {"id": 1, "v": "one", "n": 5},
        {"id": 2, "v": None, "n": 6},
        {"id": 3, "v": None, "n": 7},
    ]
    assert rows(spark, target, "shop.freeze") == [{"id": 1, "v": "one", "w": 8, "m": 5}]

    thawed = synced(spark, topics, target, job(POLICIES.replace('freeze" }', 'evolve" }')))

    assert not thawed.holds
    assert rows(spark, target, "shop.freeze") == [{"id": 3, "w": 10, "m": 7}]


class Dying(Silent):
    """Ends a sync that has kept a plan and done nothing of it yet."""

    def reached(self, point: Point) -> None:
        """Die."""
        if point is Point.KEPT:
            raise InterruptedError("in the middle of it")


@pytest.mark.slow
def test_a_plan_that_was_kept_is_carried_out_whatever_the_rules_are_now(spark: SparkSession, tmp_path: Path) -> None:
    topics, target = FileTopics(tmp_path / "topics"), tmp_path / "target"
    keeping = job('[ddl]\ntruncate = "ignore"')
    appended(topics, created(10, ORDERS), put(20, ORDERS, 1, "one"), Watermark(30))
    synced(spark, topics, target, keeping)
    appended(topics, Ddl(ORDERS.name, 40, "TRUNCATE TABLE orders"), put(50, ORDERS, 2, "two"), Watermark(60))
    with pytest.raises(InterruptedError):
        synced(spark, topics, target, keeping, Dying())

    synced(spark, topics, target, job(""))

    assert rows(spark, target, "shop.orders") == [{"id": 1, "v": "one"}, {"id": 2, "v": "two"}]
    appended(topics, Ddl(ORDERS.name, 70, "TRUNCATE TABLE orders"), Watermark(80))
    synced(spark, topics, target, job(""))
    assert rows(spark, target, "shop.orders") == []
