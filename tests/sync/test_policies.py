"""DDL policies, kind by kind: what the target has after a statement, and that a crash decides nothing anew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sync.scenes import SHAPE, Scene, T, ddl, put, row, shaped, watermark
from sync.upstream import column
from tidewire.ddl.edits import (
    AddColumn,
    AlterTable,
    ChangeColumn,
    ColumnPosition,
    CreateTable,
    DropColumn,
    DropDatabase,
    DropTable,
    Edit,
    Impossible,
    RenameColumn,
    RenameTable,
    TruncateTable,
)
from tidewire.errors import SyncStopped
from tidewire.model import Row, TableName, TableSchema
from tidewire.sync.plan import PlanSettings
from tidewire.sync.policies import ChangeKind, DdlPolicy
from tidewire.sync.rules import Mask, Rules, TableRule
from tidewire.sync.state import HoldKind, OnBad

OTHER = TableName("d", "other")
EVERYTHING = dict.fromkeys(ChangeKind)


class Ruled(Scene):
    """A scene with rules."""

    def __init__(self, rules: Rules) -> None:
        super().__init__()
        self.set(rules)

    def set(self, rules: Rules) -> None:
        """Go on by other rules."""
        self.rules = rules
        self.settings = PlanSettings(understand=self.understand, rules=rules)


def scene(policy: DdlPolicy, *kinds: ChangeKind) -> Ruled:
    """A table with one row, and a policy for some kinds of DDL, or for all."""
    made = Ruled(Rules(ddl=dict.fromkeys(kinds or ChangeKind, policy) | {ChangeKind.CREATE_TABLE: DdlPolicy.EVOLVE}))
    made.flow(ddl(1, CreateTable(SHAPE)), put(5, 1, "a"), watermark(9))
    return made


def columns(*names: str) -> TableSchema:
    """The table with other columns."""
    return replace(
        SHAPE, columns=tuple(column(name, "int" if name != "v" else "varchar(20)", name == "id") for name in names)
    )


def alter(*changes: object) -> Edit:
    return AlterTable(T, changes)  # type: ignore[arg-type]


def after(made: Ruled, edit: Edit, schema: TableSchema, values: Row) -> list[Row]:
    """The rows after a statement and a row."""
    made.flow(ddl(10, edit), row(15, None, values, schema), watermark(19))
    return made.full()


FOLLOWING = [DdlPolicy.EVOLVE, DdlPolicy.LENIENT]
KEEPING = [DdlPolicy.LENIENT, DdlPolicy.IGNORE]


@pytest.mark.parametrize("policy", FOLLOWING)
def test_a_new_column_is_followed(policy: DdlPolicy) -> None:
    found = after(
        scene(policy),
        alter(AddColumn(column("n", "int", default="7"), ColumnPosition(after="id"))),
        columns("id", "n", "v"),
        {"id": 2, "n": 3, "v": "b"},
    )

    assert found == [{"id": 1, "n": 7, "v": "a"}, {"id": 2, "n": 3, "v": "b"}]


def test_a_new_column_is_left_out() -> None:
    made = scene(DdlPolicy.IGNORE)

    found = after(made, alter(AddColumn(column("n", "int"))), columns("id", "v", "n"), {"id": 2, "v": "b", "n": 3})

    assert found == [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]
    assert made.state.tables[T].columns[-1].name == "n"


@pytest.mark.parametrize("policy", KEEPING)
def test_a_dropped_column_stays_without_new_values(policy: DdlPolicy) -> None:
    made = scene(policy)

    found = after(made, alter(DropColumn("v")), columns("id"), {"id": 2})

    assert found == [{"id": 1, "v": "a"}, {"id": 2, "v": None}]


def test_a_column_that_comes_again_has_its_name_and_the_old_one_another() -> None:
    made = scene(DdlPolicy.LENIENT)
    after(made, alter(DropColumn("v")), columns("id"), {"id": 2})

    made.flow(
        ddl(20, alter(AddColumn(column("v", "int")))),
        row(25, None, {"id": 3, "v": 5}, replace(SHAPE, columns=(column("id", "int", True), column("v", "int")))),
        watermark(29),
    )

    assert made.full() == [
        {"id": 1, "v__dropped_20": "a", "v": None},
        {"id": 2, "v__dropped_20": None, "v": None},
        {"id": 3, "v__dropped_20": None, "v": 5},
    ]


def test_an_ignored_column_that_comes_again_goes_on_in_the_old_one() -> None:
    made = scene(DdlPolicy.IGNORE)
    after(made, alter(DropColumn("v")), columns("id"), {"id": 2})

    made.flow(ddl(20, alter(AddColumn(column("v", "varchar(20)")))), put(25, 3, "c"), watermark(29))

    assert made.table() == {1: "a", 2: None, 3: "c"}


@pytest.mark.parametrize(("policy", "name"), [*((each, "w") for each in FOLLOWING), (DdlPolicy.IGNORE, "v")])
def test_a_renamed_column_goes_on_under_one_of_its_names(policy: DdlPolicy, name: str) -> None:
    renamed = replace(SHAPE, columns=(SHAPE.columns[0], column("w", "varchar(20)")))

    found = after(scene(policy), alter(RenameColumn("v", "w")), renamed, {"id": 2, "w": "b"})

    assert found == [{"id": 1, name: "a"}, {"id": 2, name: "b"}]


@pytest.mark.parametrize(
    ("policy", "wider", "values"),
    [
        (DdlPolicy.EVOLVE, "bigint", [5, 6]),
        (DdlPolicy.LENIENT, "bigint", [5, 6]),
        (DdlPolicy.LENIENT, "varchar(9)", ["5", "6"]),
        (DdlPolicy.LENIENT, "tinyint", [5, 6]),
        (DdlPolicy.IGNORE, "varchar(9)", [5, 6]),
    ],
)
def test_another_type_is_followed_where_the_policy_says_so(policy: DdlPolicy, wider: str, values: list[object]) -> None:
    made = Ruled(Rules(ddl={ChangeKind.MODIFY_COLUMN: policy}))
    narrow = replace(SHAPE, columns=(SHAPE.columns[0], column("v", "int")))
    changed = replace(SHAPE, columns=(SHAPE.columns[0], column("v", wider)))
    made.flow(ddl(1, CreateTable(narrow)), row(5, None, {"id": 1, "v": 5}, narrow), watermark(9))

    value = "6" if "char" in wider else 6
    made.flow(ddl(10, alter(ChangeColumn("v", column("v", wider)))), row(15, None, {"id": 2, "v": value}, changed))
    made.flow(watermark(19))

    assert [each["v"] for each in made.full()] == values
    kept = made.target.tables[T].columns[1].mysql_type
    assert kept == ("int" if policy is DdlPolicy.IGNORE or wider == "tinyint" else wider)


@pytest.mark.parametrize("policy", KEEPING)
def test_a_truncated_table_keeps_its_rows(policy: DdlPolicy) -> None:
    made = scene(policy)

    made.flow(ddl(10, TruncateTable(T)), put(15, 2, "b"), watermark(19))

    assert made.table() == {1: "a", 2: "b"}


@pytest.mark.parametrize("edit", [DropTable(T), DropDatabase("d")])
def test_a_dropped_table_goes_aside_or_stays_until_its_name_is_needed(edit: Edit) -> None:
    lenient, ignoring = scene(DdlPolicy.LENIENT), scene(DdlPolicy.IGNORE)
    aside = TableName("d", "t__dropped_10")
    for made in (lenient, ignoring):
        made.flow(ddl(10, edit), watermark(19))
    assert lenient.target.tables.keys() == {aside}
    assert ignoring.target.tables.keys() == {T}

    published = ignoring.flow(ddl(20, CreateTable(SHAPE)), put(25, 2, "b"), watermark(29)).publication
    lenient.flow(ddl(20, CreateTable(SHAPE)), put(25, 2, "b"), watermark(29))

    assert lenient.table() == ignoring.table() == {2: "b"}
    assert lenient.table(aside) == ignoring.table(TableName("d", "t__dropped_20")) == {1: "a"}
    assert published is not None
    assert [table.name for table in published.tables] == [T]


@pytest.mark.parametrize(("policy", "name"), [*((each, OTHER) for each in FOLLOWING), (DdlPolicy.IGNORE, T)])
def test_a_renamed_table_goes_on_under_one_of_its_names(policy: DdlPolicy, name: TableName) -> None:
    made = scene(policy)

    made.flow(ddl(10, RenameTable(T, OTHER), table=OTHER), put(15, 2, "b", shaped(OTHER)), watermark(19))

    assert made.target.tables.keys() == {name}
    assert made.table(name) == {1: "a", 2: "b"}
    if name == T:
        with pytest.raises(SyncStopped, match=r"d.t and d.other would both be d.t"):
            made.flow(ddl(20, CreateTable(SHAPE)), watermark(29))


def test_a_table_that_is_made_is_left_out_and_stays_out() -> None:
    made = Ruled(Rules(ddl={ChangeKind.CREATE_TABLE: DdlPolicy.IGNORE}))

    made.flow(put(5, 1, "a", shaped(OTHER)), ddl(10, CreateTable(SHAPE)), put(15, 1, "a"), watermark(19))
    made.flow(ddl(20, alter(DropColumn("v"))), row(25, None, {"id": 2}, columns("id")), watermark(29))

    assert made.target.tables.keys() == {OTHER}


KINDS: dict[ChangeKind, Edit] = {
    ChangeKind.DROP_TABLE: DropTable(T),
    ChangeKind.TRUNCATE_TABLE: TruncateTable(T),
    ChangeKind.RENAME_TABLE: RenameTable(T, OTHER),
    ChangeKind.ADD_COLUMN: alter(AddColumn(column("n", "int"))),
    ChangeKind.DROP_COLUMN: alter(DropColumn("v")),
    ChangeKind.RENAME_COLUMN: alter(RenameColumn("v", "w")),
    ChangeKind.MODIFY_COLUMN: alter(ChangeColumn("v", column("v", "int"))),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_frozen_table_stops_before_the_statement_and_goes_on_when_the_policy_changes(kind: ChangeKind) -> None:
    made = scene(DdlPolicy.FREEZE, kind)

    planned = made.flow(put(10, 2, "b"), ddl(12, KINDS[kind]), watermark(19))

    assert made.table() == {1: "a", 2: "b"}
    (hold,) = planned.state.holds
    assert (hold.ts, hold.table, hold.kind) == (11, T, HoldKind.POLICY)
    assert f"the policy for {kind} is freeze" in hold.reason
    assert planned.publication is not None
    assert planned.publication.held == {T: 11}
    assert made.state == planned.state
    assert made.flow(watermark(20)).state.holds == (hold,)
    made.set(Rules(ddl={kind: DdlPolicy.IGNORE}))
    thawed = made.flow(watermark(29))
    assert not thawed.state.holds
    assert not thawed.state.queue
    assert made.table() == {1: "a", 2: "b"}


def test_a_new_table_can_be_frozen_and_another_kind_is_not() -> None:
    made = Ruled(Rules(ddl={ChangeKind.CREATE_TABLE: DdlPolicy.FREEZE}))

    made.flow(ddl(1, CreateTable(SHAPE)), put(5, 1, "a"), watermark(9))
    assert not made.target.tables
    made.set(Rules(ddl={ChangeKind.DROP_TABLE: DdlPolicy.FREEZE}))
    made.flow(watermark(10))

    assert made.table() == {1: "a"}


def test_the_rule_of_a_table_wins() -> None:
    rule = TableRule(match=("d.o*",), ddl={ChangeKind.TRUNCATE_TABLE: DdlPolicy.IGNORE})
    made = Ruled(Rules(tables=(rule,)))
    made.flow(put(5, 1, "a"), put(5, 1, "a", shaped(OTHER)), watermark(9))

    made.flow(ddl(10, TruncateTable(T)), ddl(11, TruncateTable(OTHER), table=OTHER), watermark(19))

    assert (made.table(), made.table(OTHER)) == ({}, {1: "a"})


@pytest.mark.parametrize("on_bad", [OnBad.HOLD, OnBad.STOP])
def test_a_statement_that_follows_on_a_frozen_one_is_judged_when_its_turn_comes(on_bad: OnBad) -> None:
    made = scene(DdlPolicy.FREEZE, ChangeKind.RENAME_COLUMN)
    made.settings = replace(made.settings, on_bad=on_bad)
    wider = ChangeColumn("w", column("w", "varchar(40)"), ColumnPosition(first=True))
    made.flow(ddl(10, alter(RenameColumn("v", "w"))), ddl(20, alter(wider)), watermark(29))
    assert [hold.ts for hold in made.state.holds] == [9]

    made.set(Rules())
    made.flow(watermark(30))

    assert not made.state.holds
    assert made.full() == [{"w": "a", "id": 1}]
    assert made.target.tables[T].names == ["w", "id"]


def test_a_dropped_database_waits_for_a_table_in_it_that_waits_to_be_made() -> None:
    made = Ruled(Rules(ddl={ChangeKind.CREATE_TABLE: DdlPolicy.FREEZE}))
    made.flow(ddl(1, CreateTable(SHAPE)), ddl(10, DropDatabase("d"), table=TableName("d", "")), watermark(19))

    made.set(Rules())
    made.flow(watermark(20))

    assert not made.target.tables


def test_a_table_that_is_made_after_a_dropped_database_waits_with_it() -> None:
    made = scene(DdlPolicy.FREEZE, ChangeKind.DROP_TABLE)
    drop = ddl(10, DropDatabase("d"), table=TableName("d", ""))
    made.flow(drop, ddl(15, CreateTable(shaped(OTHER)), table=OTHER), watermark(19))

    made.set(Rules())
    made.flow(watermark(20))

    assert made.target.tables.keys() == {OTHER}


@pytest.mark.parametrize("on_bad", [OnBad.HOLD, OnBad.STOP])
def test_a_statement_that_cannot_be_followed_is_nothing_to_who_does_not_follow_its_table(on_bad: OnBad) -> None:
    hidden = TableName("x", "t")
    made = Ruled(Rules(("d.*",)))
    made.settings = replace(made.settings, on_bad=on_bad)

    made.flow(put(5, 1, "a"), ddl(6, Impossible(hidden, "rows go"), table=hidden), watermark(9))
    made.flow(ddl(16, RenameTable(hidden, OTHER), table=OTHER), put(17, 2, "b", shaped(OTHER)), watermark(19))

    assert (made.table(), made.table(OTHER)) == ({1: "a"}, {2: "b"})
    assert not made.state.holds
    assert not made.state.queue


# Names, masks and sight


def test_two_tables_cannot_be_one() -> None:
    made = Ruled(Rules(tables=(TableRule(match=("*.*",), to="lake.all"),)))

    with pytest.raises(SyncStopped, match=r"d.t and d.other would both be lake.all"):
        made.flow(put(5, 1, "a", shaped(OTHER)), put(5, 1, "a"), watermark(9))


def test_a_rename_out_of_sight_is_a_drop_and_into_sight_a_beginning() -> None:
    hidden = TableName("x", "t")
    made = Ruled(Rules(("d.*",), ddl={ChangeKind.DROP_TABLE: DdlPolicy.LENIENT}))
    made.flow(put(5, 1, "a"), put(6, 7, "x", shaped(hidden)), watermark(9))

    planned = made.flow(
        ddl(10, RenameTable(T, TableName("x", "u")), table=T),
        ddl(11, RenameTable(hidden, T), table=T),
        put(15, 8, "y"),
        watermark(19),
    )

    assert made.table() == {8: "y"}
    assert made.table(TableName("d", "t__dropped_10")) == {1: "a"}
    assert any("d.t was x.t before, which is not followed" in note for note in planned.notes)


def test_a_table_that_is_no_longer_followed_stays_as_it_is() -> None:
    made = scene(DdlPolicy.EVOLVE)

    made.set(Rules(("x.*",)))
    planned = made.flow(put(15, 2, "b"), ddl(16, TruncateTable(T)), watermark(19))

    assert made.table() == {1: "a"}
    assert [table.name for table in made.state.kept] == [T]
    assert planned.publication is not None
    assert [table.name for table in planned.publication.tables] == [T]


@pytest.mark.parametrize(
    "edit", [alter(RenameColumn("v", "w")), RenameTable(T, OTHER), alter(ChangeColumn("v", column("w", "varchar(20)")))]
)
def test_a_mask_is_not_lost_by_a_rename(edit: Edit) -> None:
    made = Ruled(Rules(tables=(TableRule(match=("d.t",), mask={"v": Mask.HASH}),)))
    made.flow(put(5, 1, "a"), watermark(9))

    planned = made.flow(ddl(10, edit), watermark(19))

    (hold,) = planned.state.holds
    assert "the mask of d.t v is hash" in hold.reason


def test_a_swap_of_masked_columns_is_no_other_mask() -> None:
    made = Ruled(Rules(tables=(TableRule(match=("*.*",), mask={"a": Mask.HASH, "b": Mask.HASH}),)))
    both = columns("id", "a", "b")
    made.flow(row(5, None, {"id": 1, "a": 1, "b": 2}, both), watermark(9))
    (before,) = made.full()

    planned = made.flow(ddl(10, alter(RenameColumn("a", "b"), RenameColumn("b", "a"))), watermark(19))

    assert not planned.state.holds
    assert made.full() == [{"id": 1, "b": before["a"], "a": before["b"]}]


def test_a_place_behind_a_dropped_column_is_behind_the_one_before_it() -> None:
    made = Ruled(Rules(tables=(TableRule(match=("*.*",), mask={"v": Mask.DROP}),)))
    made.flow(put(5, 1, "a"), watermark(9))

    made.flow(ddl(10, alter(AddColumn(column("n", "int"), ColumnPosition(after="v")))), watermark(19))

    assert made.target.tables[T].names == ["id", "n"]
    made.flow(ddl(20, alter(DropColumn("v"))), watermark(29))
    assert not made.state.holds


# Without statements


def avro(policy: DdlPolicy) -> Ruled:
    """Rows that alone tell how their table changes: a column more, and one less."""
    made = Ruled(Rules(ddl=dict.fromkeys(ChangeKind, policy)))
    made.settings = replace(made.settings, has_watermarks=False, ddl=False)
    made.flow(put(0, 1, "a"), row(1, None, {"id": 2, "n": 5}, columns("id", "n")))
    return made


@pytest.mark.parametrize(
    ("policy", "rows"),
    [
        (DdlPolicy.EVOLVE, [{"id": 1, "n": None}, {"id": 2, "n": 5}]),
        (DdlPolicy.LENIENT, [{"id": 1, "n": None, "v": "a"}, {"id": 2, "n": 5, "v": None}]),
        (DdlPolicy.IGNORE, [{"id": 1, "v": "a"}, {"id": 2, "v": None}]),
    ],
)
def test_rows_that_tell_another_shape_are_under_policies_too(policy: DdlPolicy, rows: list[Row]) -> None:
    made = avro(policy)

    assert made.full() == rows
    assert not made.state.holds


def test_rows_of_another_shape_freeze_their_partition() -> None:
    made = avro(DdlPolicy.FREEZE)
    made.flow(put(2, 3, "c"))
    made.read()

    assert made.table() == {1: "a"}
    (hold,) = made.state.holds
    assert (hold.ts, hold.at.offset, hold.kind) == (0, 1, HoldKind.POLICY)
    made.set(Rules())
    made.settings = replace(made.settings, has_watermarks=False, ddl=False)
    made.read()
    assert not made.state.holds
    assert [each["id"] for each in made.full()] == [1, 2, 3]


def test_what_a_policy_decided_survives_in_the_state() -> None:
    made = scene(DdlPolicy.IGNORE)
    made.flow(
        ddl(10, alter(RenameColumn("v", "w"))),
        ddl(11, RenameTable(T, OTHER), table=OTHER),
        ddl(12, CreateTable(shaped(TableName("d", "gone")))),
        ddl(13, DropTable(TableName("d", "gone"))),
        watermark(19),
    )
    state = made.state
    assert state.kept
    copy = state.target_tables[OTHER]
    assert copy is not None
    assert copy.differing == {"v": "w"}
    renamed = replace(SHAPE, name=OTHER, columns=(SHAPE.columns[0], column("w", "varchar(20)")))
    made.send(next(iter(made.topics)), row(25, None, {"id": 2, "w": "b"}, renamed), watermark(29))
    batch = made.next()
    manifest = made.stage(state, batch)
    first = made.plan(state, manifest)

    again = made.plan(made.state, manifest)

    assert again.steps == first.steps
    assert again.state == first.state
    made.execute(again)
    made.commit(again)
    assert made.table() == {1: "a", 2: "b"}
