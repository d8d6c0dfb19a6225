"""Statements of a log: which events they give, and what they make of the tables."""

from __future__ import annotations

import pytest

from tidewire.changefeed.source.mysql.position import Schemas, schemas_from_plain, schemas_to_plain
from tidewire.changefeed.source.mysql.statements import Dialect, follow
from tidewire.errors import ChangefeedError
from tidewire.model import Ddl, DdlType, TableName, TableSchema

_T = DdlType
DIALECT = Dialect(mariadb=True, reload=lambda name: None, wanted=lambda name: name.table != "unwanted")
EMPTY = Schemas({}, {"": "latin1_swedish_ci", "d": "latin1_swedish_ci"})


def after(*statements: str, schemas: Schemas = EMPTY, dialect: Dialect = DIALECT) -> tuple[Schemas, list[Ddl]]:
    """The tables and all events after some statements in the database ``d``."""
    events = list[Ddl]()
    for statement in statements:
        schemas, given = follow(schemas, "d", statement, 100 + len(events), dialect)
        events += given
    return schemas, events


def columns(schemas: Schemas, table: str) -> list[str]:
    found = schemas.find(TableName("d", table))
    assert found is not None
    return [column.name for column in found.columns]


START, _ = after("CREATE TABLE t (id INT PRIMARY KEY, a INT, b TEXT, KEY ka (a))")


@pytest.mark.parametrize(
    ("statement", "type_"),
    [
        ("CREATE DATABASE e", _T.CREATE_SCHEMA),
        ("DROP DATABASE d", _T.DROP_SCHEMA),
        ("ALTER DATABASE d CHARACTER SET utf8mb4", _T.MODIFY_SCHEMA_CHARSET_AND_COLLATE),
        ("CREATE TABLE u (id INT)", _T.CREATE_TABLE),
        ("CREATE TABLE u LIKE t", _T.CREATE_TABLE),
        ("DROP TABLE t", _T.DROP_TABLE),
        ("TRUNCATE t", _T.TRUNCATE_TABLE),
        ("RENAME TABLE t TO u", _T.RENAME_TABLE),
        ("ALTER TABLE t RENAME u", _T.RENAME_TABLE),
        ("ALTER TABLE t ADD c INT", _T.ADD_COLUMN),
        ("ALTER TABLE t ADD COLUMN (c INT)", _T.ADD_COLUMN),
        ("ALTER TABLE t ADD (c INT, e INT)", _T.MULTI_SCHEMA_CHANGE),
        ("ALTER TABLE t ADD c INT, DROP a", _T.MULTI_SCHEMA_CHANGE),
        ("ALTER TABLE t ADD `index` INT", _T.ADD_COLUMN),
        ("ALTER TABLE t DROP COLUMN a", _T.DROP_COLUMN),
        ("ALTER TABLE t MODIFY a BIGINT", _T.MODIFY_COLUMN),
        ("ALTER TABLE t CHANGE a c DECIMAL(10, 2)", _T.MODIFY_COLUMN),
        ("ALTER TABLE t RENAME COLUMN a TO c", _T.MODIFY_COLUMN),
        ("ALTER TABLE t ALTER a SET DEFAULT 1", _T.SET_DEFAULT_VALUE),
        ("ALTER TABLE t ADD INDEX (a)", _T.ADD_INDEX),
        ("ALTER TABLE t ADD CONSTRAINT u UNIQUE (a)", _T.ADD_INDEX),
        ("CREATE UNIQUE INDEX u ON t (a)", _T.ADD_INDEX),
        ("ALTER TABLE t DROP KEY ka", _T.DROP_INDEX),
        ("DROP INDEX ka ON t", _T.DROP_INDEX),
        ("ALTER TABLE t RENAME INDEX ka TO kb", _T.RENAME_INDEX),
        ("ALTER TABLE t DROP PRIMARY KEY", _T.DROP_PRIMARY_KEY),
        ("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES t (id)", _T.ADD_FOREIGN_KEY),
        ("ALTER TABLE t DROP FOREIGN KEY f", _T.DROP_FOREIGN_KEY),
        ("ALTER TABLE t COMMENT = 'x'", _T.MODIFY_TABLE_COMMENT),
        ("ALTER TABLE t AUTO_INCREMENT = 5", _T.REBASE_AUTO_ID),
        ("ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4", _T.MODIFY_TABLE_CHARSET_AND_COLLATE),
        ("ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 4", _T.ALTER_TABLE_PARTITIONING),
        ("ALTER TABLE t DROP PARTITION p", _T.DROP_TABLE_PARTITION),
        ("ALTER TABLE t TRUNCATE PARTITION p", _T.TRUNCATE_TABLE_PARTITION),
        ("ALTER TABLE t REMOVE PARTITIONING", _T.REMOVE_PARTITIONING),
        ("CREATE DEFINER=`r`@`%` SQL SECURITY DEFINER VIEW `v` AS SELECT 1", _T.CREATE_VIEW),
        ("DROP VIEW v", _T.DROP_VIEW),
        ("SET STATEMENT max_statement_time=1 FOR ALTER TABLE t ADD c INT", _T.ADD_COLUMN),
    ],
)
def test_a_statement_has_tidbs_action(statement: str, type_: DdlType) -> None:
    _, (event,) = after(statement, schemas=START)

    assert event.type == type_
    assert (event.commit_ts, event.start_ts) == (100, 99)
    assert "SET STATEMENT" not in event.query


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TEMPORARY TABLE u (id INT)",
        "DROP TEMPORARY TABLE IF EXISTS t",
        "CREATE TABLE IF NOT EXISTS t (id INT)",
        "CREATE TABLE unwanted (id INT)",
        "DROP TABLE IF EXISTS nothing",
        "ALTER TABLE t ENGINE = InnoDB",
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS a INT",
        "ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0)",
        "CREATE DATABASE IF NOT EXISTS d",
        "CREATE USER u",
        "GRANT SELECT ON *.* TO u",
        "CREATE PROCEDURE p() INSERT INTO t VALUES (1)",
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1",
        "ANALYZE TABLE t",
        "OPTIMIZE TABLE t",
        "FLUSH TABLES",
        "CREATE TABLE mysql.x (id INT)",
        "CREATE SEQUENCE s",
    ],
)
def test_what_ticdc_does_not_send_gives_no_event_and_changes_no_table(statement: str) -> None:
    schemas, events = after(statement, schemas=START)

    assert events == []
    assert schemas.tables == START.tables


