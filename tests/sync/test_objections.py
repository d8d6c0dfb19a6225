"""Random histories with steps that cannot be done: their tables are held, all other steps stay the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from zlib import crc32

from sync.consumer import Batch, Wrong
from sync.following import failure
from sync.healing import Patient
from sync.upstream import DATABASES, TABLES
from tidewire.ddl.edits import CreateTable, DropDatabase, Edit, RenameTable
from tidewire.model import TableName
from tidewire.sync.documents import encode
from tidewire.sync.holds import retry
from tidewire.sync.manifest import FoundDdl, Manifest
from tidewire.sync.plan import Planned, plan
from tidewire.sync.state import HoldKind, State
from tidewire.sync.steps import Step

SEEDS = range(300, 380)


class Doubting(Patient):
    """Plans again, as if a step had turned out to be impossible, and compares."""

    def plan(self, state: State, manifest: Manifest) -> Planned:
        planned = super().plan(state, manifest)
        for place in self.random.sample(range(len(planned.steps)), min(2, len(planned.steps))):
            step = planned.steps[place]
            check = replace(self.settings, check=lambda each, id_=step.id: "no" if each.id == id_ else None)  # type: ignore[misc]
            self.compare(state, manifest, planned, place, plan(state, manifest, check))
        return planned

    def compare(self, state: State, manifest: Manifest, planned: Planned, place: int, other: Planned) -> None:
        """Every step that does not depend on the one that cannot be done is there, in order, and no other."""
        objected = planned.steps[place]
        statements = [*state.queue, *manifest.ddls]
        tables = self.tied(objected, statements)
        first = [step.id for step in planned.steps]
        second = [step.id for step in other.steps]
        wanted = {
            step.id
            for number, step in enumerate(planned.steps)
            if not step.tables & tables or (number < place and (_ts(step) < _ts(objected) or step.kind == "merge"))
        } - {objected.id}
        if missing := wanted - {*second}:
            raise Wrong(f"without {objected.id} there is no {missing}; {first} became {second}")
        if second != [each for each in first if each in {*second}]:
            raise Wrong(f"without {objected.id} there are new steps; {first} became {second}")
        held = {hold.table for hold in other.state.holds} - {hold.table for hold in planned.state.holds}
        if objected.id in second or not held & tables or other.state.applied != planned.state.applied:
            raise Wrong(f"{objected.id} does not hold its tables, but {held}")

    def tied(self, objected: Step, statements: Iterable[FoundDdl]) -> set[TableName]:
        """The tables that have to wait: those of the step, and of statements after it that touch one of them."""
        tables = {*objected.tables}
        groups: dict[int, set[TableName]] = {}
        for found in statements:
            for edit in self.understand(found.ddl):
                groups.setdefault(found.ddl.commit_ts or 0, set()).update(_names(edit))
        for ts, names in sorted(groups.items()):
            if ts >= _ts(objected) and names & tables:
                tables |= names
        return tables


class Hindered(Patient):
    """Cannot do some steps for a while; in the end it can."""

    def _next(self, *, everything: bool) -> Batch:
        state, salt, rate = self.state, str(self.number), 0 if everything else self.random.choice((0, 0, 60, 200))
        self.settings = replace(
            self.settings, check=lambda step: "no" if crc32(f"{salt}{step.id}".encode()) % 256 < rate else None
        )
        for hold in state.holds:
            if everything or self.random.random() < 0.2:
                state = retry(state, hold.id)
        self.document = encode(state)
        return super()._next(everything=everything)

    def _check(self, planned: Planned) -> None:
        kinds = {hold.kind for hold in planned.state.holds}
        if not kinds <= {HoldKind.STATEMENT, HoldKind.ROWS}:
            raise Wrong(f"there are holds of kinds {kinds}")
        super()._check(planned)


def _ts(step: Step) -> int:
    return getattr(step, "ts", 0)


def _names(edit: Edit) -> set[TableName]:
    match edit:
        case DropDatabase(schema):
            return {TableName(schema, table) for table in TABLES if schema in DATABASES}
        case CreateTable(table, like):
            return {table.name} | ({like} if like else set())
        case RenameTable(old, new):
            return {old, new}
        case _:
            name = getattr(edit, "name", None)
            return set() if name is None else {name}


def test_a_step_that_cannot_be_done_changes_no_step_of_another_table() -> None:
    message = failure(SEEDS, Doubting)

    assert not message, message


def test_tables_that_could_not_go_on_equal_the_upstream_when_they_can() -> None:
    message = failure(SEEDS, Hindered)

    assert not message, message
