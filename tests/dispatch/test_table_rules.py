"""The table filter: its grammar, line by line, and who decides when several lines match."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewire.dispatch import ColumnPatterns, TablePatterns, TableRules
from tidewire.errors import ChangefeedError
from tidewire.model import TableName

INVALID = "CDC:ErrFilterRuleInvalid"


def named(text: str) -> TableName:
    schema, table = text.split(".", 1)
    return TableName(schema, table)


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("test.t1", ["test.t1", "TEST.T1"], ["test.t2", "test.t11", "atest.t1"]),
        ("*.*", ["a.b", "ü.$"], []),
        ("  \ttest.t1 \t", ["test.t1"], ["test.t1 "]),
        ("test.t*", ["test.t", "test.t1", "test.table"], ["test.s"]),
        ("test.t?", ["test.t1", "test.tü", "test.t世"], ["test.t", "test.t12"]),
        ("test.*_log", ["test.a_log", "test._log"], ["test.a_logs"]),
        ("db[0-9].t", ["db0.t", "db9.t"], ["dba.t", "db10.t", "db.t"]),
        ("db[!0-9].t", ["dba.t"], ["db0.t", "db.t"]),
        ("db[^x].t", ["db^.t", "dbx.t"], ["dba.t"]),
        ("db[a-].t", ["dba.t", "db-.t"], ["dbb.t"]),
        (r"db[\]\-].t", ["db].t", "db-.t"], ["dba.t", "db\\.t"]),
        ("db[*?.].t", ["db*.t", "db?.t"], ["dba.t"]),
        (r"a\.b.c", [], ["a.b.c"]),
        ("$_9.t", ["$_9.t"], ["x_9.t"]),
        ("数据.表?", ["数据.表一"], ["数据.表"]),
        ('"test"."t 1"', ["test.t 1"], ["test.t1"]),
        ("`test`.`t*`", ["test.t*"], ["test.t1"]),
        ('"a""b".t', ['a"b.t'], ['a""b.t', "ab.t"]),
        ("`a``b`.t", ["a`b.t"], ["a``b.t"]),
        ("/^test$/./^t\\d+$/", ["test.t1", "TEST.T22"], ["test.t", "atest.t1"]),
        ("/es/.*", ["test.t", "best.x"], ["toast.t"]),
        (r"/a\/b/.*", ["a/b.t"], ["ab.t"]),
        ("//.t", ["a.t"], ["a.s"]),
        (r"/\d\z/.t", ["db1.t"], ["1db.t"]),
        (r"/^\pL+$/.t", ["dbü.t"], ["db1.t"]),
        ("test.t[a-c][!x]*", ["test.tay", "test.tczz"], ["test.tax", "test.tdy"]),
    ],
)
def test_a_pattern_matches_what_it_should(pattern: str, matching: list[str], others: list[str]) -> None:
    patterns = TablePatterns.parse([pattern])

    assert [name for name in (*matching, *others) if patterns.matches(named(name))] == matching


def test_many_runs_take_one_pass() -> None:
    patterns = TablePatterns.parse(["*" + "a*" * 30 + "b.*"])

    assert not patterns.matches(TableName("a" * 5000, "t"))
    assert patterns.matches(TableName("xa" * 30 + "b", "t"))


def test_an_escaped_dot_is_part_of_a_name() -> None:
    patterns = TablePatterns.parse([r"a\.b.c\-d"])

    assert patterns.matches(TableName("a.b", "c-d"))
    assert not patterns.matches(TableName("a", "b.c-d"))


@pytest.mark.parametrize(
    ("line", "column", "problem"),
    [
        ("test", 5, "a dot"),
        ("test.", 6, "a pattern is missing"),
        (".t", 1, "a pattern is missing"),
        ("!", 2, "a pattern is missing"),
        ("a.b.c", 4, "not expected"),
        ("a b.c", 2, "' ' must have a backslash"),
        ("a.b c", 4, "' ' must have a backslash"),
        ("a-b.c", 2, "'-' must have a backslash"),
        (r"a\b.c", 2, "backslash must stand before"),
        (r"a\1.c", 2, "backslash must stand before"),
        ("a.b\\", 4, "backslash must stand before"),
        ("[a.b", 1, "character class"),
        ("[].b", 1, "character class"),
        ("[!].b", 1, "character class"),
        ("[z-a].b", 2, "range z-a is empty"),
        ('a"b".c', 2, "around the whole name"),
        ('"a"b.c', 4, "a dot"),
        ('"a.b', 1, "empty or does not end"),
        ("``.b", 1, "empty or does not end"),
        ("/a.b", 1, "no closing slash"),
        ("/(/.b", 1, "not a regular expression"),
        ("/(?=a)/.b", 1, "not a regular expression"),
        (r"a./(x)\1/", 3, "not a regular expression"),
        ("/a/b.c", 4, "a dot"),
        ("! a.b", 2, "must have a backslash"),
        ("!!a.b", 2, "must have a backslash"),
    ],
)
def test_what_is_no_rule_is_refused_with_rule_and_column(line: str, column: int, problem: str) -> None:
    with pytest.raises(ChangefeedError, match=problem) as caught:
        TableRules.parse(["*.*", line])

    assert caught.value.code == INVALID
    assert repr(line) in caught.value.reason
    assert caught.value.reason.endswith(f"at column {column}")


def test_the_last_line_that_matches_decides() -> None:
    rules = TableRules.parse(["*.*", "!test.*", "test.t1", "!*.t9", "# a comment", ""])

    kept = [name for name in ("a.b", "test.t1", "test.t2", "a.t9", "test.t9") if rules.matches(named(name))]

    assert kept == ["a.b", "test.t1"]


@pytest.mark.parametrize(
    ("lines", "schema", "kept"),
    [
        (["test.t1"], "test", True),
        (["test.t1"], "other", False),
        (["*.*", "!test.*"], "test", False),
        (["*.*", "!test.t1"], "test", True),
        (["*.*", "!test./.*/"], "test", False),
        (["test.*", "!*.*", "test.t2"], "test", True),
        (["test.*", "!*.*"], "test", False),
        (["!test.t1"], "test", False),
        ([], "test", True),
        ([], "MySQL", False),
        (["mysql.*"], "mysql", False),
    ],
)
def test_a_schema_is_kept_while_one_of_its_tables_may_be(lines: list[str], schema: str, kept: bool) -> None:
    assert TableRules.parse(lines).matches_schema(schema) is kept


@pytest.mark.parametrize(
    "schema",
    [
        *("information_schema", "performance_schema", "metrics_schema", "inspection_schema", "mysql", "sys"),
        *("tidb_cdc", "lightning_task_info", "workload_schema", "INFORMATION_SCHEMA", "Mysql"),
    ],
)
def test_system_schemas_are_never_sent_but_a_matcher_may_name_them(schema: str) -> None:
    for case_sensitive in (True, False):
        rules = TableRules.parse(["*.*"], case_sensitive=case_sensitive)
        assert not rules.matches(TableName(schema, "t"))
        assert not rules.matches_schema(schema)
    assert TablePatterns.parse(["*.*"]).matches(TableName(schema, "t"))


def test_no_rules_keep_everything_and_no_patterns_nothing() -> None:
    assert TableRules.parse([]).matches(TableName("a", "b"))
    assert not TableRules.parse(["# nothing"]).matches(TableName("a", "b"))
    assert not TablePatterns.parse([]).matches(TableName("a", "b"))


@pytest.mark.parametrize("pattern", ["Test.T?", '"Test"."T1"', "/^Test$/.T[0-9]", "`Test`./^T1$/", "T[e-e]st.T1"])
def test_case_counts_where_it_is_told_to(pattern: str) -> None:
    folding, exact = TablePatterns.parse([pattern]), TablePatterns.parse([pattern], case_sensitive=True)

    assert folding.matches(TableName("TEST", "t1"))
    assert exact.matches(TableName("Test", "T1"))
    assert not exact.matches(TableName("test", "T1"))
    assert not exact.matches(TableName("Test", "t1"))


def test_lines_are_imported_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "rules.txt"
    file.write_text("# kept\r\n\n  test.*\r\n!test.tmp*\n", encoding="utf-8")
    rules = TableRules.parse(["a.b", f"@{file}", "test.tmp_keep"])

    kept = [name for name in ("a.b", "test.t", "test.tmp1", "test.tmp_keep") if rules.matches(named(name))]

    assert kept == ["a.b", "test.t", "test.tmp_keep"]


def test_what_is_wrong_in_a_file_is_named_with_its_line(tmp_path: Path) -> None:
    nested, wrong = tmp_path / "nested", tmp_path / "wrong"
    nested.write_text(f"@{wrong}\n", encoding="utf-8")
    wrong.write_text("a.b\nc\n", encoding="utf-8")

    with pytest.raises(ChangefeedError, match="cannot import another"):
        TableRules.parse([f"@{nested}"])
    with pytest.raises(ChangefeedError, match=r"the rule 'c' in line 2 of '.*wrong'"):
        TableRules.parse([f"@{wrong}"])
    with pytest.raises(ChangefeedError, match="cannot be read") as caught:
        TableRules.parse([f"@{tmp_path / 'missing'}"])
    assert caught.value.code == INVALID


@pytest.mark.parametrize(
    ("patterns", "kept"),
    [
        (["*"], ["id", "Name", "secret_a"]),
        (["*", "!secret*"], ["id", "Name"]),
        (["!secret*"], []),
        (["ID", "name"], ["id", "Name"]),
        (["/^s/"], ["secret_a"]),
        (["`Name`", "i?"], ["id", "Name"]),
        ([], []),
    ],
)
def test_column_patterns_have_no_dot_and_no_case(patterns: list[str], kept: list[str]) -> None:
    columns = ColumnPatterns.parse(patterns)

    assert [name for name in ("id", "Name", "secret_a") if columns.matches(name)] == kept


def test_a_column_pattern_with_a_dot_is_refused() -> None:
    with pytest.raises(ChangefeedError, match="column 2"):
        ColumnPatterns.parse(["a.b"])


NAMES = st.text(min_size=1, max_size=12)
QUOTES = st.sampled_from(['"', "`"])


def quoted(name: str, quote: str) -> str:
    return f"{quote}{name.replace(quote, quote * 2)}{quote}"


def escaped(name: str) -> str:
    return re.sub(r"[\x00-\x7f]", lambda found: found[0] if re.match(r"[\w$]", found[0]) else "\\" + found[0], name)


@given(schema=NAMES, table=NAMES, other=NAMES, quote=QUOTES)
def test_a_quoted_name_matches_exactly_itself(schema: str, table: str, other: str, quote: str) -> None:
    patterns = TablePatterns.parse([f"{quoted(schema, quote)}.{quoted(table, quote)}"], case_sensitive=True)

    assert patterns.matches(TableName(schema, table))
    assert patterns.matches(TableName(schema, other)) is (other == table)


@given(schema=NAMES, table=NAMES.filter(lambda name: name[-1] not in " \t"), other=NAMES)
def test_an_escaped_name_matches_exactly_itself(schema: str, table: str, other: str) -> None:
    patterns = TablePatterns.parse([f"{escaped(schema)}.{escaped(table)}"], case_sensitive=True)

    assert patterns.matches(TableName(schema, table))
    assert patterns.matches(TableName(other, table)) is (other == schema)


PATTERNS = st.sampled_from(["*.*", "a.*", "*.b", "a.b", "a?.b", "[a-c].[!b]", "/a/.//", '"a"."b"'])
TABLES = st.builds(TableName, st.text("abc", min_size=1, max_size=2), st.text("abc", min_size=1, max_size=2))


@given(lines=st.lists(st.tuples(st.booleans(), PATTERNS), max_size=6), name=TABLES)
def test_the_last_match_wins_and_a_sign_negates(lines: list[tuple[bool, str]], name: TableName) -> None:
    matching = [keeps for keeps, pattern in lines if TablePatterns.parse([pattern]).matches(name)]
    patterns = TablePatterns.parse(("" if keeps else "!") + pattern for keeps, pattern in lines)

    assert patterns.matches(name) is (bool(matching) and matching[-1])


@given(lines=st.lists(st.tuples(st.booleans(), PATTERNS), max_size=6), name=TABLES)
def test_a_schema_with_a_kept_table_is_kept(lines: list[tuple[bool, str]], name: TableName) -> None:
    patterns = TablePatterns.parse(("" if keeps else "!") + pattern for keeps, pattern in lines)

    assert patterns.matches_schema(name.schema) or not patterns.matches(name)


@given(pattern=st.text("ab*?", min_size=1, max_size=8), name=st.text("ab", min_size=1, max_size=10))
def test_wildcards_are_a_regular_expression(pattern: str, name: str) -> None:
    wanted = re.compile(pattern.replace("?", ".").replace("*", ".*"))

    assert TablePatterns.parse([f"{pattern}.t"]).matches(TableName(name, "t")) is bool(wanted.fullmatch(name))


@given(line=st.text(max_size=20))
def test_garbage_is_refused_or_read(line: str) -> None:
    if line.strip(" \t").startswith("@"):
        line = "x" + line
    try:
        TableRules.parse([line])
    except ChangefeedError as error:
        assert error.code == INVALID
