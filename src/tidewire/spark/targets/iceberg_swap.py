"""The one way of committing to an Iceberg table that refuses a driver which was replaced.

Updates are collected in a transaction in memory, on metadata that was loaded just before. Then the catalog swaps the
table's metadata for the new one, if the metadata is still the one the transaction began with. Iceberg's own
``commit()`` and ``commitTransaction()`` cannot do this: they load newer metadata and apply the updates to that.

First the epoch is read, from the property that every swap writes and from the newest snapshot with a tag: a newer one
raises ``Fenced``. If the swap raises, whatever the exception, its commit may be there all the same, so the step is
looked for; if it is not there, the same updates are made again in a new transaction. A swap that is still on its way to
the catalog is refused once a later swap has changed the metadata.

Steps are found in the summaries of snapshots and, because snapshots expire, in a property with one record for each
sync. Its steps are those of the sync's current sequence, so it stays small.

Every swap that belongs to a step ends with an empty append: the snapshot has the new schema and carries the tag. The
property comes after it, because only then the snapshot's id is known.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidewire.errors import ForeignTable, NoTable, Retry
from tidewire.model import TableName
from tidewire.spark.targets.base import CommitTag, Java, TargetError, refuse_older, refuse_other
from tidewire.spark.targets.commits import Answer, Begun, tried
from tidewire.spark.targets.files import StoredTable
from tidewire.spark.targets.iceberg_catalog import IcebergCatalog
from tidewire.spark.targets.iceberg_java import JavaNames

SYNC: Final = "tidewire.sync"
EPOCH: Final = "tidewire.epoch"
SEQUENCE: Final = "tidewire.sequence"
STEP: Final = "tidewire.step"
PART: Final = "tidewire.part"

NO_SNAPSHOT: Final = 0
"""Stands for the snapshot of a table without one."""

_SEQUENCES: Final = 3
"""The plans, of those that touched a table, in which a step is looked for; an unfinished plan is the last of them."""


def summary_of(tag: CommitTag, *, step: bool = True) -> dict[str, str]:
    """What a commit with a tag notes in the summary of its snapshot; without its step it only fences."""
    noted = {SYNC: tag.sync, EPOCH: str(tag.epoch), SEQUENCE: str(tag.sequence)}
    if step:
        noted[STEP] = tag.step
        if tag.part is not None:
            noted[PART] = str(tag.part)
    return noted


class Note(NamedTuple):
    """What a commit of a sync noted in its snapshot."""

    snapshot: int
    sync: str
    epoch: int
    sequence: int
    step: str | None
    part: int | None


_links: OrderedDict[int, tuple[Note | None, int | None]] = OrderedDict()
"""What snapshots noted, and their parents. A snapshot never changes, and each call to Java takes its time."""

_MOST_KEPT: Final = 10_000


@dataclass(frozen=True, slots=True)
class Facts:
    """What a table's metadata, ``java``, says of its version, and what tidewire noted in its properties.

    ``current`` is the id of the current snapshot. ``version`` has the schema only if the snapshot has an older one, or
    if there is no snapshot: what 0.1 committed may be so.
    """

    java: Java
    uuid: str
    version: str
    format: int
    current: int | None
    properties: Mapping[str, str]


def facts_of(named: JavaNames, java: Java) -> Facts:
    """What is asked of a table's metadata most often, in one call."""
    found = json.loads(named.commit.facts(java))
    uuid, schema, snapshot = found["uuid"], found["schema"], found.get("snapshot")
    if snapshot is None:
        return Facts(java, uuid, f"{uuid}@{NO_SNAPSHOT}@{schema}", found["format"], None, found["properties"])
    id_, version = snapshot["id"], f"{uuid}@{snapshot['id']}"
    if id_ not in _links:
        _keep(id_, _note_in(id_, snapshot["summary"]), snapshot["parent"])
    if snapshot["schema"] != schema:
        version = f"{version}@{schema}"
    return Facts(java, uuid, version, found["format"], id_, found["properties"])


def notes(state: Facts) -> Iterator[Note]:
    """What commits with tags noted, newest first, as far back as a step is looked for."""
    sequences: set[int] = set()
    id_ = state.current
    while id_ is not None:
        link = _links.get(id_) or _link(id_, state.java)
        if link is None:
            return
        note, id_ = link
        if note is not None:
            if note.step is not None:
                sequences.add(note.sequence)
            if len(sequences) > _SEQUENCES:
                return
            yield note


