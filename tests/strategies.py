"""Random events for property tests: whole tables of every type, and what happens to their rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tidewire.model import (
    Bootstrap,
    Column,
    Date,
    DateTime,
    Ddl,
    DdlType,
    EnumValue,
    Event,
    Index,
    RowChange,
    SetValue,
    TableName,
    TableSchema,
    Time,
    Timestamp,
    Value,
    Watermark,
)
from tidewire.model.values import enum_text, float32, set_text

TSO = st.integers(1, 2**63 - 1)
NAMES = st.text(min_size=1, max_size=8)
WORDS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True)
"""Names that Avro takes as they are."""

TEXTS = st.text(max_size=40)


def _unsigned(bits: int) -> st.SearchStrategy[int]:
    return st.integers(0, 2**bits - 1)


def _signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


_FLOATS = st.floats(allow_nan=False, allow_infinity=False)
_SINGLES = st.floats(allow_nan=False, allow_infinity=False, width=32).map(float32)
_DAYS = st.one_of(st.dates().map(lambda day: day.isoformat()), st.just("0000-00-00"), st.just("2020-00-31"))


def _fraction(digits: int) -> st.SearchStrategy[str]:
    if not digits:
        return st.just("")
    return st.integers(0, 10**digits - 1).map(lambda number: f".{number:0{digits}d}")


@st.composite
def _moments(draw: st.DrawFn, digits: int) -> str:
    clock = draw(st.times()).strftime("%H:%M:%S")
    return f"{draw(_DAYS)} {clock}{draw(_fraction(digits))}"


@st.composite
def _spans(draw: st.DrawFn, digits: int) -> str:
    sign = draw(st.sampled_from(["", "-"]))
    hours, minutes, seconds = draw(st.integers(0, 838)), draw(st.integers(0, 59)), draw(st.integers(0, 59))
    return f"{sign}{hours:02d}:{minutes:02d}:{seconds:02d}{draw(_fraction(digits))}"


@st.composite
def _decimals(draw: st.DrawFn, length: int, scale: int) -> Decimal:
    digits = draw(st.integers(0, 10**length - 1))
    number = Decimal(digits).scaleb(-scale)
    return -number if digits and draw(st.booleans()) else number


Filled = tuple[Column, st.SearchStrategy[Value]]


Kind = Callable[[st.DrawFn], Filled]


def _fixed(type_: str, values: st.SearchStrategy[Any]) -> Kind:
    return lambda draw: (Column.of("", type_), values)


def _integer(type_: str, bits: int) -> Kind:
    def kind(draw: st.DrawFn) -> Filled:
        unsigned = draw(st.booleans())
        return Column.of("", type_ + " unsigned" * unsigned), _unsigned(bits) if unsigned else _signed(bits)

    return kind


def _timed(type_: str, texts: Callable[[int], st.SearchStrategy[str]], wrap: Callable[[str], Value]) -> Kind:
    def kind(draw: st.DrawFn) -> Filled:
        digits = draw(st.integers(0, 6))
        return replace(Column.of("", type_), decimal=digits), texts(digits).map(wrap)

    return kind


def _decimal(draw: st.DrawFn) -> Filled:
    length = draw(st.integers(1, 65))
    scale = draw(st.integers(0, min(30, length)))
    return Column.of("", f"decimal({length},{scale})"), _decimals(length, scale)


_ELEMENTS = st.lists(
    st.text("abc\nü", min_size=1, max_size=3) | st.just("it's"), min_size=1, max_size=5, unique=True
).map(tuple)


def _enum(draw: st.DrawFn) -> Filled:
    elements = draw(_ELEMENTS) + draw(st.sampled_from([(), ("x,y",)]))
    values = st.integers(1, len(elements)).map(lambda index: EnumValue(index, enum_text(index, elements)))
    return replace(Column.of("", "enum"), elements=elements), values


def _set(draw: st.DrawFn) -> Filled:
    elements = draw(_ELEMENTS | st.just(tuple(f"m{number}" for number in range(64))))
    values = _unsigned(len(elements)).map(lambda mask: SetValue(mask, set_text(mask, elements)))
    return replace(Column.of("", "set"), elements=elements), values


_KINDS: list[Kind] = [
    *(_integer(type_, bits) for type_, bits in (("tinyint", 8), ("smallint", 16), ("mediumint", 24), ("int", 32))),
    _integer("bigint", 64),
    _fixed("float", _SINGLES),
    _fixed("double", _FLOATS),
    _decimal,
    _fixed("year(4)", st.one_of(st.just(0), st.integers(1901, 2155))),
    _fixed("bit(64)", _unsigned(64)),
    _fixed("bit(10)", _unsigned(10)),
    _fixed("date", _DAYS.map(Date)),
    _timed("datetime", _moments, DateTime),
    _timed("timestamp", _moments, Timestamp),
    _timed("time", _spans, Time),
    *(_fixed(type_, TEXTS) for type_ in ("char(40)", "varchar(40)", "tinytext", "text", "mediumtext", "longtext")),
    *(_fixed(type_, st.binary(max_size=40)) for type_ in ("binary(40)", "varbinary(40)", "tinyblob", "longblob")),
    _enum,
    _set,
    _fixed("json", TEXTS),
    _fixed("vector", st.just("[1,2.5,-3]")),
]


@st.composite
def _columns(draw: st.DrawFn) -> Filled:
    """A column of any type, and the values it takes."""
    return draw(st.sampled_from(_KINDS))(draw)


Table = tuple[TableSchema, dict[str, st.SearchStrategy[Value]]]


@st.composite
def tables(draw: st.DrawFn, words: st.SearchStrategy[str] = NAMES) -> Table:
    """A table with a key, and what each of its columns may hold."""
    names = draw(st.lists(words, min_size=1, max_size=6, unique=True))
    filled = [draw(_columns()) for _ in names]
    key = draw(st.integers(1, len(names)))
    columns = [
        replace(
            column,
            name=name,
            id=number + 1,
            primary_key=number < key,
            nullable=number >= key,
            charset=column.charset or "utf8mb4",
            collation="binary" if column.charset == "binary" else "utf8mb4_bin",
        )
        for number, (name, (column, _)) in enumerate(zip(names, filled, strict=True))
    ]
    primary = Index("PRIMARY", tuple(names[:key]), unique=True, primary=True)
    schema = TableSchema.build(
        TableName(draw(words), draw(words)), columns, [primary], table_id=draw(st.integers(1, 999)), version=draw(TSO)
    )
    values = {
        column.name: contents if column.primary_key else st.none() | contents
        for column, (_, contents) in zip(schema.columns, filled, strict=True)
    }
    return schema, values


@st.composite
def row_changes(draw: st.DrawFn, table: Table | None = None) -> RowChange:
    """An insert, an update or a delete with whole images."""
    schema, values = draw(tables()) if table is None else table
    images = st.fixed_dictionaries(values)
    before, after = draw(
        st.one_of(st.tuples(st.none(), images), st.tuples(images, st.none()), st.tuples(images, images))
    )
    partitioned = draw(st.booleans())
    return RowChange(
        schema,
        draw(TSO),
        before=before,
        after=after,
        table_id=draw(st.integers(1000, 2**31)) if partitioned else schema.table_id,
        partitioned=partitioned,
    )


DDLS = st.builds(
    Ddl,
    table=st.builds(TableName, NAMES, st.one_of(st.just(""), NAMES)),
    commit_ts=TSO,
    query=st.text(min_size=1, max_size=60),
    type=st.sampled_from(DdlType),
)
WATERMARKS = st.builds(Watermark, st.integers(0, 2**63 - 1))
BOOTSTRAPS = tables().map(lambda table: Bootstrap(table[0]))


@st.composite
def streams(
    draw: st.DrawFn, events: st.SearchStrategy[Event] | None = None, names: st.SearchStrategy[str] = NAMES
) -> list[Event]:
    """Several tables' changes in one stream, with other events in between. No two tables have one name."""
    drawn = draw(st.lists(tables(names), min_size=1, max_size=2, unique_by=lambda drawn: drawn[0].name))
    rows = st.sampled_from(drawn).flatmap(row_changes)
    mixed = rows if events is None else st.one_of(rows, rows, events)
    return draw(st.lists(mixed, max_size=8))
