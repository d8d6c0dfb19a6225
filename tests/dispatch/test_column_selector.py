"""Column selectors: what is left of rows and tables, and what has to be left."""

from __future__ import annotations

import pytest

from tidewire.codec import PROTOCOLS, Options, Resources, protocol
from tidewire.dispatch import ColumnSelector, ColumnSelectors, Dispatch, DispatchRule
from tidewire.errors import ChangefeedError
from tidewire.model import Bootstrap, Column, ColumnFlag, Event, Index, Row, RowChange, TableName, TableSchema
from tidewire.registry import MemoryRegistry

TABLE = TableSchema.build(
    TableName("test", "t1"),
    [
        Column.of("id", "bigint", primary_key=True),
        Column.of("part", "bigint", primary_key=True),
        Column.of("code", "bigint", nullable=False),
        Column.of("Secret", "varchar(9)"),
        Column.of("mail", "varchar(9)"),
    ],
    [
        Index("PRIMARY", ("id", "part"), unique=True, primary=True),
        Index("mail", ("mail",), unique=True, nullable=True),
        Index("code", ("code",), unique=True),
        Index("both", ("code", "Secret")),
    ],
    table_id=7,
    version=3,
)
ROW: Row = {"id": 1, "part": 2, "code": 3, "Secret": "s", "mail": "m"}


def selecting(*columns: str, matcher: str = "test.*") -> ColumnSelectors:
    return ColumnSelectors([ColumnSelector((matcher,), columns)])


def names(table: TableSchema) -> list[str]:
    return [column.name for column in table.columns]


@pytest.mark.parametrize(
    ("columns", "kept"),
    [
        (("*",), ["id", "part", "code", "Secret", "mail"]),
        (("*", "!secret"), ["id", "part", "code", "mail"]),
        (("id", "PART"), ["id", "part"]),
        (("*", "!*", "id", "p?rt"), ["id", "part"]),
        (("/^(id|part)$/", "`Secret`"), ["id", "part", "Secret"]),
    ],
)
def test_rows_and_tables_keep_the_selected_columns(columns: tuple[str, ...], kept: list[str]) -> None:
    change = selecting(*columns).change(RowChange(TABLE, 9, before=ROW, after={**ROW, "code": 4}, start_ts=8))

    assert names(change.table) == list(change.before or {}) == list(change.after or {}) == kept
    assert (change.commit_ts, change.start_ts, change.table.version, change.table.table_id) == (9, 8, 3, 7)
    assert change.table.handle_key == ("id", "part")
    assert all(set(index.columns) <= set(kept) for index in change.table.indexes)


def test_an_image_that_is_not_there_stays_so() -> None:
    change = selecting("id", "part").change(RowChange(TABLE, 9, before=ROW))

    assert change.after is None


def test_a_table_that_no_selector_is_about_stays_as_it_is() -> None:
    change = RowChange(TABLE, 9, after=ROW)

    assert selecting("id", matcher="other.*").change(change) is change
    assert ColumnSelectors().change(change) is change
    assert selecting("*").change(change) is change


def test_the_first_selector_counts() -> None:
    selectors = ColumnSelectors(
        [ColumnSelector(("test.t1",), ("id", "part")), ColumnSelector(("test.*",), ("*", "!mail"))]
    )

    assert names(selectors.table(TABLE)) == ["id", "part"]


def test_matchers_look_at_case_where_they_are_told_to() -> None:
    selector = ColumnSelector(("TEST.t1",), ("id", "part"))

    assert names(ColumnSelectors([selector]).table(TABLE)) == ["id", "part"]
    assert ColumnSelectors([selector], case_sensitive=True).table(TABLE) is TABLE


@pytest.mark.parametrize(
    ("columns", "key"),
    [(("code", "mail"), ("code",)), (("id", "code", "mail"), ("code",)), (("id", "mail"), ("mail",))],
)
def test_another_unique_index_identifies_rows_where_the_primary_key_is_not_whole(
    columns: tuple[str, ...], key: tuple[str, ...]
) -> None:
    table = selecting(*columns).table(TABLE)

    assert table.handle_key == key
    assert table.primary_key == ()
    marked = [column.name for column in table.columns if ColumnFlag.HANDLE_KEY in column.effective_flags]
    assert tuple(marked) == key
    assert not any(ColumnFlag.PRIMARY_KEY in column.effective_flags for column in table.columns)


@pytest.mark.parametrize("columns", [("id", "Secret"), ("Secret",), ("!id",), (), ("nothing",)])
def test_a_selection_without_a_key_is_refused(columns: tuple[str, ...]) -> None:
    selectors = selecting(*columns)

    with pytest.raises(ChangefeedError, match=r"test\.t1 hold neither") as caught:
        selectors.verify([TABLE])
    assert caught.value.code == "CDC:ErrColumnSelectorFailed"
    with pytest.raises(ChangefeedError, match=r"test\.t1 hold neither"):
        selectors.change(RowChange(TABLE, 9, after=ROW))


def test_a_selection_without_a_dispatchers_columns_is_refused() -> None:
    dispatch = Dispatch("feed", [DispatchRule(("*.*",), partition="columns", columns=("MAIL", "code"))])

    selecting("*", "!secret").verify([TABLE], dispatch)
    with pytest.raises(ChangefeedError, match="needs MAIL, which is not selected") as caught:
        selecting("*", "!mail").verify([TABLE], dispatch)
    assert caught.value.code == "CDC:ErrColumnSelectorFailed"


@pytest.mark.parametrize("name", PROTOCOLS)
def test_what_is_left_can_be_sent_in_every_protocol(name: str) -> None:
    selectors, codec = selecting("code", "part"), protocol(name)
    options, resources = Options(topic="feed"), Resources(registry=MemoryRegistry())
    change = selectors.change(RowChange(TABLE, 9 << 18, after=ROW, table_id=7))
    events: list[Event] = [Bootstrap(change.table)] if codec.capabilities(options).bootstrap else []
    decoder = codec.Decoder(options, resources)
    messages = codec.Encoder(options, resources).encode([*events, change])
    received = [event for message in messages for event in decoder.decode(message) if isinstance(event, RowChange)]

    assert [dict(row.after or {}) for row in received] == [{"part": 2, "code": 3}]
