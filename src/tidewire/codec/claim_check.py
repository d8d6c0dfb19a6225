"""Where the external parts of large messages live.

A message above the size limit can be replaced by a small one that says where the whole is kept. The reader takes only
the last part of that place and looks for it in its own store, so a message cannot point it anywhere else.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Protocol

from tidewire.errors import ClaimCheckError

MAX_BYTES = 256 * 1024 * 1024
"""More than any row TiDB lets in (its largest transaction entry is 120 MiB), Base64 included."""

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}", re.ASCII)


class ClaimCheckStore(Protocol):
    """A flat folder of named blobs."""

    def put(self, name: str, data: bytes) -> None:
        """Keep a blob; it is readable when this returns."""
        ...

    def get(self, name: str) -> bytes:
        """A blob that was kept; ``ClaimCheckError`` where there is none."""
        ...


def file_name(location: str) -> str:
    """The name at the end of a location; ``ClaimCheckError`` where it could lead out of the store."""
    name = location.rpartition("/")[2]
    if _NAME.fullmatch(name) is None:
        raise ClaimCheckError(location, "its last part is not a plain file name")
    return name


def _plain(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise ClaimCheckError(name, "not a plain file name")
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
            raise ClaimCheckError(name, "not in the store") from None


class FolderStore:
    """Claim checks as files in a local folder."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def put(self, name: str, data: bytes) -> None:
        path = self._path(name)
        partial = path.with_name(f".{name}.partial")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(data)
            partial.replace(path)
        except OSError as error:
            raise ClaimCheckError(name, str(error)) from error

    def get(self, name: str) -> bytes:
        path = self._path(name)
        try:
            if path.is_symlink() or not path.is_file():
                raise ClaimCheckError(name, f"no such file in {self.folder}")
            if path.stat().st_size > MAX_BYTES:
                raise ClaimCheckError(name, f"larger than {MAX_BYTES} bytes")
            return path.read_bytes()
        except ClaimCheckError:
            raise
        except OSError as error:
            raise ClaimCheckError(name, str(error)) from error

    def _path(self, name: str) -> Path:
        return self.folder / _plain(name)