def test_a_statement_about_several_tables_gives_an_event_for_each() -> None:
    schemas, events = after("CREATE TABLE u (id INT)", "DROP TABLE t, u /* generated by server */", schemas=START)

    assert [event.query for event in events[1:]] == ["DROP TABLE `d`.`t`", "DROP TABLE `d`.`u`"]
    assert [event.commit_ts for event in events] == [100, 101, 102]
    assert schemas.tables == {}


def test_tables_that_change_places_do_so_step_by_step() -> None:
    swap = "RENAME TABLE t TO x, u TO t, x TO u"

    schemas, events = after("CREATE TABLE u (z INT)", swap, schemas=START)

    assert [(event.old_name, event.table) for event in events[1:]] == [
        (TableName("d", "t"), TableName("d", "x")),
        (TableName("d", "u"), TableName("d", "t")),
        (TableName("d", "x"), TableName("d", "u")),
    ]
    assert columns(schemas, "t") == ["z"]
    assert columns(schemas, "u") == ["id", "a", "b"]


def test_replacing_a_table_drops_it_first() -> None:
    schemas, events = after("CREATE OR REPLACE TABLE t (z INT)", schemas=START)

    assert [(event.type, event.query) for event in events] == [
        (_T.DROP_TABLE, "DROP TABLE `d`.`t`"),
        (_T.CREATE_TABLE, "CREATE TABLE t (z INT)"),
    ]
    assert columns(schemas, "t") == ["z"]


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("ADD n INT AUTO_INCREMENT UNIQUE FIRST", ["n", "id", "a", "b"]),
        ("ADD s INT AS (a + 1) STORED AFTER id", ["id", "s", "a", "b"]),
        ("ADD u VARCHAR(36) DEFAULT uuid(), DROP a", ["id", "b", "u"]),
        ("ADD (n INT AS (a) PERSISTENT, m INT)", ["id", "a", "b", "n", "m"]),
    ],
)
def test_a_column_whose_values_no_statement_has_is_followed(action: str, expected: list[str]) -> None:
    schemas, (event,) = after(f"ALTER TABLE t {action}", schemas=START)

    assert columns(schemas, "t") == expected
    assert event.table_schema is not None
    assert event.pre_table_schema == START.find(TableName("d", "t"))


def test_columns_and_tables_keep_their_numbers() -> None:
    before = START.find(TableName("d", "t"))
    schemas, _ = after("ALTER TABLE t DROP a, ADD c INT FIRST", "RENAME TABLE t TO u", schemas=START)
    table = schemas.find(TableName("d", "u"))
    emptied, _ = after("TRUNCATE TABLE u", schemas=schemas)
    truncated = emptied.find(TableName("d", "u"))

    assert before is not None
    assert table is not None
    assert truncated is not None
    assert [(column.name, column.id) for column in table.columns] == [("c", 4), ("id", 1), ("b", 3)]
    assert table.table_id == before.table_id != truncated.table_id


