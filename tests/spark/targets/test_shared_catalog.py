"""A catalog that others use too: their tables are left alone, and a rename in two steps survives being cut short."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from scripted import OPTIONS, Script, table
from spark.targets.rows import put
from spark.targets.tags import tag
from tidewire.errors import ForeignTable
from tidewire.model import TableName
from tidewire.spark.loop import Job, Loop
from tidewire.spark.sessions import iceberg_catalog_conf
from tidewire.spark.source import FileSource
from tidewire.spark.targets import Field, IcebergTarget, TargetError, open_target
from tidewire.spark.targets.iceberg_rename import DROPPED, MOVING, digest_of
from tidewire.sync.catalog_settings import CatalogSettings

FIELDS = (Field("id", "bigint"), Field("s", "string"))
NAME, OTHER = TableName("shop", "orders"), TableName("shop", "sold")
LATER = datetime.now(timezone.utc) + timedelta(days=1)


@pytest.fixture
def target(spark: SparkSession, tmp_path: Path) -> IcebergTarget:
    return IcebergTarget(spark, tmp_path, iceberg_catalog_conf(f"shared_{tmp_path.name}", tmp_path))


def two_names(target: IcebergTarget, old: TableName, new: TableName) -> None:
    """What a catalog leaves that died between the two steps of a rename."""
    catalog: Any = target._catalog
    place = catalog.table(old).metadata_location
    catalog.ensure_namespace(new.schema)
    catalog._java.registerTable(catalog._identifier(new), place)


def rows(target: IcebergTarget, name: TableName) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, target.read(name).collect()))


def test_a_table_of_others_is_held_by_name_and_the_other_tables_go_on(spark: SparkSession, tmp_path: Path) -> None:
    names = tmp_path / "names"
    names.mkdir()
    conf = iceberg_catalog_conf(f"held_{tmp_path.name}", names)
    place = IcebergTarget(spark, tmp_path / "lake", conf)
    theirs = place.relation(TableName("shop", "a"))
    spark.sql(f"CREATE NAMESPACE `{place.catalog}`.shop")
    spark.sql(f"CREATE TABLE {theirs} (mine STRING)")
    spark.sql(f"INSERT INTO {theirs} VALUES ('precious')")
    settings = {key.partition(f"{place.catalog}.")[2]: text for key, text in conf.items() if key.count(".") > 3}
    catalog, script = CatalogSettings(place.catalog, settings, settings), Script()
    for name in ("a", "b"):
        script.ddl(name, f"CREATE TABLE `shop`.`{name}` (`id` INT PRIMARY KEY, `v` INT)")
        script.insert(table(name, id="int", v="int"), id=1, v=10)
    script.watermark()
    job = Job("canal-json", OPTIONS, catalog=catalog)
    target = open_target(spark, str(tmp_path / "lake"), "iceberg", catalog)

    state = Loop(spark, FileSource(script.write(tmp_path / "topics")), target, job).run(once=True)

    (hold,) = state.holds
    assert str(hold.table) == "shop.a"
    assert "has a table shop.a that this sync did not make" in hold.reason
    assert [row.mine for row in spark.sql(f"SELECT * FROM {theirs}").collect()] == ["precious"]
    assert rows(place, TableName("shop", "b")) == [(1, 10)]


@pytest.mark.parametrize("change", ["create", "drop", "rename", "truncate", "alter"])
def test_no_change_touches_a_table_of_others(spark: SparkSession, target: IcebergTarget, change: str) -> None:
    target._catalog.ensure_namespace("shop")
    spark.sql(f"CREATE TABLE {target.relation(NAME)} (id BIGINT, s STRING)")
    changes: dict[str, Callable[[], object]] = {
        "create": lambda: target.create(NAME, FIELDS, tag()),
        "drop": lambda: target.drop(NAME, tag()),
        "rename": lambda: target.rename([(NAME, OTHER)], tag()),
        "truncate": lambda: target.truncate(NAME, tag()),
        "alter": lambda: target.alter(NAME, (), tag()),
    }

    before = target.version(NAME)
    with pytest.raises(ForeignTable, match=r"a table shop\.orders that this sync did not make"):
        changes[change]()

    target.fence(NAME, tag())
    assert target.version(NAME) == before


def test_a_rename_that_was_cut_short_before_the_old_name_went_is_finished(target: IcebergTarget) -> None:
    target.create(NAME, FIELDS, tag())
    put(target, NAME, tag(), {"id": [1], "s": ["one"]})
    moving = tag()
    between = TableName(MOVING, f"{digest_of(moving)}_0")
    two_names(target, NAME, between)

    target.rename([(NAME, OTHER)], moving)

    assert target.names() == (OTHER,)
    assert rows(target, OTHER) == [(1, "one")]


def test_a_rename_that_was_cut_short_at_its_new_name_is_finished(target: IcebergTarget) -> None:
    target.create(NAME, FIELDS, tag())
    put(target, NAME, tag(), {"id": [1], "s": ["one"]})
    moving = tag()
    between = TableName(MOVING, f"{digest_of(moving)}_0")
    target._catalog.ensure_namespace(MOVING)
    target._catalog.rename(NAME, between)
    two_names(target, between, OTHER)

    target.rename([(NAME, OTHER)], moving)

    assert (target.names(), target._catalog.names_in(MOVING)) == ((OTHER,), ())
    assert rows(target, OTHER) == [(1, "one")]


def test_two_names_that_were_both_written_to_are_for_people(target: IcebergTarget) -> None:
    target.create(NAME, FIELDS, tag())
    moving = tag()
    between = TableName(MOVING, f"{digest_of(moving)}_0")
    two_names(target, NAME, between)
    put(target, NAME, tag(), {"id": [1], "s": ["one"]})

    with pytest.raises(TargetError, match="two names of one table, and both have been written to"):
        target.rename([(NAME, OTHER)], moving)

    assert rows(target, NAME) == [(1, "one")]


def test_a_drop_that_was_cut_short_is_finished_under_the_name_it_began_with(target: IcebergTarget) -> None:
    target.create(NAME, FIELDS, tag())
    dropping = tag()
    target.drop(NAME, dropping)
    (gone,) = target._catalog.names_in(DROPPED)
    target._catalog._java.registerTable(
        target._catalog._identifier(NAME), loaded_metadata(target, TableName(DROPPED, gone))
    )

    target.drop(NAME, dropping)

    assert target.names() == ()
    assert target._catalog.names_in(DROPPED) == (gone,)
    assert gone.replace("_", "").isalnum()
    assert gone == gone.lower()


def loaded_metadata(target: IcebergTarget, name: TableName) -> str:
    found = target._catalog.table(name)
    assert found is not None
    return found.metadata_location


def test_only_own_dropped_tables_are_purged_and_none_that_has_another_name(target: IcebergTarget) -> None:
    mine, theirs = tag(), replace(tag(), sync="another")
    for name, by in ((NAME, mine), (OTHER, theirs), (TableName("shop", "saved"), mine)):
        target.create(name, FIELDS, by)
        put(target, name, replace(by, step=f"{by.step}-rows"), {"id": [1], "s": [str(name)]})
        target.drop(name, replace(by, step=f"{by.step}-drop-{name.table}"))
    saved = next(name for name in target._catalog.names_in(DROPPED) if "_saved" in read_table(target, name))
    two_names(target, TableName(DROPPED, saved), TableName("kept", "saved"))

    assert target.purge(LATER, (), mine) == 2

    (left,) = target._catalog.names_in(DROPPED)
    assert rows(target, TableName(DROPPED, left)) == [(1, str(OTHER))]
    assert rows(target, TableName("kept", "saved")) == [(1, "shop.saved")]


def read_table(target: IcebergTarget, name: str) -> str:
    return "".join(f"_{row[1].partition('.')[2]}" for row in rows(target, TableName(DROPPED, name)))
