"""What every storage can do."""

from __future__ import annotations

import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO, NamedTuple

from tidewire.errors import OptionError, StorageError

PARTIAL = re.compile(r"\..*\.partial")
"""Names of local files that are still being written."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "azure": "az", "azblob": "az", "abfs": "az", "abfss": "az"}
"""Other names of the kinds of object stores."""


class Entry(NamedTuple):
    """A file in a listing; ``name`` is relative to the storage's root, ``modified`` in seconds since 1970."""

    name: str
    size: int
    modified: float


class Storage(ABC):
    """Files below one URI.

    It pickles as its address, so it can travel to Spark executors. The address has the credentials that its URI had.
    """

    def __init__(self, address: str, uri: str) -> None:
        self._address = address
        self.uri = uri
        """Where it is, without credentials and parameters; of a local folder the absolute path."""

    def __repr__(self) -> str:
        return f"Storage({self.uri!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Storage) and other._address == self._address

    def __hash__(self) -> int:
        return hash(self._address)

    def __reduce__(self) -> tuple[Callable[[str], Storage], tuple[str]]:
        from tidewire.storage.opening import reopened

        return reopened, (self._address,)

    @property
    def local(self) -> Path | None:
        """The folder, if it is on a local disk."""
        return None

    @abstractmethod
    def read(self, name: str, *, limit: int | None = None) -> bytes | None:
        """The bytes of a document, or ``None`` if there is no such document.

        Raises ``FileTooLarge`` if it has more than ``limit`` bytes.
        """

    @abstractmethod
    def put(self, name: str, data: bytes) -> None:
        """Keep a document, over one of the same name. It is durable when this returns."""

    @abstractmethod
    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Keep a document if no document has that name yet; ``False`` if one has.

        If the store's answer to a put was lost, the document that stands there counts as this one if it has the same
        bytes. So writers that must know which of them won put different bytes.
        """

    @abstractmethod
    def list(self, folder: str = "", *, recursive: bool = False) -> list[Entry]:
        """The files in a folder in order of their names; with ``recursive`` those of its sub-folders too.

        A folder that is not there is empty. Files that are still being written are left out.
        """

    @abstractmethod
    def delete(self, names: Iterable[str]) -> None:
        """Remove files. A missing one is fine. On a local disk, folders that this leaves empty go too."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Is there a file of that name?"""

    @abstractmethod
    def output(self, name: str) -> BinaryIO:
        """A new file to write. It appears, whole and durable, when it is closed, over one of the same name.

        It does not appear if it is garbage-collected, or left by an exception in a ``with`` block.
        """

    @abstractmethod
    def input(self, name: str) -> BinaryIO:
        """A file to read, with ``seek``. Raises ``StorageError`` if there is no such file."""

    @abstractmethod
    def below(self, name: str) -> Storage:
        """The storage whose root is a folder of this one."""

    @abstractmethod
    def remove_partial(self, before: float) -> None:
        """Remove what killed writers left behind, if it was last written before a moment.

        An object store has nothing to remove here. Unfinished uploads in it take space until a lifecycle rule of the
        bucket ends them.
        """

    def path(self, *parts: str) -> str:
        """The whole name of a file or folder, as Spark takes it."""
        return "/".join((self.uri.rstrip("/"), *parts))

    def relative(self, path: str) -> str:
        """The name below the root of a path that :meth:`path` gave; ``OptionError`` if it is outside."""
        root, found = _one_spelling(self.uri), _one_spelling(path)
        if found == root:
            return ""
        if not found.startswith(f"{root}/"):
            raise OptionError("path", f"{path!r} is not below {self.uri!r}")
        return found.removeprefix(f"{root}/")

    def probe(self) -> None:
        """Make sure that the store can be written and heeds the condition of :meth:`put_if_absent`.

        Raises ``StorageError`` if it does not.
        """
        name = f"probe-{uuid.uuid4().hex}"
        won = [self.put_if_absent(name, data) for data in (b"first", b"second")]
        kept = self.read(name)
        self.delete([name])
        if won != [True, False] or kept != b"first":
            reason = "it ignores conditional puts (If-None-Match: *), so two writers could overwrite each other"
            raise StorageError(self.uri, "", f"{reason}; use a store that has them")


def checked_name(name: str) -> str:
    """A name as it is; ``OptionError`` if it cannot be a file's name below a root."""
    parts = name.split("/")
    if _CONTROL.search(name) or any(part in ("", ".", "..") or PARTIAL.fullmatch(part) for part in parts):
        raise OptionError("path", f"{name!r} cannot be the name of a stored file")
    return name


def _one_spelling(path: str) -> str:
    """The same text for all the ways in which a path can be written."""
    path = path.rstrip("/")
    if path.startswith("file:"):
        return "/" + path.removeprefix("file:").lstrip("/")
    scheme, separator, rest = path.partition("://")
    return f"{SCHEMES.get(scheme, scheme)}{separator}{rest}"
