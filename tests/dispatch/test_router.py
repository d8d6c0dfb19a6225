"""Topic expressions, with the examples of TiCDC's own tests, and dispatch rules: which one counts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewire.dispatch import Dispatch, Dispatcher, DispatchRule, Rule, TopicExpression
from tidewire.errors import ChangefeedError
from tidewire.model import Column, Generated, Index, RowChange, TableName, TableSchema


@pytest.mark.parametrize(
    ("expression", "schema", "table", "topic"),
    [
        ("hello_{schema}_{table}", "test1", "table1", "hello_test1_table1"),
        ("{schema}_{table}", "HELLO", "WORLD", "HELLO_WORLD"),
        ("abc_def{schema}", "!@#$%^&*()_+.{}", "t", "abc_def____________.__"),
        ("{schema}_{table}", "你好", "世界", "_____"),
        ("prefix_{table}", "test", "table1", "prefix_table1"),
        ("{schema}", "..", "t", "__"),
        ("{schema}", ".", "t", "_"),
        ("{table}", "s", "..", "__"),
        ("{schema}{table}", ".", ".", "__"),
        ("{schema}.{table}-x", "a", "b", "a.b-x"),
        ("fixed.topic-1", "a", "b", "fixed.topic-1"),
        ("..", "a", "b", ".."),
        ("{schema}_{table}", "a" * 200, "b" * 200, "a" * 200 + "_" + "b" * 48),
        ("{schema}", "{table}", "b", "_table_"),
        ("x" * 300, "a", "b", "x" * 300),
    ],
)
def test_a_topic_is_made_of_the_names(expression: str, schema: str, table: str, topic: str) -> None:
    assert TopicExpression.parse(expression).topic(TableName(schema, table)) == topic


@pytest.mark.parametrize(
    "text",
    [
        *("{table}_{schema}", "{Schema}", "{TABLE}", "{db}", "{schema}{schema}", "{table}{table}", "{schema"),
        *("schema}", "你好", "{schema}é", "a b", "a/b", "{schema}_{table}\n", "", "{}", "a!{table}"),
        "{schema}_{table}_{schema}",
    ],
)
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(ChangefeedError, match="invalid topic expression") as caught:
        TopicExpression.parse(text)

    assert caught.value.code == "CDC:ErrKafkaInvalidConfig"
    assert repr(text) in caught.value.reason


@pytest.mark.parametrize(
    ("text", "static", "both"),
    [
        ("feed", True, False),
        ("{schema}", False, False),
        ("x{table}", False, False),
        ("{schema}_{table}", False, True),
    ],
)
def test_an_expression_knows_what_shows_in_it(text: str, static: bool, both: bool) -> None:
    expression = TopicExpression.parse(text)

    assert (expression.is_static, expression.names_both) == (static, both)


@given(schema=st.text(min_size=1), table=st.text(min_size=1), before=st.from_regex(r"[\w.-]{0,9}", fullmatch=True))
def test_a_made_topic_is_one_kafka_takes(schema: str, table: str, before: str) -> None:
    text = f"{before if before.isascii() else ''}{{schema}}_{{table}}"
    topic = TopicExpression.parse(text).topic(TableName(schema, table))

    assert re.fullmatch(r"[A-Za-z0-9._-]{1,249}", topic)
    assert topic not in (".", "..")


T1, T2, OTHER = TableName("test", "t1"), TableName("test", "t2"), TableName("other", "t")


def table(name: TableName = T1) -> TableSchema:
    columns = [
        Column.of("id", "bigint", primary_key=True),
        Column.of("Code", "bigint"),
        Column("twice", Column.of("x", "bigint").type, generated=Generated.VIRTUAL),
    ]
    indexes = [Index("uk_code", ("Code",), unique=True, nullable=True), Index("plain", ("Code",))]
    return TableSchema.build(name, columns, indexes)


def test_the_first_rule_that_matches_counts_for_topic_and_partition() -> None:
    dispatch = Dispatch(
        "feed",
        [
            DispatchRule(("test.*", "!test.t2"), "{schema}_{table}", "index-value"),
            DispatchRule(("test.*",), partition="ts"),
            DispatchRule(("test.t1",), "never"),
        ],
    )

    assert (dispatch.topic_of(T1), dispatch.rule_of(T1)) == ("test_t1", Rule(Dispatcher.INDEX_VALUE))
    assert (dispatch.topic_of(T2), dispatch.rule_of(T2)) == ("feed", Rule(Dispatcher.TS))
    assert (dispatch.topic_of(OTHER), dispatch.rule_of(OTHER)) == ("feed", Rule(Dispatcher.TABLE))


def test_a_statement_about_a_schema_goes_to_the_default_topic() -> None:
    dispatch = Dispatch("feed", [DispatchRule(("*.*",), "{schema}_{table}")])

    assert dispatch.topic_of(TableName("test", "")) == "feed"


def test_matchers_look_at_case_where_they_are_told_to() -> None:
    rules = [DispatchRule(("Test.T1",), "found")]

    assert Dispatch("feed", rules).topic_of(T1) == "found"
    assert Dispatch("feed", rules, case_sensitive=True).topic_of(T1) == "feed"


def test_a_system_schema_can_be_matched() -> None:
    assert Dispatch("feed", [DispatchRule(("mysql.*",), "x")]).topic_of(TableName("mysql", "user")) == "x"


@pytest.mark.parametrize(
    ("partition", "expected"),
    [
        ("", Dispatcher.TABLE),
        ("default", Dispatcher.TABLE),
        ("Table", Dispatcher.TABLE),
        ("TS", Dispatcher.TS),
        ("rowid", Dispatcher.INDEX_VALUE),
        ("Index-Value", Dispatcher.INDEX_VALUE),
        ("nonsense", Dispatcher.TABLE),
    ],
)
def test_names_of_partition_rules(partition: str, expected: Dispatcher) -> None:
    dispatch = Dispatch("feed", [DispatchRule(("*.*",), partition=partition)])

    assert dispatch.rule_of(T1).dispatcher is expected
    assert bool(dispatch.warnings) == (partition == "nonsense")


def test_an_unknown_partition_rule_is_warned_of_by_name() -> None:
    (warning,) = Dispatch("feed", [DispatchRule(("a.*",), partition="nonsense")]).warnings

    assert "'nonsense'" in warning
    assert "a.*" in warning


def test_index_and_columns_go_with_their_rules() -> None:
    dispatch = Dispatch(
        "feed",
        [
            DispatchRule(("test.t1",), partition="index-value", index="UK_code"),
            DispatchRule(("test.t2",), partition="columns", columns=("CODE",)),
        ],
    )
    row = RowChange(table(), 7, after={"id": 1, "Code": 5})
    other = RowChange(table(T2), 7, after={"id": 2, "Code": 5})

    assert dispatch.rule_of(T1) == Rule(Dispatcher.INDEX_VALUE, index="UK_code")
    assert dispatch.rule_of(T2) == Rule(Dispatcher.COLUMNS, columns=("CODE",))
    assert dispatch.partition_key(row) == str(dispatch.partition(row, 1 << 32))
    assert dispatch.partition(row, 1 << 32) != dispatch.partition(other, 1 << 32)


def test_a_columns_rule_without_columns_is_refused() -> None:
    with pytest.raises(ChangefeedError, match="names no columns"):
        Dispatch("feed", [DispatchRule(("*.*",), partition="columns")])


@pytest.mark.parametrize(
    ("partition", "expected"),
    [("table", "test.t1"), ("ts", "7"), ("index-value", str(0xA854E25B))],
)
def test_rows_that_share_a_message_share_a_key(partition: str, expected: str) -> None:
    dispatch = Dispatch("feed", [DispatchRule(("*.*",), partition=partition)])

    assert dispatch.partition_key(RowChange(table(), 7, after={"id": 1, "Code": 5})) == expected


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (DispatchRule(("*.*",), partition="index-value", index="plain"), "no unique index 'plain'"),
        (DispatchRule(("*.*",), partition="index-value", index="none"), "no unique index 'none'"),
        (DispatchRule(("*.*",), partition="columns", columns=("id", "gone")), "no column gone"),
        (DispatchRule(("*.*",), partition="columns", columns=("twice",)), "virtual column twice"),
    ],
)
def test_a_table_without_what_its_rule_needs_is_refused(rule: DispatchRule, problem: str) -> None:
    dispatch = Dispatch("feed", [rule])

    with pytest.raises(ChangefeedError, match=rf"test\.t1 .*{problem}") as caught:
        dispatch.verify([table()])
    assert caught.value.code == "CDC:ErrDispatcherFailed"


def test_a_row_without_what_its_rule_needs_is_refused_the_same_way() -> None:
    dispatch = Dispatch("feed", [DispatchRule(("*.*",), partition="columns", columns=("gone",))])

    with pytest.raises(ChangefeedError, match="no column gone") as caught:
        dispatch.partition(RowChange(table(), 7, after={"id": 1}), 3)
    assert caught.value.code == "CDC:ErrDispatcherFailed"


@pytest.mark.parametrize(
    "rule",
    [
        DispatchRule(("*.*",), partition="index-value", index="uk_code"),
        DispatchRule(("*.*",), partition="index-value", index="primary"),
        DispatchRule(("*.*",), partition="columns", columns=("CODE", "id")),
        DispatchRule(("other.*",), partition="columns", columns=("gone",)),
    ],
)
def test_a_table_that_has_it_passes(rule: DispatchRule) -> None:
    Dispatch("feed", [rule]).verify([table()])


@pytest.mark.parametrize("topic", ["{schema}", "x_{table}"])
def test_avro_expressions_name_both(topic: str) -> None:
    Dispatch("feed", [DispatchRule(("*.*",), topic)], protocol="simple")

    with pytest.raises(ChangefeedError, match="avro needs both") as caught:
        Dispatch("feed", [DispatchRule(("*.*",), topic)], protocol="avro")
    assert caught.value.code == "CDC:ErrKafkaInvalidConfig"


@pytest.mark.parametrize("rules", [[], [DispatchRule(("*.*",), "fixed")], [DispatchRule(("x.*",), "{schema}{table}")]])
def test_avro_needs_a_topic_for_each_table(rules: list[DispatchRule]) -> None:
    dispatch = Dispatch("feed", rules, protocol="avro")

    with pytest.raises(ChangefeedError, match=r"test\.t1 goes to") as caught:
        dispatch.verify([table()])
    assert caught.value.code == "CDC:ErrKafkaInvalidConfig"
    Dispatch("feed", [DispatchRule(("*.*",), "{schema}_{table}")], protocol="avro").verify([table()])


@pytest.mark.parametrize("matcher", ["a", "a.b.c"])
def test_a_bad_matcher_is_refused(matcher: str) -> None:
    with pytest.raises(ChangefeedError) as caught:
        Dispatch("feed", [DispatchRule((matcher,))])
    assert caught.value.code == "CDC:ErrFilterRuleInvalid"