def _link(id_: int, java: Java) -> tuple[Note | None, int | None] | None:
    snapshot = java.snapshot(id_)
    if snapshot is None:
        return None
    parent = snapshot.parentId()
    return _keep(id_, _note_in(id_, snapshot.summary()), None if parent is None else int(parent))


def _note_in(id_: int, summary: Mapping[str, str]) -> Note | None:
    """What a snapshot's summary has of a tag."""
    sync, step, part = (summary.get(key) for key in (SYNC, STEP, PART))
    if sync is None:
        return None
    return Note(id_, sync, int(summary[EPOCH]), int(summary[SEQUENCE]), step, None if part is None else int(part))


def _keep(id_: int, note: Note | None, parent: int | None) -> tuple[Note | None, int | None]:
    while len(_links) >= _MOST_KEPT:
        _links.popitem(last=False)
    _links[id_] = note, parent
    return note, parent


@dataclass(frozen=True, slots=True)
class Record:
    """What a table's property says of a sync: its epoch, and the steps of its current sequence.

    ``steps`` has the snapshot of each completed step, ``parts`` how many parts of a step were committed.
    """

    epoch: int = 0
    sequence: int = -1
    steps: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def key(sync: str) -> str:
        """The name of the property."""
        return f"{SYNC}.{sync}"

    @classmethod
    def of(cls, state: Facts, sync: str) -> Record:
        """The record in a table's metadata, with what snapshots noted that Spark committed."""
        text = state.properties.get(cls.key(sync))
        record = cls() if text is None else cls(**json.loads(text))
        for note in sorted(notes(state), key=lambda note: note.sequence):
            if note.sync == sync:
                record = record.at_epoch(note.epoch)
                if note.step is not None and note.sequence >= record.sequence:
                    record = record.having(note.sequence, note.step, note.part, note.snapshot)
        return record

    def at_epoch(self, epoch: int) -> Record:
        """With an epoch, unless it has a newer one."""
        return Record(max(epoch, self.epoch), self.sequence, self.steps, self.parts)

    def having(self, sequence: int, step: str, part: int | None, snapshot: int) -> Record:
        """With a step, or a part of it. Another sequence begins anew."""
        same = sequence == self.sequence
        steps, parts = (dict(self.steps), dict(self.parts)) if same else ({}, {})
        if part is None:
            steps[step] = snapshot
            parts.pop(step, None)
        elif step not in steps:
            parts[step] = max(part + 1, parts.get(step, 0))
        return Record(self.epoch, sequence, steps, parts)

    def __str__(self) -> str:
        document = {"epoch": self.epoch, "sequence": self.sequence, "steps": self.steps, "parts": self.parts}
        return json.dumps(document, separators=(",", ":"))


def newest_epoch(state: Facts, sync: str) -> int:
    """The newest epoch that a sync's drivers have left in a table's metadata; 0 if they left no epoch."""
    text = state.properties.get(Record.key(sync))
    noted = next((note.epoch for note in notes(state) if note.sync == sync), 0)
    return max(noted, 0 if text is None else int(json.loads(text)["epoch"]))


def find_step(state: Facts, step: str) -> str | None:
    """The version in which a step was completed, in a table's metadata."""
    syncs = set()
    for note in notes(state):
        if note.step == step and note.part is None:
            return f"{state.uuid}@{note.snapshot}"
        syncs.add(note.sync)
    found = (record.steps.get(step) for record in _records(state, syncs))
    return next((f"{state.uuid}@{snapshot}" for snapshot in found if snapshot is not None), None)


def count_parts(state: Facts, step: str) -> int:
    """How many parts of a step were committed, in a table's metadata."""
    found, syncs = [0], set()
    for note in notes(state):
        syncs.add(note.sync)
        if note.step == step and note.part is not None:
            found.append(note.part + 1)
    return max(*found, *(record.parts.get(step, 0) for record in _records(state, syncs)), 0)


