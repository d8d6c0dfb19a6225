"""A storage with one of its folders somewhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from tidewire.errors import OptionError
from tidewire.storage.base import Entry, Storage


class SplitStorage(Storage):
    """A storage whose ``folder`` is in another storage. Names and paths say which of the two a file is in."""

    def __init__(self, main: Storage, other: Storage, folder: str) -> None:
        super().__init__(main.uri, main.uri)
        self._main = main
        self._other = other
        self._folder = folder

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SplitStorage) and other._parts == self._parts

    def __hash__(self) -> int:
        return hash(self._parts)

    def __reduce__(self) -> tuple[Callable[..., Storage], tuple[object, ...]]:  # type: ignore[override]
        return SplitStorage, self._parts

    @property
    def _parts(self) -> tuple[Storage, Storage, str]:
        return self._main, self._other, self._folder

    def _of(self, name: str) -> Storage:
        return self._other if name.partition("/")[0] == self._folder else self._main

    @property
    def local(self) -> Path | None:
        """The folder of the main storage, if it is on a local disk."""
        return self._main.local

    def read(self, name: str, *, limit: int | None = None) -> bytes | None:
        return self._of(name).read(name, limit=limit)

    def put(self, name: str, data: bytes) -> None:
        self._of(name).put(name, data)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        return self._of(name).put_if_absent(name, data)

    def list(self, folder: str = "", *, recursive: bool = False) -> list[Entry]:
        return self._of(folder).list(folder, recursive=recursive)

    def delete(self, names: Iterable[str]) -> None:
        found = list(names)
        for storage in (self._main, self._other):
            storage.delete([name for name in found if self._of(name) is storage])

    def exists(self, name: str) -> bool:
        return self._of(name).exists(name)

    def output(self, name: str) -> BinaryIO:
        return self._of(name).output(name)

    def input(self, name: str) -> BinaryIO:
        return self._of(name).input(name)

    def below(self, name: str) -> Storage:
        return self._of(name).below(name)

    def remove_partial(self, before: float) -> None:
        for storage in (self._main, self._other):
            storage.remove_partial(before)

    def path(self, *parts: str) -> str:
        """The whole name of a file or folder, as Spark takes it."""
        return self._of(parts[0] if parts else "").path(*parts)

    def relative(self, path: str) -> str:
        """The name of a path that :meth:`path` gave, in either storage; ``OptionError`` if it is in neither."""
        try:
            name = self._other.relative(path)
            if self._of(name) is self._other:
                return name
        except OptionError:
            pass
        return self._main.relative(path)

    def probe(self) -> None:
        """Make sure that both can be written."""
        self._main.probe()
        self._other.probe()
