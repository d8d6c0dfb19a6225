"""Random events for property tests: whole tables of every type, and what happens to their rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

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
    MySQLType,
    RowChange,
    SetValue,
    TableName,
    TableSchema,
    Time,
    Timestamp,
    Value,
    Watermark,
)
from tidewire.model.types import TEXTUAL
from tidewire.model.values import enum_text, float32, set_text

TSO = st.integers(1, 2**63 - 1)
NAMES = st.text(min_size=1, max_size=12).filter(lambda name: name.strip() == name)
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


def _integer(type_: str, bits: int, unsigned: bool) -> Filled:
    column = Column.of("", type_ + " unsigned" * unsigned)
    return column, _unsigned(bits) if unsigned else _signed(bits)


@st.composite
def _columns(draw: st.DrawFn) -> Filled:
    """A column of any type, and the values it takes."""
    digits = draw(st.integers(0, 6))
    length, scale = draw(st.integers(1, 65)), draw(st.integers(0, 30))
    scale = min(length, scale)
    elements = tuple(draw(st.lists(st.text("abc'\n,ü", min_size=1, max_size=4), min_size=1, max_size=64, unique=True)))
    names = tuple(element.replace(",", ";") for element in elements)
    kinds: list[Callable[[], Filled]] = [
        *(
            lambda type_=type_, bits=bits: _integer(type_, bits, draw(st.booleans()))  # type: ignore[misc]
            for type_, bits in {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}.items()
        ),
        lambda: (Column.of("", "float"), _SINGLES),
        lambda: (Column.of("", "double"), _FLOATS),
        lambda: (Column.of("", f"decimal({length},{scale})"), _decimals(length, scale)),
        lambda: (Column.of("", "year(4)"), st.one_of(st.just(0), st.integers(1901, 2155))),
        lambda: (Column.of("", "bit(64)"), _unsigned(64)),
        lambda: (Column.of("", "date"), _DAYS.map(Date)),
        lambda: (replace(Column.of("", f"datetime({digits})"), decimal=digits), _moments(digits).map(DateTime)),
        lambda: (replace(Column.of("", f"timestamp({digits})"), decimal=digits), _moments(digits).map(Timestamp)),
        lambda: (replace(Column.of("", f"time({digits})"), decimal=digits), _spans(digits).map(Time)),
        *(lambda type_=type_: (Column.of("", type_), TEXTS) for type_ in ("char(40)", "varchar(40)")),  # type: ignore[misc]
        *(
            lambda type_=type_: (Column.of("", type_), TEXTS)  # type: ignore[misc]
            for type_ in ("tinytext", "text", "mediumtext", "longtext")
        ),
        *(
            lambda type_=type_: (Column.of("", type_), st.binary(max_size=40))  # type: ignore[misc]
            for type_ in ("binary(40)", "varbinary(40)", "tinyblob", "blob", "mediumblob", "longblob")
        ),
        lambda: (
            replace(Column.of("", "enum"), elements=elements),
            st.integers(1, len(elements)).map(lambda index: EnumValue(index, enum_text(index, elements))),
        ),
        lambda: (
            replace(Column.of("", "set"), elements=tuple(dict.fromkeys(names))),
            _unsigned(len(set(names))).map(lambda mask: SetValue(mask, set_text(mask, tuple(dict.fromkeys(names))))),
        ),
        lambda: (Column.of("", "json"), TEXTS),
        lambda: (Column.of("", "vector"), st.just("[1,2.5,-3]")),
    ]
    return draw(st.sampled_from(kinds))()


Table = tuple[TableSchema, dict[str, st.SearchStrategy[Value]]]


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """A table with a key, and what each of its columns may hold."""
    names = draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
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
        TableName(draw(NAMES), draw(NAMES)), columns, [primary], table_id=draw(_unsigned(31)), version=draw(TSO)
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
        table_id=draw(_unsigned(31)) if partitioned else schema.table_id,
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
def streams(draw: st.DrawFn, events: st.SearchStrategy[Event] | None = None) -> list[Event]:
    """Several tables' changes in one stream, with other events in between."""
    drawn = [draw(tables()) for _ in range(draw(st.integers(1, 2)))]
    rows = st.sampled_from(drawn).flatmap(row_changes)
    mixed = rows if events is None else st.one_of(rows, rows, events)
    return draw(st.lists(mixed, max_size=8))


def is_text(column: Column) -> bool:
    """Does the column hold text of its own charset?"""
    return column.type in TEXTUAL and not column.is_binary and column.type not in (MySQLType.ENUM, MySQLType.SET)
