"""Changed tables: their columns, keys and indexes, and the steps that lead there."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewire.ddl import edits as e
from tidewire.ddl.column_steps import ColumnStep, GoneColumn, NamedColumn, NewColumn, PlacedColumn, TypedColumn
from tidewire.ddl.parse import edits
from tidewire.ddl.shape import altered, column_steps
from tidewire.errors import DdlMismatch
from tidewire.model import Column, Ddl, Generated, Index, TableName, TableSchema

T = TableName("db", "t")


def table(body: str) -> TableSchema:
    (edit,) = edits(Ddl(T, 1, f"CREATE TABLE t ({body})"))
    assert isinstance(edit, e.CreateTable), edit
    return edit.table


def changes(actions: str) -> tuple[e.ColumnEdit, ...]:
    (edit,) = edits(Ddl(T, 1, f"ALTER TABLE t {actions}"))
    assert isinstance(edit, e.AlterTable), edit
    return edit.changes


def after(body: str, actions: str) -> TableSchema:
    return altered(table(body), changes(actions))


def steps(body: str, actions: str, now: str | None = None) -> tuple[ColumnStep, ...]:
    return column_steps(table(body), changes(actions), now)


def names(schema: TableSchema) -> str:
    return " ".join(column.name for column in schema.columns)


@pytest.mark.parametrize(
    ("actions", "columns"),
    [
        ("ADD COLUMN d INT", "a b c d"),
        ("ADD COLUMN d INT FIRST, ADD e INT AFTER A", "d a e b c"),
        ("ADD COLUMN (d INT, e INT)", "a b c d e"),
        ("DROP COLUMN B", "a c"),
        ("MODIFY b BIGINT", "a b c"),
        ("MODIFY b BIGINT FIRST", "b a c"),
        ("CHANGE a z INT AFTER c", "b c z"),
        ("CHANGE a b INT, CHANGE b a INT", "b a c"),
        ("RENAME COLUMN a TO b, RENAME COLUMN b TO c, RENAME COLUMN c TO a", "b c a"),
        ("DROP a, ADD a BIGINT", "b c a"),
        ("ADD a BIGINT, DROP a", "b c a"),
        ("RENAME COLUMN a TO z, ADD d INT AFTER z", "z d b c"),
        ("ADD d INT AFTER z, RENAME COLUMN a TO z", "z d b c"),
        ("ADD d INT AFTER z, CHANGE a z INT", "z d b c"),
        ("ADD d INT AFTER a, RENAME COLUMN a TO b, RENAME COLUMN b TO a", "b a d c"),
        ("RENAME COLUMN a TO z, ADD COLUMN a BIGINT FIRST", "a z b c"),
        ("MODIFY a INT AFTER b, MODIFY b INT AFTER a", "a b c"),
        ("ADD d INT AFTER a, MODIFY a BIGINT AFTER c", "d b c a"),
        ("ADD COLUMN IF NOT EXISTS B INT, DROP COLUMN IF EXISTS x, ADD d INT", "a b c d"),
        ("MODIFY COLUMN IF EXISTS x INT, ADD d INT", "a b c d"),
    ],
)
def test_columns_come_go_and_move(actions: str, columns: str) -> None:
    assert names(after("a INT, b INT, c INT", actions)) == columns


@pytest.mark.parametrize(
    ("body", "actions", "key", "handle"),
    [
        ("a INT PRIMARY KEY, b INT", "MODIFY a BIGINT", "a", "a"),
        ("a INT PRIMARY KEY, b INT", "CHANGE a z BIGINT FIRST", "z", "z"),
        ("a INT PRIMARY KEY, b INT", "DROP PRIMARY KEY", "", ""),
        ("a INT, b INT, PRIMARY KEY (a, b)", "DROP COLUMN b", "a", "a"),
        ("a INT, b INT NOT NULL", "ADD PRIMARY KEY (B)", "b", "b"),
        ("a INT PRIMARY KEY, b INT", "DROP PRIMARY KEY, ADD PRIMARY KEY (b)", "b", "b"),
        ("a INT NOT NULL, b INT", "ADD UNIQUE (a)", "", "a"),
        ("a INT NOT NULL UNIQUE, b INT", "MODIFY a INT NULL", "", ""),
        ("a INT UNIQUE, b INT", "MODIFY a INT NOT NULL", "", "a"),
        ("a INT NOT NULL, b INT NOT NULL, UNIQUE ab (a, b)", "ADD UNIQUE (b)", "", "b"),
        ("a INT NOT NULL, b INT NOT NULL, UNIQUE ab (a, b), UNIQUE ub (b)", "DROP INDEX UB", "", "a b"),
        ("a INT NOT NULL UNIQUE, b INT", "RENAME COLUMN a TO z", "", "z"),
        ("a INT NOT NULL, b INT", "ADD c INT PRIMARY KEY", "c", "c"),
        ("a INT NOT NULL UNIQUE, b INT", "DROP COLUMN a", "", ""),
        ("a INT PRIMARY KEY, b INT", "DROP a, ADD a CHAR(3) FIRST", "a", "a"),
        ("a INT NOT NULL, b INT NOT NULL, UNIQUE ab (a, b)", "ADD a INT, DROP a", "", ""),
        ("a INT NOT NULL UNIQUE, b INT NOT NULL", "DROP a, CHANGE b a INT NOT NULL", "", ""),
    ],
)
def test_keys_follow_their_columns(body: str, actions: str, key: str, handle: str) -> None:
    changed = after(body, actions)

    assert " ".join(changed.primary_key) == key
    assert " ".join(changed.handle_key) == handle
    assert all(column.nullable is False for column in changed.columns if column.handle_key)


def test_indexes_follow_their_columns() -> None:
    changed = after("a INT, b INT NOT NULL, c INT, KEY ab (a, b), KEY c (c), UNIQUE u (c)", "DROP c, CHANGE a z INT")

    assert changed.indexes == (Index("ab", ("z", "b"), nullable=True),)


def test_an_index_without_a_name_gets_a_free_one() -> None:
    changed = after("a INT, KEY a_2 (a)", "ADD KEY (a), ADD UNIQUE (a), ADD KEY A_2 (a)")

    assert [index.name for index in changed.indexes] == ["a", "a_3", "A_2"]


def test_indexes_may_swap_their_names() -> None:
    changed = after("a INT, b INT, KEY ia (a), KEY ib (b)", "RENAME INDEX ia TO ib, RENAME KEY ib TO ia")

    assert [(index.name, index.columns) for index in changed.indexes] == [("ib", ("a",)), ("ia", ("b",))]


def test_an_index_that_is_not_known_makes_no_difference() -> None:
    assert after("a INT", "DROP INDEX nobody, RENAME INDEX x TO y, ADD b INT").indexes == ()


def test_an_index_over_a_column_that_is_not_shown_is_no_obstacle() -> None:
    learned = TableSchema(T, (Column.of("a", "int"),), (Index("i", ("_V$_i_0",)),))

    assert altered(learned, changes("ADD b INT")).indexes == ()


def test_a_key_known_by_marks_alone_stays_while_its_columns_do() -> None:
    columns = (replace(Column.of("a", "int"), handle_key=True), Column.of("b", "int"))
    learned = TableSchema(T, columns)

    assert altered(learned, changes("ADD c INT, RENAME COLUMN a TO z")).handle_key == ("z",)
    assert altered(learned, changes("ADD c INT PRIMARY KEY")).handle_key == ("c",)
    assert altered(learned, changes("DROP a")).handle_key == ()


def test_the_handle_is_the_primary_key_until_that_goes() -> None:
    assert after("a INT PRIMARY KEY", "ADD b INT").pk_is_handle
    assert not after("a INT PRIMARY KEY, b INT", "DROP PRIMARY KEY").pk_is_handle
    assert not after("a INT PRIMARY KEY, b INT", "DROP PRIMARY KEY, ADD PRIMARY KEY (a)").pk_is_handle


def test_a_column_without_a_charset_takes_that_of_the_tables_text() -> None:
    body = "a VARCHAR(5) CHARSET gbk, b VARBINARY(5)"

    assert after(body, "ADD c CHAR(3)").column("c").charset == "gbk"
    assert after(body, "MODIFY a TEXT").column("a").charset == "gbk"
    assert after(body, "MODIFY b VARCHAR(5)").column("b").charset == "utf8mb4"
    assert after(body, "CONVERT TO CHARACTER SET utf8mb4").column("a").collation == "utf8mb4_bin"
    assert after(body, "CONVERT TO CHARSET DEFAULT COLLATE gbk_bin").column("a").collation == "gbk_bin"


@pytest.mark.parametrize(
    ("actions", "reason"),
    [
        ("DROP x", "no column 'x'"),
        ("MODIFY x INT", "no column 'x'"),
        ("RENAME COLUMN x TO y", "no column 'x'"),
        ("ALTER x SET DEFAULT 1", "no column 'x'"),
        ("ADD c INT AFTER x", "no column 'x'"),
        ("ADD KEY (x)", "no column 'x'"),
        ("ADD A INT", "two columns 'a'"),
        ("RENAME COLUMN a TO b", "two columns 'b'"),
        ("MODIFY v INT", "'v'"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_reason(actions: str, reason: str) -> None:
    for run in (altered, column_steps):
        with pytest.raises(DdlMismatch, match=reason) as caught:
            run(table("a INT, b INT, v INT AS (a) VIRTUAL"), changes(actions))
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
        assert caught.value.table == str(T)


@pytest.mark.parametrize("definition", ["DATE DEFAULT 'soon'", "DECIMAL(5,2) DEFAULT 'nan'", "ENUM('a') DEFAULT 'b'"])
def test_a_default_that_is_no_value_of_its_column_is_refused_when_rows_need_it(definition: str) -> None:
    with pytest.raises(DdlMismatch, match="is no default of c"):
        steps("a INT", f"ADD c {definition}")


NOW = "2024-05-06 07:08:09.987654"


@pytest.mark.parametrize(
    ("definition", "fill"),
    [
        ("INT", None),
        ("INT DEFAULT 3", "3"),
        ("INT NOT NULL", "0"),
        ("DOUBLE NOT NULL", "0"),
        ("DECIMAL(5,2) NOT NULL", "0.00"),
        ("DECIMAL(5,2) DEFAULT 0.5", "0.50"),
        ("DECIMAL(5,2) DEFAULT -1.555", "-1.56"),
        ("DECIMAL(3) DEFAULT 2.5", "3"),
        (
            "DECIMAL(65,30) DEFAULT 12345678901234567890123456789012345.1",
            f"12345678901234567890123456789012345.1{'0' * 29}",
        ),
        ("BIT(10) NOT NULL", "0"),
        ("BIT(10) DEFAULT b'1010101010'", "682"),
        ("YEAR NOT NULL", "0"),
        ("CHAR(3) NOT NULL", ""),
        ("CHAR(1) NOT NULL DEFAULT ' '", ""),
        ("VARCHAR(3) DEFAULT 'a '", "a "),
        ("TEXT NOT NULL", ""),
        ("BINARY(3) NOT NULL", b"\0\0\0"),
        ("VARBINARY(3) NOT NULL", b""),
        ("BLOB NOT NULL", b""),
        ("BINARY(3) DEFAULT 'a'", b"a\0\0"),
        ("ENUM('x','y') NOT NULL", "x"),
        ("ENUM('x','y')", None),
        ("ENUM('x','y') DEFAULT 'Y'", "y"),
        ("SET('x','y') NOT NULL", ""),
        ("JSON NOT NULL", "null"),
        ("VECTOR NOT NULL", "[]"),
        ("DATE NOT NULL", "0000-00-00"),
        ("TIME(2) NOT NULL", "00:00:00.00"),
        ("DATETIME(3) NOT NULL", "0000-00-00 00:00:00.000"),
        ("TIMESTAMP NOT NULL", "0000-00-00 00:00:00"),
        ("DATETIME(3) DEFAULT '2024-01-01'", "2024-01-01 00:00:00.000"),
        ("TIMESTAMP NOT NULL DEFAULT 0", "0000-00-00 00:00:00"),
        ("TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP", "2024-05-06 07:08:09"),
        ("DATETIME(3) DEFAULT NOW(3) ON UPDATE NOW(3)", "2024-05-06 07:08:09.987"),
        ("DATE DEFAULT (CURDATE())", "2024-05-06"),
        ("DATETIME(1) DEFAULT (CURRENT_DATE)", "2024-05-06 00:00:00.0"),
        ("TIME DEFAULT (NOW())", "07:08:09"),
        ("VARCHAR(20) DEFAULT 'CURRENT_TIMESTAMP'", "CURRENT_TIMESTAMP"),
    ],
)
def test_existing_rows_get_what_the_server_gives_them(definition: str, fill: str | bytes | None) -> None:
    (step,) = steps("a INT", f"ADD COLUMN c {definition}", NOW)

    assert isinstance(step, NewColumn)
    assert step.fill == fill
    assert type(step.fill) is type(fill)


def test_the_current_time_is_null_where_nobody_knows_it() -> None:
    (step,) = steps("a INT", "ADD COLUMN c DATETIME DEFAULT CURRENT_TIMESTAMP")

    assert isinstance(step, NewColumn)
    assert step.fill is None


@pytest.mark.parametrize(
    ("definition", "changed"),
    [
        ("INT(5)", False),
        ("INT NOT NULL DEFAULT 3", False),
        ("INT UNSIGNED", True),
        ("BIGINT", True),
    ],
)
def test_only_what_shows_in_values_is_another_type(definition: str, changed: bool) -> None:
    assert bool(steps("a INT, b INT", f"MODIFY a {definition}")) == changed


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("VARCHAR(5)", "VARCHAR(50)", False),
        ("VARCHAR(5)", "VARCHAR(5) CHARSET gbk", False),
        ("VARCHAR(5)", "VARBINARY(5)", True),
        ("BINARY(5)", "BINARY(6)", True),
        ("VARBINARY(5)", "VARBINARY(6)", False),
        ("DECIMAL(5,2)", "DECIMAL(6,2)", True),
        ("DATETIME", "DATETIME(3)", True),
        ("ENUM('a')", "ENUM('a','b')", True),
        ("BIT(3)", "BIT(4)", True),
        ("FLOAT", "FLOAT(7,3)", True),
    ],
)
def test_a_length_counts_where_values_depend_on_it(old: str, new: str, changed: bool) -> None:
    assert bool(steps(f"a {old}, b INT", f"MODIFY a {new}")) == changed


def test_text_converted_to_bytes_is_another_type() -> None:
    found = steps("a VARCHAR(5), b INT, c TEXT", "CONVERT TO CHARACTER SET binary")

    assert [(step.old.base_type, step.new.base_type) for step in found if isinstance(step, TypedColumn)] == [
        ("varchar", "varbinary"),
        ("text", "blob"),
    ]


def test_a_change_of_everything_is_a_rename_a_conversion_and_a_move() -> None:
    found = steps("a INT, b INT, c INT", "CHANGE a z BIGINT AFTER b")

    assert [type(step) for step in found] == [NamedColumn, TypedColumn, PlacedColumn]
    assert found[0] == NamedColumn("a", "z")
    assert isinstance(found[1], TypedColumn)
    assert found[1].old.name == found[1].new.name == "z"
    assert found[2] == PlacedColumn("z", e.ColumnPosition(after="b"))


def test_a_place_behind_a_virtual_column_is_behind_the_last_one_a_target_has() -> None:
    (step,) = steps("a INT, v INT AS (a), b INT", "ADD c INT AFTER v")
    assert isinstance(step, NewColumn)
    assert step.place == e.ColumnPosition(after="a")
    (step,) = steps("v INT AS (b), b INT", "ADD c INT AFTER v")
    assert isinstance(step, NewColumn)
    assert step.place == e.ColumnPosition(first=True)
    assert steps("a INT", "ADD v INT AS (a) VIRTUAL") == ()
    assert steps("a INT, v INT AS (a)", "DROP v, ADD KEY (a)") == ()


def run(columns: list[Column], found: tuple[ColumnStep, ...]) -> list[Column]:
    """Do the steps, one by one, as a target does: no step may meet a name that is taken or missing."""
    columns = list(columns)

    def at(name: str) -> int:
        (place,) = [number for number, column in enumerate(columns) if column.name == name]
        return place

    def put(column: Column, place: e.ColumnPosition) -> None:
        number = 0 if place.first else len(columns) if place.after is None else at(place.after) + 1
        columns.insert(number, column)

    for step in found:
        match step:
            case NewColumn(column, place, _):
                put(column, place)
            case GoneColumn(name):
                del columns[at(name)]
            case NamedColumn(name, new):
                assert not any(column.name.casefold() == new.casefold() != name.casefold() for column in columns)
                columns[at(name)] = replace(columns[at(name)], name=new)
            case TypedColumn(old, new_column):
                assert columns[at(old.name)].mysql_type == old.mysql_type
                columns[at(old.name)] = new_column
            case PlacedColumn(name, place):
                put(columns.pop(at(name)), place)
    return columns


NAMES = st.sampled_from(["a", "b", "c", "d", "e", "A", "x"])
TYPES = st.sampled_from(["INT", "BIGINT", "VARCHAR(5)", "VARCHAR(9)", "BINARY(2)", "DATE", "INT AS (1) VIRTUAL"])
PLACES = st.one_of(st.sampled_from(["", "FIRST"]), NAMES.map("AFTER {}".format))
ACTIONS = st.one_of(
    st.builds("ADD COLUMN {} {} {}".format, NAMES, TYPES, PLACES),
    st.builds("DROP COLUMN {}".format, NAMES),
    st.builds("MODIFY {} {} {}".format, NAMES, TYPES, PLACES),
    st.builds("CHANGE {} {} {} {}".format, NAMES, NAMES, TYPES, PLACES),
    st.builds("RENAME COLUMN {} TO {}".format, NAMES, NAMES),
    st.builds("ADD UNIQUE ({})".format, NAMES),
    st.builds("ADD PRIMARY KEY ({})".format, NAMES),
)


def visible(schema: TableSchema) -> list[Column]:
    return [column for column in schema.columns if column.generated is not Generated.VIRTUAL]


@given(st.lists(ACTIONS, min_size=1, max_size=4))
def test_the_steps_lead_to_the_changed_table(actions: list[str]) -> None:
    before = table("a INT, b VARCHAR(5), v INT AS (a) VIRTUAL, c DATE, d INT")
    wanted = changes(", ".join(actions))
    try:
        changed = altered(before, wanted)
    except DdlMismatch:
        with pytest.raises(DdlMismatch):
            column_steps(before, wanted)
        return

    reached = run(visible(before), column_steps(before, wanted, NOW))

    assert [column.name for column in reached] == [column.name for column in visible(changed)]
    assert [(column.type, column.is_binary) for column in reached] == [
        (column.type, column.is_binary) for column in visible(changed)
    ]
    assert set(changed.handle_key) <= {column.name for column in changed.columns}


@given(st.permutations(["a", "b", "c", "d", "e"]))
def test_any_permutation_of_names_is_reached(order: list[str]) -> None:
    before = table("a INT, b INT, c INT, d INT, e INT")
    pairs = zip("abcde", order, strict=True)
    wanted = changes(", ".join(f"RENAME COLUMN {old} TO {new}" for old, new in pairs if old != new) or "ADD KEY (a)")

    assert [column.name for column in run(visible(before), column_steps(before, wanted))] == order
