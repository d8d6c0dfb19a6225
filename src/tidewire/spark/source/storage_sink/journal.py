"""The journal of a storage source: the order in which its files are read, and so what their offsets are.

A file gets a number when it is first seen, and again when it is seen with other content. Its messages have the offsets
from ``number << 36`` on, in order. Offsets from the middle of a file's range on are those of watermarks.

The journal is written before anything is read, as small documents that only one writer can make. So offsets never
change their meaning, also if a sync is killed, or if two drivers follow one another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidewire.errors import SyncError
from tidewire.storage import Storage
from tidewire.sync.documents import decode, encode

FOLDER: Final = "source"
_BITS: Final = 36
_HALF: Final = 1 << _BITS - 1
_TOGETHER: Final = 256
"""So many documents are joined into one when a sync starts."""


class SourceFile(NamedTuple):
    """A file as it was when it was listed."""

    path: str
    size: int
    modified: float


@dataclass(frozen=True, slots=True)
class JournalPart:
    """A document: files with consecutive numbers, the first of which has the number ``first``."""

    first: int
    files: tuple[SourceFile, ...]


def first_offset(number: int) -> int:
    """The offset of the first message of a file."""
    return number << _BITS


def number_of(offset: int) -> int:
    """The number of the file that an offset belongs to."""
    return offset >> _BITS


def after_rows(number: int) -> int:
    """The first offset behind the messages of a file: watermarks follow from there on."""
    return (number << _BITS) + _HALF


class Journal:
    """The files by their numbers, which begin at 1. Without a storage it is in memory only."""

    def __init__(self, storage: Storage | None = None) -> None:
        self._storage = storage
        self._files: list[SourceFile] = []
        self._latest: dict[str, SourceFile] = {}
        if storage is not None:
            self._load(storage)

    @property
    def last(self) -> int:
        """The number of the last file, 0 if there is none."""
        return len(self._files)

    def file(self, number: int) -> SourceFile:
        """The file with a number."""
        return self._files[number - 1]

    @property
    def paths(self) -> Iterable[str]:
        """All files that were ever numbered."""
        return self._latest.keys()

    def latest(self, path: str) -> SourceFile | None:
        """A file as it was when it was numbered last."""
        return self._latest.get(path)

    def add(self, files: tuple[SourceFile, ...]) -> bool:
        """Give files the next numbers. ``False`` if another driver gave them to others: look again then."""
        part = JournalPart(self.last + 1, files)
        if self._storage is not None and not self._storage.put_if_absent(_name("part", part.first), encode(part)):
            self._load(self._storage)
            return False
        self._take(part)
        return True

    def _take(self, part: JournalPart) -> None:
        self._files += part.files
        self._latest |= {file.path: file for file in part.files}

    def _load(self, storage: Storage) -> None:
        """Read all documents: the newest one with everything up to a number, and those after it."""
        names = [entry.name for entry in storage.list(FOLDER)]
        wholes = sorted(name for name in names if name.startswith(_name("whole")))
        self._files, self._latest, used = [], {}, 0
        if wholes:
            self._read(storage, wholes[-1])
        while _name("part", self.last + 1) in names:
            self._read(storage, _name("part", self.last + 1))
            used += 1
        if used >= _TOGETHER:
            self._join(storage, names)

    def _read(self, storage: Storage, name: str) -> None:
        data = storage.read(name)
        if data is None:
            raise SyncError(f"{storage.path(name)} is gone, and without it offsets have no meaning; bring it back")
        self._take(decode(data, JournalPart))

    def _join(self, storage: Storage, old: list[str]) -> None:
        """Write everything as one document, then delete those before it."""
        storage.put(_name("whole", self.last), encode(JournalPart(1, tuple(self._files))))
        storage.delete(old)


def _name(kind: str, number: int | None = None) -> str:
    return f"{FOLDER}/{kind}-" + ("" if number is None else f"{number:012}")
