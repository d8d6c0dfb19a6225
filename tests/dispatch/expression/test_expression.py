"""Expressions: what is refused, what columns hold, and a naive model of their arithmetic and logic."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewire.dispatch import Expression
from tidewire.dispatch.expression.values import Json, Text
from tidewire.errors import ChangefeedError
from tidewire.model import Column, EnumValue, Row, TableName, TableSchema, Value

INVALID = "CDC:ErrInvalidFilterExpression"
UNKNOWN = "CDC:ErrExpressionColumnNotFound"


def table(**types: str) -> TableSchema:
    return TableSchema.build(TableName("shop", "orders"), [Column.of(name, type_) for name, type_ in types.items()])


def holds(text: str, row: Row, schema: TableSchema) -> bool:
    return Expression.parse(text).holds(row, schema)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "the end at character 1"),
        ("id >", "the end at character 5"),
        ("id = 'a", "at character 6"),
        ("(id", r"expected \)"),
        ("id id", "'id' at character 4"),
        ("id = ", "an expression"),
        ("id in ()", "at character 8"),
        ("id between 1", "expected AND"),
        ("id is 5", "NULL, TRUE or FALSE"),
        ("case id end", "expected WHEN"),
        ("select 1", "'select'"),
        ("now() > d", "no function now"),
        ("rand() > 0.5", "no function rand"),
        ("sleep(1)", "no function sleep"),
        ("current_timestamp > d", "'current_timestamp'"),
        ("lower()", "lower takes 1 to 1 arguments, not 0"),
        ("substring('a')", "SUBSTRING takes"),
        ("id regexp '('", "not a regular expression"),
        ("id regexp '(?=a)'", "not a regular expression"),
        ("id like 'x' escape 'ab'", "ESCAPE"),
        ("cast(id as nonsense)", "a type"),
        ("date 'x' = d", "is not a date"),
        ("extract(parsec from d)", "one of YEAR"),
        ("id = 1; drop table t", "the end of the expression"),
        ("id collate = 'a'", "a collation"),
        ("a.b.c.d = 1", "a column's name"),
        ("(" * 300 + "1" + ")" * 300, "nested too deeply"),
        ("1" + " + 1" * 300, "nested too deeply"),
    ],
)
def test_what_is_no_expression_is_refused_with_its_place(text: str, place: str) -> None:
    with pytest.raises(ChangefeedError, match=place) as caught:
        Expression.parse(text)

    assert caught.value.code == INVALID
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["missing = 1", "other.id = 1", "elsewhere.orders.id = 1", "id = 1 OR `no such` = 2"])
def test_a_column_that_is_not_there_is_named(text: str) -> None:
    schema = table(id="int")

    with pytest.raises(ChangefeedError, match=r"shop\.orders has no column") as caught:
        Expression.parse(text).verify(schema)

    assert caught.value.code == UNKNOWN
    with pytest.raises(ChangefeedError, match=r"shop\.orders has no column"):
        holds(text, {"id": 5}, schema)


def test_names_of_columns_have_no_case_and_may_be_quoted() -> None:
    schema = table(Id="int", **{"odd name": "int"})

    assert holds("ID = 5 AND `odd name` = 6 AND Shop.Orders.id = 5", {"Id": 5, "odd name": 6}, schema)


def test_words_that_are_functions_are_columns_without_parentheses() -> None:
    schema = table(year="int", date="date", value="int")

    assert holds("year = 2024 AND value = 1 AND date IS NULL", {"year": 2024, "value": 1, "date": None}, schema)


def test_null_does_not_hold() -> None:
    assert not holds("id = 5", {"id": None}, table(id="int"))
    assert not holds("NOT (id = 5)", {"id": None}, table(id="int"))


def test_a_number_that_no_type_holds_does_not_hold() -> None:
    assert not holds("pow(10, 400) > id", {"id": 1}, table(id="int"))


def test_an_absent_column_is_null() -> None:
    assert holds("id IS NULL", {}, table(id="int"))


@pytest.mark.parametrize(
    ("collation", "one", "other", "equal"),
    [
        ("utf8mb4_bin", "a", "A", False),
        ("utf8mb4_bin", "a", "a ", True),
        ("utf8mb4_general_ci", "Résumé", "RESUME", True),
        ("utf8mb4_unicode_ci", "a", "A ", True),
        ("utf8mb4_0900_ai_ci", "é", "E", True),
        ("utf8mb4_0900_ai_ci", "a", "a ", False),
        ("utf8mb4_0900_as_ci", "é", "É", True),
        ("utf8mb4_0900_as_ci", "é", "e", False),
        ("utf8mb4_0900_bin", "a", "A", False),
        ("latin1_bin", "a", "A", False),
        (None, "a", "A", False),
    ],
)
def test_a_columns_collation_decides_what_is_equal(collation: str | None, one: str, other: str, equal: bool) -> None:
    column = replace(Column.of("c", "varchar(20)"), collation=collation)
    schema = TableSchema.build(TableName("shop", "orders"), [column])

    assert holds(f"c = '{other}'", {"c": one}, schema) is equal
    assert holds(f"'{other}' IN ('x', c)", {"c": one}, schema) is equal


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("doc->'$.a'", Json(1)),
        ("doc->'$.list[1]'", Json("two")),
        ("doc->>'$.list[1]'", Text("two")),
        ("doc->'$.list[*]'", Json([1, "two"])),
        ("doc->'$.\"odd name\"'", Json(None)),
        ("doc->'$.nothing'", None),
        ("doc->'$.a[0]'", Json(1)),
        ("json_extract(doc, '$.a', '$.yes')", Json([1, True])),
        ("json_unquote(json_extract(doc, '$.list[1]'))", Text("two")),
        ("json_extract('{\"x\": 3}', '$.x')", Json(3)),
        ("json_extract('not json', '$.x')", None),
        ("json_extract(doc, 'x')", None),
        ("doc->'$.a' = 1", 1),
        ("doc->'$.a' < 1.5", 1),
        ("doc->'$.list[1]' = 'two'", 1),
        ("doc->'$.list[1]' = 2", 0),
        ("doc->'$.yes' = TRUE", 1),
        ("doc->'$.yes' = FALSE", 0),
        ("doc->'$.list' = cast('[1, \"two\"]' as json)", 1),
        ("doc->'$.a' + 1", 2),
        ("length(doc->'$.list')", 10),
    ],
)
def test_json_documents(text: str, expected: object) -> None:
    row: Row = {"doc": '{"a": 1, "list": [1, "two"], "yes": true, "odd name": null}'}

    assert Expression.parse(text).value(row, table(doc="json")) == expected


def test_a_document_that_is_none_is_text() -> None:
    assert holds("doc = 'not json' AND doc->'$.a' IS NULL", {"doc": "not json"}, table(doc="json"))


def test_a_hexadecimal_literal_is_a_number_among_numbers() -> None:
    assert Expression.parse("x'41' + 0").value({}, table(id="int")) == 65


def test_enum_texts_come_from_the_value_or_the_column() -> None:
    schema = table(e="enum('new','paid')")

    assert holds("e = 'paid' AND e = 2", {"e": EnumValue(2)}, schema)
    assert holds("e = 'told'", {"e": EnumValue(2, "told")}, schema)


def test_a_like_pattern_of_many_runs_takes_one_pass() -> None:
    assert not holds("c LIKE '" + "%a" * 40 + "b'", {"c": "a" * 20_000}, table(c="text"))


def test_chains_of_or_may_be_long() -> None:
    count = 2000
    text = " OR ".join(f"id = {number}" for number in range(count))

    assert holds(text, {"id": count - 1}, table(id="int"))
    assert not holds(text, {"id": count}, table(id="int"))


# A naive model: trees of operators over small integers and NULL, printed with and without needless parentheses.

Tree = int | str | None | tuple[str, "Tree", "Tree"] | tuple[str, "Tree"]


def _null(function: Callable[[int, int], int | None]) -> Callable[[int | None, int | None], int | None]:
    return lambda one, other: None if one is None or other is None else function(one, other)


def _and(one: int | None, other: int | None) -> int | None:
    if one == 0 or other == 0:
        return 0
    return None if one is None or other is None else 1


def _or(one: int | None, other: int | None) -> int | None:
    if (one is not None and one != 0) or (other is not None and other != 0):
        return 1
    return None if one is None or other is None else 0


BINARY: dict[str, tuple[int, Callable[[int | None, int | None], int | None]]] = {
    "OR": (1, _or),
    "XOR": (2, _null(lambda one, other: int((one != 0) != (other != 0)))),
    "AND": (3, _and),
    "=": (5, _null(lambda one, other: int(one == other))),
    "<>": (5, _null(lambda one, other: int(one != other))),
    "<": (5, _null(lambda one, other: int(one < other))),
    ">=": (5, _null(lambda one, other: int(one >= other))),
    "<=>": (5, lambda one, other: int(one == other)),
    "+": (10, _null(operator.add)),
    "-": (10, _null(operator.sub)),
    "*": (11, _null(operator.mul)),
    "DIV": (11, _null(lambda one, other: None if other == 0 else int(one / other))),
    "%": (11, _null(lambda one, other: None if other == 0 else one - other * int(one / other))),
}
COLUMNS: dict[str, int | None] = {"a": 0, "b": 3, "c": -7, "n": None}
LEAVES = st.one_of(st.integers(0, 9), st.none(), st.sampled_from(sorted(COLUMNS)))
TREES: st.SearchStrategy[Tree] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.tuples(st.sampled_from(sorted(BINARY)), inner, inner), st.tuples(st.just("NOT"), inner)),
    max_leaves=12,
)


def model(tree: Tree) -> int | None:
    match tree:
        case (name, one, other):
            return BINARY[name][1](model(one), model(other))
        case (_, one):
            value = model(one)
            return None if value is None else int(value == 0)
        case str():
            return COLUMNS[tree]
        case _:
            return tree


def printed(tree: Tree, power: int, sparing: bool) -> str:
    """A tree as SQL, in parentheses where its operator binds less strongly than its surroundings."""
    match tree:
        case (name, one, other):
            own = BINARY[name][0]
            text = f"{printed(one, own, sparing)} {name} {printed(other, own + 1, sparing)}"
        case (_, one):
            own, text = 4, f"NOT {printed(one, 4, sparing)}"
        case None:
            return "NULL"
        case _:
            return str(tree)
    return text if sparing and own >= power else f"({text})"


@given(tree=TREES, sparing=st.booleans())
def test_operators_mean_what_a_naive_model_says(tree: Tree, sparing: bool) -> None:
    row: dict[str, Value] = dict(COLUMNS)
    schema = table(a="int", b="int", c="int", n="int")

    assert Expression.parse(printed(tree, 0, sparing)).value(row, schema) == model(tree)


@given(text=st.text(max_size=30), pattern=st.text("ab%_", max_size=6))
def test_like_is_a_regular_expression(text: str, pattern: str) -> None:
    wanted = re.compile("".join({"%": ".*", "_": "."}.get(letter, letter) for letter in pattern), re.DOTALL)
    row: Row = {"c": text}

    assert holds(f"c LIKE '{pattern}'", row, table(c="text")) is (wanted.fullmatch(text) is not None)


@given(text=st.text(max_size=30))
def test_any_string_can_be_written(text: str) -> None:
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    written = Expression.parse(f"'{escaped}'").value({}, table(id="int"))

    assert written == Text(text)


@given(garbage=st.text(max_size=30))
def test_garbage_is_refused_or_read(garbage: str) -> None:
    try:
        Expression.parse(garbage)
    except ChangefeedError as error:
        assert error.code == INVALID
