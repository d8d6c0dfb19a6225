"""A storage sink's files as a source."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa

from tidewire.codec.storage_sink.layout import METADATA, DataPath, data_path, schema_path
from tidewire.codec.storage_sink.schema_file import checkpoint
from tidewire.errors import SyncError
from tidewire.model import Message, Position
from tidewire.spark.source.base import MESSAGES_PER_PASS, Extent, OffsetRange
from tidewire.spark.source.storage_sink.form import StorageForm
from tidewire.spark.source.storage_sink.journal import Journal, SourceFile, after_rows, first_offset, number_of
from tidewire.storage import Entry, Storage
from tidewire.sync.manifest import Partition

PARTITION: Final = Partition("storage", 0)
_TEMPORARY: Final = ".tmp"
_BYTES_PER_ROW: Final = 200
"""How long a row is taken to be when the work is divided among tasks."""

_ROWS_PER_TASK: Final = 250_000
_AT_ONCE: Final = 16_384

Series: TypeAlias = tuple[str, int, int, str, str]
"""Files whose numbers follow one another: see :attr:`DataPath.series`."""

_COLUMNS: Final = pa.schema(
    {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
    }
)


class _Look(NamedTuple):
    """What a look at the store found: everything up to the checkpoint ``ts`` lies before the offset ``end``."""

    end: int
    ts: int


@dataclass(frozen=True, slots=True)
class StorageFetcher:
    """Reads files. ``paths`` are those of files that are not read yet, by their numbers."""

    form: StorageForm
    paths: Mapping[int, str]
    looks: tuple[_Look, ...] = ()

    def batches(self, range_: OffsetRange) -> Iterator[pa.RecordBatch]:
        """The messages of a range. Raises :class:`SyncError` if a file of it is gone."""
        found = self._messages(range_)
        while rows := list(islice(found, _AT_ONCE)):
            keys, values, offsets = zip(*rows, strict=True)
            count, at = len(rows), range_.partition
            columns = [list(keys), list(values), [at.topic] * count, [at.number] * count, list(offsets)]
            arrays = [pa.array(each, field.type) for each, field in zip(columns, _COLUMNS, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=_COLUMNS)

    def _messages(self, range_: OffsetRange) -> Iterator[tuple[bytes, bytes, int]]:
        """Key, value and offset of each message."""
        for number in range(number_of(range_.start), number_of(range_.end - 1) + 1):
            if range_.start <= first_offset(number) and number in self.paths:
                for ordinal, (place, data) in enumerate(self.file(self.paths[number])):
                    yield place, data, first_offset(number) + ordinal
            for look in self.looks:
                if number_of(look.end - 1) == number and range_.start < look.end <= range_.end:
                    yield METADATA.encode(), b'{"checkpoint-ts":%d}' % look.ts, look.end - 1

    def file(self, path: str) -> Iterator[tuple[bytes, bytes]]:
        """The messages of one file, each with its place."""
        store = self.form.store
        data = store.read(path)
        if data is None:
            raise SyncError(
                f"{store.path(path)} is gone, and a table cannot be right without its rows; bring the file back, "
                "or begin anew with an empty target"
            )
        if schema_path(path) is not None:
            yield path.encode(), data
            return
        for line, value in self.form.messages(data):
            yield b"%s:%d" % (path.encode(), line), value


class StorageSource:
    """The files below a prefix.

    Each look reads ``metadata`` first and lists the files afterwards: so what the checkpoint covers is in the list.
    """

    options: Mapping[str, str] = {}
    knows_replays = True
    """Do rows tell that they come again? If not, a file that is written again stops the sync."""

    def __init__(self, form: StorageForm, *, max_messages: int = MESSAGES_PER_PASS) -> None:
        self.uri = self.identity = form.store.uri
        self.form = form
        self.max_messages = max_messages
        self._store = form.store
        self._journal = Journal()
        self._end = 0
        self._looks: list[_Look] = []
        self._read = 0
        self._holes: dict[Series, int] = {}

    def begin(self, storage: Storage, next_offsets: Mapping[Partition, int]) -> None:
        """Go on with the journal in a sync's storage, from the offset that the sync has reached."""
        self._journal = Journal(storage)
        self._looks = []
        self._read = next_offsets.get(PARTITION, 0)
        self._end = max(self._read, after_rows(self._journal.last) if self._journal.last else 0)

    @property
    def fetcher(self) -> StorageFetcher:
        """Reads files, here or on an executor."""
        begin = max(number_of(self._read), 1)
        paths = {number: self._journal.file(number).path for number in range(begin, self._journal.last + 1)}
        return StorageFetcher(self.form, paths, tuple(self._looks))

    def partitions(self) -> Mapping[Partition, Extent]:
        """The one partition, as far as files are there now."""
        ts = self._checkpoint()
        found = () if ts is None else self._new_files(ts)
        if found and not self._journal.add(found):
            return self.partitions()
        if found:
            self._end = max(self._end, after_rows(self._journal.last))
        if ts is not None and not self._holes and (found or not self._looks or self._looks[-1].ts != ts):
            self._end += 1
            self._looks.append(_Look(self._end, ts))
        return {PARTITION: Extent(0, self._end)}

    def ranges(self, extents: Mapping[Partition, Extent], next_offsets: Mapping[Partition, int]) -> list[OffsetRange]:
        """The ranges that the next pass reads: whole files, small ones together."""
        start, end = next_offsets.get(PARTITION, 0), extents[PARTITION].end if PARTITION in extents else 0
        self._read = start
        self._looks = [look for look in self._looks if look.end > start] or self._looks[-1:]
        found, rows, total = list[OffsetRange](), 0, 0
        for number in range(number_of(start), min(number_of(end), self._journal.last) + 1):
            if number and first_offset(number) >= start:
                rows += self._journal.file(number).size // _BYTES_PER_ROW + 1
            cut = first_offset(number + 1)
            if cut < end and rows >= _ROWS_PER_TASK:
                found.append(OffsetRange(PARTITION, start, cut, rows))
                start, total, rows = cut, total + rows, 0
                if total >= self.max_messages:
                    return found
        return [*found, OffsetRange(PARTITION, start, end, rows + 1)] if start < end else found

    def sample(self, count: int) -> list[Message]:
        """The first rows, at most ``count`` of them."""
        self.partitions()
        paths = (self._journal.file(number).path for number in range(1, self._journal.last + 1))
        found = (row for path in paths if schema_path(path) is None for row in self.fetcher.file(path))
        return [Message(place, data) for place, data in islice(found, count)]

    def fetch(self, positions: Iterable[Position]) -> Mapping[Position, Message]:
        """The messages at some positions. A message that no longer exists is left out."""
        wanted: dict[int, set[int]] = {}
        for at in positions:
            wanted.setdefault(number_of(at.offset), set()).add(at.offset)
        found = {}
        for number, offsets in wanted.items():
            path = self._journal.file(number).path if 0 < number <= self._journal.last else None
            if path is None or not self._store.exists(path):
                continue
            for offset, (place, data) in enumerate(self.fetcher.file(path), first_offset(number)):
                if offset in offsets:
                    found[Position(PARTITION.topic, PARTITION.number, offset)] = Message(place, data)
        return found

    def holes(self) -> Mapping[Partition, int]:
        """There are none: what follows a missing file is not offered."""
        return {}

    def committed(self, offsets: Mapping[Partition, int]) -> None:
        """Nothing to do: no tool asks files."""

    def close(self) -> None:
        """Nothing to do: files are open only while they are read."""

    # Looking

    def _checkpoint(self) -> int | None:
        data = self._store.read(METADATA)
        return None if data is None else checkpoint(data)

    def _new_files(self, ts: int) -> tuple[SourceFile, ...]:
        """Files that are new, or that have changed since they were read, in the order in which they are read.

        Files of a version above the checkpoint wait, and so does what follows a file that is missing.
        """
        entries = [entry for entry in self._store.list(recursive=True) if entry.size and _TEMPORARY not in entry.name]
        tables = {schema.folder for entry in entries if (schema := schema_path(entry.name)) is not None}
        new = [entry for entry in entries if self._is_new(entry)]
        found: list[tuple[tuple[object, ...], Entry]] = []
        for entry in new:
            schema, data = schema_path(entry.name), self._data_path(entry.name, tables)
            if schema is not None and schema.version <= ts:
                found.append(((schema.version, 0, schema.folder, entry.name), entry))
            elif data is not None and data.version <= ts:
                found.append(
                    ((data.version, 1, data.partition, data.date, data.folder, data.writer, data.number), entry)
                )
        missing = self._missing([entry.name for _, entry in found], [entry.name for entry in entries], tables)
        return tuple(
            SourceFile(*entry)
            for _, entry in sorted(found)
            if (path := self._data_path(entry.name, tables)) is None
            or path.number < missing.get(path.series, path.number + 1)
        )

    def _is_new(self, entry: Entry) -> bool:
        known = self._journal.latest(entry.name)
        if known is None or (known.size, known.modified) == (entry.size, entry.modified):
            return known is None
        if not self.knows_replays and known.size != entry.size:
            raise SyncError(
                f"{self._store.path(entry.name)} was written again after it was read, and rows without commit ts do "
                "not tell which of them are new. Begin anew with an empty target; with commit ts it would not matter"
            )
        return self.knows_replays

    def _data_path(self, name: str, tables: Collection[str]) -> DataPath | None:
        return data_path(name, tables) if name.endswith(self.form.extension) else None

    def _missing(self, new: Iterable[str], listed: Iterable[str], tables: Collection[str]) -> dict[Series, int]:
        """The first number that is missing in each series of files that has a new file behind it.

        A file can be written while others are listed, so it counts as missing from the second look on, which raises
        :class:`SyncError`.
        """
        series = {path.series for name in new if (path := self._data_path(name, tables)) is not None}
        numbers: dict[Series, set[int]] = {each: set() for each in series}
        for name in (*listed, *self._journal.paths) if series else ():
            path = self._data_path(name, tables)
            if path is not None and path.series in numbers:
                numbers[path.series].add(path.number)
        first = {each: next(n for n in count(1) if n not in there) for each, there in numbers.items()}
        missing = {each: n for each, n in first.items() if n < max(numbers[each])}
        for each in missing.items() & self._holes.items():
            raise SyncError(_missing_file(self._store.uri, *each))
        self._holes = missing
        return missing


def _missing_file(uri: str, series: Series, number: int) -> str:
    folder, version, partition, date, writer = series
    place = "/".join(filter(None, [folder, str(version), str(partition) if partition else "", date]))
    name = f"CDC_{writer}_" if writer else "CDC"
    return (
        f"{uri}/{place}: {name}{number} is missing, but files with greater numbers are there, and a table cannot be "
        "right without its rows. Bring the file back; if file-expiration-days removed it, begin anew"
    )
