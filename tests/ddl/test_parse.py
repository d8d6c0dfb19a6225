"""Statements in all the shapes people and servers write them, and what they are read as."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewire.ddl import edits as e
from tidewire.ddl.parse import edits
from tidewire.model import Column, Ddl, DdlKind, DdlType, Generated, Index, MySQLType, TableName, TableSchema

T = TableName("db", "t")


def read(query: str, table: TableName = T) -> tuple[e.Edit, ...]:
    return edits(Ddl(table, 1, query))


def created(query: str) -> TableSchema:
    (edit,) = read(query)
    assert isinstance(edit, e.CreateTable), edit
    return edit.table


def changes(actions: str) -> tuple[e.ColumnEdit, ...]:
    (edit,) = read(f"ALTER TABLE t {actions}")
    assert isinstance(edit, e.AlterTable), edit
    assert edit.name == T
    return edit.changes


def column(definition: str, options: str = "") -> Column:
    return created(f"CREATE TABLE t (k INT PRIMARY KEY, {definition}) {options}").columns[1]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("BOOL", "tinyint(1)"),
        ("boolean", "tinyint(1)"),
        ("TINYINT UNSIGNED", "tinyint(3) unsigned"),
        ("INTEGER", "int(11)"),
        ("INT UNSIGNED", "int(10) unsigned"),
        ("INT(11) UNSIGNED", "int(11) unsigned"),
        ("INT4", "int(11)"),
        ("MIDDLEINT", "mediumint(9)"),
        ("INT(5) ZEROFILL", "int(5) unsigned zerofill"),
        ("BIGINT UNSIGNED", "bigint(20) unsigned"),
        ("SERIAL", "bigint(20) unsigned"),
        ("DEC", "decimal(10,0)"),
        ("NUMERIC(7)", "decimal(7,0)"),
        ("FIXED(7, 3) UNSIGNED", "decimal(7,3) unsigned"),
        ("DECIMAL(0)", "decimal(10,0)"),
        ("REAL", "double"),
        ("DOUBLE PRECISION", "double"),
        ("FLOAT(7,2)", "float(7,2)"),
        ("FLOAT(24)", "float"),
        ("FLOAT(25)", "double"),
        ("BIT", "bit(1)"),
        ("BIT(0)", "bit(1)"),
        ("YEAR", "year(4)"),
        ("YEAR(4)", "year(4)"),
        ("TIME(3)", "time(3)"),
        ("DATETIME(6)", "datetime(6)"),
        ("TIMESTAMP", "timestamp"),
        ("CHAR", "char(1)"),
        ("CHARACTER(3)", "char(3)"),
        ("CHARACTER VARYING(9)", "varchar(9)"),
        ("NATIONAL CHARACTER VARYING(9)", "varchar(9)"),
        ("NATIONAL VARCHAR(9)", "varchar(9)"),
        ("NCHAR(2)", "char(2)"),
        ("NVARCHAR(9)", "varchar(9)"),
        ("BINARY(4)", "binary(4)"),
        ("CHAR(4) BYTE", "binary(4)"),
        ("VARCHAR(4) CHARACTER SET binary", "varbinary(4)"),
        ("VARCHAR(4) COLLATE binary", "varbinary(4)"),
        ("VARCHAR(4) BINARY", "varchar(4)"),
        ("LONG", "mediumtext"),
        ("LONG VARCHAR", "mediumtext"),
        ("LONG VARBINARY", "mediumblob"),
        ("TEXT(60)", "tinytext"),
        ("TEXT(64)", "text"),
        ("TEXT", "text"),
        ("TEXT(65535)", "mediumtext"),
        ("BLOB(255)", "tinyblob"),
        ("BLOB(70000)", "mediumblob"),
        ("TEXT CHARACTER SET binary", "blob"),
        ("ENUM('a,b', 'it''s', 'x  ')", "enum('a,b','it''s','x')"),
        ("SET('a', 'b')", "set('a','b')"),
        ("JSON", "json"),
        ("VECTOR(3)", "vector(3)"),
        ("VECTOR<FLOAT>(3)", "vector(3)"),
    ],
)
def test_a_type_is_known_by_any_of_its_names(written: str, meant: str) -> None:
    assert column(f"c {written}").mysql_type == meant


def test_a_tables_charset_decides_what_its_columns_hold() -> None:
    binary = "DEFAULT CHARSET=binary"

    assert column("c CHAR(4)", binary).mysql_type == "binary(4)"
    assert column("c TEXT", binary).mysql_type == "blob"
    assert column("c CHAR(4) CHARSET utf8mb4", binary).mysql_type == "char(4)"
    assert column("c CHAR(4)", "COLLATE = gbk_bin").collation == "gbk_bin"
    assert column("c CHAR(4)", "CHARACTER SET latin1").collation == "latin1_bin"
    assert column("c CHAR(4)", "CHARSET=DEFAULT COLLATE DEFAULT").charset == "utf8mb4"
    assert column("c CHAR(4) BINARY", "COLLATE utf8mb4_general_ci").collation == "utf8mb4_bin"
    assert column("c CHAR(4) BINARY CHARACTER SET latin1", "COLLATE utf8mb4_general_ci").collation == "latin1_bin"


@pytest.mark.parametrize(
    ("definition", "default"),
    [
        ("c INT DEFAULT 5", "5"),
        ("c INT DEFAULT -5", "-5"),
        ("c INT DEFAULT '7'", "7"),
        ("c INT DEFAULT (7)", "7"),
        ("c INT DEFAULT 1.5", "2"),
        ("c BOOL DEFAULT TRUE", "1"),
        ("c INT DEFAULT NULL", None),
        ("c INT DEFAULT x'10'", "16"),
        ("c DECIMAL(6,2) DEFAULT 1e2", "100"),
        ("c DECIMAL(6,2) DEFAULT 0.50", "0.50"),
        ("c DOUBLE DEFAULT -1.5e-3", "-1.5e-3"),
        ("c DECIMAL(6,2) DEFAULT 1e999999999", "1e999999999"),
        ("c DECIMAL(6,2) DEFAULT 'nan'", "nan"),
        ("c BIT(10) DEFAULT b'1010101010'", b"\x02\xaa"),
        ("c BIT(3) DEFAULT 5", b"\x05"),
        ("c BIT(8) DEFAULT '5'", b"5"),
        ("c CHAR(5) DEFAULT 00000", "0"),
        ("c VARCHAR(9) DEFAULT 'it''s'", "it's"),
        ("c VARCHAR(9) DEFAULT \"a\" 'b'", "ab"),
        ("c VARCHAR(9) DEFAULT x'4142'", "AB"),
        ("c VARCHAR(9) DEFAULT N'ü'", "ü"),
        ("c VARCHAR(20) DEFAULT 'CURRENT_TIMESTAMP'", "CURRENT_TIMESTAMP"),
        ("c BINARY(4) DEFAULT 'ab'", b"ab\0\0"),
        ("c VARBINARY(4) DEFAULT 0xff00", b"\xff\0"),
        ("c VARBINARY(4) DEFAULT _binary'ü'", "ü".encode()),
        ("c BLOB DEFAULT (x'00')", b"\0"),
        (r"c TEXT DEFAULT ('a\\b')", "a\\b"),
        ("c ENUM('a','B') DEFAULT 'b'", "B"),
        ("c ENUM('a','b') DEFAULT 2", "b"),
        ("c ENUM('0','1') DEFAULT 1", "0"),
        ("c ENUM('0','1') DEFAULT TRUE", "0"),
        ("c ENUM('0','1') DEFAULT '1'", "1"),
        ("c SET('a','b','c') DEFAULT 'c,A'", "a,c"),
        ("c SET('a','b','c') DEFAULT 6", "b,c"),
        ("c SET('a','b') DEFAULT ''", ""),
        ("c SET('1','2','4') DEFAULT 4", "4"),
        ("c SET('2','1') DEFAULT 1", "2"),
        ("c SET('a','A') DEFAULT 'a'", "a"),
        ("c YEAR DEFAULT 70", "1970"),
        ("c DATE DEFAULT 20240102", "2024-01-02"),
        ("c DATE DEFAULT '2024/1/2'", "2024-01-02"),
        ("c DATE DEFAULT '24-1-2'", "2024-01-02"),
        ("c DATE DEFAULT 700102", "1970-01-02"),
        ("c DATE DEFAULT 0", "0000-00-00"),
        ("c DATE DEFAULT '0000-00-00'", "0000-00-00"),
        ("c DATETIME(3) DEFAULT '2024-01-02 3:4:5'", "2024-01-02 03:04:05.000"),
        ("c DATETIME DEFAULT '2023-12-31 23:59:59.5'", "2024-01-01 00:00:00"),
        ("c DATETIME DEFAULT '2024-01-02'", "2024-01-02 00:00:00"),
        ("c DATETIME DEFAULT '2024-01-02 3'", "2024-01-02 03:00:00"),
        ("c DATETIME DEFAULT 20240102030405", "2024-01-02 03:04:05"),
        ("c DATETIME DEFAULT 240102030405", "2024-01-02 03:04:05"),
        ("c DATETIME(1) DEFAULT 0", "0000-00-00 00:00:00.0"),
        ("c TIMESTAMP DEFAULT TIMESTAMP '2024-01-02 03:04:05'", "2024-01-02 03:04:05"),
        ("c TIMESTAMP(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)", "CURRENT_TIMESTAMP"),
        ("c DATETIME DEFAULT now() ON UPDATE now()", "CURRENT_TIMESTAMP"),
        ("c DATE DEFAULT (CURRENT_DATE)", "CURRENT_DATE"),
        ("c TIME(2) DEFAULT '-1:2:3.456'", "-01:02:03.46"),
        ("c TIME DEFAULT 10203", "01:02:03"),
        ("c TIME DEFAULT 130", "00:01:30"),
        ("c TIME DEFAULT '5'", "00:00:05"),
        ("c TIME DEFAULT '11:12'", "11:12:00"),
        ("c TIME DEFAULT '1 10'", "34:00:00"),
        ("c TIME DEFAULT '-1 10:00:01'", "-34:00:01"),
        ("c VARCHAR(36) DEFAULT (UUID())", None),
        ("c BIGINT DEFAULT NEXTVAL(`db`.`s`)", None),
        ("c INT DEFAULT NEXT VALUE FOR s", None),
        ("c JSON DEFAULT (JSON_OBJECT('a', 1))", None),
    ],
)
def test_a_default_is_kept_as_the_value_it_stands_for(definition: str, default: str | bytes | None) -> None:
    assert column(definition).default == default


def test_a_string_keeps_its_backslashes_where_tidb_printed_it() -> None:
    printed = r"CREATE TABLE `t` (`k` INT PRIMARY KEY,`c` ENUM('a\b') DEFAULT _UTF8MB4'a\b' COMMENT '\')"
    typed = r"create table `t` (`k` int primary key, `c` enum('a\\b') default 'a\\b' comment 'it\'s')"

    assert created(printed).columns[1].default == created(typed).columns[1].default == "a\\b"
    # TiDB would have printed a charset in front of the default.
    assert created(r"CREATE TABLE `t` (`c` CHAR(3) DEFAULT 'a\\b')").columns[0].default == "a\\b"


def test_everything_that_may_follow_a_column_is_understood() -> None:
    table = created(
        """CREATE TABLE IF NOT EXISTS `db`.`t` (
          `id` bigint NOT NULL /*T![auto_rand] AUTO_RANDOM(5, 54) */ COMMENT 'a, (b)' /*!40101 COLUMN_FORMAT FIXED */,
          `a b` VARCHAR(10) COLLATE utf8mb4_bin NOT NULL DEFAULT _utf8mb4'x' UNIQUE KEY /*T![global_index] GLOBAL */,
          `v` INT AS (`id` + length(')')) VIRTUAL NULL, s INT GENERATED ALWAYS AS (id * 2) STORED NOT NULL,
          p INT REFERENCES `other` (`id`) ON DELETE SET NULL ON UPDATE CASCADE,
          q INT CONSTRAINT `positive` CHECK (q > 0) NOT ENFORCED INVISIBLE,
          vector VECTOR(2), -- a column called vector
          PRIMARY KEY (`ID`) /*T![clustered_index] CLUSTERED */, # and so on
          UNIQUE INDEX (s, p DESC), UNIQUE `u` USING BTREE (p) COMMENT 'x', KEY (`a b`(5)), FULLTEXT KEY f (`a b`),
          UNIQUE KEY e ((lower(`a b`))), VECTOR INDEX vi ((VEC_COSINE_DISTANCE(vector))) USING HNSW,
          CONSTRAINT fk FOREIGN KEY (p) REFERENCES o (id) ON DELETE CASCADE, CHECK (p <> q)
        ) ENGINE=InnoDB AUTO_INCREMENT=5 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci COMMENT='it''s (a) table'
          /*T! SHARD_ROW_ID_BITS=4 PRE_SPLIT_REGIONS=2 */ /*T![placement] PLACEMENT POLICY=`p1` */
          /*T![ttl] TTL = `c` + INTERVAL 1 DAY */ /*T![ttl] TTL_ENABLE = 'OFF' */
        PARTITION BY RANGE (`id`) (PARTITION `p0` VALUES LESS THAN (10), PARTITION `p1` VALUES LESS THAN MAXVALUE);"""
    )

    assert [column.name for column in table.columns] == ["id", "a b", "v", "s", "p", "q", "vector"]
    assert table.primary_key == table.handle_key == ("id",)
    assert table.pk_is_handle
    assert [column.generated for column in table.columns[2:4]] == [Generated.VIRTUAL, Generated.STORED]
    assert [column.nullable for column in table.columns] == [False, False, True, False, True, True, True]
    assert table.columns[1].collation == "utf8mb4_bin"
    assert table.indexes == (
        Index("s", ("s", "p"), unique=True, nullable=True),
        Index("u", ("p",), unique=True, nullable=True),
        Index("a b", ("a b",)),
        Index("f", ("a b",)),
        Index("a b_2", ("a b",), unique=True),
    )


def test_a_key_of_a_column_may_be_declared_in_many_words() -> None:
    for key in ("PRIMARY KEY", "KEY", "NOT NULL PRIMARY KEY /*T![clustered_index] NONCLUSTERED */"):
        assert created(f"CREATE TABLE t (a INT {key}, b INT)").handle_key == ("a",)
    assert created("CREATE TABLE t (a INT NOT NULL UNIQUE, b INT)").handle_key == ("a",)
    assert created("CREATE TABLE t (a SERIAL, b INT)").handle_key == ("a",)
    assert created("CREATE TABLE t (a INT UNIQUE, b INT)").handle_key == ()
    assert created("CREATE TABLE t (a INT AUTO_INCREMENT, b INT, UNIQUE (a))").handle_key == ("a",)
    assert created("CREATE TABLE t (a INT NOT NULL NULL UNIQUE, b INT)").handle_key == ()
    assert created("CREATE TABLE t (a INT NOT NULL UNIQUE, b INT NOT NULL, UNIQUE (b))").handle_key == ("b",)
    assert created("CREATE TABLE t (a INT NOT NULL, UNIQUE (a), KEY a (a))").handle_key == ("a",)
    assert created("CREATE TABLE t (a INT NOT NULL, b INT, UNIQUE u (a) WHERE b = 1)").handle_key == ()
    assert created("CREATE TABLE t (a INT, b INT, CONSTRAINT PRIMARY KEY (b, a))").handle_key == ("a", "b")
    assert created("CREATE TABLE t (a INT AS (1) NOT NULL, UNIQUE (a))").handle_key == ()


def test_an_integer_key_is_the_handle_unless_it_is_said_not_to_be() -> None:
    assert created("CREATE TABLE t (a INT PRIMARY KEY)").pk_is_handle
    assert not created("CREATE TABLE t (a INT PRIMARY KEY NONCLUSTERED)").pk_is_handle
    assert not created("CREATE TABLE t (a CHAR(3) PRIMARY KEY)").pk_is_handle
    assert created("CREATE TABLE t (a CHAR(3) PRIMARY KEY)").indexes == (
        Index("PRIMARY", ("a",), unique=True, primary=True),
    )


def test_names_without_a_database_are_in_the_events() -> None:
    other = TableName("db", "o")

    assert read("DROP TABLE t") == (e.DropTable(T),)
    assert read("TRUNCATE t") == (e.TruncateTable(T),)
    assert read("CREATE TABLE t LIKE o") == (e.CreateTable(TableSchema(T), other),)
    assert read("CREATE TABLE t (LIKE o)") == (e.CreateTable(TableSchema(T), other),)
    assert read("ALTER TABLE o RENAME TO t") == (e.RenameTable(other, T),)


def test_a_name_is_spelled_as_the_event_spells_it() -> None:
    assert read("TRUNCATE TABLE `DB`.`T`") == (e.TruncateTable(T),)
    assert read("ALTER TABLE T DROP COLUMN c") == (e.AlterTable(T, (e.DropColumn("c"),)),)


def test_a_name_that_moves_to_another_database_comes_from_the_old_one() -> None:
    ddl = Ddl(TableName("new", "t"), 1, "RENAME TABLE t TO new.t", old_name=TableName("old", "t"))

    assert edits(ddl) == (e.RenameTable(TableName("old", "t"), TableName("new", "t")),)
    assert edits(replace(ddl, query="ALTER TABLE t RENAME TO new.t")) == edits(ddl)


def test_an_event_drops_its_own_table_only() -> None:
    statement = "DROP TABLE IF EXISTS `db`.`a`, `db`.`t`, o CASCADE"

    assert read(statement) == (e.DropTable(T),)
    assert len(read(statement, TableName("db", ""))) == 3


def test_an_event_of_a_batch_makes_its_own_table_only() -> None:
    made = read("CREATE TABLE `a` (`x` INT); CREATE TABLE `t` (`y` INT);")

    assert [edit.table.name for edit in made if isinstance(edit, e.CreateTable)] == [T]


@pytest.mark.parametrize(
    ("pairs", "moves"),
    [
        ("t1 TO t4, t2 TO t1, t3 TO t2", {("t1", "t4"), ("t2", "t1"), ("t3", "t2")}),
        ("a TO x, b TO a, x TO b", {("a", "b"), ("b", "a")}),
        ("a TO x, x TO a, b TO c", {("b", "c")}),
        ("a TO b", {("a", "b")}),
    ],
)
def test_a_chain_of_renames_gives_all_moves_at_once(pairs: str, moves: set[tuple[str, str]]) -> None:
    found = read(f"RENAME TABLE {pairs}", TableName("db", ""))

    assert found == tuple(edit for edit in found if isinstance(edit, e.RenameTable))
    assert {(edit.old.table, edit.new.table) for edit in found if isinstance(edit, e.RenameTable)} == moves


def test_a_swap_in_the_name_of_one_table_still_gives_both_moves() -> None:
    o = TableName("db", "o")

    assert read("RENAME TABLE t TO x, o TO t, x TO o") == (e.RenameTable(T, o), e.RenameTable(o, T))


def test_one_alter_may_do_many_things() -> None:
    found = changes(
        """ADD COLUMN (a INT, b CHAR(3) NOT NULL, UNIQUE ub (b)), ADD c INT FIRST,
        ADD COLUMN IF NOT EXISTS d INT AFTER `a b`,
        DROP x, DROP COLUMN IF EXISTS y, MODIFY z BIGINT NOT NULL AFTER c, CHANGE COLUMN q r TEXT, RENAME COLUMN m TO n,
        ALTER i SET DEFAULT 'v', ALTER COLUMN j DROP DEFAULT, ALTER k SET DEFAULT (UUID()), ADD PRIMARY KEY (a, b DESC),
        DROP PRIMARY KEY, ADD UNIQUE INDEX IF NOT EXISTS (c), DROP INDEX i1, DROP KEY i2, RENAME KEY k1 TO k2,
        DROP CONSTRAINT con, CONVERT TO CHARACTER SET gbk, COMMENT = 'x, y' ENGINE=InnoDB, AUTO_INCREMENT 5,
        ALTER INDEX i3 INVISIBLE, DROP FOREIGN KEY fk, LOCK=NONE, ALGORITHM = INPLACE, ORDER BY a, b DESC"""
    )

    assert [type(change).__name__ for change in found] == (
        ["AddColumn"] * 2
        + ["AddIndex"]
        + ["AddColumn"] * 2
        + ["DropColumn"] * 2
        + ["ChangeColumn"] * 2
        + ["RenameColumn"]
        + ["SetDefault"] * 3
        + ["AddIndex", "DropIndex", "AddIndex"]
        + ["DropIndex"] * 2
        + ["RenameIndex", "DropIndex", "ConvertText"]
    )
    assert [change.place for change in found if isinstance(change, e.AddColumn)][2:] == [
        e.ColumnPosition(first=True),
        e.ColumnPosition(after="a b"),
    ]
    assert e.DropColumn("y", if_exists=True) in found
    assert e.SetDefault("i", "v") in found
    assert e.SetDefault("k", None) in found
    assert e.AddIndex(Index("PRIMARY", ("a", "b"), unique=True, primary=True)) in found
    assert e.AddIndex(Index("", ("c",), unique=True), if_not_exists=True) in found


def test_a_word_of_sql_may_name_a_column() -> None:
    for name in ("system", "vector", "comment", "columnar", "period", "`partition`", '"quoted"', "日本語"):
        assert [type(change) for change in changes(f"ADD {name} INT, DROP {name}")] == [e.AddColumn, e.DropColumn]
    for key in ("type (type)", "type USING BTREE (type)", "type TYPE BTREE (type)"):
        assert changes(f"ADD KEY {key}") == (e.AddIndex(Index("type", ("type",))),)


def test_names_are_the_same_letter_by_letter() -> None:
    assert len(created("CREATE TABLE t (Maße INT, Masse INT, KEY (MASSE))").columns) == 2


def test_a_rename_within_an_alter_comes_after_its_changes() -> None:
    found = read("ALTER TABLE o ADD COLUMN c INT, RENAME AS `db`.`t`")

    assert [type(edit) for edit in found] == [e.AlterTable, e.RenameTable]


@pytest.mark.parametrize(
    "statement",
    [
        "",
        " ; ",
        "ALTER TABLE t",
        "ALTER TABLE t COMMENT 'a\\'b' ROW_FORMAT=DYNAMIC",
        "ALTER TABLE t ADD PARTITION (PARTITION p2 VALUES LESS THAN (30))",
        "ALTER TABLE t REORGANIZE PARTITION p0, p1 INTO (PARTITION p VALUES LESS THAN (20))",
        "ALTER TABLE t COALESCE PARTITION 2",
        "ALTER TABLE t PARTITION BY HASH (a) PARTITIONS 3 UPDATE INDEXES (u GLOBAL, v LOCAL)",
        "ALTER TABLE t PARTITION p0 PLACEMENT POLICY = p",
        "ALTER TABLE t REMOVE PARTITIONING",
        "ALTER TABLE t SET TIFLASH REPLICA 1",
        "ALTER TABLE t /*T![ttl] REMOVE TTL */",
        "ALTER TABLE t CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        "ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0)",
        "ALTER TABLE t ADD CONSTRAINT IF NOT EXISTS c CHECK (a > 0)",
        "ALTER TABLE t PAGE_COMPRESSED=1 AFFINITY = 'table'",
        "ALTER TABLE t CONVERT TO CHARACTER SET DEFAULT",
        "ALTER TABLE t ADD INDEX i ((a + 1))",
        "CREATE UNIQUE INDEX i ON t ((lower(a)))",
        "ALTER DATABASE db CHARACTER SET utf8mb4",
        "CREATE OR REPLACE ALGORITHM=MERGE DEFINER=`root`@`%` SQL SECURITY INVOKER VIEW v AS SELECT 'unfinished",
        "DROP VIEW IF EXISTS v",
        "CREATE SEQUENCE s START WITH 1",
        "DROP SEQUENCE s",
        "CREATE GLOBAL TEMPORARY TABLE t (a INT) ON COMMIT DELETE ROWS",
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW BEGIN SET NEW.a = 1; DROP TABLE x; END",
        "CREATE PLACEMENT POLICY p PRIMARY_REGION='r'",
        "RENAME USER a TO b",
        "LOCK TABLES t WRITE",
    ],
)
def test_what_changes_no_row_and_no_shape_gives_nothing(statement: str) -> None:
    assert read(statement) == ()


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("ALTER TABLE t TRUNCATE PARTITION p0, p1", "TRUNCATE PARTITION"),
        ("ALTER TABLE t DROP PARTITION p0", "DROP PARTITION"),
        ("ALTER TABLE t FIRST PARTITION LESS THAN ('2024-01-01')", "FIRST PARTITION"),
        ("ALTER TABLE t IMPORT TABLESPACE", "from outside"),
        ("ALTER IGNORE TABLE t ADD UNIQUE (a)", "ALTER IGNORE"),
        ("ALTER TABLE t ADD COLUMN c INT AS (a + 1) STORED", "computed"),
        ("ALTER TABLE t ADD COLUMN c INT AUTO_INCREMENT UNIQUE", "numbers the rows"),
        ("ALTER TABLE t ADD COLUMN c CHAR(36) DEFAULT (UUID())", "expression"),
        ("ALTER TABLE t ADD COLUMN c VARCHAR(30) DEFAULT (NOW())", "expression"),
        ("ALTER TABLE t ADD COLUMN c NEWTYPE(3)", "expected a column type, found 'NEWTYPE'"),
        ("ALTER TABLE t ADD COLUMN c INT SOMETHING NEW", "expected a comma"),
        (f"ALTER TABLE t ADD COLUMN c INT({'1' * 5000})", "expected a whole number"),
        ("ALTER TABLE t FROBNICATE", "expected an action"),
        ("ALTER TABLE t ADD COLUMN c INT COMMENT 'unfinished, DROP COLUMN d", "that ends"),
        ("ALTER TABLE t ADD COLUMN c CHAR(3) DEFAULT 'unfinished", 'found "\'unfinished"'),
        ("ALTER TABLE t ADD COLUMN c INT /* , DROP COLUMN d", "expected a comma"),
        ("ALTER TABLE t ADD COLUMN c INT DEFAULT ((((1))))", "expression"),
        ("CREATE TABLE t", "query"),
        ("CREATE TABLE t AS SELECT * FROM o", "query"),
        ("CREATE TABLE t (a INT) ENGINE=InnoDB AS SELECT 1 AS b", "query"),
        ("CREATE TABLE t (a INT) PARTITION BY HASH (a) PARTITIONS 2 SELECT 1 AS b", "query"),
        ("CREATE TABLE t (a INT) COMMENT 'unfinished", "that ends"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (b))", "no column 'b'"),
        ("CREATE TABLE t (a INT, A INT)", "two columns 'a'"),
        ("RECOVER TABLE t", "past"),
        ("FLASHBACK TABLE t TO u", "past"),
        ("DROP TABLE o", "the event is about db.t, the statement about db.o"),
        ("DROP TABLE t WITH SOMETHING", "expected the end"),
        ("INSERT INTO t VALUES (1)", "defines something"),
    ],
)
def test_what_no_message_can_tell_is_said_to_be_impossible(statement: str, reason: str) -> None:
    (edit,) = read(statement)

    assert isinstance(edit, e.Impossible)
    assert edit.name == T
    assert reason in edit.reason


def test_a_table_in_no_known_database_is_not_guessed() -> None:
    (edit,) = read("DROP TABLE t", TableName("", ""))

    assert isinstance(edit, e.Impossible)
    assert edit.name is None


def test_a_type_helps_where_a_statement_cannot_be_read() -> None:
    unreadable = "ALTER TABLE t FROBNICATE"

    assert edits(Ddl(T, 1, unreadable, type=DdlType.ALTER_TABLE_AFFINITY)) == ()
    assert isinstance(edits(Ddl(T, 1, unreadable, type=DdlType.MODIFY_COLUMN))[0], e.Impossible)
    assert edits(Ddl(T, 1, "", type=DdlType.ALTER_TABLE_PLACEMENT)) == ()
    assert isinstance(edits(Ddl(T, 1, "", type=DdlType.DROP_TABLE))[0], e.Impossible)


def test_a_table_that_comes_with_its_statement_fills_the_gaps() -> None:
    schema = TableSchema.build(T, [Column.of("a", "binary(3)"), Column.of("b", "int", primary_key=True)])

    query = Ddl(T, 1, "CREATE TABLE t SELECT 1 AS b", kind=DdlKind.CREATE, table_schema=schema)
    assert edits(query) == (e.CreateTable(schema),)
    (made,) = edits(Ddl(T, 1, "CREATE TABLE t (A CHAR(3), b INT)", kind=DdlKind.CREATE, table_schema=schema))
    assert isinstance(made, e.CreateTable)
    assert made.table.columns[0].mysql_type == "binary(3)"


def test_a_replaced_table_goes_first() -> None:
    assert [type(edit) for edit in read("CREATE OR REPLACE TABLE t (a INT)")] == [e.DropTable, e.CreateTable]


def test_databases_are_named_in_the_statement() -> None:
    for nowhere in (TableName("", ""), TableName("My `Db`", "")):
        assert read("CREATE DATABASE IF NOT EXISTS `My ``Db``` CHARSET utf8mb4", nowhere) == (
            e.CreateDatabase("My `Db`"),
        )
        assert read("DROP SCHEMA `My ``Db```", nowhere) == (e.DropDatabase("My `Db`"),)


SQL = r"""CREATE TABLE ALTER DROP RENAME TO `t` t ( ) , ; . INT VARCHAR ( 5 ) DEFAULT 'x' "y" NULL PRIMARY KEY ADD
    COLUMN MODIFY CHANGE PARTITION /*T! */ /* -- x'4 0x41 b'1' _utf8 ENUM ' ` FIRST AFTER LIKE AS SELECT UNIQUE INDEX ON
    = - UPDATE CURRENT_TIMESTAMP CHARSET COLLATE binary CHECK REFERENCES GENERATED ALWAYS IF NOT EXISTS 😀 \ """
PIECES = st.sampled_from(SQL.split())


@given(st.lists(PIECES, max_size=20), st.sampled_from(["", "CREATE TABLE t (", "ALTER TABLE t ADD ", "RENAME TABLE "]))
def test_no_text_is_too_strange_to_answer(pieces: list[str], head: str) -> None:
    assert isinstance(read(head + " ".join(pieces)), tuple)


def test_an_enum_holds_what_its_quotes_enclose() -> None:
    assert column("c ENUM('a','b\"c',\"d''e\",x'66')").elements == ("a", 'b"c', "d''e", "f")
    assert column("c ENUM('a')").type is MySQLType.ENUM
