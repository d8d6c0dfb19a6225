"""Random histories with rules about tables: routed, masked, and under policies that keep what upstream gives up."""

from __future__ import annotations

from sync.consumer import Clumsy
from sync.following import failure
from sync.histories import Changefeed
from sync.upstream import Picture
from tidewire.model import TableName
from tidewire.sync.policies import ChangeKind, DdlPolicy
from tidewire.sync.rules import Mask, Rules, TableRule

SEEDS = range(150)


class Routed(Clumsy):
    """Gives every table another name, in databases that mix."""

    rules = Rules(
        tables=(
            TableRule(match=("d1.*",), to="lake.{schema}_{table}"),
            TableRule(match=("*.*",), to="{table}.{schema}"),
        )
    )


class Hashed(Clumsy):
    """Hashes all there is, keys too."""

    rules = Rules(tables=(TableRule(match=("*.*",), mask={"*": Mask.HASH}),), salt="pepper")


class Lenient(Clumsy):
    """Keeps what upstream gives up; what upstream has is there, too."""

    rules = Rules(ddl=dict.fromkeys(ChangeKind, DdlPolicy.LENIENT))

    def _difference(self, picture: Picture) -> str:
        for name, told in picture.items():
            table = self.target.tables.get(name)
            if table is None:
                if told.told:
                    return f"{name} is missing"
                continue
            for key, row in told.rows.items():
                kept = table.rows.get(key, {})
                if {column: kept.get(column) for column in row} != row:
                    return f"{name} has {kept} for {row}"
        return ""


class Ignoring(Clumsy):
    """Knows no DDL: whatever happens, no table is made or goes, and no column."""

    rules = Rules(ddl={kind: DdlPolicy.IGNORE for kind in ChangeKind if kind is not ChangeKind.CHANGE_KEY})

    def __init__(self, feed: Changefeed, seed: int) -> None:
        super().__init__(feed, seed)
        self.known: dict[TableName, list[str]] = {}

    def _difference(self, picture: Picture) -> str:
        tables = {name: table.names for name, table in self.target.tables.items()}
        if len(tables) > len(self.history.upstream.start):
            return f"of {list(tables)} some were made"
        for name, columns in self.known.items():
            if not set(columns) <= set(tables.get(name, ())):
                return f"{name} had {columns} and has {tables.get(name)}"
        self.known = tables
        return ""


def test_routed_tables_equal_the_upstream_under_their_names() -> None:
    message = failure(SEEDS, Routed)

    assert not message, message


def test_hashed_tables_have_the_hashes_of_the_upstream() -> None:
    message = failure(SEEDS, Hashed)

    assert not message, message


def test_lenient_tables_have_all_that_upstream_has() -> None:
    message = failure(SEEDS, Lenient)

    assert not message, message


def test_ignoring_everything_tables_stay_what_they_were() -> None:
    message = failure(SEEDS, Ignoring)

    assert not message, message
