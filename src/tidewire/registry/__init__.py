"""Where Avro schemas live: one contract, and a place for every situation.

``http(s)://…``  a registry with Confluent's REST interface
``file:…``       a JSON file, for topics that are files themselves
``memory:``      nowhere; gone with the process
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import unquote, urlsplit

from tidewire.errors import OptionError
from tidewire.registry.base import Registry
from tidewire.registry.confluent import ConfluentRegistry
from tidewire.registry.file import FileRegistry
from tidewire.registry.memory import MemoryRegistry

__all__ = ["ConfluentRegistry", "FileRegistry", "MemoryRegistry", "Registry", "open_registry"]


def open_registry(uri: str) -> Registry:
    """The registry behind a URI. It is not contacted before it is needed."""
    scheme = uri.partition(":")[0].lower() if ":" in uri else ""
    if scheme not in _SCHEMES:
        raise OptionError("schema-registry", f"{scheme or 'no scheme'!r} is not one of {', '.join(_SCHEMES)}")
    return _SCHEMES[scheme](uri)


def _file(uri: str) -> Registry:
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise OptionError("schema-registry", "a file registry is file:schemas.json or file:///folder/schemas.json")
    return FileRegistry(unquote(parts.path))


_SCHEMES: Mapping[str, Callable[[str], Registry]] = {
    "http": ConfluentRegistry,
    "https": ConfluentRegistry,
    "file": _file,
    "memory": lambda _: MemoryRegistry(),
}
