"""The names of Delta tables: one small document, because Delta has no catalog of its own.

A table is a folder called by an id that never changes, and the document says which name has which id. It is replaced
as a whole, so whatever changes in one step, a swap of names too, happens at once.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidewire.model import TableName
from tidewire.spark.targets.base import Mark, TargetError
from tidewire.spark.targets.done_steps import DoneSteps
from tidewire.spark.work import Work

FILE = "catalog.json"
"""The document's name in a target's folder."""

_LOCKS: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
"""One writer at a time, by place: a process may have several targets in one place."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A table: the folder it is in, and the newest mark of every sync, where a commit could not carry it."""

    id: str
    marks: Mapping[str, Mark] = field(default_factory=dict)

    def stamped(self, mark: Mark | None) -> Entry:
        """The entry with a mark, unless it has a later one of that sync."""
        if mark is None:
            return self
        return replace(self, marks={**self.marks, mark.sync: max(mark, self.marks.get(mark.sync, mark))})


@dataclass(frozen=True, slots=True)
class Names:
    """What the document says.

    ``dropped`` has the folders that no name leads to, with the second in which that began; a folder begins its life
    there, so that one whose making failed is not forgotten.
    """

    tables: Mapping[TableName, Entry] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    renamed: Mapping[str, DoneSteps] = field(default_factory=dict)

    def entry(self, name: TableName) -> Entry:
        """The table of a name."""
        try:
            return self.tables[name]
        except KeyError:
            raise TargetError(f"there is no table {name}") from None

    def with_unnamed(self, id_: str, now: int) -> Names:
        """With a folder that has no name yet."""
        return replace(self, dropped={**self.dropped, id_: now})

    def with_table(self, name: TableName, entry: Entry, now: int) -> Names:
        """With a table, in place of the one that had the name."""
        left = self.without_table(name, now)
        unnamed = {id_: since for id_, since in left.dropped.items() if id_ != entry.id}
        return replace(left, tables={**left.tables, name: entry}, dropped=unnamed)

    def without_table(self, name: TableName, now: int) -> Names:
        """Without a table; its folder stays known."""
        if name not in self.tables:
            return self
        tables = {other: entry for other, entry in self.tables.items() if other != name}
        return replace(self, tables=tables, dropped={**self.dropped, self.tables[name].id: now})

    def without_folders(self, ids: Iterable[str]) -> Names:
        """Without folders that are gone."""
        gone = set(ids)
        return replace(self, dropped={id_: since for id_, since in self.dropped.items() if id_ not in gone})

    def with_mark(self, name: TableName, mark: Mark) -> Names:
        """With a mark on a table."""
        return replace(self, tables={**self.tables, name: self.entry(name).stamped(mark)})

    def with_moves(self, moves: Iterable[tuple[TableName, TableName]], mark: Mark) -> Names:
        """With tables under other names, unless they went there before."""
        done = self.renamed.get(mark.sync, DoneSteps())
        if mark in done:
            return self
        moves = [move for move in moves if move[0] != move[1]]
        moving = {old: self.entry(old).stamped(mark) for old, _ in moves}
        tables = {name: entry for name, entry in self.tables.items() if name not in moving}
        for old, new in moves:
            if new in tables:
                raise TargetError(f"{old} cannot become {new}: there is a table of that name")
            tables[new] = moving[old]
        if len(moving) < len(moves):
            raise TargetError(f"a rename names a table twice: {', '.join(f'{old} to {new}' for old, new in moves)}")
        return replace(self, tables=tables, renamed={**self.renamed, mark.sync: done.having(mark)})

    def to_plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "tables": [
                {
                    "schema": name.schema,
                    "table": name.table,
                    "id": entry.id,
                    "marks": list(map(str, entry.marks.values())),
                }
                for name, entry in self.tables.items()
            ],
            "dropped": dict(self.dropped),
            "renamed": {sync: str(done) for sync, done in self.renamed.items()},
        }

    @classmethod
    def from_plain(cls, document: Mapping[str, Any]) -> Names:
        """Out of JSON."""
        tables = {}
        for table in document["tables"]:
            marks = [Mark.parse(text) for text in table["marks"]]
            tables[TableName(table["schema"], table["table"])] = Entry(table["id"], {mark.sync: mark for mark in marks})
        renamed = {sync: DoneSteps.parse(text) for sync, text in document["renamed"].items()}
        return cls(tables, document["dropped"], renamed)


_Stamp = tuple[int, int, int]


def _stamp(place: Work) -> _Stamp | None:
    """What tells one document from the next without reading it; ``None`` where only reading tells."""
    path = place.local_path(FILE)
    try:
        facts = None if path is None else path.stat()
    except FileNotFoundError:
        return None
    return None if facts is None else (facts.st_ino, facts.st_mtime_ns, facts.st_size)


class DeltaCatalogue:
    """The document in its place. One process writes it; any number may read."""

    def __init__(self, place: Work) -> None:
        self._place = place
        self._lock = _LOCKS[place.path()]
        self._known: tuple[_Stamp | None, Names] = (None, Names())

    def names(self) -> Names:
        """What it says now. It is read again only where another one stands in its place."""
        stamp = _stamp(self._place)
        known, names = self._known
        if stamp is None or stamp != known:
            document = self._place.read(FILE)
            names = Names() if document is None else Names.from_plain(document)
            self._known = stamp, names
        return names

    def update(self, change: Callable[[Names], Names]) -> None:
        """Change it, all or nothing."""
        with self._lock:
            before = self.names()
            after = change(before)
            if after != before:
                self._place.write(FILE, after.to_plain())