def _records(state: Facts, syncs: Collection[str]) -> Iterator[Record]:
    """The records of syncs. If no snapshot names a sync any more, those of all syncs."""
    properties = state.properties
    keys = map(Record.key, syncs) if syncs else [key for key in properties if key.startswith(Record.key(""))]
    for key in keys:
        text = properties.get(key)
        if text is not None:
            yield Record(**json.loads(text))


Update = Callable[[Java, Facts], int | None]
"""Makes updates in a transaction: given the transaction, and what the table's metadata says that it began with.

It returns the id of the snapshot that it made last, if it knows that.
"""


def swap(
    catalog: IcebergCatalog,
    name: TableName,
    tag: CommitTag | None,
    update: Update = lambda transaction, state: None,
    *,
    identity: str | None = None,
    step: bool = True,
    append: bool = True,
    foreign: bool = False,
    send: Callable[[Java, Java], object] | None = None,
) -> str:
    """Commit updates to a table; the version that they make.

    Without ``step`` the commit belongs to no step, without ``append`` it adds no snapshot, and without a tag no epoch
    is checked. With ``identity`` only the table with that uuid is changed. ``foreign``: may others have made the table?
    ``send`` takes the transaction and the metadata that it began with, instead of :func:`exchange`.
    """

    def attempt(again: bool) -> str:
        table = catalog.table(name) if again else catalog.known_table(name)
        if table is None:
            raise _missing(catalog, name)
        refuse_other(name, identity, table.uuid)
        transaction = table.java.newTransaction()
        base = transaction.startMetadata()
        state = facts_of(catalog.java_named, base)
        record = None if tag is None else Record.of(state, tag.sync)
        if tag is not None and record is not None:
            if not foreign:
                refuse_foreign(catalog, name, record)
            if again and step and (found := _done(state, tag)) is not None:
                return found
            refuse_older(name, record.epoch, tag)
        made = update(transaction, state)
        made = _note(transaction, record, tag, made, step=step, append=append)
        (send or exchange)(transaction, base)
        # A snapshot that was made here has the newest schema.
        return f"{table.uuid}@{made}" if made is not None else _version(catalog, transaction)

    return _tried(catalog, name, tag if step else None, attempt)


def begin_swap(
    catalog: IcebergCatalog,
    name: TableName,
    tag: CommitTag,
    update: Update,
    written: Callable[[str], None],
    *,
    append: bool,
) -> Begun | str:
    """A swap that is not sent; the version that its step made if the step turns out to be done."""
    made: list[tuple[Java, Java]] = []
    version = swap(catalog, name, tag, update, append=append, send=lambda *each: made.append(each))
    return Begun(name, tag, *made[-1], version, written) if made else version


def swap_together(catalog: IcebergCatalog, begun: Sequence[Begun]) -> Sequence[Answer]:
    """Commit several transactions in one request: all of them or none.

    If the request raises, every table is looked at before it is repeated: the commits may be there, or a table may have
    changed, for which the answer is ``Retry``. A request that is still on its way is refused once another one has
    changed one of its tables, because every transaction adds a snapshot.
    """

    def look() -> list[Answer] | None:
        found = [_answer(catalog, each) for each in begun]
        return found if any(each is not None for each in found) else None

    def attempt(again: bool) -> list[Answer]:
        found = look() if again else None
        if found is None:
            catalog.commit_together((each.name, each.base, each.transaction.currentMetadata()) for each in begun)
            found = [each.version for each in begun]
        return found

    others = f" and {len(begun) - 1} other tables" if len(begun) > 1 else ""
    answers = tried(f"{begun[0].name}{others}", f"catalog {catalog.name}", attempt, look)
    for each, answer in zip(begun, answers, strict=True):
        if isinstance(answer, str):
            each.written(answer)
    return answers


def _answer(catalog: IcebergCatalog, begun: Begun) -> Answer:
    """What has become of a swap that was sent with others, as its table says."""
    table = catalog.table(begun.name)
    if table is None:
        return _missing(catalog, begun.name)
    state = facts_of(catalog.java_named, table.state)
    found = _done(state, begun.tag)
    if found is not None:
        return found
    refuse_older(begun.name, newest_epoch(state, begun.tag.sync), begun.tag)
    if state.java.metadataFileLocation() != begun.base.metadataFileLocation():
        return Retry(f"another program changed {begun.name} before its rows were committed")
    return None


