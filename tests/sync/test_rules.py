"""Rules about tables: names, masks, and what may not change once a table is made."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewire.errors import OptionError
from tidewire.model import Column, DateTime, EnumValue, TableName, TableSchema
from tidewire.sync.policies import ChangeKind, DdlPolicy, widens
from tidewire.sync.rules import Mask, Rules, TableRule, broken_promises, hashed, masked_column, masked_fill, redaction

NAME = TableName("shop", "users")
USERS = TableSchema.build(
    NAME,
    [
        Column.of("id", "bigint", primary_key=True, nullable=False),
        replace(Column.of("email", "varchar(20)"), default="none"),
        Column.of("age", "int", nullable=False),
        Column.of("note", "text"),
    ],
)


def ruled(**rule: object) -> Rules:
    return Rules(tables=(TableRule("tables[3]", ("shop.*",), **rule),))  # type: ignore[arg-type]


def test_a_masked_table_has_other_columns() -> None:
    rules = replace(ruled(mask={"email": Mask.HASH, "AGE": Mask.REDACT, "n*": Mask.DROP}), salt="s")

    masked = rules.masked(USERS)

    assert [column.name for column in masked.columns] == ["id", "email", "age"]
    assert masked.column("email").mysql_type == "varchar(64)"
    assert masked.column("email").default == hashed("none", "s")
    assert masked.column("age").mysql_type == "int"
    assert masked.handle_key == ("id",)
    assert rules.masked(replace(USERS, name=TableName("test", "users"))).columns == USERS.columns


def test_columns_that_are_not_selected_are_dropped() -> None:
    assert [c.name for c in ruled(columns=("*", "!no*")).masked(USERS).columns] == ["id", "email", "age"]
    assert [c.name for c in ruled(columns=("id", "EMAIL")).masked(USERS).columns] == ["id", "email"]


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ({"mask": {"id": Mask.DROP}}, "tables[3].mask.id"),
        ({"mask": {"i*": Mask.REDACT}}, "tables[3].mask.i*"),
        ({"columns": ("email",)}, "tables[3].columns"),
    ],
)
def test_a_key_stays_a_key(rule: dict[str, object], path: str) -> None:
    with pytest.raises(OptionError, match="can only be masked with hash") as caught:
        ruled(**rule).masked(USERS)

    assert caught.value.name == path
    assert ruled(mask={"id": Mask.HASH}).masked(USERS).column("id").handle_key


@settings(deadline=None)
@given(st.text(), st.text(), st.text())
def test_a_hash_depends_on_value_and_salt_alone(one: str, other: str, salt: str) -> None:
    assert (hashed(one, salt) == hashed(other, salt)) == (one == other)
    assert len(hashed(one, salt) or "") == 64


def test_a_hash_is_that_of_the_canonical_text() -> None:
    assert hashed(None) is None
    assert hashed(Decimal("1.50")) == hashed("1.50")
    assert hashed(b"\xff") != hashed("\xff")
    assert hashed(DateTime("2024-01-01 00:00:00")) == hashed("2024-01-01 00:00:00")
    assert hashed(EnumValue(2, "b")) == hashed("b")
    assert hashed(EnumValue(2)) == hashed(2)


def test_redacted_is_null_or_zero() -> None:
    assert redaction(Column.of("a", "int")) is None
    assert redaction(Column.of("a", "int", nullable=False)) == "0"
    assert redaction(replace(Column.of("a", "varchar(9)", nullable=False), default="x")) == ""
    assert masked_fill("7", Column.of("a", "int"), Mask.REDACT) is None
    assert masked_fill("7", Column.of("a", "int"), Mask.HASH, "s") == hashed("7", "s")
    assert masked_column(replace(USERS.columns[1], default="x"), Mask.REDACT).default is None


def test_rules_survive_as_a_document_without_their_salt() -> None:
    rule = TableRule("tables[0]", ("a.*", "!a.b"), "x.{table}", "scd2", ("*",), {"c": Mask.HASH})
    rules = Rules(("a.*",), (replace(rule, ddl={ChangeKind.ADD_COLUMN: DdlPolicy.FREEZE}),), salt="pepper")

    plain = rules.to_plain()

    assert Rules.from_plain(plain, "pepper") == rules
    assert "pepper" not in str(plain)
    assert rules.hashes
    assert not ruled(mask={"c": Mask.DROP}).hashes
    assert plain["salt"] != replace(rules, salt="salt").to_plain()["salt"]


def test_changes_of_rules_about_known_tables_are_named() -> None:
    old, new = ruled(to="a.{table}", mask={"email": Mask.HASH}), ruled(mode="scd2")

    found = broken_promises(old, new, [USERS], lambda rules, name: rules.mode(name, "mirror"))

    assert found == [
        "shop.users: its name in the target is a.users, and would be shop.users",
        "shop.users: its mode is mirror, and would be scd2",
        "shop.users: its mask of email is hash, and would be none",
    ]
    assert not broken_promises(old, old, [USERS], lambda rules, name: "mirror")


@pytest.mark.parametrize(
    ("old", "new", "wider"),
    [
        ("int", "bigint", True),
        ("int unsigned", "bigint", True),
        ("int", "bigint unsigned", False),
        ("bigint", "int", False),
        ("int", "varchar(20)", True),
        ("varbinary(9)", "varchar(20)", False),
        ("varchar(9)", "varbinary(20)", True),
        ("varchar(9)", "int", False),
        ("decimal(10,2)", "decimal(12,2)", True),
        ("decimal(10,2)", "decimal(10,3)", False),
        ("int", "decimal(10,0)", True),
        ("int", "decimal(10,1)", False),
        ("float", "double", True),
        ("double", "float", False),
        ("date", "datetime", True),
        ("datetime", "date", False),
        ("datetime(3)", "datetime(6)", True),
        ("datetime(3)", "datetime", False),
        ("enum('a','b')", "enum('a','b','c')", True),
        ("enum('a','b')", "enum('b','a')", False),
        ("bit(3)", "bit(9)", True),
    ],
)
def test_a_type_is_wider_if_it_holds_every_value(old: str, new: str, wider: bool) -> None:
    assert widens(Column.of("c", old), Column.of("c", new)) is wider
