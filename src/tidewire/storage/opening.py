"""From a path or a URI to a storage."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote

from tidewire.errors import MissingExtra, OptionError
from tidewire.secrets import redacted
from tidewire.storage.base import SCHEMES, Storage
from tidewire.storage.folder import FolderStorage
from tidewire.storage.providers import PROVIDERS, Address

_HDFS = "hdfs"
_HEAD = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?")


def open_storage(uri: str | Path, option: str = "target") -> Storage:
    """The storage at a local path or a URI. The store is not contacted yet.

    ``option`` is what the ``OptionError`` of a wrong URI names.
    """
    text = str(uri)
    head = None if isinstance(uri, Path) else _HEAD.match(text)
    scheme = head[1].lower() if head else ""
    if head is None or (head[2] is None and scheme not in ("file", _HDFS, *PROVIDERS, *SCHEMES)):
        return _folder(text, option)
    if scheme == "file":
        return _folder(_file_path(text[head.end(1) + 1 :], option), option)
    if scheme != _HDFS and SCHEMES.get(scheme, scheme) not in PROVIDERS:
        known = ", ".join(f"{name}://" for name in (*PROVIDERS, _HDFS))
        raise OptionError(option, f"{scheme}:// is not a known kind of storage; use a local path, {known}")
    if head[2] is None:
        place = "namenode:8020/path" if scheme == _HDFS else "bucket/path"
        raise OptionError(option, f"two slashes are missing after {scheme}:, write {scheme}://{place}")
    if scheme == _HDFS:
        return _hdfs(text[head.end() :], option)
    try:
        from tidewire.storage.bucket import BucketStorage
    except ImportError as error:
        raise MissingExtra("obstore", "sync") from error
    return BucketStorage.open(Address.parse(scheme, text[head.end() :], option))


@lru_cache(maxsize=16)
def reopened(address: str) -> Storage:
    """The storage at an address that travelled to this process. Tasks that follow each other share its connections."""
    return open_storage(address)


def known_parameters(scheme: str) -> frozenset[str]:
    """The parameters that have an effect in a URI of this scheme."""
    provider = PROVIDERS.get(SCHEMES.get(scheme, scheme))
    return frozenset() if provider is None else provider.known


def store_kind(uri: str) -> str:
    """The kind of store that a URI is in: ``s3``, ``gs``, ``az`` or ``hdfs``; empty for a local folder."""
    head = _HEAD.match(uri)
    scheme = head[1].lower() if head and head[2] else "file"
    kind = SCHEMES.get(scheme, scheme)
    return kind if kind == _HDFS or kind in PROVIDERS else ""


def table_io(uri: str) -> dict[str, str]:
    """The settings of Iceberg's file IO that say the same as a URI and the environment; empty for a local folder.

    ``warehouse`` among them is the URI without parameters.
    """
    kind = store_kind(uri)
    if not kind:
        return {}  # a local folder, or what open_storage refuses
    if kind == _HDFS:
        return {"io-impl": "org.apache.iceberg.hadoop.HadoopFileIO", "warehouse": uri.rstrip("/")}
    scheme, _, rest = uri.partition("://")
    return Address.parse(scheme.lower(), rest, "target").table_io()


def _hdfs(rest: str, option: str) -> Storage:
    """The storage at what follows ``hdfs://``."""
    try:
        from tidewire.storage.hdfs import HdfsStorage
    except ImportError as error:
        raise MissingExtra("hdfs-native", "hdfs") from error
    authority, _, path = rest.rstrip("/").partition("/")
    if "?" in rest:
        raise OptionError(option, "hdfs:// has no parameters: its settings come from Hadoop's own files")
    return HdfsStorage.open(authority, path)


def _folder(path: str, option: str) -> Storage:
    if not path:
        raise OptionError(option, "a path or a URI is needed")
    return FolderStorage(Path(path).absolute())


def _file_path(rest: str, option: str) -> str:
    """The path in what follows ``file:``."""
    rest = rest.partition("?")[0]
    if not rest.startswith("//"):
        return unquote(rest)
    host, slash, path = rest[2:].partition("/")
    if host not in ("", "localhost") or not slash:
        uri = redacted(f"file:{rest}")
        raise OptionError(option, f"{uri} does not name a folder of this machine; write file:///path/of/folder")
    return unquote(slash + path)
