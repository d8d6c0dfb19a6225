"""Storage in HDFS, through ``hdfs-native``, which needs neither Java nor Hadoop's own libraries.

HDFS shows a file while it is written, so files are written beside their place and renamed: whole, and in one step. A
rename that may not overwrite has one winner.
"""

from __future__ import annotations

import contextlib
import io
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from itertools import count
from typing import Any, BinaryIO, Final, ParamSpec, TypeVar, cast

from hdfs_native import Client, FileReader, WriteOptions

from tidewire.errors import FileTooLarge, StorageError, TidewireError
from tidewire.storage.base import PARTIAL, Entry, Storage, checked_name

_ONE_NAME_NODE: Final = {"dfs.client.failover.max.attempts": "3"}
"""With one name node there is no other to turn to: six seconds instead of three minutes for one that is not there."""

_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


_PAUSES: Final = (0.1, 0.2, 0.4, 0.8)
"""Seconds between the tries of what can be asked again: the client gives up when it loses a connection."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _tried(ask: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Ask again if the store does not answer."""

    @wraps(ask)
    def asked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        for pause in _PAUSES:
            try:
                return ask(*args, **kwargs)
            except StorageError as error:
                if not error.transient:
                    raise
            time.sleep(pause)
        return ask(*args, **kwargs)

    return asked


class HdfsStorage(Storage):
    """Files below a folder of HDFS. ``root`` is the folder's absolute path there."""

    def __init__(self, uri: str, client: Client, root: str) -> None:
        super().__init__(uri, uri)
        self._client = client
        self._root = root.rstrip("/")

    @classmethod
    def open(cls, authority: str, path: str) -> HdfsStorage:
        """The storage at a path of a name service, or of the one that Hadoop's settings name without an authority."""
        root = f"/{checked_name(path)}" if path else ""
        server = f"hdfs://{authority}"
        return cls(f"{server}{root}", Client(server if authority else None, dict(_settings(authority))), root)

    @_tried
    def read(self, name: str, *, limit: int | None = None) -> bytes | None:
        with self.errors(name):
            try:
                file = self._client.read(self._place(name))
            except _ABSENT:
                return None
            if limit is not None and len(file) > limit:
                raise FileTooLarge(self.uri, name, f"larger than {limit} bytes")
            return file.read()

    @_tried
    def put(self, name: str, data: bytes) -> None:
        with self.output(name) as file:
            file.write(data)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        tries = count()

        @_tried
        def put() -> bool:
            is_doubtful = next(tries) > 0  # the answer to a rename may have been lost
            with self.errors(name):
                file = _Partial(self, name, overwrite=False)
                try:
                    file.write(data)
                    file.close()
                except FileExistsError:
                    return is_doubtful and self.read(name) == data
                finally:
                    file.discard()
                return True

        return put()

    @_tried
    def list(self, folder: str = "", *, recursive: bool = False) -> list[Entry]:
        place = self._place(folder) if folder else self._root or "/"
        with self.errors(folder):
            try:
                found = [*self._client.list_status(place, recursive)]
            except _ABSENT:
                return []
        return sorted(
            Entry(each.path[len(self._root) + 1 :], each.length, each.modification_time / 1000)
            for each in found
            if not each.isdir and each.path != place and not PARTIAL.fullmatch(each.path.rpartition("/")[2])
        )

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self._delete(name)

    @_tried
    def _delete(self, name: str) -> None:
        with self.errors(name), contextlib.suppress(*_ABSENT):
            if not self._client.get_file_info(self._place(name)).isdir:
                self._client.delete(self._place(name))

    @_tried
    def exists(self, name: str) -> bool:
        with self.errors(name):
            try:
                return not self._client.get_file_info(self._place(name)).isdir
            except _ABSENT:
                return False

    def output(self, name: str) -> BinaryIO:
        with self.errors(name):
            return cast("BinaryIO", _Partial(self, name, overwrite=True))

    def input(self, name: str) -> BinaryIO:
        with self.errors(name):
            try:
                return cast("BinaryIO", _Input(self, name, self._client.read(self._place(name))))
            except _ABSENT:
                raise StorageError(self.uri, name, "there is no such file") from None

    def below(self, name: str) -> Storage:
        return HdfsStorage(f"{self.uri}/{checked_name(name)}", self._client, self._place(name))

    def remove_partial(self, before: float) -> None:
        with self.errors(""):
            try:
                found = [*self._client.list_status(self._root or "/", True)]
            except _ABSENT:
                return
            for each in found:
                if PARTIAL.fullmatch(each.path.rpartition("/")[2]) and each.modification_time / 1000 < before:
                    self._client.delete(each.path)

    @contextlib.contextmanager
    def errors(self, name: str) -> Iterator[None]:
        """Turn the client's errors into ``StorageError``."""
        try:
            yield
        except (TidewireError, FileExistsError):
            raise
        except PermissionError as error:
            raise StorageError(self.uri, name, _first_line(error)) from error
        except (OSError, RuntimeError) as error:
            raise StorageError(self.uri, name, _first_line(error), transient=True) from error

    def _place(self, name: str) -> str:
        return f"{self._root}/{checked_name(name)}"


def _settings(authority: str) -> Mapping[str, str]:
    """Settings of the client: a port in the authority means one name node, not a name service."""
    return _ONE_NAME_NODE if ":" in authority else {}


def _first_line(error: Exception) -> str:
    """What an error says, without Java's stack."""
    return str(error).replace("\\n", "\n").partition("\n")[0]


class _Partial(io.RawIOBase):
    """A file that is written beside its place and takes it when it is closed."""

    def __init__(self, storage: HdfsStorage, name: str, *, overwrite: bool) -> None:
        super().__init__()
        self._open = False
        self._storage, self._name, self._overwrite = storage, name, overwrite
        self._place = storage._place(name)
        self._partial = f"{self._place.rpartition('/')[0]}/.{uuid.uuid4().hex}.partial"
        self._writer = storage._client.create(self._partial, WriteOptions(create_parent=True))
        self._open, self._size = True, 0

    def tell(self) -> int:
        return self._size

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if not self._open:
            raise ValueError("write to a closed file")
        with self._storage.errors(self._name):
            self._writer.write(bytes(data))
        self._size += len(data)
        return len(data)

    def close(self) -> None:
        if not self._open:
            return
        try:
            with self._storage.errors(self._name):
                self._writer.close()
                self._storage._client.rename(self._partial, self._place, self._overwrite)
            self._open = False
        finally:
            self.discard()

    def discard(self) -> None:
        """Close the file and remove it, unless it has taken its place."""
        super().close()
        if not self._open:
            return
        self._open = False
        # Closing a writer that has lost a call takes a quarter of a minute, and is not needed for a file that goes.
        with contextlib.suppress(OSError, RuntimeError):
            self._storage._client.delete(self._partial)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        self.discard()


class _Input(io.RawIOBase):
    """A file to read."""

    def __init__(self, storage: HdfsStorage, name: str, reader: FileReader) -> None:
        super().__init__()
        self._storage, self._name, self._reader = storage, name, reader
        self._at, self._size = 0, len(reader)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        with self._storage.errors(self._name):
            left = max(self._size - self._at, 0)
            wanted = left if size is None or size < 0 else min(size, left)
            data = self._reader.read_range(self._at, wanted) if wanted else b""
        self._at += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
