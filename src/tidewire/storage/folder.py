"""Storage in a folder of a local disk: written beside, flushed to the disk, then put under its name in one step."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from tidewire.errors import FileTooLarge, StorageError
from tidewire.storage.base import PARTIAL, Entry, Storage, checked_name

_TRANSIENT = frozenset(
    {
        *(errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.ENOLCK),
        *(errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETUNREACH),
    }
)
"""Errors of a disk, or of a file server behind it, that may pass."""

_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


def disk_error(folder: str, name: str, error: OSError) -> StorageError:
    """An error of the system in plain words."""
    return StorageError(folder, name, error.strerror or str(error), error.errno in _TRANSIENT)


class FolderStorage(Storage):
    """Files in a folder of a local disk."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder), str(folder))
        self._root = folder

    @property
    def local(self) -> Path:
        return self._root

    def read(self, name: str, *, limit: int | None = None) -> bytes | None:
        with self.errors(name):
            try:
                with self._place(name).open("rb") as file:
                    if limit is not None and os.fstat(file.fileno()).st_size > limit:
                        raise FileTooLarge(self.uri, name, f"larger than {limit} bytes")
                    return file.read()
            except _ABSENT:
                return None

    def put(self, name: str, data: bytes) -> None:
        with self.output(name) as file:
            file.write(data)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        place = self._place(name)
        with self.errors(name):
            file = _Partial(self, name, place)
            try:
                file.write(data)
                file.settle()
                os.link(file.partial, place)
            except FileExistsError:
                return False
            finally:
                file.discard()
            _flush_folder(place.parent)
            return True

    def list(self, folder: str = "", *, recursive: bool = False) -> list[Entry]:
        with self.errors(folder):
            return sorted(_entries(self._place(folder) if folder else self._root, folder, recursive))

    def delete(self, names: Iterable[str]) -> None:
        folders = set()
        for name in names:
            place = self._place(name)
            with self.errors(name):
                try:
                    place.unlink()
                except (FileNotFoundError, NotADirectoryError):
                    continue
            folders.add(place.parent)
        for folder in folders:
            self._remove_empty(folder)

    def exists(self, name: str) -> bool:
        with self.errors(name):
            return self._place(name).is_file()

    def output(self, name: str) -> BinaryIO:
        place = self._place(name)
        with self.errors(name):
            return cast("BinaryIO", _Partial(self, name, place))

    def input(self, name: str) -> BinaryIO:
        with self.errors(name):
            try:
                return self._place(name).open("rb")
            except _ABSENT:
                raise StorageError(self.uri, name, "there is no such file") from None

    def below(self, name: str) -> Storage:
        return FolderStorage(self._place(name))

    def remove_partial(self, before: float) -> None:
        for folder, _, names in os.walk(self._root):
            for name in filter(PARTIAL.fullmatch, names):
                place = Path(folder, name)
                with self.errors(name), contextlib.suppress(FileNotFoundError):
                    if place.stat().st_mtime < before:
                        place.unlink()

    @contextlib.contextmanager
    def errors(self, name: str) -> Iterator[None]:
        """Turn the system's errors into ``StorageError``."""
        try:
            yield
        except StorageError:
            raise
        except OSError as error:
            raise disk_error(self.uri, name, error) from error

    def _place(self, name: str) -> Path:
        return self._root / checked_name(name)

    def _remove_empty(self, folder: Path) -> None:
        while folder != self._root:
            try:
                folder.rmdir()
            except OSError:  # it is not empty, or another process has removed it
                return
            folder = folder.parent


def _entries(place: Path, folder: str, recursive: bool) -> Iterator[Entry]:
    try:
        found = [*os.scandir(place)]
    except _ABSENT:
        return
    for item in found:
        name = f"{folder}/{item.name}" if folder else item.name
        if item.is_dir(follow_symlinks=False):
            if recursive:
                yield from _entries(place / item.name, name, recursive)
        elif not PARTIAL.fullmatch(item.name) and item.is_file():
            with contextlib.suppress(FileNotFoundError):
                facts = item.stat()
                yield Entry(name, facts.st_size, facts.st_mtime)


class _Partial(io.BufferedWriter):
    """A local file that is written beside its place and takes it when it is closed."""

    def __init__(self, storage: FolderStorage, name: str, place: Path) -> None:
        self.partial = place.parent / f".{uuid.uuid4().hex}.partial"
        self._storage, self._name, self._place = storage, name, place
        super().__init__(_create(self.partial))

    def write(self, data: Any) -> int:
        """Write, or say in plain words why that is not possible."""
        try:
            return super().write(data)
        except OSError as error:
            raise disk_error(self._storage.uri, self._name, error) from error

    def settle(self) -> None:
        """Flush what was written to the disk."""
        self.flush()
        os.fsync(self.fileno())

    def close(self) -> None:
        if self.closed:
            return
        try:
            with self._storage.errors(self._name):
                self.settle()
                self.partial.replace(self._place)
                _flush_folder(self._place.parent)
        finally:
            self.discard()

    def discard(self) -> None:
        """Close the file and remove it, unless it has taken its place."""
        with contextlib.suppress(OSError, ValueError):  # it may not have been opened
            super().close()
        with contextlib.suppress(OSError):
            self.partial.unlink()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        self.discard()


def _create(path: Path) -> io.FileIO:
    """A new file. Another process may remove the folder as an empty one before the file is in it."""
    for _ in range(100):
        with contextlib.suppress(FileNotFoundError):
            _make_folder(path.parent)
            return io.FileIO(path, "xb")
    return io.FileIO(path, "xb")


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _flush_folder(folder.parent)


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
