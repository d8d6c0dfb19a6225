"""Topic expressions, with the examples of TiCDC's own tests."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewire.dispatch import TopicExpression
from tidewire.errors import ChangefeedError
from tidewire.model import TableName


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
