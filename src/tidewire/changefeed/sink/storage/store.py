"""A place for files: a folder of a disk or a prefix of an object store, both through Arrow's file systems."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tidewire.errors import ChangefeedError, MissingExtra

INVALID = "CDC:ErrStorageSinkInvalidConfig"
FAILED = "CDC:ErrExternalStorageAPI"

try:
    from pyarrow import fs
except ImportError as error:
    raise MissingExtra("pyarrow", "arrow") from error


class Store:
    """Files under a prefix. A file is there whole or not at all."""

    def __init__(self, system: fs.FileSystem, prefix: str, *, renames: bool) -> None:
        self._system = system
        self._prefix = prefix.rstrip("/")
        self._renames = renames

    def write(self, path: str, data: bytes) -> None:
        """Put a file in its place, over one that is there."""
        full = self._full(path)
        try:
            if not self._renames:
                self._put(full, data)
                return
            self._system.create_dir(full.rpartition("/")[0], recursive=True)
            partial = f"{full}.tmp.{uuid.uuid4().hex}"
            self._put(partial, data)
            self._system.move(partial, full)
        except OSError as error:
            raise ChangefeedError(FAILED, f"{path} cannot be written: {error}") from error

    def read(self, path: str) -> bytes | None:
        """What a file holds; ``None`` where there is none."""
        try:
            with self._system.open_input_stream(self._full(path)) as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ChangefeedError(FAILED, f"{path} cannot be read: {error}") from error

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder; none where there is no folder."""
        selector = fs.FileSelector(self._full(folder), allow_not_found=True)
        try:
            found = self._system.get_file_info(selector)
        except OSError as error:
            raise ChangefeedError(FAILED, f"{folder} cannot be listed: {error}") from error
        return [info.base_name for info in found if info.type is fs.FileType.File]

    def remove(self, unwanted: Callable[[str], bool]) -> None:
        """Remove the files whose path is unwanted, and on a disk the folders that are empty then."""
        try:
            found = self._system.get_file_info(fs.FileSelector(self._prefix, recursive=True, allow_not_found=True))
            files = [info.path for info in found if info.type is fs.FileType.File]
            gone = [path for path in files if unwanted(path.removeprefix(f"{self._prefix}/"))]
            for path in gone:
                self._system.delete_file(path)
            for folder in {path.rpartition("/")[0] for path in gone} if self._renames else ():
                self._remove_empty(folder)
        except OSError as error:
            raise ChangefeedError(FAILED, f"old files cannot be removed: {error}") from error

    def _remove_empty(self, folder: str) -> None:
        while folder.startswith(f"{self._prefix}/") and not self._system.get_file_info(
            fs.FileSelector(folder, allow_not_found=True)
        ):
            if self._system.get_file_info(folder).type is fs.FileType.Directory:
                self._system.delete_dir(folder)
            folder = folder.rpartition("/")[0]

    def _put(self, full: str, data: bytes) -> None:
        with self._system.open_output_stream(full) as file:
            file.write(data)

    def _full(self, path: str) -> str:
        return f"{self._prefix}/{path}" if self._prefix else path


def open_store(scheme: str, folder: str, options: Mapping[str, str]) -> Store:
    """The place a storage URI names; in an object store the first part of the folder is the bucket."""
    maker = _STORES.get(scheme)
    if maker is None:
        raise ChangefeedError(INVALID, f"{scheme!r} is no storage; known are {', '.join(_STORES)}")
    return maker(folder, options)


def _local(folder: str, options: Mapping[str, str]) -> Store:
    if not folder.strip("/"):
        raise ChangefeedError(INVALID, "the URI names no folder: file:///whole/path/of/folder")
    return Store(fs.LocalFileSystem(), str(Path(folder).absolute()), renames=True)


def _s3(folder: str, options: Mapping[str, str]) -> Store:
    if not folder.strip("/"):
        raise ChangefeedError(INVALID, "the URI names no bucket: s3://bucket/prefix")
    known: dict[str, Any] = {}
    for name, value in options.items():
        known |= _S3_OPTIONS.get(name, _ignored)(value)
    return Store(fs.S3FileSystem(**known), folder.strip("/"), renames=False)


def _ignored(_: str) -> dict[str, Any]:
    return {}


def _endpoint(value: str) -> dict[str, Any]:
    scheme, _, place = value.rpartition("://")
    return {"endpoint_override": place.rstrip("/"), **({"scheme": scheme} if scheme else {})}


_S3_OPTIONS: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "endpoint": _endpoint,
    "access-key": lambda value: {"access_key": value},
    "secret-access-key": lambda value: {"secret_key": value},
    "session-token": lambda value: {"session_token": value},
    "region": lambda value: {"region": value},
    "role-arn": lambda value: {"role_arn": value},
    "external-id": lambda value: {"external_id": value},
    "force-path-style": lambda value: {"force_virtual_addressing": value.lower() == "false"},
}
_STORES: Mapping[str, Callable[[str, Mapping[str, str]], Store]] = {"file": _local, "s3": _s3}
