"""The names of Delta tables: numbered documents, because Delta has no catalog of its own.

A table is a folder called by an id that never changes, and a document says which name has which id. To change names,
a writer reads the newest document and puts the changed one under the next number, if no document is there: two
writers never overwrite each other, the one that comes too late changes the other one's document. A document is
complete, so everything that changes in one step, a swap of names too, changes at once.

A document knows the epoch of each sync, so a driver that was replaced cannot change names.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tidewire.errors import NoTable, StateError
from tidewire.model import TableName
from tidewire.spark.targets.base import CommitTag, TargetError, refuse_older, refuse_other
from tidewire.storage import Storage

FOLDER: Final = "catalog"
"""The folder of the documents in a target."""

_VERSION: Final = 2
_OLD: Final = "catalog.json"
"""The one document that 0.1 wrote; its content is taken over."""

_KEPT: Final = 32
"""The documents that are kept, for readers of an older one, and to notice a writer that was suspended."""

_SEQUENCES: Final = 3
"""The number of plans for which steps that changed names are kept."""


@dataclass(frozen=True, slots=True)
class Names:
    """What a document says.

    ``tables`` has the folder of each name. ``dropped`` has the folders that no name leads to, with the second in which
    that began; a folder begins its life there, so that it is found if making its table fails. ``moved`` has the steps
    that changed names, by sync and sequence.
    """

    tables: Mapping[TableName, str] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    epochs: Mapping[str, int] = field(default_factory=dict)
    moved: Mapping[str, Mapping[int, tuple[str, ...]]] = field(default_factory=dict)

    def id_of(self, name: TableName) -> str:
        """The folder of a name."""
        try:
            return self.tables[name]
        except KeyError:
            raise NoTable(f"there is no table {name}") from None

    def has_moved(self, tag: CommitTag) -> bool:
        """Has a step changed names?"""
        return any(tag.step in steps for steps in self.moved.get(tag.sync, {}).values())

    def by(self, tag: CommitTag, name: TableName) -> Names:
        """With the epoch of a driver that is about to change a name; ``Fenced`` if there is a newer one."""
        newest = self.epochs.get(tag.sync, 0)
        refuse_older(name, newest, tag)
        return self if newest == tag.epoch else replace(self, epochs={**self.epochs, tag.sync: tag.epoch})

    def with_unnamed(self, id_: str, now: int) -> Names:
        """With a folder that has no name yet."""
        return replace(self, dropped={**self.dropped, id_: now})

    def with_table(self, name: TableName, id_: str, tag: CommitTag, now: int, identity: str | None = None) -> Names:
        """With a table, in place of the one that had the name."""
        left = self.without_table(name, tag, now, identity)
        unnamed = {other: since for other, since in left.dropped.items() if other != id_}
        return replace(left, tables={**left.tables, name: id_}, dropped=unnamed)

    def without_table(self, name: TableName, tag: CommitTag, now: int, identity: str | None = None) -> Names:
        """Without a table; its folder stays known."""
        checked = self.by(tag, name)
        if name not in self.tables:
            return checked
        refuse_other(name, identity, self.tables[name])
        tables = {other: id_ for other, id_ in self.tables.items() if other != name}
        gone = replace(checked, tables=tables, dropped={**self.dropped, self.tables[name]: now})
        return gone._noted(tag)

    def without_folders(self, ids: Iterable[str]) -> Names:
        """Without folders that are gone."""
        gone = set(ids)
        return replace(self, dropped={id_: since for id_, since in self.dropped.items() if id_ not in gone})

    def with_moves(
        self, moves: Iterable[tuple[TableName, TableName]], tag: CommitTag, identities: Mapping[TableName, str] = {}
    ) -> Names:
        """With tables under other names, unless they went there before."""
        if self.has_moved(tag):
            return self
        moves = [move for move in moves if move[0] != move[1]]
        moving = {old: self.id_of(old) for old, _ in moves}
        tables = {name: id_ for name, id_ in self.tables.items() if name not in moving}
        checked = self
        for old, new in moves:
            checked = checked.by(tag, old)
            refuse_other(old, identities.get(old), moving[old])
            if new in tables:
                raise TargetError(f"{old} cannot become {new}: there is a table of that name")
            tables[new] = moving[old]
        if len(moving) < len(moves):
            raise TargetError(f"a rename names a table twice: {', '.join(f'{old} to {new}' for old, new in moves)}")
        return replace(checked, tables=tables)._noted(tag)

    def _noted(self, tag: CommitTag) -> Names:
        known = dict(self.moved.get(tag.sync, {}))
        known[tag.sequence] = (*known.get(tag.sequence, ()), tag.step)
        kept = {sequence: known[sequence] for sequence in sorted(known)[-_SEQUENCES:]}
        return replace(self, moved={**self.moved, tag.sync: kept})

    def to_plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "version": _VERSION,
            "tables": [{"schema": name.schema, "table": name.table, "id": id_} for name, id_ in self.tables.items()],
            "dropped": dict(self.dropped),
            "epochs": dict(self.epochs),
            "moved": {
                sync: {str(at): list(steps) for at, steps in known.items()} for sync, known in self.moved.items()
            },
        }

    @classmethod
    def from_plain(cls, document: Mapping[str, Any]) -> Names:
        """Out of JSON, also that of 0.1."""
        if document.get("version", 1) > _VERSION:
            raise StateError(
                f"the catalog of Delta tables has version {document['version']}; this release reads versions up to "
                f"{_VERSION}. Use a newer tidewire"
            )
        tables = {TableName(table["schema"], table["table"]): table["id"] for table in document["tables"]}
        moved = {
            sync: {int(at): tuple(steps) for at, steps in known.items()}
            for sync, known in document.get("moved", {}).items()
        }
        return cls(tables, document["dropped"], document.get("epochs", {}), moved)


class DeltaCatalogue:
    """The documents in their place. Any number of processes may read and write."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._known: tuple[int, Names] = (-1, Names())

    def names(self) -> Names:
        """What the newest document says."""
        return self._newest()[1]

    def update(self, change: Callable[[Names], Names]) -> None:
        """Change the names, all or nothing, whatever other processes do at the same time."""
        while True:
            number, before = self._newest()
            after = change(before)
            if after == before or self._put(number + 1, after):
                return

    def _newest(self) -> tuple[int, Names]:
        while True:
            number = max(self._numbers(), default=0)
            known = self._known
            if number == known[0]:
                return known
            data = self._storage.read(_file(number) if number else _OLD)
            if data is not None or not number:
                names = Names() if data is None else Names.from_plain(json.loads(data))
                if number:  # the document of 0.1 is read until it is taken over
                    self._known = number, names
                return number, names

    def _put(self, number: int, names: Names) -> bool:
        """Put a document if it is the next one."""
        # Stores may repeat a put whose answer was lost: documents of two writers must differ.
        document = names.to_plain() | {"writer": uuid.uuid4().hex}
        data = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
        if not self._storage.put_if_absent(_file(number), data):
            return False
        numbers = self._numbers()
        if number <= max(numbers) - _KEPT // 2:
            # This writer slept while others wrote so many documents that the one of this number was removed.
            self._storage.delete([_file(number)])
            return False
        self._storage.delete([_file(old) for old in sorted(numbers)[:-_KEPT]])
        return True

    def _numbers(self) -> list[int]:
        names = (entry.name.rpartition("/")[2] for entry in self._storage.list(FOLDER))
        return [int(name.removesuffix(".json")) for name in names if name.removesuffix(".json").isdecimal()]


def _file(number: int) -> str:
    return f"{FOLDER}/{number:012}.json"
