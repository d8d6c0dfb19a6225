"""Where the external parts of large messages live.

A message above the size limit can be replaced by a small one that says where the whole is kept. The reader takes only
the last part of that place and looks for it in its own store, so a message cannot point it anywhere else.
"""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Protocol

from tidewire.errors import BadClaimCheck, ClaimCheckError, FileTooLarge, StorageError
from tidewire.storage import Storage, open_storage

MAX_BYTES = 256 * 1024 * 1024
"""More than any row TiDB lets in (its largest transaction entry is 120 MiB), Base64 included."""

OPTION = "claim-check-storage-uri"

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}", re.ASCII)


class ClaimCheckStore(Protocol):
    """A flat folder of named blobs."""

    def put(self, name: str, data: bytes) -> None:
        """Keep a blob; it is readable when this returns."""
        ...

    def get(self, name: str) -> bytes:
        """A blob that was kept.

        Raises ``BadClaimCheck`` if there is no such blob, ``ClaimCheckError`` if the store does not answer.
        """
        ...


def file_name(location: str) -> str:
    """The name at the end of a location; ``BadClaimCheck`` where it could lead out of the store."""
    name = location.rpartition("/")[2]
    if _NAME.fullmatch(name) is None:
        raise BadClaimCheck(location, "its last part is not a plain file name")
    return name


def _plain(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise BadClaimCheck(name, "not a plain file name")
    return name


class MemoryStore:
    """Claim checks in a dict."""

    def __init__(self, blobs: dict[str, bytes] | None = None) -> None:
        self.blobs = {} if blobs is None else blobs

    def put(self, name: str, data: bytes) -> None:
        self.blobs[name] = data

    def get(self, name: str) -> bytes:
        try:
            return self.blobs[name]
        except KeyError:
            raise BadClaimCheck(name, "not in the store") from None


class FolderStore:
    """Claim checks as files in a folder of a local disk or an object store."""

    def __init__(self, folder: Path | str | Storage) -> None:
        self._storage = folder if isinstance(folder, Storage) else open_storage(folder, OPTION)

    def __repr__(self) -> str:
        return f"FolderStore({self._storage.uri!r})"

    def put(self, name: str, data: bytes) -> None:
        try:
            self._storage.put(_plain(name), data)
        except StorageError as error:
            raise _refusal(name, error) from error

    def get(self, name: str) -> bytes:
        self._refuse_links(_plain(name))
        try:
            data = self._storage.read(name, limit=MAX_BYTES)
        except StorageError as error:
            raise _refusal(name, error) from error
        if data is None:
            raise BadClaimCheck(name, f"no such file in {self._storage.uri}")
        return data

    def _refuse_links(self, name: str) -> None:
        """A link could lead out of the folder, and a pipe would be waited for."""
        folder = self._storage.local
        if folder is None:
            return
        try:
            kind = (folder / name).lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            if not folder.is_dir():  # as when its disk is not mounted
                raise ClaimCheckError(name, f"there is no folder {folder}; check {OPTION}") from None
            return
        except OSError as error:
            raise ClaimCheckError(name, str(error)) from error
        if not stat.S_ISREG(kind):
            raise BadClaimCheck(name, f"no such file in {folder}")


def open_store(uri: str) -> ClaimCheckStore:
    """The claim checks below the URI of ``claim-check-storage-uri``."""
    return FolderStore(uri)


def _refusal(name: str, error: StorageError) -> ClaimCheckError:
    if isinstance(error, FileTooLarge):
        return BadClaimCheck(name, error.reason)
    return ClaimCheckError(name, f"{error.store}: {error.reason}", error.transient)