def _missing(catalog: IcebergCatalog, name: TableName) -> NoTable:
    return NoTable(f"there is no table {name} in catalog {catalog.name}")


def refuse_changed(name: TableName, base: StoredTable, state: Facts) -> None:
    """Raise ``Retry`` if a table is not the one that was searched."""
    if base.version != state.version:
        raise Retry(f"another program changed {name} after it was searched")


def refuse_foreign(catalog: IcebergCatalog, name: TableName, record: Record) -> None:
    """Raise ``ForeignTable`` if others may have made a table, and the sync, whose record this is, did not."""
    if catalog.is_shared and record == Record():
        raise ForeignTable(
            f"the catalog {catalog.name} has a table {name} that this sync did not make: rename that table, or "
            "give the sync's table another name with a rule (to = …)"
        )


def noted(version: str, before: str, tag: CommitTag) -> None:
    """Remember what a commit of one snapshot noted, so that Java is not asked for it."""
    (_, snapshot), (_, parent) = (each.split("@")[:2] for each in (version, before))
    note = Note(int(snapshot), tag.sync, tag.epoch, tag.sequence, tag.step, tag.part)
    _keep(int(snapshot), note, int(parent) or None)


def create(catalog: IcebergCatalog, name: TableName, tag: CommitTag, begin: Callable[[], Java]) -> str:
    """Commit a new table; its first version. ``begin`` makes its transaction."""

    def attempt(again: bool) -> str:
        table = catalog.table(name) if again else None
        if table is not None:
            found = _done(facts_of(catalog.java_named, table.state), tag)
            if found is None:
                raise TargetError(
                    f"another program made a table {name} in catalog {catalog.name} at the same time. "
                    "Rename it, and start the sync again"
                )
            return found
        transaction = begin()
        _note(transaction, Record(), tag)
        exchange(transaction, None)
        return _version(catalog, transaction)

    return _tried(catalog, name, tag, attempt)


def exchange(transaction: Java, base: Java) -> None:
    """Swap the metadata that a transaction has made for the metadata that it began with, ``None`` for a new table."""
    transaction.underlyingOps().commit(base, transaction.currentMetadata())


def _version(catalog: IcebergCatalog, transaction: Java) -> str:
    """The version that a transaction has made."""
    return facts_of(catalog.java_named, transaction.currentMetadata()).version


def parsed_version(version: str) -> tuple[str, int, int | None]:
    """Identity, snapshot and, in versions that 0.1 wrote, schema."""
    identity, _, rest = version.partition("@")
    snapshot, _, schema = rest.partition("@")
    try:
        return identity, int(snapshot), int(schema) if schema else None
    except ValueError:
        raise TargetError(f"{version!r} is not a version of an Iceberg table") from None


def _done(state: Facts, tag: CommitTag) -> str | None:
    """The version of a commit with a tag, if it is there."""
    if tag.part is None:
        return find_step(state, tag.step)
    return state.version if count_parts(state, tag.step) > tag.part else None


def _note(
    transaction: Java,
    record: Record | None,
    tag: CommitTag | None,
    made: int | None = None,
    *,
    step: bool = True,
    append: bool = True,
) -> int | None:
    """The end of a transaction: an empty append with the tag, and the property. The id of its last snapshot."""
    if append:
        last = transaction.newFastAppend()
        for key, value in ({} if tag is None else summary_of(tag, step=step)).items():
            last.set(key, value)
        last.commit()
        made = None
    if made is None and (append or step):
        made = int(transaction.currentMetadata().currentSnapshot().snapshotId())
    if tag is not None and record is not None:
        record = record.at_epoch(tag.epoch)
        if step and made is not None:
            record = record.having(tag.sequence, tag.step, tag.part, made)
        transaction.updateProperties().set(Record.key(tag.sync), str(record)).commit()
    return made if append or step else None


def _tried(catalog: IcebergCatalog, name: TableName, tag: CommitTag | None, attempt: Callable[[bool], str]) -> str:
    def look() -> str | None:
        table = None if tag is None else catalog.table(name)
        return None if table is None or tag is None else _done(facts_of(catalog.java_named, table.state), tag)

    return tried(name, f"catalog {catalog.name}", attempt, look)
