"""The sync's work directory, on a local disk or in any store Arrow knows.

::

    state/<batch>.json      what the sync knows after a batch
    plans/<batch>.json      what a batch is going to do
    staged/<batch>/…        rows that wait to be applied
    parked/<batch>/…        messages whose schema has not come yet
    rejects/<batch>/…       messages that cannot be read
    published/<ts>.json     the tables' versions at an upstream instant
    checkpoint/             Spark's own

Executors use it too: it is nothing but its URI on the way to them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from tidewire.errors import OptionError

FOLDER = "_tidewire"
"""The work directory's name inside a target."""

_ARROW_SCHEMES: Mapping[str, str] = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's names of stores that have another one in Arrow."""

_OBJECT_STORES = frozenset({"s3", "gcs", "abfs"})
"""Arrow's names of stores that have no folders."""


def open_filesystem(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system behind a URI or a local path, and the path in it."""
    scheme, separator, rest = uri.partition("://")
    if not separator and not uri.startswith("file:"):
        return fs.LocalFileSystem(), str(Path(uri).absolute())
    try:
        filesystem, path = fs.FileSystem.from_uri(f"{_ARROW_SCHEMES.get(scheme, scheme)}{separator}{rest}")
    except (pa.ArrowException, ValueError, OSError) as error:
        raise OptionError("work directory", f"{uri!r} is neither a path nor a URI that Arrow knows: {error}") from error
    return filesystem, str(path).rstrip("/")


def is_local(filesystem: fs.FileSystem) -> bool:
    """Is it this machine's disk?"""
    return isinstance(filesystem, fs.LocalFileSystem)


class Work:
    """A work directory. Documents in it are whole, whoever reads them whenever."""

    def __init__(self, uri: str | Path) -> None:
        filesystem, path = open_filesystem(str(uri))  # a URI nobody knows is refused here, not first on an executor
        self.uri = path if is_local(filesystem) else str(uri).rstrip("/")

    @classmethod
    def of(cls, target: str | Path) -> Work:
        """The work directory inside a target."""
        return cls(f"{str(target).rstrip('/')}/{FOLDER}")

    def __repr__(self) -> str:
        return f"Work({self.uri!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Work) and other.uri == self.uri

    def __hash__(self) -> int:
        return hash(self.uri)

    def __reduce__(self) -> tuple[type[Work], tuple[str]]:
        return type(self), (self.uri,)

    @cached_property
    def _place(self) -> tuple[fs.FileSystem, str]:
        return open_filesystem(self.uri)

    @property
    def filesystem(self) -> fs.FileSystem:
        """Where it is, for Arrow."""
        return self._place[0]

    def path(self, *parts: str) -> str:
        """The whole name of a file or folder, as Spark takes it."""
        return "/".join((self.uri, *parts))

    def arrow_path(self, path: str) -> str:
        """A name that :meth:`path` gave, as :attr:`filesystem` takes it."""
        root = self.path()
        if path != root and not path.startswith(f"{root}/"):
            raise OptionError("work directory", f"{path!r} is not below {root!r}")
        return self._place[1] + path.removeprefix(root)

    def exists(self, name: str) -> bool:
        """Is there a file or folder of that name?"""
        found = self.filesystem.get_file_info(self.arrow_path(self.path(name)))
        return found.type is not fs.FileType.NotFound

    def local_path(self, name: str) -> Path | None:
        """Where a file is on this machine's disk; ``None`` where the directory is elsewhere."""
        return Path(self.path(name)) if is_local(self.filesystem) else None

    def create(self, path: str) -> Any:
        """A stream into a new file; its folder is made where it is missing."""
        place = self.arrow_path(path)
        if self.filesystem.type_name not in _OBJECT_STORES:
            self.filesystem.create_dir(place.rpartition("/")[0], recursive=True)
        return self.filesystem.open_output_stream(place)

    def read(self, name: str) -> Any | None:
        """The document of a name such as ``state/7.json``; ``None`` where there is none."""
        try:
            with self.filesystem.open_input_stream(self.arrow_path(self.path(name))) as stream:
                return json.loads(stream.read())
        except FileNotFoundError:
            return None

    def write(self, name: str, document: Any) -> None:
        """Keep a document; when this returns it is there to stay, and nobody sees half of it."""
        data = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
        place = self.arrow_path(self.path(name))
        _WRITERS.get(self.filesystem.type_name, _moved)(self.filesystem, place, data)

    def names(self, folder: str) -> list[str]:
        """The names of the documents in a folder, without the folder and in order."""
        found = self._listed(folder, recursive=False)
        names = (info.base_name for info in found if info.is_file)
        return sorted(name for name in names if name.endswith(".json") and not name.startswith("."))

    def files(self, folder: str) -> list[str]:
        """All files below a folder, as :meth:`path` names them."""
        infos = self._listed(folder, recursive=True)
        root = self._place[1]
        return sorted(self.path() + info.path.removeprefix(root) for info in infos if info.is_file)

    def delete(self, paths: Iterable[str]) -> None:
        """Remove files; one that is not there is as good as removed. Folders this leaves empty go too."""
        folders = set()
        for path in paths:
            place = self.arrow_path(path)
            try:
                self.filesystem.delete_file(place)
            except FileNotFoundError:
                continue
            folders.add(place.rpartition("/")[0])
        if self.filesystem.type_name in _OBJECT_STORES:
            return
        for folder in folders - {self._place[1]}:
            if not self.filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True)):
                self.filesystem.delete_dir(folder)

    def _listed(self, folder: str, *, recursive: bool) -> list[fs.FileInfo]:
        place = self.arrow_path(self.path(folder))
        found: list[fs.FileInfo] = self.filesystem.get_file_info(
            fs.FileSelector(place, recursive=recursive, allow_not_found=True)
        )
        return found


def _renamed(_: fs.FileSystem, place: str, data: bytes) -> None:
    """On a local disk: beside it first, on the disk for sure, then under its name."""
    path = Path(place)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with partial.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _put(filesystem: fs.FileSystem, place: str, data: bytes) -> None:
    """In an object store an object is there as a whole or not at all."""
    with filesystem.open_output_stream(place) as stream:
        stream.write(data)


def _moved(filesystem: fs.FileSystem, place: str, data: bytes) -> None:
    """Elsewhere: beside it first, then under its name."""
    folder, _, name = place.rpartition("/")
    filesystem.create_dir(folder, recursive=True)
    partial = f"{folder}/.{name}.partial"
    _put(filesystem, partial, data)
    filesystem.move(partial, place)


_WRITERS: Mapping[str, Callable[[fs.FileSystem, str, bytes], None]] = {
    "local": _renamed,
    **dict.fromkeys(_OBJECT_STORES, _put),
}
"""How each kind of store keeps a document at once."""
