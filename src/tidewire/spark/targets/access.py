"""How tasks open the files of Iceberg tables: on a local disk directly, elsewhere through pyiceberg's file IO.

Settings and credentials come from the table's own file IO in Java. Of its settings only those in :data:`_PROPERTIES`
leave the driver, because the others may hold the catalog's passwords. Credentials that a catalog lends for a table are
read each time a table is, so they are renewed with each job. What is not among the settings is found by the file IO
itself, in the environment, the profiles and the roles of the machine that a task runs on.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, BinaryIO, Final

from py4j.protocol import Py4JError, Py4JJavaError

from tidewire.errors import MissingExtra, StorageError, SyncError, TidewireError
from tidewire.spark.targets.base import Java
from tidewire.spark.targets.files import FileAccess, LocalAccess, StorageAccess, is_local
from tidewire.storage import open_storage

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
    "gcs.oauth2.token-expires-at": "gcs.oauth2.token-expires-at",
    "adls.auth.shared-key.account.name": "adls.account-name",
    "adls.auth.shared-key.account.key": "adls.account-key",
}
"""The settings of Java's file IO that pyiceberg's takes, and what it calls them."""

_EXPIRY: Final = ("s3.session-token-expires-at-ms", "gcs.oauth2.token-expires-at")
"""When credentials that were lent end, in milliseconds since 1970."""

_SOON: Final = 600.0
"""Seconds that credentials must last at least when a job begins."""

_UNAVAILABLE: Final = re.compile(
    r"AWS Error (SLOW_DOWN|SERVICE_UNAVAILABLE|INTERNAL_FAILURE|NETWORK_CONNECTION|REQUEST_TIME|THROTTLING"
    r"|EXPIRED_TOKEN)"
    r"|ExceptionName: (ExpiredToken|RequestExpired)"
    r"|AWS Error UNKNOWN \(HTTP status 400\) during \w+ operation: *$"
    r"|curlCode: \d+|HTTP status code:? (429|5\d\d)|[Rr]etry policy exhausted"
)

"""What Arrow says of a store that does not answer, or not now.

If the store's answer fits exactly into what was to be read, Arrow loses its text and says only that the status was 400,
which is what S3 answers to an expired token.
"""

_REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")


@dataclass(frozen=True, slots=True)
class IcebergAccess:
    """Files in a store, opened by pyiceberg with these properties. ``expires`` is in seconds since 1970."""

    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    expires: float | None = None

    def input(self, path: str) -> Any:
        """A file to read."""
        with _named(path):
            return _opened(tuple(sorted(self.properties.items())), path).new_input(path).open()

    def output(self, path: str) -> BinaryIO:
        """A new file to write."""
        with _named(path):
            found: Any = _opened(tuple(sorted(self.properties.items())), path).new_output(path).create(overwrite=True)
        return found  # type: ignore[no-any-return]

    @property
    def ends_soon(self) -> bool:
        """May its credentials end before a job does?"""
        return self.expires is not None and self.expires < time.time() + _SOON


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Say which store does not answer."""
    try:
        yield
    except (TidewireError, FileNotFoundError, PermissionError):
        raise
    except OSError as error:
        store, _, name = path.partition("://")[2].partition("/")
        reason = str(error).partition("\n")[0]
        raise StorageError(store, name, reason, transient=is_unavailable(reason)) from error


def is_unavailable(reason: str) -> bool:
    """Does an error of Arrow speak of a store that does not answer, or not now? Arrow names the store's code."""
    return bool(_UNAVAILABLE.search(reason))


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
    if folder.startswith("hdfs:"):
        return StorageAccess(open_storage(folder))
    io = table.io()
    given = {str(name): str(text) for name, text in dict(io.properties()).items()} | lent(io, folder)
    return _access(given, os.environ)


def lent(io: Java, folder: str) -> dict[str, str]:
    """The credentials that a catalog lends for a folder: those of the longest prefix that fits."""
    try:
        found = {str(each.prefix()): each.config() for each in io.credentials()}
    except Py4JJavaError:
        raise
    except Py4JError:  # Hadoop's file IO, and a user's own, may have no such method
        return {}
    fitting = [prefix for prefix in found if folder.startswith(prefix)]
    return {str(name): str(text) for name, text in dict(found[max(fitting, key=len)]).items()} if fitting else {}


def _access(given: Mapping[str, str], environment: Mapping[str, str]) -> IcebergAccess:
    """Access by settings of Java's file IO; ``SyncError`` if tasks cannot have it."""
    if given.get("s3.remote-signing-enabled", "").lower() == "true":
        raise SyncError(
            "the catalog signs every request to the store itself (s3.remote-signing-enabled), which Spark's tasks "
            "cannot ask for: let it lend credentials, with header.X-Iceberg-Access-Delegation = vended-credentials"
        )
    found = {theirs: given[ours] for ours, theirs in _PROPERTIES.items() if ours in given}
    found |= {name: text for name, text in given.items() if name.startswith("adls.sas-token.")}
    if "s3.force-virtual-addressing" in found:  # the same choice, said the other way round
        found["s3.force-virtual-addressing"] = str(found["s3.force-virtual-addressing"].lower() != "true").lower()
    region = next((environment[name] for name in _REGIONS if environment.get(name)), None)
    if region is not None:
        found.setdefault("s3.region", region)  # otherwise pyiceberg asks Amazon for each bucket
    if "s3.endpoint" in found:
        found.setdefault("s3.region", "us-east-1")
    ends = [int(given[name]) / 1000 for name in _EXPIRY if given.get(name, "").isdigit()]
    return IcebergAccess(found, min(ends, default=None))