def test_text_has_the_charset_of_its_table_or_database() -> None:
    schemas, _ = after("CREATE TABLE l (a TEXT)", "CREATE TABLE g (a TEXT, b TEXT CHARSET utf8mb4) CHARSET=gbk")

    charsets = {name.table: [column.charset for column in table.columns] for name, table in schemas.tables.items()}
    assert charsets == {"l": ["latin1"], "g": ["gbk", "utf8mb4"]}


def test_types_only_mariadb_has_are_told_in_tidbs_words() -> None:
    _, (event,) = after("CREATE TABLE n (json JSON, a INET6, uuid UUID, `inet4` INET4, c TEXT COMPRESSED)")

    assert event.table_schema is not None
    assert [(column.name, column.mysql_type) for column in event.table_schema.columns] == [
        ("json", "longtext"),
        ("a", "varchar(39)"),
        ("uuid", "varchar(36)"),
        ("inet4", "varchar(15)"),
        ("c", "text"),
    ]
    assert "INET6" not in event.query


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t CHANGE a uuid varchar(36)",
        "ALTER TABLE t CHANGE COLUMN a json text",
        "ALTER TABLE t RENAME COLUMN a TO uuid",
        "ALTER TABLE t ADD uuid int AFTER a, ADD UNIQUE uuid (uuid)",
        "ALTER TABLE t ADD CONSTRAINT point UNIQUE (a)",
        "ALTER TABLE t RENAME uuid",
        "CREATE TABLE json (uuid int, point int, inet6 int, PRIMARY KEY (point, uuid))",
        "CREATE TABLE u (a varchar(36) DEFAULT uuid(), b text CHECK (json_valid(b)))",
    ],
)
def test_names_that_are_also_types_stay_names(statement: str) -> None:
    _, events = after(statement, schemas=START)

    assert [event.query for event in events] == [statement]


def test_shapes_are_bytes() -> None:
    _, (event,) = after("CREATE TABLE n (point POINT NOT NULL, `g` geometry)")

    assert event.query == "CREATE TABLE n (point longblob NOT NULL, `g` longblob)"


def test_mysqls_json_stays_json() -> None:
    _, (event,) = after("CREATE TABLE n (a JSON)", dialect=Dialect(False, lambda name: None, lambda name: True))

    assert event.query == "CREATE TABLE n (a JSON)"


def test_a_statement_that_does_not_fit_is_looked_up_on_the_server() -> None:
    found, _ = after("CREATE TABLE t (id INT PRIMARY KEY, z INT)")
    asked = list[TableName]()

    def reload(name: TableName) -> TableSchema | None:
        asked.append(name)
        return found.find(name)

    schemas, (event,) = after(
        "ALTER TABLE t DROP nothing", schemas=START, dialect=Dialect(True, reload, lambda name: True)
    )

    assert asked == [TableName("d", "t")]
    assert columns(schemas, "t") == ["id", "z"]
    assert event.type == _T.DROP_COLUMN


def test_a_table_that_cannot_be_followed_stops_the_changefeed_with_its_name() -> None:
    with pytest.raises(ChangefeedError, match=r"d\.t cannot be followed.*no column 'nothing'"):
        after("ALTER TABLE t DROP nothing", schemas=START)


@pytest.mark.parametrize(
    "statement", ["INSERT INTO t VALUES (1)", "update t set a = 1", "LOAD DATA INFILE 'x' INTO TABLE t"]
)
def test_rows_have_to_be_logged_as_rows(statement: str) -> None:
    with pytest.raises(ChangefeedError, match="binlog_format"):
        after(statement, schemas=START)


def test_a_table_in_memory_that_lost_its_rows_is_truncated() -> None:
    _, (event,) = after("DELETE FROM `d`.`t` /* generated by server */", schemas=START)

    assert (event.type, event.query) == (_T.TRUNCATE_TABLE, "TRUNCATE TABLE `d`.`t`")


def test_schemas_survive_a_checkpoint() -> None:
    schemas, _ = after(
        "CREATE TABLE e (id VARBINARY(9) PRIMARY KEY DEFAULT x'ff', e ENUM('a','b') DEFAULT 'a', v INT AS (1) VIRTUAL)",
        "CREATE SEQUENCE s",
        schemas=START,
    )

    assert schemas_from_plain(schemas_to_plain(schemas)) == schemas
