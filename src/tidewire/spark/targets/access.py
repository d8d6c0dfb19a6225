"""How tasks open the files of Iceberg tables: on a local disk directly, elsewhere through pyiceberg's file IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, BinaryIO, Final

from tidewire.errors import MissingExtra
from tidewire.spark.targets.base import Java
from tidewire.spark.targets.files import FileAccess, LocalAccess, is_local

_PROPERTIES: Final[Mapping[str, str]] = {
    "s3.endpoint": "s3.endpoint",
    "s3.access-key-id": "s3.access-key-id",
    "s3.secret-access-key": "s3.secret-access-key",
    "s3.session-token": "s3.session-token",
    "s3.path-style-access": "s3.force-virtual-addressing",
    "client.region": "s3.region",
    "client.assume-role.arn": "s3.role-arn",
    "client.assume-role.session-name": "s3.role-session-name",
    "gcs.project-id": "gcs.project-id",
    "gcs.oauth2.token": "gcs.oauth2.token",
    "adls.auth.shared-key.account.name": "adls.account-name",
    "adls.auth.shared-key.account.key": "adls.account-key",
}
"""The settings of Java's file IO that pyiceberg's takes, and what it calls them. No other setting leaves the driver."""


@dataclass(frozen=True, slots=True)
class IcebergAccess:
    """Files in a store, opened by pyiceberg with these properties."""

    properties: Mapping[str, str] = field(default_factory=dict)

    def input(self, path: str) -> Any:
        """A file to read."""
        return _opened(tuple(sorted(self.properties.items())), path).new_input(path).open()

    def output(self, path: str) -> BinaryIO:
        """A new file to write."""
        found: Any = _opened(tuple(sorted(self.properties.items())), path).new_output(path).create(overwrite=True)
        return found  # type: ignore[no-any-return]


@lru_cache(maxsize=32)
def _file_io(properties: tuple[tuple[str, str], ...], scheme: str) -> Any:
    try:
        from pyiceberg.io import load_file_io
    except ImportError as error:
        raise MissingExtra("pyiceberg", "sync") from error
    return load_file_io(dict(properties), f"{scheme}://x")


def _opened(properties: tuple[tuple[str, str], ...], path: str) -> Any:
    return _file_io(properties, path.partition("://")[0])


def access_to(folder: str, table: Java) -> FileAccess:
    """How the files of a table are opened. ``table`` is Java's, whose file IO knows the settings."""
    if is_local(folder):
        return LocalAccess()
    given = dict(table.io().properties())
    found = {theirs: str(given[ours]) for ours, theirs in _PROPERTIES.items() if ours in given}
    if "s3.force-virtual-addressing" in found:  # the same choice, said the other way round
        found["s3.force-virtual-addressing"] = str(found["s3.force-virtual-addressing"].lower() != "true").lower()
    return IcebergAccess(found)
